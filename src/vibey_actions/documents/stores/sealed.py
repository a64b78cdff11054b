"""Documents in the sealed state: a write counts once it is on the branch (claim, sync, work).

Every runner has a copy of its own, so a revision that nobody moved here says nothing of the others. The branch decides:
whose claim arrives there first has the document, and the merge rule of the table (``state/lanes.py``) takes a later one
off the copy that it was made in, and the end of a lease that was lost as well. That merge is made anew for each head
that a push is tried on, so nothing comes between it and the push. What is read here is as of the last sync; ``active``
begins with one.

Each copy's own database is the clock of its lane, so a lease is left alone for a while longer than it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import CLAIM, ID, LAST_CLAIM, REV, Document, body, id_of, rev_of, text_of
from vibey_actions.documents.stores.base import Page, Store, expect, held_alike
from vibey_actions.documents.stores.postgres import PostgresStore
from vibey_actions.documents.stores.selection import UNSET, Unset
from vibey_actions.errors import RemoteFailed, StoreFailed, VibeyError
from vibey_actions.text import shown

_TRIES: Final = 10


class SealedStore(Store):
    """Documents in ``copy``, a table of the synced database. ``sync`` brings that database and the branch level.

    It raises a VibeyError where it does not. A write that did not reach the branch is taken back here, unless it says
    what came of work that was done.
    """

    grace_ms = 5 * 60 * 1000

    def __init__(self, copy: PostgresStore, sync: Callable[[], object]) -> None:
        self._copy = copy
        self._sync = sync

    @property
    def doubts(self) -> tuple[str, ...]:
        """Which rows of this copy no lane sees, and why."""
        return self._copy.doubts

    def now_ms(self) -> int:
        return self._copy.now_ms()

    def get(self, db: str, identifier: str) -> Document | None:
        return self._copy.get(db, identifier)

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
        return self._copy.query(db, field, key=key, keys=keys, range=range, prefix=prefix, limit=limit, after=after)

    def active(self, machine: Machine) -> Iterator[Document]:
        """As the interface says, once this copy is level with the branch."""
        self._level()
        yield from self._copy.active(machine)

    def has_moved(self, db: str, read: Document) -> bool:
        return self._copy.has_moved(db, read)

    def claims_of(self, machine: Machine, day: str) -> Iterator[Document]:
        yield from self._copy.claims_of(machine, day)

    def put(
        self,
        db: str,
        identifier: str,
        document: Document,
        *,
        if_rev: str | Unset | None = UNSET,
        writer: str | None = None,
    ) -> str:
        for _ in range(_TRIES):
            self._level()
            read = self._copy.get(db, identifier)
            revision = self._copy.put(db, identifier, document, if_rev=if_rev, writer=writer)
            absorbed = read is not None and rev_of(read) == revision
            if absorbed or self._arrives(db, {**body(document), ID: identifier, REV: revision}, read):
                return revision
            expect(db, identifier, self._revision(db, identifier), if_rev)
        raise self._overtaken(identifier)

    def delete(self, db: str, identifier: str, *, if_rev: str | Unset | None = UNSET) -> None:
        for _ in range(_TRIES):
            self._level()
            self._copy.delete(db, identifier, if_rev=if_rev)
            self._carry(f"that {shown(identifier, 120)} is deleted")
            current = self._revision(db, identifier)
            if current is None:
                return
            expect(db, identifier, current, if_rev)
        raise self._overtaken(identifier)

    def claim(self, db: str, read: Document | None, claimed: Document, *, writer: str) -> Document | None:
        standing = self._copy.claim(db, read, claimed, writer=writer)
        return standing if standing is not None and self._arrives(db, standing, read) else None

    def move(self, db: str, read: Document | None, new: Document, *, writer: str) -> Document | None:
        self._level()
        standing = self._copy.move(db, read, new, writer=writer)
        return standing if standing is not None and self._arrives(db, standing, read) else None

    def finish(self, db: str, claimed: Document, finished: Document, *, writer: str) -> Document | None:
        """As the interface says. Where the branch cannot be reached, what came of the work is kept in this copy.

        Whether the claim still stands is looked at here, and once more by the merge that the push rests on.
        """
        identifier = id_of(claimed)
        with suppress(StoreFailed):  # the sync below says it
            self._level()
        for _ in range(_TRIES):
            standing = self._copy.finish(db, claimed, finished, writer=writer)
            if standing is None:
                return None
            self._carry(f"what came of {shown(identifier, 120)}")
            head = self._copy.get(db, identifier)
            if head is None:
                return None
            if rev_of(head) == rev_of(standing) or _ended(claimed, head):
                return standing
        raise self._overtaken(identifier)

    def _level(self) -> None:
        """What is here is what is on the branch, and the other way round."""
        try:
            self._sync()
        except VibeyError as error:
            raise StoreFailed(f"this copy is not level with the branch: {error.message}", error.hint) from error

    def _arrives(self, db: str, written: Document, read: Document | None) -> bool:
        """Whether what was written over ``read`` here is on the branch now; where it is not, it is not here either."""
        try:
            self._sync()
        except VibeyError as error:
            self._copy.take_back(db, written, read)
            name = shown(id_of(written), 120)
            raise StoreFailed(
                f"{name} was not written: it is not known to have reached the branch ({error.message})", error.hint
            ) from error
        return self._revision(db, id_of(written)) == rev_of(written)

    def _carry(self, what: str) -> None:
        """Bring to the branch what stays here in any case."""
        try:
            try:
                self._sync()
            except RemoteFailed:
                self._sync()  # what arrived although the answer was lost is seen now
        except VibeyError as error:
            raise StoreFailed(
                f"{what} is in this copy, and not known to have reached the branch ({error.message})",
                f"{error.hint}; the next `vibey-actions state sync` of this database takes it there, unless another "
                "worker has the document by then".lstrip("; "),
            ) from error

    def _revision(self, db: str, identifier: str) -> str | None:
        head = self._copy.get(db, identifier)
        return rev_of(head) if head is not None else None

    def _overtaken(self, identifier: str) -> StoreFailed:
        return StoreFailed(
            f"{shown(identifier, 120)} was not written: others wrote it on the branch first, {_TRIES} times",
            "run it again",
        )


def _ended(claimed: Document, head: Document) -> bool:
    """Whether the claim was ended by its holder, and others moved the document on from there.

    Nobody else leaves its ``claimId`` on a document that is not claimed under it any more.
    """
    claim = text_of(claimed, CLAIM)
    proofs = (text_of(head, CLAIM), text_of(head, LAST_CLAIM))
    return claim is not None and claim in proofs and not held_alike(head, claimed)
