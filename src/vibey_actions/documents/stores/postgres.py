"""Documents in PostgreSQL: the machine's guard on every write, then compare-and-set on the revision in one statement.

The table itself is an edge (``postgres/documents.py``); here is what its rows mean. The clock is the server's.
"""

from __future__ import annotations

import heapq
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import groupby
from typing import Final, NamedTuple, Protocol

from vibey_actions.documents.guard import check_put
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import (
    ID,
    MAX_DEPTH,
    REV,
    Document,
    body,
    changed,
    check_id,
    checked,
    copied,
    dump,
    id_of,
    rev_of,
    status_of,
)
from vibey_actions.documents.stores.base import Page, Store, expect
from vibey_actions.documents.stores.selection import UNSET, Selection, Unset, page_size
from vibey_actions.documents.stores.taken import Taken
from vibey_actions.errors import DocumentDenied, DocumentInvalid, StoreFailed
from vibey_actions.rows.canonical import NotJson, decode
from vibey_actions.text import shown

_PAGE: Final = 500
_RACES: Final = 100
_MAX_DB_BYTES: Final = 128
_MOST_DOUBTS: Final = 10
_LONG: Final = 4000
"""Characters. A number that no document can hold has more digits."""
_MAX_SCALE: Final = 16_383
"""Digits behind the point that PostgreSQL's numeric has."""
_NUMBERED: Final = re.compile(r"([0-9]{1,12})-[0-9a-f]+")


class Found(Protocol):
    """A head: text None is a tombstone."""

    @property
    def revision(self) -> str: ...
    @property
    def text(self) -> str | None: ...


class Listed(Protocol):
    """A document of a page; revision and text None where it was not asked for."""

    @property
    def identifier(self) -> str: ...
    @property
    def revision(self) -> str | None: ...
    @property
    def text(self) -> str | None: ...


class Table(Protocol):
    """See ``postgres/documents.py``, ``DocumentTable``. A write that is False found another head."""

    def now_ms(self) -> int: ...
    def head(self, db: str, identifier: str) -> Found | None: ...
    def insert(self, db: str, identifier: str, revision: str, text: str) -> bool: ...
    def update(
        self, db: str, identifier: str, expected: str, revision: str, text: str, *, old: str | None = None
    ) -> bool: ...
    def delete(self, db: str, identifier: str, expected: str, revision: str) -> bool: ...
    def remove(self, db: str, identifier: str, expected: str) -> None: ...
    def page(
        self, db: str, after: str, limit: int, field: str | None = None, values: Sequence[str] | None = None
    ) -> Sequence[Listed]: ...
    def in_status(self, db: str, status: str, after: str, limit: int) -> Sequence[Listed]: ...
    def places(self, db: str, status: str, limit: int) -> Sequence[Listed]: ...
    def claimed_on(self, db: str, day: str, after: str, limit: int) -> Sequence[Listed]: ...


class _Head(NamedTuple):
    """What is there: the revision to compare with, and the content as text; None for both a tombstone and nothing."""

    revision: str | None
    text: str | None

    @property
    def visible(self) -> str | None:
        return self.revision if self.text is not None else None

    def document(self, identifier: str) -> Document | None:
        """The content. Raises DocumentInvalid where it can be in no document."""
        return stored_content(identifier, self.text) if self.text is not None else None


