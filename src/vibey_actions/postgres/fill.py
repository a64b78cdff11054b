"""The fill: a whole document streams into an empty database, in one transaction.

Used where the database holds no rows and the state is large; there is nothing to merge and nobody to wait. The tables
are locked against readers too while their indexes are put off, and only if that lock is to be had at once.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import psycopg
from psycopg.copy import LibpqWriter

from vibey_actions.errors import StateMoved, VibeyError
from vibey_actions.postgres.agreement import TableAgreement, shape_of
from vibey_actions.postgres.apply import LOCK_TIMEOUT
from vibey_actions.postgres.bulkload import (
    Deferred,
    can_load_in_any_order,
    comes_back_whole,
    tables_with_insert_triggers,
)
from vibey_actions.postgres.chunks import chunk_states, rows_in
from vibey_actions.postgres.connection import own_search_path, saying
from vibey_actions.postgres.copyrows import lines_of
from vibey_actions.postgres.counters import advance_counter, advance_sequence
from vibey_actions.postgres.expressions import bare_type, target
from vibey_actions.postgres.snapshot import PgTableView
from vibey_actions.postgres.sql import identifier, identifiers
from vibey_actions.postgres.tables import Carriage, Catalog, Column, PgTable
from vibey_actions.postgres.triggers import Silenced, rewritten_load
from vibey_actions.rows.canonical import decode, encode
from vibey_actions.state.bounds import EVERYTHING, BoundsBuilder
from vibey_actions.state.declaration import undeclared
from vibey_actions.state.document import DocumentReader, keys
from vibey_actions.state.merge import check_carried, check_columns
from vibey_actions.state.progress import Progress
from vibey_actions.state.scanner import Batch

_SORT_MEMORY = "256MB"
_AHEAD = 4 * 1024 * 1024  # bytes of rows made ready while PostgreSQL takes in those before


def can_fill(connection: psycopg.Connection, catalog: Catalog) -> bool:
    """Whether every table's rows can be copied straight in, and nobody is reading or writing there now.

    What is dropped for that is dropped and restored once for trial, and taken back.
    """
    tables = list(catalog.tables.values())
    if any(not _copies_straight(column) for table in tables for column in table.carried):
        return False
    if not can_load_in_any_order(connection, tables):
        return False
    doing = saying("looking whether the empty database is in use")
    with doing, suppress(psycopg.errors.LockNotAvailable, VibeyError), connection.transaction(force_rollback=True):
        _lock(connection, tables)
        return comes_back_whole(connection, tables)
    return False


def _copies_straight(column: Column) -> bool:
    # A json column keeps its text, which has to be what jsonb prints: only a cast in PostgreSQL writes that.
    return column.carriage is Carriage.TEXT or bare_type(column) == "jsonb"


def fill(
    connection: psycopg.Connection,
    catalog: Catalog,
    document: DocumentReader,
    schema: list[str],
    progress: Progress,
) -> tuple[dict[str, int], dict[str, TableAgreement]]:
    """Write the document's rows in the caller's transaction; returns rows and agreements by table.

    Raises StateMoved where a table has rows or is in use by now, TableRefused, SchemaMismatch or Unreadable for a
    document that does not fit, RowRefused where a trigger rewrote a row, DatabaseFailed for what PostgreSQL refuses.
    """
    tables = list(catalog.tables.values())
    try:
        _lock(connection, tables)
    except psycopg.errors.LockNotAvailable:
        raise StateMoved("a table of the empty database is in use by now", "nothing was written") from None
    _check_empty(connection, tables)
    with saying("setting the memory for indexes"):
        connection.execute(f"SET LOCAL maintenance_work_mem = '{_SORT_MEMORY}'".encode())
    silenced = Silenced.turn_off(connection, tables)
    rewriting = tables_with_insert_triggers(connection, tables)
    deferred = Deferred.drop(connection, tables, keep_unique=bool(rewriting))
    with own_search_path(connection):
        loads = _copy(connection, catalog, document, progress, rewriting)
        # First, because a table whose triggers have yet to fire takes neither index nor constraint.
        with saying("checking the constraints that were put off"):
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        progress.step("building indexes and checking foreign keys")
        deferred.restore(connection)
    silenced.restore(connection)
    progress.step("taking note of what was filled")
    agreements = {table.name: _agreement(connection, table, schema, loads.get(table.name)) for table in tables}
    for table in tables:
        load = loads.get(table.name) or _Load(table, frozenset())
        _after_load(connection, table, load, agreements[table.name])
    return {name: load.rows for name, load in loads.items()}, agreements


def _lock(connection: psycopg.Connection, tables: list[PgTable]) -> None:
    connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'".encode())
    for table in sorted(tables, key=lambda table: table.name):
        connection.execute(f"LOCK TABLE {table.sql} IN ACCESS EXCLUSIVE MODE NOWAIT".encode())


def _check_empty(connection: psycopg.Connection, tables: list[PgTable]) -> None:
    for table in tables:
        with saying(f"looking whether {table.name} is empty"):
            if connection.execute(f"SELECT EXISTS (SELECT FROM {table.sql})".encode()).fetchone() != (False,):
                raise StateMoved(f"table {table.name} has rows by now", "nothing was written")


def _copy(
    connection: psycopg.Connection,
    catalog: Catalog,
    document: DocumentReader,
    progress: Progress,
    rewriting: frozenset[str],
) -> dict[str, _Load]:
    loads: dict[str, _Load] = {}
    total = 0
    for name, batches in document.tables():
        table = catalog.tables.get(name)
        if table is None:
            raise undeclared(name)
        check_carried(table.table, document)
        load = loads[name] = _Load(table, rewriting)
        names = identifiers([column.name for column in table.carried])
        with (
            saying(f"copying rows into {name}"),
            connection.cursor() as cursor,
            cursor.copy(
                f"COPY {table.sql} ({names}) FROM STDIN".encode(), writer=LibpqWriter(cursor, flush_threshold=_AHEAD)
            ) as copy,
        ):
            for batch in batches:
                copy.write(load.lines(batch))
                progress.advance(total + load.rows, None)
        total += load.rows
    return loads


class _Load:
    """One table's rows on their way in: COPY lines, the chunk bounds, and digests where a trigger may rewrite rows.

    ``rewriting`` are the tables that have such triggers: any of them may write to any table, and to its own by column.
    """

    def __init__(self, table: PgTable, rewriting: frozenset[str]) -> None:
        self.table = table
        self.rows = 0
        self.bounds = BoundsBuilder((), [EVERYTHING])
        self.digests = _Digests(table, by_column=table.name in rewriting) if rewriting else None
        self._lines = lines_of(table.name, table.carried)

    def lines(self, batch: Batch) -> bytes:
        """The batch as COPY input."""
        rows: list[dict[str, Any]] = batch.values if batch.values is not None else decode(b"[" + batch.text + b"]")
        for columns in [batch.columns] if batch.columns is not None else map(tuple, rows):
            check_columns(self.table.table, columns)
        self.rows += len(rows)
        self.bounds.rows(keys(batch, self.table.table.key), len(batch.text))
        if self.digests is not None:
            self.digests.add(rows)
        return ("\n".join(self._lines(rows)) + "\n").encode()


class _Digests:
    """What rows were written, whatever their order: a digest of whole rows, or one of each column with the key."""

    def __init__(self, table: PgTable, *, by_column: bool) -> None:
        self._table = table
        self._by_column = by_column
        self.digests: dict[str, int] = {}

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        for row in rows:
            if not self._by_column:
                self._put("", encode(row))
                continue
            key = encode([row[name] for name in self._table.table.key])
            for name, value in row.items():
                self._put(name, key + encode(value))

    def _put(self, name: str, text: bytes) -> None:
        digest = int.from_bytes(hashlib.sha256(text).digest(), "big")
        self.digests[name] = self.digests.get(name, 0) ^ digest

    def differing(self, connection: psycopg.Connection) -> list[str]:
        """The columns that are not as they were written; where one digest is of whole rows, "" for any of them."""
        found = _Digests(self._table, by_column=self._by_column)
        view = PgTableView(connection, self._table, (), [EVERYTHING], None)
        found.add(decode(row) for _, row in view.rows())
        return [name for name in self.digests if self.digests[name] != found.digests.get(name)]


def _after_load(connection: psycopg.Connection, table: PgTable, load: _Load, agreed: TableAgreement) -> None:
    counted = sum(rows_in(state) for state in agreed.states)
    differing = load.digests.differing(connection) if load.digests is not None and counted == load.rows else []
    if counted != load.rows or differing:
        raise rewritten_load(connection, table, counted - load.rows, [name for name in differing if name])
    for sequence in table.sequences:
        advance_sequence(connection, sequence.sequence, f"SELECT {identifier(sequence.column)} FROM {target(table)}")
    for counter in table.counters:
        groups = identifiers(list(counter.group))
        highest = f"max({identifier(counter.column)}) + 1"
        advance_counter(connection, counter, f"SELECT {groups}, {highest} FROM {table.sql} GROUP BY {groups}")


def _agreement(connection: psycopg.Connection, table: PgTable, schema: list[str], load: _Load | None) -> TableAgreement:
    bounds = load.bounds.build() if load else []
    salt = os.urandom(16)
    return TableAgreement(
        shape_of(connection, table, schema), salt, bounds, chunk_states(connection, table, salt, bounds)
    )
