"""Which of the documents that were read others have taken since, as far as a glance at the table has shown.

Workers that walk the same documents would each try every one of them. A revision that is the head no more never is
again, so what was seen to be gone needs no asking.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

LOOKED_AT: Final = 20_000
"""Documents of one status that are kept in mind, the first by id."""
_LOSSES: Final = 16
"""Claims lost before the table is looked at again."""


class Place(Protocol):
    """A document's id and the revision it has."""

    @property
    def identifier(self) -> str: ...
    @property
    def revision(self) -> str | None: ...


Look = Callable[[str, int], Sequence[Place]]
"""The first so many documents of a status by id."""


class Taken:
    """What is known of one database. ``look`` gives the revisions of a status as they are now."""

    def __init__(self, look: Look) -> None:
        self._look = look
        self._read: dict[str, dict[str, str]] = {}
        self._gone: set[str] = set()
        self._losses = 0

    def begin(self, statuses: Iterable[str]) -> None:
        """The documents of these statuses are about to be read anew."""
        for status in statuses:
            for revision in self._read.pop(status, {}).values():
                self._gone.discard(revision)

    def read(self, status: str, identifier: str, revision: str) -> None:
        """A document was read in ``status``."""
        known = self._read.setdefault(status, {})
        if len(known) < LOOKED_AT:
            known[identifier] = revision

    def gone(self, revision: str) -> bool:
        """Whether a document is known to have moved on from ``revision``."""
        return revision in self._gone

    def lost(self, status: str) -> None:
        """A claim of a document of ``status`` was lost: others are at work."""
        self._losses += 1
        if self._losses < _LOSSES:
            return
        self._losses = 0
        rows = self._look(status, LOOKED_AT)
        standing = {row.identifier: row.revision for row in rows}
        last = rows[-1].identifier if len(rows) == LOOKED_AT else None
        self._gone.update(
            revision
            for identifier, revision in self._read.get(status, {}).items()
            if (last is None or identifier <= last) and standing.get(identifier) != revision
        )
