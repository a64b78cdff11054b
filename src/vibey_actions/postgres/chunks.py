"""The state of a table's chunks, computed inside PostgreSQL: did anything change here, without moving a row.

A chunk's state is its number of rows and the XOR of SHA-256(salt + row image). Rows hold their key, so no two are
alike; the salt is random and kept with the state, so nobody can prepare rows that cancel out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg

from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.expressions import key_text, row_image, table_source
from vibey_actions.postgres.sql import bound, value
from vibey_actions.postgres.tables import PgTable

EMPTY = bytes(40)
"""The state of a chunk without rows."""


def rows_in(state: bytes | None) -> int:
    """How many rows a chunk's state counts."""
    return int.from_bytes(state[:8], "big") if state is not None else 0


def without(state: bytes, part: bytes) -> bytes:
    """The state of a chunk's rows but for some of them, whose state is ``part``."""
    rest = int.from_bytes(state[8:], "big") ^ int.from_bytes(part[8:], "big")
    return (rows_in(state) - rows_in(part)).to_bytes(8, "big") + rest.to_bytes(32, "big")


@dataclass(frozen=True, slots=True)
class Within:
    """Only the rows of some ``chunks``, cut at ``bounds``."""

    bounds: Sequence[bytes]
    chunks: Sequence[int]

    def condition(self, key: str) -> str:
        return f"width_bucket({key}, {value('within_bounds')}::text[]) = ANY({value('within_chunks')})"

    def parameters(self) -> dict[str, object]:
        return {"within_bounds": texts(self.bounds), "within_chunks": list(self.chunks)}


def texts(bounds: Sequence[bytes]) -> list[str]:
    """Bounds as PostgreSQL takes them."""
    return [key.decode("ascii") for key in bounds]


@contextmanager
def _hashing(connection: psycopg.Connection) -> Iterator[None]:
    """Keep the planner from sorting whole rows into groups, as it would where a table has no statistics yet."""
    connection.execute("SET LOCAL enable_sort TO off")
    yield
    connection.execute("SET LOCAL enable_sort TO on")


def chunk_states(
    connection: psycopg.Connection,
    table: PgTable,
    salt: bytes,
    bounds: Sequence[bytes],
    within: Within | None = None,
    *,
    rows: str = "true",
) -> list[bytes]:
    """The state of every chunk, in order, over the rows (``r``) that the condition ``rows`` takes.

    With ``within``, chunks that hold none of its rows come out as EMPTY.
    """
    key = key_text(table, "r")
    where = f" WHERE {within.condition(key) if within else 'true'} AND {rows}"
    query = (
        f"SELECT width_bucket({key}, {value('bounds')}::text[]), count(*),"
        f" bit_xor(('x' || encode(sha256({value('salt')} || {row_image(table, 'r')}), 'hex'))::bit(256))::text"
        f" FROM {table_source(table, 'r')}{where} GROUP BY 1"
    )
    parameters = {"bounds": texts(bounds), "salt": salt, **(within.parameters() if within else {})}
    states = [EMPTY] * (len(bounds) + 1)
    with saying(f"comparing the table {table.name} with the last sync"), _hashing(connection):
        for chunk, count, digest in connection.execute(bound(query), parameters):
            states[chunk] = count.to_bytes(8, "big") + int(digest, 2).to_bytes(32, "big")
    return states
