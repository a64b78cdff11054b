"""A server that outlives the process that started it: what is known of it, and how it is ended and deleted.

What is known may come from a file that others could write. So nothing is stopped but a server whose data are in the
folder, and nothing is deleted but folders that are named as ours are.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres.unprivileged import Account
from vibey_actions.text import visible

PREFIXES: Final = ("vibey-pg-", "vpg-")
"""How the folders of servers of ours are named."""
_STOP_SECONDS: Final = 20.0
_START_SECONDS: Final = 60.0
_LOG_LINES: Final = 15
_READY_LINE: Final = 8


@dataclass(frozen=True, slots=True)
class Detached:
    """A server's folder (its data are in ``data`` there), further folders of it, and the process that it began as."""

    folder: Path
    extra: tuple[Path, ...] = ()
    pid: int = 0

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return running(self._data) is not None

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def restart(self, user: Account | None) -> None:
        """Start the server, which has ended, as it was started at first, under ``user``; wait until it takes logins.

        Raises DatabaseFailed with the end of its log where it does not.
        """
        self._check_folders()
        log = self.folder / "server.log"
        deadline = time.monotonic() + _START_SECONDS
        while True:
            if (killed := _noted(self._data)) is not None:
                _reap(killed)
            process = self._launch(user, log)
            while process.poll() is None and time.monotonic() < deadline:
                if _takes_logins(self._data, process.pid):
                    process.returncode = 0  # nobody here waits for it any more
                    return
                time.sleep(0.05)
            # What is left of the one before, which was killed, may be on its way out.
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
                lines = log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:] if log.exists() else []
                raise DatabaseFailed(
                    f"its log ends with: {' | '.join(map(visible, lines)) or 'nothing'}", "see its log"
                )
            time.sleep(0.5)

    def _launch(self, user: Account | None, log: Path) -> subprocess.Popen[bytes]:
        # PostgreSQL writes down there, in its own private folder, how it was started.
        try:
            command = shlex.split((self._data / "postmaster.opts").read_text("utf-8"))
            with log.open("ab") as target:
                return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=target,
                    stderr=target,
                    env={"PATH": os.defpath, "LC_ALL": "C"},
                    cwd=self.folder,
                    umask=0o077,
                    start_new_session=True,
                    **({} if user is None else {"user": user.uid, "group": user.gid, "extra_groups": []}),
                )
        except (OSError, ValueError) as error:
            raise DatabaseFailed(f"it cannot be started: {error}", "see its folder") from None

    def _check_folders(self) -> None:
        for folder in (self.folder, *self.extra):
            if not folder.is_absolute() or not folder.name.startswith(PREFIXES) or folder.is_symlink():
                raise DatabaseFailed(
                    "what is said to be the folder of this job's PostgreSQL is none", "a step of the job changed it"
                )

    def end(self) -> None:
        """Stop the server where it still runs, and delete its folders. Does nothing the second time.

        Raises DatabaseFailed where it does not stop, or a folder is none of ours or cannot be deleted.
        """
        self._check_folders()
        folders = (self.folder, *self.extra)
        data = self._data
        pid = running(data)
        if pid is not None:
            _stop(lambda: running(data) == pid, pid)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                raise DatabaseFailed(
                    f"{folder}, a folder of this job's PostgreSQL, cannot be deleted", f"ls -l {folder}"
                )


def _takes_logins(data: Path, pid: int) -> bool:
    """Whether the server ``pid`` says that it is ready, on the last line of its own file."""
    try:
        lines = (data / "postmaster.pid").read_text("utf-8", "replace").splitlines()
    except OSError:
        return False
    return len(lines) >= _READY_LINE and (lines[0], lines[_READY_LINE - 1].strip()) == (str(pid), "ready")


def running(data: Path) -> int | None:
    """The process of the server that runs on the folder ``data``, None where none does."""
    pid = _noted(data)
    # A server that was killed leaves its file behind, and its number may be another process's by now.
    return pid if pid is not None and _alive(pid) and str(data) in _command_line(pid) else None


def _noted(data: Path) -> int | None:
    """The process that the server's own file in ``data`` names."""
    try:
        pid = int((data / "postmaster.pid").read_text("utf-8", "replace").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None
    return pid if pid > 1 else None


def _stop(still: Callable[[], bool], pid: int) -> None:
    for kind in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.kill(pid, kind)
        deadline = time.monotonic() + _STOP_SECONDS
        while time.monotonic() < deadline:
            if not still():
                return
            time.sleep(0.02)
    raise DatabaseFailed(f"this job's PostgreSQL (process {pid}) does not stop", "end it by hand on this runner")


def _alive(pid: int) -> bool:
    _reap(pid)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _reap(pid: int) -> None:
    """Where it is our own child: until somebody asks for its end it stays listed, and PostgreSQL takes it for alive."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
