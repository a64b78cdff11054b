"""What a store without revisions has read lately: whole databases and single documents, and how long ago.

A revision here is a digest of the content, so that "still what was read" can be asked at all. Ages are of a monotonic
clock, and count from before the read was sent.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from vibey_actions.documents.model import ID, REV, Document, body, copied, dump, id_of, number

_DIGITS: Final = 32


@dataclass
class Reading:
    """One database as it was read: when, how many bytes, and each document with the moment that it is known from."""

    at: float = float("-inf")
    size: int = 0
    rows: int = 0
    documents: dict[str, tuple[float, Document]] = field(default_factory=dict)


class Recent:
    """The readings of every database. ``clock`` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._readings: dict[str, Reading] = {}

    def reading(self, db: str) -> Reading:
        """The last reading of a whole database; one from never where there was none."""
        return self._readings.setdefault(db, Reading())

    def age(self, db: str) -> float:
        """Seconds since the whole database was read."""
        return self._clock() - self.reading(db).at

    def known(self, db: str, identifier: str) -> tuple[float, Document] | None:
        """A document as it was last seen here, and since when it is known."""
        return self.reading(db).documents.get(identifier)

    def keep_all(self, db: str, at: float, rows: Iterable[Document]) -> frozenset[str]:
        """Keep what a query gave, in place of all before. Returns the ids that more than one row answers to.

        Those are not kept: a body's own ``_id`` hides its document's, so nothing tells which is meant.
        """
        documents = [revised(id_of(row), row) for row in rows]
        counts = Counter(id_of(document) for document in documents)
        kept = {id_of(one): (at, one) for one in documents if counts[id_of(one)] == 1}
        self._readings[db] = Reading(at, sum(len(dump(body(one))) for one in documents), len(documents), kept)
        return frozenset(identifier for identifier, count in counts.items() if count > 1)

    def keep(self, db: str, at: float, identifier: str, document: Document | None) -> None:
        """Keep what one document is, or that it is gone."""
        if document is None:
            self.reading(db).documents.pop(identifier, None)
        else:
            self.reading(db).documents[identifier] = (at, document)


def revised(identifier: str, document: Document) -> Document:
    """``document`` as a read gives it: under its id, with the digest of its content as revision."""
    content = copied(body(document))
    digest = hashlib.sha256(dump(_plain(content))).hexdigest()[:_DIGITS]
    return {**content, ID: identifier, REV: digest}


def _plain(value: object) -> object:
    """``value`` with each number in one form, whatever digits it came in."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    exact = number(value)
    return value if exact is None else exact
