"""The watermark: which commit this database last agreed with, per remote. It moves by compare-and-set alone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

import psycopg

from vibey_actions.errors import DatabaseFailed, StateMoved, VibeyError
from vibey_actions.names import is_commit
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.locks import advisory_lock
from vibey_actions.postgres.sql import blocks
from vibey_actions.text import visible

_DOING: Final = "reading the watermark"


@dataclass(frozen=True, slots=True)
class Watermark:
    """``commit`` is None where none is recorded; ``table`` is False where that is because state_sync is missing."""

    commit: str | None
    table: bool = True


def read_base(connection: psycopg.Connection, remote: str) -> Watermark:
    """The commit last agreed with at ``remote``. Raises DatabaseFailed where what is recorded is no commit."""
    with saying(_DOING):
        if not _exists(connection):
            return Watermark(None, table=False)
        row = connection.execute(blocks("watermark")["read"], {"remote": remote}).fetchone()
    return Watermark(None if row is None else _recorded(row[0], remote))


def is_synced(connection: psycopg.Connection) -> bool:
    """Whether the database has agreed with a branch before, whichever that is."""
    with saying(_DOING):
        return _exists(connection) and connection.execute(blocks("watermark")["any"]).fetchone() == (True,)


def record_base(connection: psycopg.Connection, remote: str, commit: str, *, expected: str | None) -> None:
    """Record ``commit``, provided that ``expected`` (None: nothing) is what is recorded now.

    Writes nothing where the two are the same. Raises StateMoved where another sync recorded a commit meanwhile,
    DatabaseFailed where the table is missing.
    """
    if not is_commit(commit):
        raise DatabaseFailed(f"{visible(commit)} is no commit (40 or 64 lower-case hexadecimal digits)")
    with saying("recording the watermark"):
        if not _exists(connection):
            raise _no_table()
        if commit == expected:
            row = connection.execute(blocks("watermark")["read"], {"remote": remote}).fetchone()
            moved = row != (commit,)
        else:
            block = "first" if expected is None else "move"
            values = {"remote": remote, "commit": commit, "expected": expected}
            moved = connection.execute(blocks("watermark")[block], values).rowcount != 1
    if moved:
        raise StateMoved(
            f"the watermark of {visible(remote)} is not the commit this sync started from: another sync ran meanwhile",
            "run it again",
        )


def check_table(connection: psycopg.Connection) -> None:
    """Raise DatabaseFailed where there is no place for a watermark: before anything is pushed that it would mark."""
    with saying(_DOING):
        if not _exists(connection):
            raise _no_table()


def forget_base(connection: psycopg.Connection, remote: str) -> str | None:
    """Drop what is recorded for ``remote``; returns it, whatever it was. Raises DatabaseFailed without the table."""
    with saying("forgetting the watermark"):
        if not _exists(connection):
            raise _no_table()
        row = connection.execute(blocks("watermark")["forget"], {"remote": remote}).fetchone()
    return None if row is None else str(row[0])


def sync_lock(
    connection: psycopg.Connection, remote: str, wait_seconds: float, notice: Callable[[str], None]
) -> AbstractContextManager[None]:
    """Hold this database's lock for syncs with ``remote``, waiting up to ``wait_seconds`` (said through ``notice``).

    The lock is the session's: it ends with the block, or with the connection. Raises Busy where another sync holds it
    for longer.
    """
    return advisory_lock(
        connection, f"sync {remote}", f"another sync of this database with {remote}", wait_seconds, notice
    )


def _exists(connection: psycopg.Connection) -> bool:
    return connection.execute(blocks("watermark")["exists"]).fetchone() == (True,)


def _recorded(value: object, remote: str) -> str:
    if is_commit(value):
        return value
    raise DatabaseFailed(
        f"the watermark of {visible(remote)} in state_sync is no commit (40 or 64 lower-case hexadecimal digits)",
        "run `vibey-actions state forget`, then sync again: the two ends are merged as at first",
    )


def _no_table() -> VibeyError:
    return DatabaseFailed(
        "this database has no table state_sync to keep its watermark in",
        "run `vibey-actions migrate`, then the same command again",
    )
