"""Whether documents have changed: one number that grows with every write, at the cost of no write.

It is PostgreSQL's own count of rows written to the table. Sessions report theirs within about a second.
"""

from __future__ import annotations

from contextlib import suppress

import psycopg

from vibey_actions.errors import VibeyError
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.sql import blocks


class Changes:
    """The count of the table ``schema.document`` in the database of ``dsn``, over a connection of its own."""

    def __init__(self, dsn: str, schema: str) -> None:
        self._dsn = dsn
        self._table = f"{schema}.document"
        self._connection: psycopg.Connection | None = None

    def count(self) -> int | None:
        """The count; None where it cannot be learned now."""
        try:
            if self._connection is None:
                self._connection = connect(self._dsn, purpose="watch")
            row = self._connection.execute(blocks("changes")["count"], {"table": self._table}).fetchone()
        except (psycopg.Error, VibeyError):
            self.close()
            return None
        return int(row[0]) if row is not None and row[0] is not None else None

    def close(self) -> None:
        """Close the connection; the next count opens another."""
        if self._connection is not None:
            with suppress(psycopg.Error):
                self._connection.close()
        self._connection = None
