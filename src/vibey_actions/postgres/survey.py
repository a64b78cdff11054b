"""How many documents are in each status, counted by PostgreSQL, and those that are worth a look: past any number of
finished ones, which are neither read nor sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, NamedTuple

import psycopg

from vibey_actions.postgres.connection import connect, saying
from vibey_actions.postgres.sql import blocks, identifier

_BATCH: Final = 500


class Row(NamedTuple):
    """A document of a survey."""

    identifier: str
    revision: str
    text: str


class Survey:
    """Reads the table ``schema.document`` of the database of ``dsn``, over a connection of its own for each reading.

    Raises what ``connect`` does, and DatabaseFailed where PostgreSQL refuses.
    """

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self._table = f"{identifier(schema)}.document"

    def counts(self, db: str, field: str, kind: str) -> dict[str | None, int]:
        """The documents of a kind by status; None stands for all without one that is a text."""
        with saying("counting documents"), closing(connect(self._dsn, purpose="survey")) as connection:
            rows = connection.execute(self._sql("counts"), {"db": db, "field": field, "kind": kind}).fetchall()
        return dict(rows)

    def but(self, db: str, field: str, kind: str, quiet: Sequence[str]) -> Iterator[Row]:
        """The documents of a kind that are in none of the ``quiet`` statuses, by id."""
        values = {"db": db, "field": field, "kind": kind, "quiet": list(quiet)}
        with (
            saying("reading documents"),
            closing(connect(self._dsn, purpose="survey")) as connection,
            connection.transaction(),
            psycopg.ServerCursor(connection, "survey") as cursor,
        ):
            cursor.itersize = _BATCH
            cursor.execute(self._sql("but"), values)
            for row in cursor:
                yield Row(*row)

    def _sql(self, block: str) -> bytes:
        return blocks("survey")[block].replace("{table}", self._table).encode()
