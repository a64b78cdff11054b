"""The table of documents: made where it is missing, read in pages, written by compare-and-set on the revision.

Every statement is a transaction of its own, so that a lost connection can be answered by asking again: a write that has
arrived already is known by its revision, which no other write has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from threading import RLock
from typing import Any, Final, NamedTuple

import psycopg

from vibey_actions.config import Config
from vibey_actions.errors import (
    DatabaseFailed,
    DocumentInvalid,
    OutcomeUnknown,
    SchemaMismatch,
    StateMoved,
    StoreFailed,
    VibeyError,
)
from vibey_actions.postgres.connection import connect, saying
from vibey_actions.postgres.locks import advisory_lock
from vibey_actions.postgres.naming import PUBLIC
from vibey_actions.postgres.sql import blocks, identifier
from vibey_actions.text import shown

OWN_SCHEMA: Final = "vibey_actions"
SHORT_STATUS: Final = 60
_COLUMNS: Final = (
    ("db", "text", True, 1),
    ("id", "text", True, 2),
    ("rev", "text", True, 0),
    ("doc", "jsonb", False, 0),
    ("deleted", "boolean", True, 0),
    ("changed_at", "timestamp with time zone", True, 0),
)
_WAIT_SECONDS: Final = 60.0
_CLOCK_SECONDS: Final = 1.0
_BOOT_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
# What jsonb cannot hold although JSON can say it, by SQLSTATE.
_NOT_HELD: Final = {
    "22P05": "it holds the character NUL",
    "22003": "a number in it has too many digits",
    "22P02": "it is not JSON as PostgreSQL reads it",
    "54000": "it is too large",
    "54001": "it is nested too deeply",
}


class Stored(NamedTuple):
    """A revision and the JSON text of the document; None for the text of a tombstone."""

    revision: str
    text: str | None


class Row(NamedTuple):
    """A document of a page; where it was not asked for, its place only."""

    identifier: str
    revision: str | None
    text: str | None


def schema_for(config: Config) -> str:
    """Where a database keeps documents: ``public``, where they are synced, unless the configuration keeps them out."""
    kept_out = config.documents is False or (config.documents is None and config.profile is not None)
    return OWN_SCHEMA if kept_out else PUBLIC


def prepare(connection: psycopg.Connection, schema: str, notice: Callable[[str], None] = lambda _: None) -> None:
    """Make the table ``document`` in ``schema`` where it is missing; SchemaMismatch where another one is there."""
    with saying("looking for the table of documents"):
        if _check(connection, schema):
            return
    with (
        saying(f"making the table {schema}.document"),
        advisory_lock(connection, "documents", "another one that makes it", _WAIT_SECONDS, notice),
    ):
        if _check(connection, schema):
            return
        with connection.transaction():
            if schema == OWN_SCHEMA and connection.execute(blocks("migrate")["schema_exists"]).fetchone() != (True,):
                connection.execute(blocks("migrate")["create_schema"])
            connection.execute(_sql("create", schema))


def _check(connection: psycopg.Connection, schema: str) -> bool:
    """Whether the table is there; raises SchemaMismatch where its columns are others."""
    found = tuple(connection.execute(blocks("documents")["columns"], {"schema": schema}).fetchall())
    if found and found != _COLUMNS:
        raise SchemaMismatch(
            f"the table {schema}.document is not the one of documents: its columns or its primary key are others",
            "set documents = false in [state] of .github/vibey-state.toml: documents are then kept in the schema "
            "vibey_actions, out of the state; or rename the table",
        )
    return bool(found)


class DocumentTable:
    """Documents as text in one table, over a connection of its own; safe between threads.

    Opening it makes the table where it is missing. Raises what ``connect`` and ``prepare`` do, and for each call
    StoreFailed where PostgreSQL refuses, OutcomeUnknown where nothing tells whether a write arrived.
    """

    def __init__(self, dsn: str, schema: str = PUBLIC, notice: Callable[[str], None] = lambda _: None) -> None:
        self._dsn = dsn
        self._schema = schema
        self._sql = {name: _sql(name, schema) for name in blocks("documents")}
        self._lock = RLock()
        self._read_at: tuple[float, int] | None = None
        self._connection: psycopg.Connection | None = connect(dsn, purpose="documents", notice=notice)
        try:
            prepare(self._connection, schema, notice)
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def now_ms(self) -> int:
        """The server's time in milliseconds since 1970; asked again after a second, and counted on in between.

        Never ahead of the server by more than it is set back.
        """
        with self._lock:
            at = time.clock_gettime(_BOOT_CLOCK)
            if self._read_at is None or not 0 <= at - self._read_at[0] < _CLOCK_SECONDS:
                (row,) = self._rows("reading the clock", "now", {})
                at = time.clock_gettime(_BOOT_CLOCK)
                self._read_at = (at, int(row[0]))
            return self._read_at[1] + int((at - self._read_at[0]) * 1000)

    def head(self, db: str, identifier: str) -> Stored | None:
        """What is there, a tombstone included."""
        rows = self._rows("reading a document", "head", {"db": db, "id": identifier})
        return Stored(*rows[0]) if rows else None

    def insert(self, db: str, identifier: str, revision: str, text: str) -> bool:
        """Make a document where none is but perhaps a tombstone; False where one is."""
        return self._write(db, identifier, revision, "insert", {"doc": text})

    def update(
        self, db: str, identifier: str, expected: str, revision: str, text: str, *, old: str | None = None
    ) -> bool:
        """Replace the document of the revision ``expected``, and of the content ``old`` where that is given."""
        values = {"expected": expected, "doc": text, "old": old}
        return self._write(db, identifier, revision, "update" if old is None else "update_known", values)

    def delete(self, db: str, identifier: str, expected: str, revision: str) -> bool:
        """Leave a tombstone in place of the document of the revision ``expected``."""
        return self._write(db, identifier, revision, "delete", {"expected": expected})

    def remove(self, db: str, identifier: str, expected: str) -> None:
        """Take the row of that revision out of the table."""
        self._execute("removing a document", "remove", {"db": db, "id": identifier, "expected": expected})

    def page(
        self, db: str, after: str, limit: int, field: str | None = None, values: Sequence[str] | None = None
    ) -> list[Row]:
        """The next documents by id. With ``field``, those without it are only named; with ``values`` (JSON texts) all
        whose field holds none of them."""
        given = {"db": db, "after": after, "limit": limit}
        block = "page"
        if field is not None:
            given |= {"field": field, "values": list(values or ())}
            block = "page_with" if values is None else "page_equal"
        return [Row(*row) for row in self._rows("reading documents", block, given)]

    def in_status(self, db: str, status: str, after: str, limit: int) -> list[Row]:
        """The next documents of one status by id."""
        given = {"db": db, "status": status, "short": status[:SHORT_STATUS], "after": after, "limit": limit}
        return [Row(*row) for row in self._rows("reading documents", "in_status", given)]

    def places(self, db: str, status: str, limit: int) -> list[Row]:
        """The first documents of one status by id, without their texts."""
        given = {"db": db, "status": status, "short": status[:SHORT_STATUS], "limit": limit}
        return [Row(*row) for row in self._rows("reading documents", "places", given)]

    def claimed_on(self, db: str, day: str, after: str, limit: int) -> list[Row]:
        """The next documents with a claim of ``day`` (ISO 8601), by id."""
        given = {"db": db, "day": day, "after": after, "limit": limit}
        return [Row(*row) for row in self._rows("reading documents", "claimed_on", given)]

    def _write(self, db: str, identifier: str, revision: str, block: str, values: Mapping[str, object]) -> bool:
        """Whether the write came about; one whose answer was lost is sent again, which changes nothing if it did."""
        given = {"db": db, "id": identifier, "rev": revision, **values}
        doing = f"writing the document {shown(identifier, 120)}"
        with self._lock, _asking(doing):
            try:
                return self._once(block, given).rowcount == 1
            except psycopg.Error as error:
                if not self._lost():
                    raise _not_held(error, identifier) or error from None
            try:
                written = self._once(block, given).rowcount == 1
                head = None if written else self.head(db, identifier)
            except (psycopg.Error, VibeyError):
                raise OutcomeUnknown(
                    f"{doing}: the connection to PostgreSQL was lost before the answer, and there is no new one",
                    "read the document before it is written again",
                ) from None
            return written or (head is not None and head.revision == revision)

    def _rows(self, doing: str, block: str, values: Mapping[str, object]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._execute(doing, block, values).fetchall()

    def _execute(self, doing: str, block: str, values: Mapping[str, object]) -> psycopg.Cursor:
        """Run what may be run twice, on a new connection where the first is lost."""
        with self._lock, _asking(doing):
            try:
                return self._once(block, values)
            except psycopg.Error:
                if not self._lost():
                    raise
            return self._once(block, values)

    def _once(self, block: str, values: Mapping[str, object]) -> psycopg.Cursor:
        if self._connection is None:
            self._connection = connect(self._dsn, purpose="documents")
        return self._connection.execute(self._sql[block], values)

    def _lost(self) -> bool:
        """Whether the connection broke; then the next statement opens another one."""
        if self._connection is not None and not self._connection.closed:
            return False
        with suppress(psycopg.Error):
            self.close()
        return True


@contextmanager
def _asking(doing: str) -> Iterator[None]:
    """Whatever PostgreSQL refuses is StoreFailed."""
    try:
        with saying(doing):
            yield
    except (DatabaseFailed, StateMoved) as error:
        raise StoreFailed(error.message, error.hint) from None


def _not_held(error: psycopg.Error, identifier: str) -> DocumentInvalid | None:
    why = _NOT_HELD.get(error.sqlstate or "")
    if why is None:
        return None
    return DocumentInvalid(
        f"the document {shown(identifier, 120)} cannot be kept in PostgreSQL: {why}", "keep that in another form"
    )


def _sql(block: str, schema: str) -> bytes:
    return blocks("documents")[block].replace("{table}", f"{identifier(schema)}.document").encode()
