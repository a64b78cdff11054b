"""Changes of one table in a temporary table, and the statements that carry them over set by set."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator, Set
from dataclasses import dataclass, field

import psycopg

from vibey_actions.errors import RowRefused
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.copyrows import escaped, lines_of
from vibey_actions.postgres.expressions import bare_type, key_text, row_json, row_source
from vibey_actions.postgres.snapshot import canonical_rows
from vibey_actions.postgres.sql import identifier
from vibey_actions.postgres.tables import Carriage, Column, PgTable
from vibey_actions.rows.canonical import NotJson, decode
from vibey_actions.state.merge import check_columns
from vibey_actions.state.spool import Change, Spool

_COPY_AT_ONCE = 128 * 1024

# Key types whose operator = is PostgreSQL's own and tells keys apart exactly as their canonical text does.
_EXACT_EQUALITY = frozenset(
    {"smallint", "integer", "bigint", "oid", "boolean", "uuid", "date", "text", "character varying", "bytea"}
)


@dataclass(frozen=True, slots=True)
class Stage:
    """A temporary table ``name``: number, operation (i, u, d), key, and one column c0, c1, ... per carried column.

    ``counts`` says how often each operation occurs in it.
    """

    table: PgTable
    name: str
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def operations(self) -> Set[str]:
        """Those that occur in it."""
        return self.counts.keys()

    @classmethod
    def make(cls, connection: psycopg.Connection, table: PgTable, number: int, changes: Spool) -> Stage:
        """Create it and copy the changes in. It is dropped with the transaction."""
        stage = cls(table, f"pg_temp.vibey_stage_{number}")
        columns = ", ".join(f"c{i} {_staged_type(column)}" for i, column in enumerate(table.carried))
        with saying(f"preparing the changes of {table.name}"):
            connection.execute(
                f'CREATE TEMP TABLE vibey_stage_{number} (n bigint, op "char", k text COLLATE "C", {columns})'
                " ON COMMIT DROP".encode()
            )
            with connection.cursor() as cursor, cursor.copy(f"COPY {stage.name} FROM STDIN".encode()) as copy:
                for block in stage._lines(changes):
                    copy.write(block)
            connection.execute(f"ANALYZE {stage.name}".encode())
        return stage

    def _lines(self, changes: Spool) -> Iterator[bytes]:
        lines = lines_of(self.table.name, self.table.carried)
        for first, group in _grouped(changes):
            heads = (
                f"{number}\t{operation(change)}\t{escaped(change.key.decode('ascii'))}\t"
                for number, change in enumerate(group, first)
            )
            self.counts.update(map(operation, group))
            rows = [self._row(change) for change in group]
            yield "".join(f"{head}{line}\n" for head, line in zip(heads, lines(rows), strict=True)).encode()

    def _row(self, change: Change) -> dict[str, object]:
        text = change.after if change.after is not None else change.before
        assert text is not None  # noqa: S101 - a change has at least one of the two
        try:
            row = decode(text)
        except NotJson as error:
            raise RowRefused(f"table {self.table.name}, row {change.key.decode()}: {error}") from None
        check_columns(self.table.table, tuple(row))
        return dict(row)

    def column(self, name: str) -> str:
        """The staged column of a table's column."""
        return f"c{[column.name for column in self.table.carried].index(name)}"

    def value(self, name: str, alias: str) -> str:
        """The staged value as the column's type."""
        column = self.table.column(name)
        staged = f"{alias}.{self.column(name)}"
        if column.carriage is Carriage.JSON:
            # A json column keeps its text: it is to be what jsonb prints, whoever wrote the row.
            return staged if bare_type(column) == "jsonb" else f"{staged}::text::json"
        if column.carriage is Carriage.TEXT:
            return staged
        image = f"json_build_object('v', {staged})"
        return f"(SELECT back.v FROM json_to_record({image}) AS back(v {column.type}))"

    @property
    def tells_keys_apart(self) -> bool:
        """Whether PostgreSQL takes two keys for equal exactly where the merge does."""
        columns = [self.table.column(name) for name in self.table.table.key]
        return all(bare_type(column) in _EXACT_EQUALITY and column.deterministic for column in columns)

    def match(self, row: str, staged: str) -> str:
        """The condition that a row of the table and a staged row have one key."""
        columns = [self.table.column(name) for name in self.table.table.key]
        if self.tells_keys_apart:
            pairs = (f"{row}.{identifier(c.name)} = {staged}.{self.column(c.name)}" for c in columns)
            return " AND ".join(pairs)
        return f"{key_text(self.table, row)} = {staged}.k"

    def holds(self, row: str) -> str:
        """The condition that a row of the table is staged."""
        return f"EXISTS (SELECT FROM {self.name} held WHERE {self.match(row, 'held')})"

    def current(self, connection: psycopg.Connection) -> Generator[bytes | None, None, None]:
        """For every staged change, in order, the canonical text of the row that is in the table now."""
        first_key = identifier(self.table.table.key[0])
        query = (
            f"COPY (SELECT CASE WHEN r.{first_key} IS NULL THEN 'null' ELSE {row_json(self.table, 'r')} END"
            f" FROM {self.name} s LEFT JOIN {row_source(self.table, 'r')} ON {self.match('r', 's')} ORDER BY s.n)"
            " TO STDOUT"
        )
        with (
            saying(f"reading the rows of {self.table.name} that are to change"),
            connection.cursor() as cursor,
            cursor.copy(query.encode()) as copy,
        ):
            yield from canonical_rows_or_none(self.table, (bytes(line) for line in copy))


def _grouped(changes: Spool) -> Iterator[tuple[int, list[Change]]]:
    """The changes in groups of a bounded size, each with the number of its first."""
    group: list[Change] = []
    first = size = 0
    for change in changes:
        group.append(change)
        size += len(change.before or b"") + len(change.after or b"")
        if size >= _COPY_AT_ONCE:
            yield first, group
            first, group, size = first + len(group), [], 0
    if group:
        yield first, group


def canonical_rows_or_none(table: PgTable, lines: Iterator[bytes]) -> Iterator[bytes | None]:
    """Canonical text of each line of COPY output, None for a line that holds null."""
    for line in lines:
        if line == b"null\n":
            yield None
        else:
            yield from (row for _, row in canonical_rows(table, iter([line])))


def operation(change: Change) -> str:
    """The staged operation: i(nsert), u(pdate) or d(elete)."""
    if change.before is None:
        return "i"
    return "d" if change.after is None else "u"


def _staged_type(column: Column) -> str:
    if column.carriage is Carriage.COMPOUND:
        return "json"
    if column.carriage is Carriage.JSON:
        return "jsonb"
    return f"{column.base_type} COLLATE {column.collation}" if column.collation else column.base_type
