"""What a lane asks of a place that keeps documents. One conformance suite holds every store to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import (
    CLAIM,
    CLAIM_DAY,
    REV,
    STATUS,
    Document,
    changed,
    copied,
    id_of,
    rev_of,
    same,
)
from vibey_actions.documents.stores.selection import UNSET, Unset
from vibey_actions.errors import DocumentConflict
from vibey_actions.text import shown


@dataclass(frozen=True, slots=True)
class Page:
    """Documents by ``_id`` in code-point order. ``next`` is where the next page starts (pass it as ``after``); None on
    the last one. A page may be empty and still have a next."""

    documents: tuple[Document, ...]
    next: str | None = None


class Store(ABC):
    """Documents in named databases, each under an id, with compare-and-set where the store has revisions.

    Every put asks the guard of the machine that the document belongs to; ``writer`` is who writes, as the machine names
    it. Raises DocumentInvalid for what cannot be kept, and StoreFailed where the store itself fails.
    """

    grace_ms: ClassVar[int] = 0
    """How much longer than its lease the lane leaves a claim alone: for stores whose workers have a clock each."""

    @abstractmethod
    def now_ms(self) -> int:
        """The clock that decides: the database's where there is one."""

    @abstractmethod
    def get(self, db: str, identifier: str) -> Document | None:
        """The document with ``_id`` and ``_rev``; None where it is absent or deleted. It shares nothing with the store.

        Raises StoreFailed for a read that failed: never None for it.
        """

    @abstractmethod
    def put(
        self,
        db: str,
        identifier: str,
        document: Document,
        *,
        if_rev: str | Unset | None = UNSET,
        writer: str | None = None,
    ) -> str:
        """Write ``document`` under ``identifier`` and return its revision (empty from a store without revisions).

        ``if_rev`` left out: the last writer wins. None: only if absent or deleted. Else only if that is the head's
        revision. The revision is checked first, so a stale one conflicts even where the content is equal; then an equal
        write is absorbed and returns the head's revision; then the guard is asked. ``_rev`` in it is never stored.
        Raises DocumentConflict, DocumentDenied, OutcomeUnknown.
        """

    @abstractmethod
    def delete(self, db: str, identifier: str, *, if_rev: str | Unset | None = UNSET) -> None:
        """Delete the document; one that is absent is none already. Raises DocumentConflict for a stale ``if_rev``."""

    @abstractmethod
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
        """One page: the next ``limit`` (at most 2,000) documents after ``after``, and of those the selected ones.

        ``next`` comes from the page before selection, and only when that was full. A field alone drops documents
        without it; ``range`` includes both ends; ``_id`` is a field like others.
        """

    def active(self, machine: Machine) -> Iterator[Document]:
        """Every document of the machine's kind that a lane may have to act on, in the order of ``_id``.

        A store with an index does better than this.
        """
        return self._owned(machine, STATUS, machine.active)

    def has_moved(self, db: str, read: Document) -> bool:  # noqa: ARG002 - for stores that know
        """Whether it is known, without asking, that a document is no longer what was read: a claim of it is lost."""
        return False

    def claims_of(self, machine: Machine, day: str) -> Iterator[Document]:
        """Every document of the machine's kind that was claimed on ``day`` (ISO 8601): what a cap per day counts.

        A store with an index does better than this.
        """
        return self._owned(machine, CLAIM_DAY, [day])

    def _owned(self, machine: Machine, field: str, values: Sequence[object]) -> Iterator[Document]:
        """Every document of the machine's kind whose ``field`` has one of the ``values``, page after page."""
        after: str | None = None
        while True:
            page = self.query(machine.db, field, keys=values, after=after)
            yield from (document for document in page.documents if machine.owns(document))
            after = page.next
            if after is None:
                return

    def claim(self, db: str, read: Document | None, claimed: Document, *, writer: str) -> Document | None:
        """Write ``claimed`` over what was ``read`` (None: nothing was there); exactly one of several callers wins.

        Returns the document as it stands, with its revision; None for a lost claim. Raises DocumentDenied where the
        guard refuses a claim that nobody else took, OutcomeUnknown where nothing tells who has it.
        """
        return self.move(db, read, claimed, writer=writer)

    def move(self, db: str, read: Document | None, new: Document, *, writer: str) -> Document | None:
        """Write ``new`` where the document is still what was ``read``; None where it has moved."""
        identifier = id_of(new)
        try:
            revision = self.put(db, identifier, new, if_rev=rev_of(read) if read is not None else None, writer=writer)
        except DocumentConflict:
            return None
        return {**copied(new), REV: revision}

    def finish(self, db: str, claimed: Document, finished: Document, *, writer: str) -> Document | None:
        """Write what differs between ``claimed`` and ``finished``, as the holder of the claim on ``claimed``.

        Returns the document as it stands; None where the document holds another claim or status by now: then nothing
        was written. A lease that ran out is no hindrance while the claim stands.
        """
        head: Document | None = claimed
        while head is not None and held_alike(head, claimed):
            written = self.move(db, head, rebased(claimed, finished, head), writer=writer)
            if written is not None:
                return written
            head = self.get(db, id_of(claimed))
        return None


def expect(db: str, identifier: str, current: str | None, if_rev: str | Unset | None) -> None:
    """Raise DocumentConflict where the head's revision, None where nothing is, is not the one that is expected."""
    if if_rev is not UNSET and if_rev != current:
        raise DocumentConflict(
            f"the document {shown(identifier, 120)} of {shown(db, 80)} has moved since it was read",
            "read it again and decide anew",
            current,
        )


def held_alike(head: Document, claimed: Document) -> bool:
    """Whether ``head`` is still in the status and under the claim of ``claimed``."""
    return all(name in head and same(head[name], claimed.get(name)) for name in (STATUS, CLAIM))


def rebased(claimed: Document, finished: Document, head: Document) -> Document:
    """What ``finished`` changes of ``claimed``, done to ``head``: other fields that moved meanwhile stay."""
    document = copied(head)
    for name in changed(claimed, finished):
        if name in finished:
            document[name] = finished[name]
        else:
            document.pop(name, None)
    return document
