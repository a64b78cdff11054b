"""The two service managers behind one interface: where a unit's file is, how it is started, what became of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from vibey_actions.errors import FileFailed, ServiceFailed, SettingError
from vibey_actions.service.unit import LABEL, UNIT_NAME, Unit, launchd_plist, systemd_unit
from vibey_actions.text import shown

LINES: Final = 10
_SECONDS: Final = 60
_BY_HAND: Final = "run `vibey-actions state sync --every 60` under what starts services on this machine"
_PASSED_ON: Final = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "XDG_RUNTIME_DIR",
    "XDG_CONFIG_HOME",
    "DBUS_SESSION_BUS_ADDRESS",
)


@dataclass(frozen=True, slots=True)
class Status:
    """What the manager says: its own word for the state, the process where there is one, the last lines of the log."""

    installed: bool
    running: bool = False
    state: str = "not installed"
    process: int | None = None
    lines: list[str] = field(default_factory=list)


class Manager(Protocol):
    """A service manager of this user."""

    @property
    def file(self) -> Path:
        """Where the unit is kept."""
        ...

    def write(self, unit: Unit) -> None:
        """Keep ``unit``, in place of one that is there. Raises FileFailed."""
        ...

    def start(self) -> None:
        """Have it run now and at every login, as it is written now. Raises ServiceFailed."""
        ...

    def status(self) -> Status: ...

    def remove(self) -> bool:
        """Stop it and take the unit away; False where there was none. Raises ServiceFailed, FileFailed."""
        ...


def manager_for(platform: str, env: Mapping[str, str], config_folder: Path) -> Manager:
    """The service manager of ``platform``. Raises SettingError where there is none that is known here."""
    if platform == "linux":
        return Systemd(config_folder / "systemd" / "user" / UNIT_NAME, env)
    if platform == "darwin":
        home = Path(env["HOME"]) if env.get("HOME") else config_folder.parent
        return Launchd(home / "Library" / "LaunchAgents" / f"{LABEL}.plist", log_of(home), env)
    raise SettingError(f"no service manager of {platform} is known here", _BY_HAND)


def log_of(home: Path) -> Path:
    """Where launchd keeps what the service says (systemd has a journal)."""
    return home / "Library" / "Logs" / "vibey-state-sync.log"


@dataclass(frozen=True, slots=True)
class Systemd:
    """``systemctl --user``."""

    file: Path
    env: Mapping[str, str] = field(repr=False)

    def write(self, unit: Unit) -> None:
        _keep(self.file, systemd_unit(unit).encode("utf-8"))

    def start(self) -> None:
        self._systemctl("daemon-reload")
        self._systemctl("enable", UNIT_NAME)
        # Not start: one that runs has to take up what was written anew.
        self._systemctl("restart", UNIT_NAME)

    def status(self) -> Status:
        if not self.file.exists():
            return Status(installed=False)
        shown_as = self._systemctl("show", UNIT_NAME, "--property=ActiveState,SubState,MainPID,ExecMainStatus")
        values = dict(line.partition("=")[::2] for line in shown_as.splitlines())
        running = values.get("ActiveState") in {"active", "activating", "reloading"}
        state = f"{values.get('ActiveState', 'unknown')} ({values.get('SubState', 'unknown')})"
        if not running and values.get("ExecMainStatus", "0") != "0":
            state += f", ended with {values['ExecMainStatus']}"
        process = int(values["MainPID"]) if values.get("MainPID", "").isdigit() else 0
        return Status(installed=True, running=running, state=state, process=process or None, lines=self._journal())

    def _journal(self) -> list[str]:
        with suppress(ServiceFailed):
            arguments = (
                "--user",
                "--unit",
                UNIT_NAME,
                "--lines",
                str(LINES),
                "--output",
                "cat",
                "--no-pager",
                "--quiet",
            )
            return _asked("journalctl", arguments, self.env).splitlines()[-LINES:]
        return []

    def remove(self) -> bool:
        if not self.file.exists():
            return False
        try:
            self._systemctl("disable", "--now", UNIT_NAME)
        except ServiceFailed as error:
            hint = f"nothing was removed; where systemd starts nothing for this user, delete {self.file} by hand"
            raise ServiceFailed(error.message, hint) from None
        _drop(self.file)
        self._systemctl("daemon-reload")
        return True

    def _systemctl(self, *arguments: str) -> str:
        return _asked("systemctl", ("--user", *arguments), self.env)


@dataclass(frozen=True, slots=True)
class Launchd:
    """``launchctl``, in the domain of the user's own session."""

    file: Path
    log: Path
    env: Mapping[str, str] = field(repr=False)

    def write(self, unit: Unit) -> None:
        _keep(self.file, launchd_plist(unit))

    def start(self) -> None:
        # An agent that is loaded goes on as it was loaded; there may be none.
        with suppress(ServiceFailed):
            self._launchctl("bootout", self._target)
        self._launchctl("bootstrap", self._domain, str(self.file))

    def status(self) -> Status:
        if not self.file.exists():
            return Status(installed=False)
        try:
            printed = self._launchctl("print", self._target)
        except ServiceFailed:
            return Status(installed=True, state="not loaded", lines=self._log_lines())
        state = _property(printed, "state") or "unknown"
        process = _property(printed, "pid")
        ended = _property(printed, "last exit code")
        running = state == "running"
        told = f"{state}, ended with {ended}" if not running and ended not in {"", "0", "(never exited)"} else state
        number = int(process) if process.isdigit() else None
        return Status(installed=True, running=running, state=told, process=number, lines=self._log_lines())

    def _log_lines(self) -> list[str]:
        try:
            with self.log.open("rb") as file:
                return [line.decode("utf-8", "replace").rstrip("\n") for line in deque(file, LINES)]
        except OSError:
            return []

    def remove(self) -> bool:
        if not self.file.exists():
            return False
        with suppress(ServiceFailed):
            self._launchctl("bootout", self._target)
        _drop(self.file)
        return True

    @property
    def _domain(self) -> str:
        return f"gui/{os.getuid()}"

    @property
    def _target(self) -> str:
        return f"{self._domain}/{LABEL}"

    def _launchctl(self, *arguments: str) -> str:
        return _asked("launchctl", arguments, self.env)


