"""The interface every remote has: a branch that is a set of files, moved from one exact commit to the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

COMMIT_MESSAGE = "Update vibey state"
"""Fixed: a commit on the branch says nothing of the rows."""


class Remote(Protocol):
    """A branch that holds the sealed state. Commits are 40 or 64 lower-case hex digits."""

    @property
    def name(self) -> str:
        """``OWNER/NAME:BRANCH`` (or URL and branch): how the watermark and exports call it. Never a password."""
        ...

    def head(self) -> str | None:
        """The branch's commit, or None where a successful answer proves that there is no such branch.

        One request. Raises RemoteFailed (or a subclass) where that cannot be proven.
        """
        ...

    def fetch(self, commit: str) -> Path:
        """A local copy (mode 0600, sealed) of the state file at ``commit``; not downloaded again once cached.

        The caller only reads it. Raises NotAStateBranch where the commit's tree is not exactly the state file,
        RemoteFailed where it cannot be had whole.
        """
        ...

    def discard(self, commit: str) -> None:
        """Forget the local copy of ``commit`` (it did not open), so that the next fetch downloads it."""
        ...

    def is_ancestor(self, commit: str, head: str) -> bool:
        """Whether ``commit`` is ``head`` or reachable from it, asked of the remote."""
        ...

    def history(self, base: str | None, head: str, most: int) -> Sequence[str]:
        """``head`` and the commits behind it, newest first, up to ``base``, which is left out (None: to the first).

        Not more than ``most``. Raises RemoteFailed where they cannot be listed.
        """
        ...

    def is_replay(self, head: str) -> bool:
        """Whether an earlier commit of the branch already held what ``head`` holds, as far as can be seen."""
        ...

    def push(
        self, files: Mapping[str, Path], parent: str | None, *, announce: Callable[[str], None] | None = None
    ) -> str:
        """Move the branch from exactly ``parent`` (None: create it) to a new commit of exactly ``files``.

        ``files`` maps a path in the tree to a local sealed file. Returns the new commit;
        ``announce`` is told it before the branch moves. Raises RemoteMoved where the
        branch is elsewhere by now, RemoteDenied for a permanent refusal, TooLarge before anything is sent. An answer
        that was lost is looked up: when the branch holds the commit, the push happened.
        """
        ...
