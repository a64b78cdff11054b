"""A real application's schema, made by its own command: procrastinate, with its enums, triggers and serial keys."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.conftest import PROGRAMS, Machine

PROGRAM = Path(__file__).parents[1] / "data" / "procrastinate"
TABLES = ("procrastinate_jobs", "procrastinate_events", "procrastinate_periodic_defers", "procrastinate_workers")
# A trigger on jobs writes their events: those of the branch come by themselves.
QUIET = '[tables.procrastinate_jobs]\ntriggers = "off"\n'
CONFIG = '[state]\nexclude = ["procrastinate_events", "procrastinate_workers"]\n'


class Bakery(Machine):
    """A machine that runs the program on a database of its own, and syncs that."""

    dsn = ""

    def work(self, *arguments: str) -> None:
        """Run the program."""
        done = self.start([sys.executable, str(PROGRAM / "bakery.py"), *arguments])
        assert done.returncode == 0, done.stderr

    def rows(self, table: str) -> list[str]:
        """Every row of a table as text."""
        with psycopg.connect(self.dsn) as connection:
            found = connection.execute(f"SELECT t::text FROM {table} t ORDER BY id".encode()).fetchall()
        return [row[0] for row in found]

    def everything(self) -> dict[str, list[str]]:
        """Every row of every table."""
        return {table: self.rows(table) for table in TABLES}

    def configure(self, text: str) -> None:
        """Write the configuration file."""
        (self.folder / ".github").mkdir()
        (self.folder / ".github" / "vibey-state.toml").write_text(text, "utf-8")

    def sync(self) -> None:
        """One sync."""
        self.run("state", "sync")


@pytest.fixture
def bakeries(database: Callable[[], str], tmp_path: Path, bare_repository: Path, key: str) -> list[Bakery]:
    """Two databases with procrastinate's schema, applied by its own command; no profile."""
    made = []
    for name in ("here", "there"):
        dsn = database()
        env = {
            "VIBEY_STATE_KEY": key,
            "VIBEY_STATE_REMOTE": str(bare_repository),
            "VIBEY_STATE_PG_URL": dsn,
            "BAKERY_PG_URL": dsn,
            "PYTHONPATH": str(PROGRAM),
        }
        bakery = Bakery(tmp_path / name, env)
        bakery.dsn = dsn
        done = bakery.start([str(PROGRAMS / "procrastinate"), "--app=bakery.app", "schema", "--apply"])
        assert done.returncode == 0, done.stderr
        bakery.run("migrate")
        made.append(bakery)
    return made


def test_a_queue_moves_between_machines(bakeries: list[Bakery]) -> None:
    """Jobs and their events arrive once each, are worked on at the other end, and come back; both ends stay equal."""
    here, there = bakeries
    for bakery in bakeries:
        bakery.configure(QUIET)
    here.work("defer", "rye", "Brötchen", "抹茶ケーキ")
    here.work("later", "stollen")
    here.sync()
    there.sync()
    assert there.everything() == here.everything()
    assert len(there.rows("procrastinate_jobs")) == 4
    events = len(here.rows("procrastinate_events"))
    assert len(there.rows("procrastinate_events")) == events

    there.work("work")
    there.sync()
    here.sync()
    assert here.everything() == there.everything()
    assert sum("succeeded" in job for job in here.rows("procrastinate_jobs")) == 3
    assert len(here.rows("procrastinate_events")) > events

    here.work("defer", "bun")
    here.sync()
    there.sync()
    assert there.everything() == here.everything()
    assert len(there.rows("procrastinate_jobs")) == 5


def test_a_job_changed_at_each_end_at_once(bakeries: list[Bakery]) -> None:
    """Each end cancels another job before either syncs: both changes are at both ends afterwards.

    Events have serial keys that both ends take, so each end keeps its own log, as the configuration says.
    """
    here, there = bakeries
    for bakery in bakeries:
        bakery.configure(CONFIG)
    here.work("defer", "rye", "bun")
    here.sync()
    there.sync()
    here.work("cancel", "1")
    there.work("cancel", "2")
    for bakery in (here, there, here):
        bakery.sync()
    jobs = here.rows("procrastinate_jobs")
    assert jobs == there.rows("procrastinate_jobs")
    assert sum("cancelled" in job for job in jobs) == 2


def test_serial_keys_taken_at_both_ends_are_a_conflict_named_by_key(bakeries: list[Bakery]) -> None:
    """Two different jobs under one number are never merged into one: the sync names them and writes nothing."""
    here, there = bakeries
    here.work("defer", "rye")
    there.work("defer", "bun")
    here.sync()
    before = there.everything()
    done = there.start([str(PROGRAMS / "vibey-actions"), "state", "sync"])
    assert done.returncode == 1
    assert "procrastinate_jobs" in done.stderr
    assert "[1]" in done.stderr
    assert there.everything() == before
