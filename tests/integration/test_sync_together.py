"""Several syncs at once, and what their errors never show."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.ends import End, Ends
from vibey_actions.errors import Busy, DatabaseFailed, VibeyError
from vibey_actions.postgres import store
from vibey_actions.postgres.watermark import sync_lock
from vibey_actions.state.report import SyncState

TABLE = "CREATE TABLE t (id text PRIMARY KEY, v int)"


def test_two_syncs_of_one_database_take_turns(ends: Ends) -> None:
    """One waits for the other; together they push once, and neither starts again."""
    end = ends.make(TABLE)
    end.run("INSERT INTO t VALUES ('a', 1)")
    with ThreadPoolExecutor() as pool:
        reports = list(pool.map(lambda _: end.sync(), range(3)))
    assert sorted(report.pushed for report in reports) == [False, False, True]
    assert {report.attempts for report in reports} == {1}
    assert ends.commits() == 1


def test_a_sync_that_does_not_end_is_said(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the wait the second one steps aside, having written nothing."""
    end = ends.make(TABLE)
    end.sync()
    monkeypatch.setattr(store, "LOCK_WAIT", 1)
    remote = end.value("SELECT remote FROM state_sync")
    with psycopg.connect(end.dsn, autocommit=True) as other, sync_lock(other, remote, 1, lambda _: None):
        assert "another sync" in end.refused(Busy).message
    assert any("waiting" in notice for notice in end.notices)
    assert end.sync().state is SyncState.IN_SYNC


def test_databases_that_race_for_one_branch_end_equal(ends: Ends) -> None:
    """Three write and sync at the same time, each its own rows; at the end all have every row."""
    parties = [ends.make(TABLE, settings={"VIBEY_STATE_ATTEMPTS": "50"}) for _ in range(3)]

    def work(number: int) -> None:
        for turn in range(4):
            parties[number].run(f"INSERT INTO t VALUES ('{number}-{turn}', {turn})", "UPDATE t SET v = v + 0")
            parties[number].sync()

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, range(3)))
    for party in parties:
        party.sync()
    assert [party.rows("t") for party in parties] == [
        [f"({n}-{turn},{turn})" for n in range(3) for turn in range(4)]
    ] * 3


def test_a_writer_beside_the_syncs_loses_nothing(ends: Ends) -> None:
    """Rows keep changing at one end while it pulls and pushes; once it rests both ends are equal."""
    one, other = ends.make(TABLE, settings={"VIBEY_STATE_ATTEMPTS": "50"}), ends.make(TABLE)
    one.run("INSERT INTO t SELECT 'own ' || n, 0 FROM generate_series(1, 20) n")
    one.sync()
    stop = threading.Event()

    def write() -> None:
        with psycopg.connect(one.dsn, autocommit=True) as connection:
            while not stop.is_set():
                connection.execute("UPDATE t SET v = v + 1 WHERE id LIKE 'own%'")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for turn in range(4):
            other.run(f"INSERT INTO t VALUES ('other {turn}', {turn})")
            other.sync()
            one.sync()
    finally:
        stop.set()
        writer.join()
    one.sync()
    other.sync()
    assert one.rows("t") == other.rows("t")
    assert len(one.rows("t")) == 24


def said(end: End, error: VibeyError) -> str:
    """All that a user sees of an error, and of what led to it."""
    chain: list[BaseException] = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    conflicts = str(getattr(error, "conflicts", ""))
    return conflicts + error.hint + "".join(map(str, chain)) + "".join(end.notices)


BROKEN = {
    "a type that does not take it": "CREATE TABLE t (id int PRIMARY KEY, v int)",
    "a length": "CREATE TABLE t (id int PRIMARY KEY, v varchar(3))",
    "a domain": "CREATE DOMAIN d AS text CHECK (length(VALUE) < 3); CREATE TABLE t (id int PRIMARY KEY, v d)",
    "an enum": "CREATE TYPE m AS ENUM ('a'); CREATE TABLE t (id int PRIMARY KEY, v m)",
    "a unique index": "CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE); INSERT INTO t VALUES (9, 'MARKER')",
    "an expression": "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE INDEX ON t ((v::int))",
    "a relation": "CREATE TABLE t (id int PRIMARY KEY, v regclass)",
    "a trigger": "CREATE TABLE t (id int PRIMARY KEY, v text);"
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no %', NEW.v; END $$;"
    "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
    "a warning": "CREATE TABLE t (id int PRIMARY KEY, v text CHECK (v = ''));"
    "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE WARNING 'no %', NEW.v; RETURN NEW; END $$;"
    "CREATE TRIGGER f BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
}


def test_errors_never_show_a_value(ends: Ends, caplog: pytest.LogCaptureFixture) -> None:
    """Every way in which a row can fail to be written names the table and keeps the row to itself."""
    one = ends.make("CREATE TABLE t (id int PRIMARY KEY, v text)")
    one.run("INSERT INTO t VALUES (1, 'MARKER')")
    one.sync()
    for why, schema in BROKEN.items():
        other = ends.make(*schema.split(";\n"))
        with pytest.raises(VibeyError) as caught:
            other.sync()
        shown = said(other, caught.value)
        assert "MARKER" not in shown, why
        assert "t" in shown
    assert "MARKER" not in caplog.text


def test_errors_never_show_the_password(ends: Ends) -> None:
    """A login that fails and a session that is ended while it works keep the DSN's password to themselves."""
    end = ends.make(TABLE)
    end.env["VIBEY_STATE_PG_URL"] = make_conninfo(end.dsn, user="nobody_here", password="MARKER")
    with pytest.raises(DatabaseFailed) as caught:
        end.sync()
    assert "MARKER" not in said(end, caught.value) + repr(end.operations)
    secret = str(conninfo_to_dict(end.dsn).get("password", "MARKER"))
    end.env["VIBEY_STATE_PG_URL"] = make_conninfo(end.dsn, password=secret)
    end.run(
        "INSERT INTO t VALUES ('a', 1)",
        "CREATE FUNCTION f(text) RETURNS text LANGUAGE plpgsql AS"
        " 'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN $1; END'",
        "ALTER TABLE state_sync RENAME TO kept;"
        " CREATE VIEW state_sync AS SELECT remote, f(base_commit) AS base_commit, synced_at FROM kept;"
        " INSERT INTO kept VALUES ('x', repeat('a', 40))",
    )
    end.run(f"UPDATE kept SET remote = '{end.env['VIBEY_STATE_REMOTE']}:vibey-state'")
    with pytest.raises(DatabaseFailed) as caught:
        end.sync()
    assert "reading the watermark failed" in caught.value.message
    assert secret not in said(end, caught.value)
