"""The record of ticks beside the documents: that one began and what it found due, and at its end what it did.

It lies in the schema vibey_actions, which is never synced. A tick without an end was cut off.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import psycopg

from vibey_actions.postgres.connection import connect, saying
from vibey_actions.postgres.locks import advisory_lock
from vibey_actions.postgres.sql import blocks

KEPT: Final = 1000
"""Ticks that are kept of each machine."""
_WAIT_SECONDS: Final = 60.0


class Tick(NamedTuple):
    """One tick; times in milliseconds since 1970, by the server's clock. ``ended_ms`` None: it never said its end."""

    machine: str
    began_ms: int
    ended_ms: int | None
    due: str
    did: str | None


class TickTable:
    """The record in the database of ``dsn``, over a connection of its own for each call: ticks are minutes apart.

    Raises what ``connect`` does, and DatabaseFailed where PostgreSQL refuses.
    """

    def __init__(self, dsn: str, notice: Callable[[str], None] = lambda _: None) -> None:
        self._dsn = dsn
        self._notice = notice

    def began(self, machine: str, due: str) -> int:
        """Note that a tick began, with what it found due; returns its number."""
        with saying("recording the tick"), connect(self._dsn, purpose="ticks", notice=self._notice) as connection:
            self._prepare(connection)
            row = connection.execute(blocks("ticks")["began"], {"machine": machine, "due": due}).fetchone()
            connection.execute(blocks("ticks")["prune"], {"machine": machine, "keep": KEPT})
        return int(row[0]) if row is not None else 0

    def ended(self, number: int, did: str) -> None:
        """Note what the tick ``number`` did."""
        with saying("recording the tick"), connect(self._dsn, purpose="ticks") as connection:
            connection.execute(blocks("ticks")["ended"], {"number": number, "did": did})

    def last(self, machine: str | None = None) -> Tick | None:
        """The newest tick of ``machine``, or of any; None where none is recorded."""
        with saying("reading the last tick"), connect(self._dsn, purpose="ticks") as connection:
            if not _exists(connection):
                return None
            row = connection.execute(blocks("ticks")["last"], {"machine": machine}).fetchone()
        return Tick(*row) if row is not None else None

    def _prepare(self, connection: psycopg.Connection) -> None:
        if _exists(connection):
            return
        with advisory_lock(connection, "ticks", "another one that makes the table", _WAIT_SECONDS, self._notice):
            if _exists(connection):
                return
            with connection.transaction():
                if connection.execute(blocks("migrate")["schema_exists"]).fetchone() != (True,):
                    connection.execute(blocks("migrate")["create_schema"])
                connection.execute(blocks("ticks")["create"])


def _exists(connection: psycopg.Connection) -> bool:
    return connection.execute(blocks("ticks")["exists"]).fetchone() == (True,)
