"""Syncs at the same time: of one database, of several, under writers, and beside a migration."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import psycopg
import pytest

from tests.faults.cases import CHANGES_HERE, CHANGES_THERE, ROWS
from tests.support import forked
from tests.support.machines import Branch, Machine, until
from vibey_actions.errors import GaveUp

Machines = Callable[..., Machine]

SECONDS = float(os.environ.get("VIBEY_TEST_RACE_SECONDS", "6"))


def test_many_syncs_of_one_database_do_their_work_once(machines: Machines, branch: Branch) -> None:
    """Five processes sync one database at once: all end well, one of them pushes, and nothing is left to do."""
    machine = machines(branch, "a", rows=ROWS)
    machine.sync()
    machine.execute(CHANGES_HERE)
    children = [forked.start(lambda: machine.sync().pushed) for _ in range(5)]
    ended = [child.join() for child in children]
    assert [one.message for one in ended if not one.ok] == []
    assert sum(one.value for one in ended) == 1
    assert machine.base == branch.head
    assert not machine.sync().to_push


def test_databases_that_push_at_once_all_arrive(machines: Machines, branch: Branch) -> None:
    """Four databases that each changed something push at the same moment: every change is on the branch."""
    every = [machines(branch, name) for name in "abcd"]
    every[0].execute(ROWS)
    for machine in every:
        machine.sync()
    for number, machine in enumerate(every):
        machine.execute(f"INSERT INTO audit VALUES ('machine {number}', 1, '{{}}')")
        machine.env["VIBEY_STATE_ATTEMPTS"] = "50"
    children = [forked.start(machine.sync) for machine in every]
    assert [one.message for one in (child.join() for child in children) if not one.ok] == []
    for machine in every:
        machine.sync()
    assert all(machine.rows() == every[0].rows() for machine in every)
    assert every[0].execute("SELECT count(*) FROM audit WHERE stream LIKE 'machine%'") == [(4,)]


def test_two_first_pushes_race(machines: Machines, branch: Branch) -> None:
    """Two databases create the branch at once: one creates it, the other merges into it."""
    first, second = machines(branch, "a", rows=ROWS), machines(branch, "b")
    second.execute("INSERT INTO audit VALUES ('second', 1, '{}')")
    children = [forked.start(machine.sync) for machine in (first, second)]
    assert [one.message for one in (child.join() for child in children) if not one.ok] == []
    first.sync()
    second.sync()
    assert first.rows() == second.rows()
    assert first.execute("SELECT count(*) FROM audit") == [(21,)]


def test_a_sync_waits_for_a_migration(machines: Machines, git_branch: Branch) -> None:
    """A migration that holds its tables is waited for; what it wrote is in this sync or the next."""
    first, second = machines(git_branch, "a", rows=ROWS), machines(git_branch, "b")
    first.sync()
    second.sync()
    second.execute(CHANGES_THERE)
    second.sync()
    with psycopg.connect(first.dsn) as migration:
        migration.execute("LOCK TABLE customer IN ACCESS EXCLUSIVE MODE")
        migration.execute("INSERT INTO audit VALUES ('migration', 1, '{}')")
        child = forked.start(lambda: first.sync().pushed)
        until(lambda: waiting_sessions(first) > 0)
        migration.commit()
    ended = child.join()
    assert ended.ok, ended.message
    first.sync()
    second.sync()
    assert first.rows() == second.rows()


def waiting_sessions(machine: Machine) -> int:
    """Sessions of the machine's database that wait for a lock."""
    found = machine.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    return int(str(found[0][0]))


def test_migrations_at_once_apply_each_file_once(machines: Machines, git_branch: Branch) -> None:
    """Four processes migrate one database at once: all end well and every migration is recorded once."""
    machine = machines(git_branch, "a", migrated=False)
    children = [forked.start(lambda: len(machine.operations.migrate().applied)) for _ in range(4)]
    ended = [child.join() for child in children]
    assert [one.message for one in ended if not one.ok] == []
    assert sorted(one.value for one in ended) == [0, 0, 0, 1]


SHARED_CONFIG = """
[tables.by_time]
conflict = "newest"
newest-by = "updated_at"
[tables.by_mine]
conflict = "mine"
[tables.by_theirs]
conflict = "theirs"
[tables.ledger]
append-only = true
"""
SHARED_SCHEMA = """
CREATE TABLE own (machine int, n int, value text, PRIMARY KEY (machine, n));
CREATE TABLE part (machine int, n int, k int, PRIMARY KEY (machine, n, k),
    FOREIGN KEY (machine, n) REFERENCES own ON DELETE CASCADE);
CREATE TABLE by_time (id int PRIMARY KEY, value text, updated_at timestamptz);
CREATE TABLE by_mine (id int PRIMARY KEY, value text);
CREATE TABLE by_theirs (id int PRIMARY KEY, value text);
CREATE TABLE ledger (machine int, seq int, body text, PRIMARY KEY (machine, seq));
"""


