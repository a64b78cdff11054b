"""A job's workspace in the hands of a command that is another user: all but what later steps rely on, for a while.

The workspace's own folder stays the job's. It is sticky while the command has it, so what stays the job's in there
(``.git``, whose settings git obeys, and a checkout of this action) can be neither changed nor moved aside.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

GIT: Final = ".git"

_CREDENTIALS: Final = re.compile(rb"extraheader|git-credentials|https?://[^/\s@\"]+@", re.I)
_LARGEST: Final = 1 << 20


@dataclass
class Handover:
    """``workspace`` for the user ``uid``, ``gid``; the entries ``kept`` of it stay as they are."""

    workspace: Path
    uid: int
    gid: int
    kept: Collection[str] = ()
    unreached: int = 0
    """How many entries could not be given back."""
    _found: os.stat_result = field(init=False)

    def __post_init__(self) -> None:
        self._found = self.workspace.stat()

    def give(self) -> None:
        """Hand over what belongs to the workspace's owner. A file with further names elsewhere is left as it is."""
        for path, found in self._entries():
            if found.st_uid == self._found.st_uid and (stat.S_ISDIR(found.st_mode) or found.st_nlink == 1):
                os.chown(path, self.uid, self.gid, follow_symlinks=False)
        os.chown(self.workspace, -1, self.gid)
        self.workspace.chmod(stat.S_IMODE(self._found.st_mode) | stat.S_ISVTX | stat.S_IRWXG)

    def take_back(self) -> None:
        """Make everything the owner's again, what is new as well. The user's processes have ended."""
        os.chown(self.workspace, -1, self._found.st_gid)
        self.workspace.chmod(stat.S_IMODE(self._found.st_mode))
        for path, found in self._entries():
            if self.uid == found.st_uid or self.gid == found.st_gid:
                try:
                    os.chown(path, self._found.st_uid, self._found.st_gid, follow_symlinks=False)
                except OSError:
                    self.unreached += 1

    def _entries(self) -> Iterator[tuple[str, os.stat_result]]:
        """Every entry on the workspace's own file system but the kept ones, folders before what is in them."""
        pending = [str(self.workspace)]
        while pending:
            folder = pending.pop()
            try:
                names = os.listdir(folder)  # noqa: PTH208 - names, and many of them
            except OSError:
                self.unreached += 1
                continue
            top = folder == str(self.workspace)
            for name in names:
                if top and name in self.kept:
                    continue
                path = f"{folder}/{name}"
                try:
                    found = os.lstat(path)
                except OSError:
                    self.unreached += 1
                    continue
                yield path, found
                if stat.S_ISDIR(found.st_mode) and found.st_dev == self._found.st_dev:
                    pending.append(path)


def kept_entries(workspace: Path, tool: Path | None) -> list[str]:
    """The entries of ``workspace`` that a command is never given: ``.git``, and the one that ``tool`` lies in."""
    inside = tool is not None and tool != workspace and tool.is_relative_to(workspace)
    return [GIT, *([tool.relative_to(workspace).parts[0]] if tool is not None and inside else [])]


def credentials_in(workspace: Path) -> Path | None:
    """A git configuration in ``workspace`` that holds or names a credential, None where there is none."""
    git = workspace / GIT
    found = [git / "config", git / "config.worktree", *git.glob("modules/**/config")]
    return next((path for path in found if _CREDENTIALS.search(_read(path))), None)


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_LARGEST)
    except OSError:
        return b""
