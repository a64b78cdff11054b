"""The watermark moves from exactly what was read, or not at all; one sync of a database and remote at a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.machines import until
from vibey_actions.config import Config
from vibey_actions.errors import Busy, DatabaseFailed, StateMoved
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.migrate import migrate
from vibey_actions.postgres.watermark import Watermark, forget_base, read_base, record_base, sync_lock

REMOTE = "OWNER/NAME:vibey-state"
ONE, TWO, THREE = "1" * 40, "2" * 40, "a" * 64


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection]:
    """A connection to a database with our tables."""
    migrate(dsn, Config())
    with connect(dsn, purpose="test") as connection:
        yield connection


def test_record_read_move_and_forget(session: psycopg.Connection) -> None:
    """Each remote has its own commit, of 40 or 64 digits; forgetting gives back what was there."""
    assert read_base(session, REMOTE) == Watermark(None)
    record_base(session, REMOTE, ONE, expected=None)
    record_base(session, "other", TWO, expected=None)
    record_base(session, REMOTE, THREE, expected=ONE)
    assert read_base(session, REMOTE) == Watermark(THREE)
    assert forget_base(session, REMOTE) == THREE
    assert forget_base(session, REMOTE) is None
    assert read_base(session, "other") == Watermark(TWO)


@pytest.mark.parametrize(("there", "expected"), [(None, ONE), (ONE, None), (ONE, TWO), (TWO, ONE)])
def test_it_moves_only_from_what_was_read(session: psycopg.Connection, there: str | None, expected: str | None) -> None:
    """Recorded meanwhile, forgotten meanwhile or moved meanwhile: the state moved, and what is there stays."""
    if there is not None:
        record_base(session, REMOTE, there, expected=None)
    with pytest.raises(StateMoved, match="OWNER/NAME:vibey-state"):
        record_base(session, REMOTE, THREE, expected=expected)
    assert read_base(session, REMOTE).commit == there


def test_the_same_commit_writes_nothing(session: psycopg.Connection) -> None:
    """A sync with nothing to do leaves the row and its time as they were, but notices a stranger's move."""
    record_base(session, REMOTE, ONE, expected=None)
    before = session.execute("SELECT xmin, synced_at FROM public.state_sync").fetchone()
    record_base(session, REMOTE, ONE, expected=ONE)
    assert session.execute("SELECT xmin, synced_at FROM public.state_sync").fetchone() == before
    with pytest.raises(StateMoved):
        record_base(session, REMOTE, TWO, expected=TWO)


def test_of_two_that_record_at_once_one_wins(session: psycopg.Connection, dsn: str) -> None:
    """The one that waited for the other's transaction finds that the commit it read is no longer there."""
    record_base(session, REMOTE, ONE, expected=None)
    with connect(dsn, purpose="test") as other:
        caught: list[BaseException] = []

        def late() -> None:
            try:
                record_base(other, REMOTE, THREE, expected=ONE)
            except StateMoved as error:
                caught.append(error)

        with session.transaction():
            record_base(session, REMOTE, TWO, expected=ONE)
            thread = threading.Thread(target=late)
            thread.start()
            time.sleep(0.2)
        thread.join(120)
    assert len(caught) == 1
    assert read_base(session, REMOTE).commit == TWO


@pytest.mark.parametrize("commit", ["", "1" * 39, "1" * 41, "A" * 40, "g" * 40, "1" * 40 + "\n", "HEAD"])
def test_only_a_commit_is_recorded_or_read(session: psycopg.Connection, commit: str) -> None:
    """40 or 64 lower-case hexadecimal digits; anything else found there is refused with the way out."""
    with pytest.raises(DatabaseFailed, match="is no commit"):
        record_base(session, REMOTE, commit, expected=None)
    session.execute("INSERT INTO public.state_sync VALUES (%s, %s)", [REMOTE, commit])
    with pytest.raises(DatabaseFailed, match="is no commit") as caught:
        read_base(session, REMOTE)
    assert "state forget" in caught.value.hint
    assert forget_base(session, REMOTE) == commit


def test_without_the_table_reading_says_so_and_writing_is_refused(dsn: str) -> None:
    """A read tells no table from no row; a write says to migrate."""
    with connect(dsn, purpose="test") as session:
        assert read_base(session, REMOTE) == Watermark(None, table=False)
        with pytest.raises(DatabaseFailed, match="no table state_sync") as caught:
            record_base(session, REMOTE, ONE, expected=None)
        assert "vibey-actions migrate" in caught.value.hint
        with pytest.raises(DatabaseFailed, match="no table state_sync"):
            forget_base(session, REMOTE)


def test_a_second_sync_waits_and_then_runs(dsn: str) -> None:
    """The wait is said once, and ends as soon as the first sync does."""
    said: list[str] = []
    entered = threading.Event()
    with connect(dsn, purpose="one") as one, connect(dsn, purpose="two") as two:

        def second() -> None:
            with sync_lock(two, REMOTE, 120, said.append):
                entered.set()

        with sync_lock(one, REMOTE, 0, said.append):
            thread = threading.Thread(target=second)
            thread.start()
            until(lambda: bool(said))
            assert not entered.is_set()
        thread.join(120)
        assert entered.is_set()
    assert len(said) == 1
    assert REMOTE in said[0]


def test_a_second_sync_steps_aside_in_time(dsn: str) -> None:
    """Busy after the wait; another remote is another lock; an error or a cut connection gives the lock back."""
    with connect(dsn, purpose="one") as one, connect(dsn, purpose="two") as two:
        with (
            sync_lock(one, REMOTE, 0, print),
            sync_lock(two, "another", 0, print),
            pytest.raises(Busy, match="did not end within 0 s"),
            sync_lock(two, REMOTE, 0, print),
        ):
            pass
        with pytest.raises(ZeroDivisionError), sync_lock(one, REMOTE, 0, print):
            _ = 1 / 0
        with sync_lock(two, REMOTE, 0, print):
            two.close()
        with sync_lock(one, REMOTE, 120, print):
            pass
