"""Advisory locks: one sync, and one migration, of a database at a time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import psycopg

from vibey_actions.errors import Busy
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.sql import blocks
from vibey_actions.text import visible

_POLL_SECONDS: Final = 0.1


@contextmanager
def advisory_lock(
    connection: psycopg.Connection, name: str, holder: str, wait_seconds: float, notice: Callable[[str], None]
) -> Iterator[None]:
    """Hold the session lock ``name`` inside; ``holder`` says in messages who has it otherwise.

    Waits up to ``wait_seconds``, saying so once. Raises Busy after that.
    """
    key = {"key": lock_key(name)}
    deadline = time.monotonic() + wait_seconds
    said = False
    with saying("taking the lock"):
        while connection.execute(blocks("watermark")["try_lock"], key).fetchone() != (True,):
            if time.monotonic() >= deadline:
                raise Busy(
                    f"{visible(holder)} is running and did not end within {wait_seconds:g} s", "run it again later"
                )
            if not said:
                notice(f"{visible(holder)} is running: waiting up to {wait_seconds:g} s for it to end")
                said = True
            time.sleep(_POLL_SECONDS)
    try:
        yield
    finally:
        # A connection that broke has given its locks back by itself.
        with suppress(psycopg.Error):
            connection.execute(blocks("watermark")["unlock"], key)


def lock_key(name: str) -> int:
    """The 64-bit key of ``name``; wide enough not to meet the locks of an application."""
    return int.from_bytes(hashlib.sha256(f"vibey-actions {name}".encode()).digest()[:8], "big", signed=True)
