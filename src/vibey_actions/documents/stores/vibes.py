"""Documents in a vibe, through the real client.

The vibe has no compare-and-set for a client: the last writer wins, on the whole document. So a claim is read, checked,
written with its fresh ``claimId``, and read back after a settling pause; only the ``claimId`` that stands then owns the
document. That holds as long as a claim's write lands within the pause, counted from before the read that it rests on:
whoever reads before another's claim has landed, has written before that other reads back. The client is stopped at the
end of that time. A write that lands later still is found out when the document is finished: the finish under a claim
that stands no more is refused, and its result counts for nothing. The step may then have run twice.

The vibe's ``access.js`` (``docs access-js``) and the workflow's concurrency group are the other two fences.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from vibey_actions.documents.client import Client, check_db
from vibey_actions.documents.guard import check_put
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import (
    CLAIM,
    ID,
    REV,
    STATUS,
    Clock,
    Document,
    SystemClock,
    body,
    changed,
    check_id,
    checked,
    copied,
    id_of,
    rev_of,
    same,
)
from vibey_actions.documents.stores.base import Page, Store, expect
from vibey_actions.documents.stores.recent import Recent, revised
from vibey_actions.documents.stores.selection import MAX_PAGE, UNSET, Selection, Unset, page_size
from vibey_actions.errors import (
    DocumentConflict,
    DocumentDenied,
    DocumentInvalid,
    OutcomeUnknown,
    SettingError,
    StoreFailed,
    VibeyError,
)
from vibey_actions.text import shown

SETTLE: Final = 20.0
"""Seconds; two calls of the client take about seven on a runner."""
_SMALL: Final = 1024 * 1024
_MOST_DOUBTS: Final = 10
_WRITES: Final = 2


class VibesStore(Store):
    """The documents that ``client`` reaches. ``settle`` is the settling pause in seconds.

    A database that was read less than half a pause ago is not read again to find what is due, nor before a claim.
    ``clock`` decides about leases; ``monotonic`` and ``sleep`` count the pause.
    """

    grace_ms = 5 * 60 * 1000

    def __init__(
        self,
        client: Client,
        machines: Iterable[Machine] = (),
        *,
        settle: float = SETTLE,
        clock: Clock | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        if not settle > 0:
            raise SettingError("the settling pause is not longer than 0 seconds", f"leave it out: it is {SETTLE:.0f}")
        self._client = client
        self._machines = tuple(machines)
        self._settle = settle
        self._clock = clock if clock is not None else SystemClock()
        self._monotonic = monotonic
        self._sleep = sleep
        self._recent = Recent(monotonic)
        self._doubts: dict[str, list[str]] = {}

    @property
    def doubts(self) -> tuple[str, ...]:
        """What a report should say about reads that may not have shown everything; one line each."""
        return tuple(doubt for doubts in self._doubts.values() for doubt in doubts)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def get(self, db: str, identifier: str) -> Document | None:
        check_id(identifier)
        at = self._monotonic()
        found = self._client.get(db, identifier)
        document = revised(identifier, found) if found is not None else None
        self._recent.keep(db, at, identifier, document)
        return copied(document) if document is not None else None

    def put(
        self,
        db: str,
        identifier: str,
        document: Document,
        *,
        if_rev: str | Unset | None = UNSET,
        writer: str | None = None,
    ) -> str:
        """As the interface says, but for the moment between the read and the write: nothing holds others off there."""
        new = self._new(db, identifier, document)
        head = self._look(db, identifier)
        self._expect(db, identifier, head, if_rev)
        if head is not None and not changed(head, new):
            return str(head[REV])
        check_put(self._machines, db, head, new, writer=writer, now=self.now_ms())
        return self._write(db, new, head)

    def delete(self, db: str, identifier: str, *, if_rev: str | Unset | None = UNSET) -> None:
        check_id(identifier)
        if if_rev is not UNSET:
            self._expect(db, identifier, self.get(db, identifier), if_rev)
        try:
            self._client.delete(db, identifier)
        except OutcomeUnknown:
            if self.get(db, identifier) is not None:
                raise
        self._recent.keep(db, self._monotonic(), identifier, None)

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
        """One page of what one reply of the vibe holds; a database may hold more than that (``doubts``)."""
        selection, size = Selection(field, key, keys, range, prefix), page_size(limit)
        check_db(db)
        if self._recent.age(db) > self._settle / 2:
            self._read_all(db)
        documents = self._recent.reading(db).documents
        identifiers = sorted(documents)
        start = bisect_right(identifiers, after) if after is not None else 0
        raw = identifiers[start : start + size]
        selected = (documents[one][1] for one in raw if selection.matches(documents[one][1]))
        return Page(tuple(map(copied, selected)), raw[-1] if len(raw) == size else None)

    def move(self, db: str, read: Document | None, new: Document, *, writer: str) -> Document | None:
        try:
            return super().move(db, read, new, writer=writer)
        except DocumentDenied:
            # The vibe compares with its head, which may have moved since the read here.
            if _moved(read, self.get(db, id_of(new))):
                return None
            raise

    def claim(self, db: str, read: Document | None, claimed: Document, *, writer: str) -> Document | None:
        identifier = id_of(claimed)
        new = self._new(db, identifier, claimed)
        at, head = self._lately(db, read, identifier)
        if _moved(read, head):
            return None
        check_put(self._machines, db, head, new, writer=writer, now=self.now_ms())
        doubt = self._stake(db, new, at)
        if isinstance(doubt, DocumentConflict):
            return None
        if isinstance(doubt, DocumentDenied):
            if _moved(read, self.get(db, identifier)):
                return None
            raise doubt
        self._sleep(self._settle)
        stands = self._look(db, identifier)
        if stands is not None and all(same(stands.get(name), new.get(name)) for name in (STATUS, CLAIM)):
            return stands
        if doubt is not None and not _moved(read, stands):
            raise doubt
        return None

    # Reading

    def _read_all(self, db: str) -> None:
        at = self._monotonic()
        rows, unreadable = self._client.query(db)
        doubled = self._recent.keep_all(db, at, rows)
        self._doubts[db] = doubts = []
        if len(rows) + len(unreadable) >= MAX_PAGE:
            doubts.append(
                f"the database {db} answered with {len(rows) + len(unreadable)} documents: the client reads one page, "
                "and what is beyond it is not seen; delete finished documents, or keep them in another database"
            )
        if unreadable:
            listed = ", ".join(unreadable[:_MOST_DOUBTS])
            doubts.append(
                f"{len(unreadable)} of the documents in the database {db} cannot be read, so no lane sees them (half a "
                f"character, no id, or nested too deeply): {listed}"
            )
        if len(doubled) > _MOST_DOUBTS:
            doubts.append(
                f"{len(doubled)} ids in the database {db} belong to more than one document, since a document's own _id "
                "says another id than it is stored under; none of these is seen"
            )
            return
        for identifier in sorted(doubled):
            try:
                self.get(db, identifier)
            except (DocumentInvalid, StoreFailed) as error:
                # Whoever may write documents could otherwise hold up all the others with two of them.
                doubts.append(f"more than one document says that it is {shown(identifier, 80)}: {error.message}")

    def _look(self, db: str, identifier: str) -> Document | None:
        """The document as it is now. Where a small database was read before, all of it is, for what follows."""
        reading = self._recent.reading(db)
        if identifier in reading.documents and reading.rows and reading.size <= _SMALL:
            self._read_all(db)
            known = self._recent.known(db, identifier)
            if known is not None:
                return copied(known[1])
        return self.get(db, identifier)

    def _lately(self, db: str, read: Document | None, identifier: str) -> tuple[float, Document | None]:
        """The document as it was less than half a pause ago, and since when that is known."""
        known = self._recent.known(db, identifier)
        fresh = known is not None and self._monotonic() - known[0] <= self._settle / 2
        if known is not None and fresh and read is not None:
            return known[0], copied(known[1])
        at = self._monotonic()
        return at, self._look(db, identifier) if read is not None else self.get(db, identifier)

    # Writing

    def _new(self, db: str, identifier: str, document: Document) -> Document:
        check_db(db)
        check_id(identifier)
        new = body(checked(document, f"the document {shown(identifier, 120)}"))
        return {**copied(new), ID: identifier}

    def _expect(self, db: str, identifier: str, head: Document | None, if_rev: str | Unset | None) -> None:
        expect(db, identifier, rev_of(head) if head is not None else None, if_rev)

    def _write(self, db: str, new: Document, head: Document | None) -> str:
        """Write ``new`` over ``head``; what may have been applied is read back, and written once more if it was not."""
        identifier = id_of(new)
        for attempt in range(1, _WRITES + 1):
            at = self._monotonic()
            try:
                self._client.put(db, identifier, new)
            except OutcomeUnknown:
                there = self.get(db, identifier)
                if there is None or changed(there, new):
                    if attempt == _WRITES or _moved(head, there):
                        raise
                    continue
            break
        return self._written(db, new, at)

    def _stake(self, db: str, new: Document, at: float) -> VibeyError | None:
        """Write a claim that rests on a read from ``at``, before the pause is over. What went wrong, where it may stand
        all the same or others are in the way; raises StoreFailed where it was not written."""
        begun = self._monotonic()
        left = at + self._settle - begun
        if left <= 0:
            raise StoreFailed(
                f"{shown(id_of(new), 120)} was not claimed: reading it took longer than the settling pause",
                f"raise the settling pause, which is {self._settle:g} seconds",
            )
        try:
            self._client.put(db, id_of(new), new, left)
        except (OutcomeUnknown, DocumentConflict, DocumentDenied) as error:
            return error
        self._written(db, new, begun)
        return None

    def _written(self, db: str, new: Document, at: float) -> str:
        document = revised(id_of(new), new)
        self._recent.keep(db, at, id_of(new), document)
        return str(document[REV])


def _moved(read: Document | None, head: Document | None) -> bool:
    """Whether a document is no longer what was read."""
    if read is None or head is None:
        return read is not head
    return rev_of(read) != rev_of(head)
