"""A remote held still at one commit: what a database changed since then, whatever the branch has become."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.base import Remote


class StandingRemote:
    """``remote`` as if its branch's head were ``commit`` (None: no branch). Implements Remote; it takes no push."""

    def __init__(self, remote: Remote, commit: str | None) -> None:
        self._remote = remote
        self._commit = commit

    @property
    def name(self) -> str:
        return self._remote.name

    def head(self) -> str | None:
        return self._commit

    def fetch(self, commit: str) -> Path:
        return self._remote.fetch(commit)

    def discard(self, commit: str) -> None:
        self._remote.discard(commit)

    def is_ancestor(self, commit: str, head: str) -> bool:
        return commit == head

    def is_replay(self, head: str) -> bool:  # noqa: ARG002 - it was the head when this database agreed with it
        return False

    def history(self, base: str | None, head: str, most: int) -> Sequence[str]:
        return self._remote.history(base, head, most)

    def push(
        self,
        files: Mapping[str, Path],  # noqa: ARG002
        parent: str | None,  # noqa: ARG002
        *,
        announce: Callable[[str], None] | None = None,  # noqa: ARG002
    ) -> NoReturn:
        raise RemoteFailed("this view of the branch is held still at one commit")
