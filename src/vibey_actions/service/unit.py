"""The service as systemd and launchd are told of it: text alone, every value escaped for the place where it stands.

Source of the rules: systemd.syntax(7), systemd.service(5), systemd.exec(5); launchd.plist(5).
"""

from __future__ import annotations

import plistlib
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibey_actions.errors import SettingError
from vibey_actions.text import visible

UNIT_NAME: Final = "vibey-state-sync.service"
LABEL: Final = "dev.vibey.state-sync"
"""launchd's name for it."""
RESTART_SECONDS: Final = 30
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Unit:
    """What is to run: ``python`` has this program, ``folder`` is where it works, ``log`` is for launchd alone."""

    python: Path
    folder: Path
    env_file: Path
    every: int
    log: Path

    def __post_init__(self) -> None:
        """Raise SettingError for a path that a unit cannot name."""
        for path in (self.python, self.folder, self.env_file, self.log):
            text = str(path)
            if _CONTROL.search(text) or text != text.strip() or text.endswith("\\"):
                raise SettingError(
                    f"no service can name the path {visible(text)}: it holds control characters, or ends in white "
                    "space or a backslash",
                    "install from another folder",
                )

    @property
    def command(self) -> list[str]:
        """The command line; ``-P`` keeps modules of the working folder out."""
        program = [str(self.python), "-P", "-m", "vibey_actions"]
        return [*program, "service", "run", str(self.env_file), "--every", str(self.every)]


def systemd_unit(unit: Unit) -> str:
    """The user unit. What no restart mends (a setting) is not started again.

    Raises SettingError for a Python that systemd starts under no name.
    """
    program, *arguments = unit.command
    return f"""\
# Written by `vibey-actions service install`, and written anew by the next one.
[Unit]
Description=Keep this machine's database and its sealed branch level (vibey-actions)
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={" ".join([_program(program), *map(_argument, arguments)])}
WorkingDirectory={_specifiers(str(unit.folder))}
Restart=on-failure
RestartSec={RESTART_SECONDS}
RestartPreventExitStatus=2
TimeoutStopSec=120
KillMode=mixed
NoNewPrivileges=yes
UMask=0077

[Install]
WantedBy=default.target
"""


def _program(text: str) -> str:
    """The first word of ExecStart, where variables are not put in and quotes have no way of being written."""
    if re.search(r"[\"'\\]", text):
        raise SettingError(
            f"systemd starts no program whose path holds quotes or backslashes: {visible(text)}",
            "install vibey-actions in another folder",
        )
    return f'"{_specifiers(text)}"'


def _argument(text: str) -> str:
    """A word of ExecStart: quoted, with neither specifiers nor variables in it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return f'"{_specifiers(escaped)}"'


def _specifiers(text: str) -> str:
    return text.replace("%", "%%")


def launchd_plist(unit: Unit) -> bytes:
    """The agent. launchd has no exit codes that stop it, so it waits between starts."""
    return plistlib.dumps(
        {
            "Label": LABEL,
            "ProgramArguments": unit.command,
            "WorkingDirectory": str(unit.folder),
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "ThrottleInterval": RESTART_SECONDS,
            "ProcessType": "Background",
            "StandardOutPath": str(unit.log),
            "StandardErrorPath": str(unit.log),
            "Umask": 0o077,
        }
    )
