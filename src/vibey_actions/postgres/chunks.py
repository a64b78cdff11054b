"""The state of a table's chunks, computed inside PostgreSQL: did anything change here, without moving a row.

A chunk's state is its number of rows and the XOR of SHA-256(salt + row image). Rows hold their key, so no two are
alike; the salt is random and kept with the state, so nobody can prepare rows that cancel out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isqrt

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
        return f"{_chunk(key, self.bounds, 'within')} = ANY({value('within_chunks')})"

    def parameters(self) -> dict[str, object]:
        return {**_parameters(self.bounds, "within"), "within_chunks": list(self.chunks)}


def texts(bounds: Sequence[bytes]) -> list[str]:
    """Bounds as PostgreSQL takes them."""
    return [key.decode("ascii") for key in bounds]


_FEW_BOUNDS = 256


def _groups(bounds: Sequence[bytes]) -> list[Sequence[bytes]]:
    """Bounds in groups: width_bucket steps through every element of an array of texts, so two short ones are faster."""
    size = isqrt(len(bounds)) if len(bounds) > _FEW_BOUNDS else max(len(bounds), 1)
    return [bounds[first : first + size] for first in range(0, len(bounds), size)] or [bounds]


def _chunk(key: str, bounds: Sequence[bytes], name: str) -> str:
    """The number of the chunk that the SQL expression ``key`` is in, over ``_parameters`` of the same name."""
    groups = _groups(bounds)
    places = [f"width_bucket({key}, {value(f'{name}_{number}')}::text[])" for number in range(len(groups))]
    if len(groups) == 1:
        return places[0]
    size = len(groups[0])
    cases = " ".join(f"WHEN {number} THEN {number * size} + {place}" for number, place in enumerate(places))
    return f"CASE width_bucket({key}, {value(f'{name}_groups')}::text[]) {cases} END"


def _parameters(bounds: Sequence[bytes], name: str) -> dict[str, object]:
    groups = _groups(bounds)
    found: dict[str, object] = {f"{name}_{number}": texts(group) for number, group in enumerate(groups)}
    return {**found, f"{name}_groups": texts([group[0] for group in groups[1:]])}


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
        f"SELECT {_chunk(key, bounds, 'bounds')}, count(*),"
        f" bit_xor(('x' || encode(sha256({value('salt')} || {row_image(table, 'r')}), 'hex'))::bit(256))::text"
        f" FROM {table_source(table, 'r')}{where} GROUP BY 1"
    )
    parameters = {**_parameters(bounds, "bounds"), "salt": salt, **(within.parameters() if within else {})}
    states = [EMPTY] * (len(bounds) + 1)
    with saying(f"comparing the table {table.name} with the last sync"), _hashing(connection):
        for chunk, count, digest in connection.execute(bound(query), parameters):
            states[chunk] = count.to_bytes(8, "big") + int(digest, 2).to_bytes(32, "big")
    return states