class PostgresStore(Store):
    """Documents in ``table``. ``machines`` are those whose guard every put asks."""

    def __init__(self, table: Table, machines: Iterable[Machine] = ()) -> None:
        self._table = table
        self._machines = tuple(machines)
        self._taken: dict[str, Taken] = {}
        self._unreadable: dict[tuple[str, str], str] = {}

    @property
    def doubts(self) -> tuple[str, ...]:
        """Which rows that were met no lane sees, and why; one line each."""
        return tuple(self._unreadable.values())[:_MOST_DOUBTS]

    def now_ms(self) -> int:
        return self._table.now_ms()

    def get(self, db: str, identifier: str) -> Document | None:
        _check_db(db)
        check_id(identifier)
        head = self._head(db, identifier)
        content = head.document(identifier)
        if content is None or head.revision is None:
            return None
        return _read(identifier, head.revision, content)

    def put(
        self,
        db: str,
        identifier: str,
        document: Document,
        *,
        if_rev: str | Unset | None = UNSET,
        writer: str | None = None,
    ) -> str:
        new, text = _new(db, identifier, document)
        for _ in range(_RACES):
            head = self._head(db, identifier)
            expect(db, identifier, head.visible, if_rev)
            old = head.document(identifier)
            if head.visible is not None and old is not None and not changed(old, new):
                return head.visible
            check_put(self._machines, db, old, {**new, ID: identifier}, writer=writer, now=self.now_ms())
            revision = _revision_after(head.revision)
            if self._write(db, identifier, head.visible, revision, text):
                return revision
        raise _contended(db, identifier)

    def delete(self, db: str, identifier: str, *, if_rev: str | Unset | None = UNSET) -> None:
        _check_db(db)
        check_id(identifier)
        for _ in range(_RACES):
            head = self._head(db, identifier)
            expect(db, identifier, head.visible, if_rev)
            expected = head.visible
            if expected is None:
                return
            revision = _revision_after(expected)
            if self._table.delete(db, identifier, expected, revision):
                return
        raise _contended(db, identifier)

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
        _check_db(db)
        for text in (field, after):
            _check_text(text or "")
        values = [key] if key is not UNSET else keys
        asked = None if field == ID else field
        texts = None
        if asked is not None and values is not None:
            texts = [dump(value).decode() for value in values if _can_be_held(value)]
        raw = self._table.page(db, after or "", size, asked, texts)
        documents = (read for row in raw if row.text is not None and (read := self._readable(db, row)) is not None)
        following = raw[-1].identifier if len(raw) == size else None
        return Page(tuple(document for document in documents if selection.matches(document)), following)

    def active(self, machine: Machine) -> Iterator[Document]:
        """As the interface says, from the index of statuses: what has ended costs nothing."""
        _check_db(machine.db)
        taken = self._taken_in(machine.db)
        taken.begin(machine.active)
        streams = [self._in_status(machine.db, status) for status in machine.active]
        merged = heapq.merge(*streams, key=lambda row: row.identifier)
        # One that moved on between two pages may come twice: what was read last stands.
        for _, rows in groupby(merged, key=lambda row: row.identifier):
            document = self._readable(machine.db, list(rows)[-1])
            if document is not None and machine.owns(document):
                taken.read(status_of(document) or "", id_of(document), rev_of(document) or "")
                yield document

    def claims_of(self, machine: Machine, day: str) -> Iterator[Document]:
        _check_db(machine.db)
        rows = _pages(lambda after: self._table.claimed_on(machine.db, day, after, _PAGE))
        read = (self._readable(machine.db, row) for row in rows)
        yield from (document for document in read if document is not None and machine.owns(document))

    def has_moved(self, db: str, read: Document) -> bool:
        return self._taken_in(db).gone(rev_of(read) or "")

    def claim(self, db: str, read: Document | None, claimed: Document, *, writer: str) -> Document | None:
        standing = self.move(db, read, claimed, writer=writer)
        if standing is None and read is not None:
            self._taken_in(db).lost(status_of(read) or "")
        return standing

    def move(self, db: str, read: Document | None, new: Document, *, writer: str) -> Document | None:
        """One statement: the guard is asked of what was read, and the write insists on that being the head."""
        expected = rev_of(read) if read is not None else None
        if read is None or expected is None or not changed(read, new):
            return super().move(db, read, new, writer=writer)
        identifier = id_of(new)
        content, text = _new(db, identifier, new)
        old = body(read)
        try:
            check_put(self._machines, db, old, {**content, ID: identifier}, writer=writer, now=self.now_ms())
        except DocumentDenied:
            # Where it has moved meanwhile, the claim is lost, not denied.
            return super().move(db, read, new, writer=writer)
        revision = _revision_after(expected)
        if not self._table.update(db, identifier, expected, revision, text, old=dump(old).decode()):
            return None
        return _read(identifier, revision, copied(content))

    def take_back(self, db: str, written: Document, read: Document | None) -> None:
        """Put ``read`` (None: nothing) back in the place of ``written``, revision and all, as if that had never been.

        For a write that was to stand elsewhere too and does not; nothing where the document has moved on.
        """
        identifier, revision = id_of(written), rev_of(written) or ""
        before = rev_of(read) if read is not None else None
        if read is None or before is None:
            self._table.remove(db, identifier, revision)
        else:
            text = dump(body(read)).decode()
            self._table.update(db, identifier, revision, before, text)

    def _head(self, db: str, identifier: str) -> _Head:
        found = self._table.head(db, identifier)
        if found is None:
            return _Head(None, None)
        return _Head(found.revision, found.text)

    def _readable(self, db: str, row: Listed) -> Document | None:
        """The document of a row; None, and a doubt, where other programs wrote what none can be: it stops no other."""
        place = db, row.identifier
        try:
            document = _read(row.identifier, row.revision or "", stored_content(row.identifier, row.text or ""))
        except DocumentInvalid as error:
            self._unreadable[place] = error.message
            return None
        if self._unreadable:
            self._unreadable.pop(place, None)
        return document

    def _write(self, db: str, identifier: str, expected: str | None, revision: str, text: str) -> bool:
        if expected is None:
            return self._table.insert(db, identifier, revision, text)
        return self._table.update(db, identifier, expected, revision, text)

    def _taken_in(self, db: str) -> Taken:
        return self._taken.setdefault(db, Taken(lambda status, limit: self._table.places(db, status, limit)))

    def _in_status(self, db: str, status: str) -> Iterator[Listed]:
        return _pages(lambda after: self._table.in_status(db, status, after, _PAGE))


