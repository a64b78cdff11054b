"""Which machines are walked and where their documents are: ``.github/vibey-docs.yml`` and the VIBEY_DOCS_* variables.

Source: docs/documents.md, "The file". A variable wins over the file; an empty one counts
as not set.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

from vibey_actions.documents.declare import DEFAULT_FILE, Declared, Part, load
from vibey_actions.documents.machine import Machine
from vibey_actions.errors import MachineInvalid, SettingError
from vibey_actions.settings import repository_root
from vibey_actions.text import shown

_KEYS: Final = ("kind", "vibe", "settle", "client", "api-url")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class Kind(str, Enum):
    """Where documents are kept."""

    POSTGRES = "postgres"
    """A PostgreSQL database that is not synced, or whose table of documents is not."""
    SEALED = "sealed"
    """The synced database itself: a claim counts once it is on the branch."""
    VIBES = "vibes"
    """A vibe's databases, through its client."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What is declared, and where the documents are. ``settle`` is in seconds, None for the store's own."""

    declared: Declared
    root: Path
    file: Path
    kind: Kind = Kind.POSTGRES
    vibe: str = ""
    settle: float | None = None
    client: str | None = None
    api_url: str | None = None

    @property
    def configured(self) -> bool:
        """Whether the file names a machine to walk."""
        return bool(self.declared.named)

    @property
    def is_copy(self) -> bool:
        """Whether what is read is a copy of the documents, level with them as of its last sync."""
        return self.kind is Kind.SEALED

    @property
    def place(self) -> str:
        """Where the documents are, for a person."""
        places = {Kind.POSTGRES: "a PostgreSQL database", Kind.SEALED: "the sealed state"}
        return places.get(self.kind) or f"the vibe {shown(self.vibe, 120)}"

    @property
    def machines(self) -> tuple[Machine, ...]:
        """Every machine, those that no lane here walks included: every write asks their guard."""
        return tuple(self.declared.machines.values())

    def machine(self, name: str) -> Machine:
        """The machine ``name``. Raises MachineInvalid where there is none."""
        machine = self.declared.machines.get(name)
        if machine is None:
            names = ", ".join(self.declared.machines)
            raise MachineInvalid(f"there is no machine {shown(name, 80)}", f"there are {names}")
        return machine

    def chosen(self, names: Sequence[str] = ()) -> tuple[Machine, ...]:
        """The machines ``names``, else those that the file names. Raises MachineInvalid where that is none."""
        if not names and not self.configured:
            raise MachineInvalid(
                f"{shown(str(self.file))} names no machine" if self.declared.present else f"there is no {self.file}",
                "write it (docs/documents.md shows how), or name a machine with --machine",
            )
        return tuple(self.machine(name) for name in dict.fromkeys(names or self.declared.named))


def read_setup(env: Mapping[str, str], cwd: Path) -> Setup:
    """What ``env`` and the file say; relative paths of variables start at ``cwd``.

    Raises MachineInvalid for a file, and SettingError for a variable, that cannot be used.
    """
    root, named = repository_root(cwd), _value(env, "VIBEY_DOCS_CONFIG")
    file = cwd / named if named else root / DEFAULT_FILE
    declared = load(root, file if named else None)
    part = declared.store
    part.known(_KEYS)
    vibe = _value(env, "VIBEY_DOCS_VIBE") or part.optional("vibe", part.text) or ""
    settle = part.optional("settle", part.duration)
    return Setup(
        declared=declared,
        root=root,
        file=file,
        kind=_kind(env, part, vibe),
        vibe=vibe,
        settle=settle / 1000 if settle is not None else None,
        client=_client(env, part, cwd, root),
        api_url=_value(env, "VIBEY_DOCS_API_URL") or part.optional("api-url", part.text),
    )


def _kind(env: Mapping[str, str], part: Part, vibe: str) -> Kind:
    kind = part.one_of("kind", Kind, Kind.VIBES if vibe else Kind.POSTGRES)
    said = _value(env, "VIBEY_DOCS_STORE")
    if said is not None:
        if said not in [each.value for each in Kind]:
            raise SettingError(
                f"VIBEY_DOCS_STORE is {shown(said, 60)}, which there is not",
                f"write {', '.join(each.value for each in Kind)}",
            )
        kind = Kind(said)
    if kind is Kind.VIBES and not vibe:
        raise SettingError(
            "the documents are in a vibe, and no vibe is named", "write store: {vibe: HANDLE/SLUG}, or VIBEY_DOCS_VIBE"
        )
    return kind


def _client(env: Mapping[str, str], part: Part, cwd: Path, root: Path) -> str | None:
    said = _value(env, "VIBEY_DOCS_CLIENT")
    if said is not None:
        return str(cwd / said)
    named = part.optional("client", part.text)
    return str(root / named) if named is not None else None


def _value(env: Mapping[str, str], name: str) -> str | None:
    value = env.get(name, "").strip() or None
    if value is not None and _CONTROL.search(value):
        raise SettingError(
            f"{name} holds a control character or is not UTF-8 text", "set it anew, on one line and without it"
        )
    return value
