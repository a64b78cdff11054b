"""Documents in memory: for users' own tests, and the shortest telling of what a store does. Safe between threads."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import count
from threading import RLock

from vibey_actions.documents.guard import check_put
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import (
    ID,
    REV,
    Clock,
    Document,
    SystemClock,
    body,
    changed,
    check_id,
    checked,
    copied,
)
from vibey_actions.documents.stores.base import Page, Store, expect
from vibey_actions.documents.stores.selection import UNSET, Selection, Unset, page_size
from vibey_actions.text import shown


class MemoryStore(Store):
    """Documents that last as long as the object. ``machines`` are those whose guard every put asks."""

    def __init__(self, machines: Iterable[Machine] = (), clock: Clock | None = None) -> None:
        self._machines = tuple(machines)
        self._clock = clock if clock is not None else SystemClock()
        self._databases: dict[str, dict[str, tuple[str, Document]]] = {}
        self._revisions = count(1)
        self._lock = RLock()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def get(self, db: str, identifier: str) -> Document | None:
        check_id(identifier)
        with self._lock:
            head = self._database(db).get(identifier)
        return _read(identifier, head) if head is not None else None

    def put(
        self,
        db: str,
        identifier: str,
        document: Document,
        *,
        if_rev: str | Unset | None = UNSET,
        writer: str | None = None,
    ) -> str:
        check_id(identifier)
        new = copied(body(checked(document, f"the document {shown(identifier, 120)}")))
        with self._lock:
            head = self._expect(db, identifier, if_rev)
            if head is not None and not changed(head[1], new):
                return head[0]
            old = head[1] if head is not None else None
            check_put(self._machines, db, old, {**new, ID: identifier}, writer=writer, now=self.now_ms())
            revision = str(next(self._revisions))
            self._database(db)[identifier] = (revision, new)
            return revision

    def delete(self, db: str, identifier: str, *, if_rev: str | Unset | None = UNSET) -> None:
        check_id(identifier)
        with self._lock:
            self._expect(db, identifier, if_rev)
            self._database(db).pop(identifier, None)

    def query(
        self,
        db: str,
        field: str | None = None,
        *,
        key: object = UNSET,
        keys: Sequence[object] | None = None,
        range: tuple[object, object] | None = None,  # noqa: A002 - the name of the interface that is mirrored
        prefix: object = UNSET,
        limit: int | None = None,
        after: str | None = None,
    ) -> Page:
        selection, size = Selection(field, key, keys, range, prefix), page_size(limit)
        with self._lock:
            rows = dict(self._database(db))
        identifiers = sorted(rows)
        start = bisect_right(identifiers, after) if after is not None else 0
        raw = identifiers[start : start + size]
        documents = (_read(identifier, rows[identifier]) for identifier in raw)
        following = raw[-1] if len(raw) == size else None
        return Page(tuple(document for document in documents if selection.matches(document)), following)

    def _database(self, db: str) -> dict[str, tuple[str, Document]]:
        return self._databases.setdefault(db, {})

    def _expect(self, db: str, identifier: str, if_rev: str | Unset | None) -> tuple[str, Document] | None:
        """The head, where it has the revision that is expected."""
        head = self._database(db).get(identifier)
        current = head[0] if head is not None else None
        expect(db, identifier, current, if_rev)
        return head


def _read(identifier: str, head: tuple[str, Document]) -> Document:
    return {**copied(head[1]), ID: identifier, REV: head[0]}