def _property(printed: str, name: str) -> str:
    found = re.search(rf"^\s*{name} = (.*)$", printed, re.M)
    return found[1].strip() if found else ""


def _asked(program: str, arguments: tuple[str, ...], env: Mapping[str, str]) -> str:
    """What ``program`` prints. Raises ServiceFailed where it is missing, refuses or does not end."""
    found = shutil.which(program, path=env.get("PATH"))
    if found is None:
        raise ServiceFailed(f"there is no {program} on PATH to ask", _BY_HAND)
    try:
        done = subprocess.run(
            [found, *arguments],
            env={name: env[name] for name in _PASSED_ON if name in env} | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        raise ServiceFailed(f"{program} did not answer", _BY_HAND) from None
    if done.returncode != 0:
        said = shown(done.stderr.decode("utf-8", "replace"), 300) or f"it ended with {done.returncode}"
        doing = " ".join(word for word in arguments if not word.startswith("-"))
        raise ServiceFailed(f"{program} refused to {doing}: {said}", _BY_HAND)
    return done.stdout.decode("utf-8", "replace")


def _keep(path: Path, content: bytes) -> None:
    """Have ``content`` stand at ``path``, whole at every moment."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside.write_bytes(content)
        aside.replace(path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise FileFailed(f"{path} cannot be written: {error.strerror}", "make its folder one of your own") from error


def _drop(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise FileFailed(f"{path} cannot be removed: {error.strerror}", f"rm {path}") from error
