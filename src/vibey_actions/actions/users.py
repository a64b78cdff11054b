"""The user of the machine that a dispatched command runs as, made for it and gone after it. For root alone."""

from __future__ import annotations

import os
import pwd
import random
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

UNUSED: Final = range(60706, 61184)
"""User ids that no distribution gives to anybody; source: systemd, "Users, Groups, UIDs and GIDs"."""

_PLACES: Final = Path("/tmp")  # noqa: S108 - every user may enter it, and what is made there is made exclusively
_USERADD: Final = ("--system", "--user-group", "--no-create-home", "--shell", "/bin/sh", "--home-dir", "/nonexistent")
_FAILED: Final = 255
_TRIES: Final = 500


class NoUser(Exception):
    """No other user can be made here, and why."""


@dataclass(frozen=True)
class User:
    """``base`` is a folder of the user's own; ``name`` is set where the machine knows it by one."""

    uid: int
    gid: int
    base: Path
    name: str = ""

    @property
    def temporary(self) -> Path:
        """Where its temporary files are, its home among them."""
        return self.base / "tmp"

    def furnish(self, settings: str) -> None:
        """Make the user's folders; ``settings`` are git's for it."""
        home = self.temporary / "home"
        home.mkdir(parents=True)
        (home / ".gitconfig").write_text(settings, "utf-8")
        self.temporary.chmod(0o1777)
        home.chmod(0o700)
        for path in (home / ".gitconfig", home, self.temporary, self.base):
            os.chown(path, self.uid, self.gid)

    def signal(self, number: int) -> None:
        """Send ``number`` to every process of the user. Raises OSError where this machine has no such user."""

        def send() -> int:
            os.setgroups([])
            os.setgid(self.gid)
            os.setuid(self.uid)
            # To all that this user may send it to, in one step: no fork escapes. It does not tell whether to any.
            with suppress(ProcessLookupError):
                os.kill(-1, number)
            return 0

        if in_child(send) != 0:
            raise PermissionError(1, f"this machine lets nobody be the user {self.uid}")

    def is_running(self) -> bool:
        """Whether the user has a process that has not ended."""
        return any(process.uid == self.uid for process in processes())

    def end(self) -> bool:
        """End every process of the user, and say whether none is left."""
        for _ in range(_TRIES):
            self.signal(signal.SIGKILL)
            reap()
            if not self.is_running():
                return True
            time.sleep(0.01)
        return False

    def remove(self) -> None:
        """Delete the user and its folders, whatever was put there."""
        # Not in Python: the folders may be deeper than it can walk.
        subprocess.run(["rm", "-rf", "--", str(self.base)], check=False, capture_output=True)
        if self.name:
            subprocess.run(["userdel", self.name], check=False, capture_output=True)


def new_user(*, listed: bool) -> User:
    """A user that nobody is. ``listed`` asks for one that the machine knows by name. Raises NoUser."""
    found = _listed_user() if listed and shutil.which("useradd") else None
    return found or _bare_user()


def _listed_user() -> User | None:
    name = f"vibey-run-{secrets.token_hex(4)}"
    added = subprocess.run(["useradd", *_USERADD, name], check=False, capture_output=True)
    if added.returncode != 0:
        return None
    entry = pwd.getpwnam(name)
    user = User(entry.pw_uid, entry.pw_gid, _PLACES / name, name)
    if entry.pw_uid == 0 or user.is_running() or not _taken(user.base):
        subprocess.run(["userdel", name], check=False, capture_output=True)
        return None
    return user


def _bare_user() -> User:
    for uid in random.SystemRandom().sample(UNUSED, len(UNUSED)):
        user = User(uid, uid, _PLACES / f"vibey-run-{uid}")
        if _is_listed(uid) or not _taken(user.base):
            continue
        try:
            user.signal(0)
            if not user.is_running():
                return user
        except OSError as error:
            user.remove()
            raise NoUser(str(error.strerror)) from None
        user.remove()
    raise NoUser("every user id that is kept for such uses is in use")


def _taken(base: Path) -> bool:
    """Make the user's folder, which two runs on one machine cannot both do."""
    try:
        base.mkdir(mode=0o700)
    except FileExistsError:
        return False
    except OSError as error:
        raise NoUser(f"{base} cannot be made: {error.strerror}") from None
    return True


def _is_listed(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Process:
    """A process that has not ended, its parent, and whose it is (by its real user)."""

    pid: int
    parent: int
    uid: int


def processes() -> Iterator[Process]:
    """Every process of the machine that can be seen from here."""
    if not Path("/proc/self/status").exists():
        yield from _listed_processes()
        return
    for entry in Path("/proc").glob("[0-9]*/status"):
        with suppress(OSError, ValueError, KeyError):
            lines = entry.read_text("utf-8", "replace").splitlines()
            found = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
            if found["State"][0] not in {"Z", "X"}:
                yield Process(int(entry.parent.name), int(found["PPid"][0]), int(found["Uid"][0]))


def _listed_processes() -> Iterator[Process]:
    listed = subprocess.run(["ps", "-axo", "pid=,ppid=,ruid=,stat="], check=False, capture_output=True, text=True)
    for line in listed.stdout.splitlines():
        pid, parent, uid, state = line.split()[:4]
        if not state.startswith("Z"):
            yield Process(int(pid), int(parent), int(uid))


def in_child(work: Callable[[], int]) -> int:
    """The exit code of a new process that does ``work`` and nothing else; 255 where that raises."""
    pid = os.fork()
    if pid == 0:
        code = _FAILED
        try:
            code = work()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def reap() -> None:
    """Take note of every child that has ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass
