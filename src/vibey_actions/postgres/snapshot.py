"""One view of the whole database: what changed since the last sync, and those rows as canonical text.

Everything is read in one REPEATABLE READ, READ ONLY transaction.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import psycopg

from vibey_actions.errors import DatabaseFailed, RowRefused
from vibey_actions.postgres.agreement import TableAgreement, shape_of
from vibey_actions.postgres.chunks import EMPTY, Within, chunk_states
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.expressions import key_text, row_json, row_source
from vibey_actions.postgres.faithful import refuse_unfaithful
from vibey_actions.postgres.sizes import refusing_what_is_too_large, too_large
from vibey_actions.postgres.sql import bound
from vibey_actions.postgres.tables import Catalog, PgTable
from vibey_actions.rows.canonical import NotJson, decode, encode
from vibey_actions.rows.canonical import key_text as key_text_of
from vibey_actions.state.bounds import EVERYTHING, KeyRange, chunk_ranges
from vibey_actions.state.declaration import Declaration
from vibey_actions.state.document import key_of, keys_of
from vibey_actions.state.merge import Merge

_READ_AT_ONCE = 256 * 1024
MAX_ROW_TEXT = 512 * 1024 * 1024
"""The longest canonical text of a row, in bytes; to read one takes several times its memory at every end."""


@dataclass(slots=True)
class _Compared:
    """A table's chunks now, at the bounds of its agreement, and which of them are not as agreed."""

    agreed: TableAgreement
    states: list[bytes]
    changed: list[int] = field(default_factory=list)


class Snapshot:
    """A database as of one moment: ``connection`` is in the caller's REPEATABLE READ, READ ONLY transaction."""

    def __init__(
        self,
        connection: psycopg.Connection,
        catalog: Catalog,
        schema: list[str],
        agreements: Mapping[str, TableAgreement],
    ) -> None:
        self._connection = connection
        self.catalog = catalog
        self.schema = schema
        # A table that agreed and is no longer synced has to be looked for on the branch.
        self._same_tables = set(agreements) == set(catalog.tables)
        self._compared: dict[str, _Compared] = {}
        for name, agreed in agreements.items():
            table = catalog.tables.get(name)
            if table is not None and agreed.shape == shape_of(connection, table, schema):
                self._compared[name] = self._compare(table, agreed)

    def _compare(self, table: PgTable, agreed: TableAgreement) -> _Compared:
        states = chunk_states(self._connection, table, agreed.salt, agreed.bounds)
        changed = [chunk for chunk, state in enumerate(agreed.states) if state is None or bytes(state) != states[chunk]]
        return _Compared(agreed, states, changed)

    @property
    def as_agreed(self) -> bool:
        """Whether every table is known to be as it was at the last sync."""
        return self._same_tables and all(self.table_as_agreed(name) for name in self.catalog.tables)

    def table_as_agreed(self, name: str) -> bool:
        compared = self._compared.get(name)
        return compared is not None and not compared.changed

    @property
    def declaration(self) -> Declaration:
        return self.catalog.declaration

    def agreements(self, merge: Merge) -> dict[str, TableAgreement]:
        """Every table as this view holds it, to be recorded; one that is as it was agreed comes back unchanged."""
        return {name: self.agreement(name, merge.bounds[name]) for name in self.catalog.tables}

    def is_empty(self) -> bool:
        """Whether no synced table has a row."""
        if not self.catalog.tables:
            return True
        probes = " OR ".join(f"EXISTS (SELECT FROM {table.sql})" for table in self.catalog.tables.values())
        with saying("looking whether the database is empty"):
            row = self._connection.execute(f"SELECT {probes}".encode()).fetchone()
        return row is not None and not row[0]

    def counts(self) -> dict[str, int]:
        """How many rows each table has."""
        with saying("counting the rows"):
            found = [
                (name, self._connection.execute(f"SELECT count(*) FROM {table.sql}".encode()).fetchone())
                for name, table in sorted(self.catalog.tables.items())
            ]
        return {name: int(row[0]) if row else 0 for name, row in found}

    def view(self, name: str) -> PgTableView:
        """The rows of one table that the merge has to compare."""
        table = self.catalog.tables[name]
        compared = self._compared.get(name)
        if compared is None:
            return PgTableView(self._connection, table, (), [EVERYTHING], None)
        bounds, changed = compared.agreed.bounds, compared.changed
        within = Within(bounds, changed) if changed else None
        return PgTableView(self._connection, table, bounds, chunk_ranges(bounds, changed), within)

    def agreement(self, name: str, bounds: Sequence[bytes]) -> TableAgreement:
        """The table in this view, cut at ``bounds``, as an agreement to record."""
        table = self.catalog.tables[name]
        compared = self._compared.get(name)
        if compared is None:
            salt = os.urandom(16)
            states = chunk_states(self._connection, table, salt, bounds)
            return TableAgreement(shape_of(self._connection, table, self.schema), salt, bounds, states)
        agreed = compared.agreed
        if not compared.changed and list(bounds) == list(agreed.bounds):
            return agreed
        if list(bounds) == list(agreed.bounds):
            return TableAgreement(agreed.shape, agreed.salt, bounds, compared.states)
        return TableAgreement(agreed.shape, agreed.salt, bounds, self._states_at(table, compared, bounds))

    def _states_at(self, table: PgTable, compared: _Compared, bounds: Sequence[bytes]) -> list[bytes]:
        """States at new bounds: chunks that are cut as before keep theirs, only the rest is computed."""
        old = compared.agreed.bounds
        known = dict(zip(_edges(old), compared.states, strict=True))
        edges = _edges(bounds)
        missing = [chunk for chunk, edge in enumerate(edges) if edge not in known]
        computed = (
            chunk_states(self._connection, table, compared.agreed.salt, bounds, Within(bounds, missing))
            if missing
            else [EMPTY] * len(edges)
        )
        return [known.get(edge, computed[chunk]) for chunk, edge in enumerate(edges)]


