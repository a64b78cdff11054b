"""What steps work with besides the document: variables, a folder, the store, a vibe's client, settings."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from vibey_actions.documents.declare import Part
from vibey_actions.documents.machine import Machine

if TYPE_CHECKING:
    from vibey_actions.documents.client import VibesClient
    from vibey_actions.documents.stores.base import Store

WITHHELD: Final = (
    *("VIBES_DEVICE_ID", "FP_KEYBAG_URL", "GITHUB_TOKEN", "GH_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN"),
    *("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "DATABASE_URL"),
)
"""What is the lane's own and no step's: no declaration hands it on."""
_WITHHELD_PREFIXES: Final = ("VIBEY_", "ACTIONS_")


def is_withheld(name: str) -> bool:
    """Whether a variable is the lane's own, which no step gets."""
    return name in WITHHELD or name.startswith(_WITHHELD_PREFIXES)


@dataclass(frozen=True)
class Surroundings:
    """Where a lane runs. ``store`` and ``client`` are needed by the step ``build`` alone."""

    environment: Mapping[str, str] = field(repr=False)
    root: Path
    """The checkout, which commands run in."""
    store: Store | None = None
    client: VibesClient | None = None
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic

    def variables(self, part: Part) -> dict[str, str]:
        """The variables that ``variables`` declares, as far as they are set. Raises MachineInvalid for one of the
        lane's own."""
        names = part.texts("variables", optional=True)
        for name in names:
            if is_withheld(name):
                raise part.wrong(
                    "variables",
                    f"names {name}, which no step gets",
                    "give the step a secret of its own, by another name",
                )
        return {name: self.environment[name] for name in names if name in self.environment}

    def secret(self, part: Part, key: str) -> str:
        """The value of the variable that ``key`` names. Raises MachineInvalid where it is not set."""
        name = part.text(key)
        value = self.environment.get(name, "").strip()
        if not value:
            raise part.wrong(key, f"names the variable {name}, which is not set", "set it, from a secret of its own")
        return value


def settings_of(machine: Machine) -> Part:
    """What the machine declares under ``with``."""
    return Part(f"the machine {machine.name}", "with", machine.settings)