def write(machine: Machine, number: int, stop: Path) -> tuple[set[int], int]:
    """Write until ``stop`` exists; returns the own rows that are to be there and how many ledger rows were written."""
    chance = random.Random(number)  # noqa: S311 - a repeatable sequence
    own: set[int] = set()
    seq = n = 0
    with psycopg.connect(machine.dsn, autocommit=True) as connection:
        while not stop.exists():
            n += 1
            with connection.transaction():
                connection.execute("INSERT INTO own VALUES (%s, %s, 'new')", (number, n))
                connection.execute("INSERT INTO part VALUES (%s, %s, 1)", (number, n))
            own.add(n)
            seq += 1
            connection.execute("INSERT INTO ledger VALUES (%s, %s, 'entry')", (number, seq))
            connection.execute("UPDATE own SET value = %s WHERE machine = %s AND n = %s", (f"{n}", number, n // 2))
            if n % 3 == 0:
                gone = chance.choice(sorted(own))
                connection.execute("DELETE FROM own WHERE machine = %s AND n = %s", (number, gone))
                own.discard(gone)
            shared = chance.randrange(5)
            connection.execute(
                "INSERT INTO by_time VALUES (%s, %s, clock_timestamp()) ON CONFLICT (id) DO UPDATE"
                " SET value = excluded.value, updated_at = excluded.updated_at",
                (shared, f"{number} {n}"),
            )
            for table in ("by_mine", "by_theirs"):
                connection.execute(f"DELETE FROM {table} WHERE id = %s".encode(), (shared + 1,))
                connection.execute(
                    f"INSERT INTO {table} VALUES (%s, %s)"
                    " ON CONFLICT (id) DO UPDATE SET value = excluded.value".encode(),
                    (shared, f"{number} {n}"),
                )
            time.sleep(0.03)
    return own, seq


def sync_on(machine: Machine, stop: Path) -> int:
    """Sync until ``stop`` exists; giving up is allowed, nothing else. Returns the number of good syncs, and leaves a
    note beside ``stop`` that there was one."""
    good = 0
    while not stop.exists():
        try:
            machine.sync()
            good += 1
            stop.with_name("synced").touch()
        except GaveUp:
            time.sleep(random.uniform(0, 0.2))  # noqa: S311 - spreads the machines
    return good


def level(every: list[Machine]) -> None:
    """Sync one after the other until nobody has anything to do."""
    for _ in range(5):
        reports = [machine.sync() for machine in every]
        if not any(report.to_pull or report.to_push for report in reports):
            return
    pytest.fail("the machines do not come to rest")


def test_machines_that_never_rest_lose_nothing(machines: Machines, branch: Branch, tmp_path: Path) -> None:
    """Six machines (three at GitHub) sync one branch in a loop while all write; then all are equal and complete."""
    count = 6 if "VIBEY_STATE_REMOTE" in branch.settings else 3
    every = [machines(branch, f"m{number}", config=SHARED_CONFIG) for number in range(count)]
    for machine in every:
        machine.execute(SHARED_SCHEMA)
    for machine in every:
        machine.sync()
    stop = tmp_path / "stop"
    writers = [forked.start(partial(write, machine, number, stop)) for number, machine in enumerate(every)]
    syncs = [forked.start(partial(sync_on, machine, stop)) for machine in every]
    time.sleep(SECONDS)
    until(stop.with_name("synced").exists)
    stop.touch()
    written, synced = [child.join() for child in writers], [child.join() for child in syncs]
    assert [one.message for one in written + synced if not one.ok] == []
    assert sum(one.value for one in synced) > 0
    level(every)
    rows = every[0].rows()
    for machine in every:
        assert machine.rows() == rows
    for number, one in enumerate(written):
        own, seq = one.value
        there = every[-1].execute(f"SELECT n FROM own WHERE machine = {number}")
        assert {n for (n,) in there} == own
        assert every[-1].execute(f"SELECT count(*), max(seq) FROM ledger WHERE machine = {number}") == [(seq, seq)]
    assert every[0].execute("SELECT count(*) FROM own") == every[0].execute("SELECT count(*) FROM part")