def _edges(bounds: Sequence[bytes]) -> list[tuple[bytes, bytes | None]]:
    return list(zip([b"", *bounds], [*bounds, None], strict=True))


@dataclass(frozen=True, slots=True)
class PgTableView:
    """See `merge.TableView`."""

    connection: psycopg.Connection
    table: PgTable
    bounds: Sequence[bytes]
    ranges: Sequence[KeyRange]
    within: Within | None

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Key and canonical text of the rows in the ranges, in key order. Raises RowRefused."""
        refuse_unfaithful(self.connection, self.table, self.within)
        last = b""
        for key, row in canonical_rows(self.table, self._lines()):
            if key <= last:
                raise DatabaseFailed(
                    f"reading the table {self.table.name} failed: the keys did not come in order at {key.decode()}",
                    "this is a defect of vibey-actions: please report the type of the table's key columns",
                )
            last = key
            yield key, row

    def _lines(self) -> Iterator[bytes]:
        key = key_text(self.table, "r")
        where = f" WHERE {self.within.condition(key)}" if self.within else ""
        query = (
            f"COPY (SELECT {row_json(self.table, 'r')} FROM {row_source(self.table, 'r')}{where} ORDER BY {key})"
            " TO STDOUT"
        )
        with (
            saying(f"reading the rows of {self.table.name}"),
            refusing_what_is_too_large(self.connection, self.table),
            self.connection.cursor() as cursor,
        ):
            # Without values copy() takes a statement as it stands, a doubled % too.
            statement = bound(query) if self.within else query.encode()
            with cursor.copy(statement, self.within.parameters() if self.within else None) as copy:
                for line in copy:
                    yield bytes(line)


def canonical_rows(table: PgTable, lines: Iterator[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Key and canonical text of each line of COPY output that holds a row as JSON."""
    find_key = _key_of(table)
    for texts in _grouped(lines):
        _refuse_huge(table, texts[0])
        try:
            for row in decode(b"[" + b",".join(texts) + b"]"):
                key, text = find_key(row), encode(row)
                if len(text) > MAX_ROW_TEXT:
                    raise too_large(table, key.decode(), f"its text has {len(text)} bytes, more than {MAX_ROW_TEXT}")
                yield key, text
        except NotJson as error:
            raise RowRefused(f"table {table.name}: a row cannot be carried: {error}") from None


def _refuse_huge(table: PgTable, text: bytes) -> None:
    """Refuse a row that is too large as PostgreSQL prints it, before it takes several times its memory."""
    if len(text) > MAX_ROW_TEXT:
        key = keys_of(text, table.table.key, dict(table.table.folds))[0]
        raise too_large(table, key.decode("utf-8"), f"its text has {len(text)} bytes or more, more than {MAX_ROW_TEXT}")


def _key_of(table: PgTable) -> Callable[[Mapping[str, Any]], bytes]:
    key, folds = table.table.key, dict(table.table.folds)
    if not folds:
        return lambda row: key_text_of(row, key)
    return lambda row: key_of(row, key, folds)


def _grouped(lines: Iterator[bytes]) -> Iterator[list[bytes]]:
    group: list[bytes] = []
    size = 0
    for line in lines:
        text = line[:-1]
        if b"\\" in text:
            text = text.replace(b"\\\\", b"\\")
        group.append(text)
        size += len(text)
        if size >= _READ_AT_ONCE:
            yield group
            group, size = [], 0
    if group:
        yield group
