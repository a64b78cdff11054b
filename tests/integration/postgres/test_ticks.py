"""The record of ticks: what ran, what it found, and that it is nobody else's."""

from __future__ import annotations

import psycopg
import pytest

from vibey_actions.postgres import ticks
from vibey_actions.postgres.ticks import TickTable


def test_a_tick_is_there_from_its_beginning(dsn: str) -> None:
    """What was due stands before anything is done, so a tick that was cut off is seen; its end says what it did."""
    table = TickTable(dsn)
    assert table.last() is None
    number = table.began("job", "3 ready")
    begun = table.last()
    assert begun is not None
    assert (begun.machine, begun.due, begun.ended_ms, begun.did) == ("job", "3 ready", None, None)
    table.ended(number, "3 done")
    ended = table.last("job")
    assert ended is not None
    assert (ended.did, ended.ended_ms is not None and ended.ended_ms >= ended.began_ms) == ("3 done", True)


def test_the_last_tick_of_each_machine(dsn: str) -> None:
    """Another machine's later tick hides nothing."""
    table = TickTable(dsn)
    table.began("job", "a")
    table.began("daily", "b")
    assert [found and found.due for found in (table.last("job"), table.last("daily"), table.last())] == ["a", "b", "b"]
    assert table.last("other") is None


def test_only_the_newest_ticks_are_kept(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick every five minutes does not grow without end, and one machine's ticks take none of another's."""
    table = TickTable(dsn)
    table.began("daily", "kept")
    monkeypatch.setattr(ticks, "KEPT", 2)
    for number in range(4):
        table.began("job", str(number))
    with psycopg.connect(dsn) as connection:
        due = connection.execute("SELECT due FROM vibey_actions.tick ORDER BY number").fetchall()
    assert due == [("kept",), ("2",), ("3",)]
