"""The sessions of one role: which there are, and an end of those that somebody left behind."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import Final

from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres.connection import connect, saying
from vibey_actions.postgres.sql import blocks

_PATIENCE: Final = 10.0


def own_sessions(dsn: str) -> set[int]:
    """The processes of the server that serve the role of ``dsn``. Raises DatabaseFailed."""
    with saying("looking at the role's sessions"), connect(dsn, purpose="sessions") as connection:
        return {int(row[0]) for row in connection.execute(blocks("sessions")["own"]).fetchall()}


def end_sessions(dsn: str, kept: Collection[int]) -> None:
    """End the sessions of the role of ``dsn`` that are not among ``kept``, and wait until they have ended.

    Raises DatabaseFailed where they do not.
    """
    deadline = time.monotonic() + _PATIENCE
    with saying("ending the role's sessions"), connect(dsn, purpose="sessions") as connection:
        while connection.execute(blocks("sessions")["end"], {"kept": list(kept)}).fetchall():
            if time.monotonic() > deadline:
                raise DatabaseFailed("the role's sessions do not end", "look at pg_stat_activity")
            time.sleep(0.02)