def _pages(read: Callable[[str], Sequence[Listed]]) -> Iterator[Listed]:
    after: str | None = ""
    while after is not None:
        rows = read(after)
        yield from rows
        after = rows[-1].identifier if len(rows) == _PAGE else None


def _read(identifier: str, revision: str, document: Document) -> Document:
    return {**document, ID: identifier, REV: revision}


def stored_content(identifier: str, text: str) -> Document:
    """What ``text`` holds, without an ``_id`` or ``_rev`` that another program stored. Raises DocumentInvalid."""
    what = f"what is stored as {shown(identifier, 120)}"
    try:
        content = body(decode(text.encode()))
    except NotJson:
        raise DocumentInvalid(
            f"{what} is nested too deeply, or holds a number that is too long", "mend or delete the row in PostgreSQL"
        ) from None
    # Looked into only where there is room for what a document cannot hold.
    if len(text) > _LONG or text.count("[") + text.count("{") > MAX_DEPTH:
        checked(content, what)
    return content


def _new(db: str, identifier: str, document: Document) -> tuple[Document, str]:
    """What is to be stored, and its text; where its place and content can be."""
    _check_db(db)
    check_id(identifier)
    content = body(document)
    try:
        return content, dump(content).decode()
    except (NotJson, TypeError, ValueError, OverflowError, RecursionError):
        checked(content, f"the document {shown(identifier, 120)}")
        raise


def _check_db(db: str) -> None:
    _check_text(db)
    if not 0 < len(db.encode()) <= _MAX_DB_BYTES:
        raise DocumentInvalid(f"a database of documents has a name of 1 to {_MAX_DB_BYTES} bytes", "use a shorter name")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        unusable = True
    else:
        unusable = "\x00" in text
    if unusable:
        raise DocumentInvalid(f"{shown(text, 120)} is no text that PostgreSQL has", "leave out NUL and half characters")


def _can_be_held(value: object) -> bool:
    """Whether jsonb can hold ``value``, so that a document may."""
    if isinstance(value, str):
        return "\x00" not in value
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        return isinstance(exponent, int) and exponent >= -_MAX_SCALE
    return not isinstance(value, list) or all(map(_can_be_held, value))


def _revision_after(revision: str | None) -> str:
    """A revision that no other write has, in this database or in another copy; its number is for people."""
    numbered = _NUMBERED.fullmatch(revision or "")
    return f"{int(numbered[1]) + 1 if numbered else 1}-{secrets.token_hex(8)}"


def _contended(db: str, identifier: str) -> StoreFailed:
    return StoreFailed(
        f"writing the document {shown(identifier, 120)} of {shown(db, 80)}: others wrote it first, {_RACES} times",
        "run it again",
    )
