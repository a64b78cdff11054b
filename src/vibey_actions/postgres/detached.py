"""A server that outlives the process that started it: what is known of it, and how it is ended and deleted.

What is known may come from a file that others could write. So nothing is stopped but a server whose data are in the
folder, and nothing is deleted but folders that are named as ours are.
"""

from __future__ import annotations

import os
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

PREFIXES: Final = ("vibey-pg-", "vpg-")
"""How the folders of servers of ours are named."""
_STOP_SECONDS: Final = 20.0


@dataclass(frozen=True, slots=True)
class Detached:
    """A server's folder (its data are in ``data`` there), further folders of it, and the process that it began as."""

    folder: Path
    extra: tuple[Path, ...] = ()
    pid: int = 0

    def end(self) -> None:
        """Stop the server where it still runs, and delete its folders. Does nothing the second time.

        Raises DatabaseFailed where it does not stop, or a folder is none of ours or cannot be deleted.
        """
        folders = (self.folder, *self.extra)
        for folder in folders:
            if not folder.is_absolute() or not folder.name.startswith(PREFIXES) or folder.is_symlink():
                raise DatabaseFailed(
                    "what is said to be the folder of this job's PostgreSQL is none", "a step of the job changed it"
                )
        data = self.folder / "data"
        pid = running(data)
        if pid is not None:
            _stop(lambda: running(data) == pid, pid)
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
            if folder.exists():
                raise DatabaseFailed(
                    f"{folder}, a folder of this job's PostgreSQL, cannot be deleted", f"ls -l {folder}"
                )


def running(data: Path) -> int | None:
    """The process of the server that runs on the folder ``data``, None where none does."""
    try:
        pid = int((data / "postmaster.pid").read_text("utf-8", "replace").splitlines()[0])
    except (OSError, ValueError, IndexError):
        return None
    # A server that was killed leaves its file behind, and its number may be another process's by now.
    return pid if pid > 1 and _alive(pid) and str(data) in _command_line(pid) else None


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
    with suppress(ChildProcessError):
        # Where it is our own child it stays listed until somebody asks for its end.
        os.waitpid(pid, os.WNOHANG)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        command = ["ps", "-ww", "-o", "command=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", check=False).stdout
