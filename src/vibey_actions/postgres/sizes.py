"""Rows that are too large to be carried: found, and refused by table, key and column (field case: huge cells).

PostgreSQL prints no row of 1 GB or more, so that pg_dump could not read it either.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from vibey_actions.errors import RowRefused
from vibey_actions.postgres.connection import describe, saying
from vibey_actions.postgres.expressions import bare_type, key_text, table_source
from vibey_actions.postgres.sql import identifier
from vibey_actions.postgres.tables import Column, PgTable

_MEASURED = frozenset({"text", "character varying", "character", "bpchar", "bytea"})
# What the server says of a string or a message beyond 1 GB.
_LIMITS = (psycopg.errors.ProgramLimitExceeded, psycopg.errors.InternalError_, psycopg.errors.OutOfMemory)


@contextmanager
def refusing_what_is_too_large(connection: psycopg.Connection, table: PgTable) -> Iterator[None]:
    """Turn PostgreSQL's refusal to print a row into RowRefused for the table's largest; it ends the transaction."""
    try:
        yield
    except _LIMITS as error:
        why = describe(error)
        with saying(f"looking for the largest row of {table.name}"):
            connection.execute("ROLLBACK")
            largest = _largest(connection, table)
        if largest is None:
            raise
        key, column, size = largest
        raise too_large(table, key, f"{column} holds {size} bytes, and PostgreSQL says: {why}") from None


def too_large(table: PgTable, key: str, why: str) -> RowRefused:
    """The refusal of one row."""
    return RowRefused(
        f"table {table.name}, row {key}: the row is too large to be carried: {why}",
        f'keep such content outside of the database, or exclude the table: [state] exclude = ["{table.name}"]; '
        "nothing was written",
    )


def _largest(connection: psycopg.Connection, table: PgTable) -> tuple[str, str, int] | None:
    sizes = ", ".join(f"({_literal(column.name)}, {_size(column)})" for column in table.carried)
    row = connection.execute(
        f"SELECT {key_text(table, 'r')}, s.name, s.size FROM {table_source(table, 'r')}"
        f" CROSS JOIN LATERAL (VALUES {sizes}) AS s (name, size) ORDER BY s.size DESC NULLS LAST LIMIT 1".encode()
    ).fetchone()
    return row and (str(row[0]), str(row[1]), int(row[2] or 0))


def _size(column: Column) -> str:
    """The size of a value as far as it can be told without unpacking it."""
    measure = "octet_length" if bare_type(column) in _MEASURED else "pg_column_size"
    return f"{measure}(r.{identifier(column.name)})"


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
