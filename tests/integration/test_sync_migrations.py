"""Migrations across the ends: which are missing where, and rows of every age compared in the newest shape."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.ends import End, Ends
from vibey_actions.config import Config, Migrations, TableConfig
from vibey_actions.errors import Conflicts, SchemaMismatch, TableRefused, TooManyDeletes
from vibey_actions.state.report import ConflictKind, Counts, SyncState

FIRST = "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE log (id int PRIMARY KEY, v text)"
SECOND = "ALTER TABLE t ADD COLUMN e int NOT NULL DEFAULT 7"
THIRD = "ALTER TABLE t ADD COLUMN w text; UPDATE t SET w = upper(v)"
MIGRATOR = """
import os, pathlib, sys, psycopg
with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS applied (version text PRIMARY KEY)")
    for file in sorted(pathlib.Path(sys.argv[1]).glob("*.sql")):
        if not connection.execute("SELECT 1 FROM applied WHERE version = %s", (file.stem,)).fetchone():
            connection.execute(file.read_text())
            connection.execute("INSERT INTO applied VALUES (%s)", (file.stem,))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of migrations, the first of them in it."""
    path = tmp_path / "migrations"
    path.mkdir()
    (path / "1.sql").write_text(FIRST)
    return path


def level(*ends: End) -> None:
    """All hold the same and are at rest, also where every row is compared anew."""
    for end in ends:
        end.forget_agreements()
        report = end.sync()
        assert (report.state, report.to_pull, report.to_push) == (SyncState.IN_SYNC, 0, 0)
        assert end.everything() == ends[0].everything()


def test_one_migrates_and_syncs_the_other_later_with_its_own_edits(ends: Ends, folder: Path) -> None:
    """The other's base is older than its own shape and the head's: only its edits are edits, the default is none."""
    one, other = ends.pair(migrations=folder)
    one.run("INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 50) n")
    one.sync()
    other.sync()
    (folder / "2.sql").write_text(SECOND)
    one.operations.migrate()
    one.run("UPDATE t SET e = 8 WHERE id = 1", "DELETE FROM t WHERE id = 50")
    one.sync()
    other.run("UPDATE t SET v = 'mine' WHERE id = 2", "DELETE FROM t WHERE id = 49", "INSERT INTO t VALUES (60, 'new')")
    error = other.refused(SchemaMismatch)
    assert error.message.endswith("it lacks the migration(s) 2")
    assert error.hint == "run `vibey-actions migrate` here, then sync"
    other.operations.migrate()
    report = other.sync()
    assert report.pull == {"t": Counts(updated=1, deleted=1)}
    assert report.push == {"t": Counts(inserted=1, updated=1, deleted=1)}
    one.sync()
    level(one, other)


def test_both_migrate_before_either_syncs(ends: Ends, folder: Path) -> None:
    """Base and branch are both older than the two ends; what each changed before and after its migration arrives."""
    one, other = ends.pair(migrations=folder)
    one.run("INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 20) n")
    one.sync()
    other.sync()
    one.run("UPDATE t SET v = 'one' WHERE id = 1")
    other.run("UPDATE t SET v = 'other' WHERE id = 2")
    (folder / "2.sql").write_text(SECOND)
    (folder / "3.sql").write_text(THIRD)
    for end in (one, other):
        end.operations.migrate()
    one.run("UPDATE t SET e = 1 WHERE id = 3")
    other.run("UPDATE t SET e = 2 WHERE id = 4")
    assert one.sync().push == {"t": Counts(updated=2)}
    report = other.sync()
    assert (report.pull, report.push) == ({"t": Counts(updated=2)}, {"t": Counts(updated=2)})
    one.sync()
    level(one, other)


def test_three_ages_of_one_state(ends: Ends, folder: Path) -> None:
    """The base at the first migration, the head at the second, this database at the third."""
    one, other = ends.pair(migrations=folder)
    one.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    one.sync()
    other.sync()
    (folder / "2.sql").write_text(SECOND)
    one.operations.migrate()
    one.run("UPDATE t SET e = 8 WHERE id = 1")
    one.sync()
    (folder / "3.sql").write_text(THIRD)
    other.operations.migrate()
    other.run("UPDATE t SET v = 'mine' WHERE id = 2")
    report = other.sync()
    assert (report.pull, report.push) == ({"t": Counts(updated=1)}, {"t": Counts(updated=1)})
    one.operations.migrate()
    one.sync()
    level(one, other)


def test_ends_that_were_migrated_differently_are_told_both_lists(ends: Ends, folder: Path, tmp_path: Path) -> None:
    """Neither list holds the other's: each end's own migrations are named, and nothing is written."""
    one, other = ends.pair(migrations=folder)
    one.sync()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "1.sql").write_text(FIRST)
    (elsewhere / "2b.sql").write_text(THIRD)
    (folder / "2a.sql").write_text(SECOND)
    other.config = Config(migrations=Migrations(directory=elsewhere))
    one.operations.migrate()
    other.operations.migrate()
    one.sync()
    error = other.refused(SchemaMismatch)
    assert "only there 2a; only here 2b" in error.message
    assert "vibey-actions migrate" in error.hint


def with_a_migrator(ends: Ends, folder: Path, count: int) -> list[End]:
    """Databases that a command migrates, with an append-only table; whatever is in the folder is applied."""
    script = folder.parent / "migrator.py"
    script.write_text(MIGRATOR)
    command = (sys.executable, str(script), str(folder))
    versions = Migrations(command=command, versions="SELECT version FROM applied")
    return [
        ends.make(config=Config(tables={"log": TableConfig(append_only=True)}, migrations=versions))
        for _ in range(count)
    ]


def test_a_migrator_of_the_databases_own_is_no_dead_end(ends: Ends, folder: Path) -> None:
    """Level, migrated, edited, synced: the branch takes the new shape; a second database follows without a base."""
    one, other = with_a_migrator(ends, folder, 2)
    one.run("INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 20) n", "INSERT INTO log VALUES (1, 'x')")
    one.sync()
    other.sync()
    (folder / "2.sql").write_text(
        SECOND + "; ALTER TABLE log ADD COLUMN n int DEFAULT 3; CREATE TABLE u (id int PRIMARY KEY)"
    )
    one.operations.migrate()
    one.run("UPDATE t SET v = 'new' WHERE id = 1", "DELETE FROM t WHERE id = 20", "INSERT INTO u VALUES (1)")
    one.run("INSERT INTO log VALUES (2, 'y')")
    assert one.operations.status().push["t"] == Counts(updated=1, deleted=1)
    report = one.sync()
    assert (report.pull, report.pushed, report.rows) == ({}, True, 22)
    assert report.push == {
        "t": Counts(updated=1, deleted=1),
        "log": Counts(inserted=1),
        "u": Counts(inserted=1),
    }
    level(one)
    other.run("UPDATE t SET v = 'here' WHERE id = 2", "DELETE FROM t WHERE id = 19", "INSERT INTO t VALUES (30, 'z')")
    other.operations.migrate()
    report = other.sync()
    assert report.pull == {"t": Counts(updated=1, deleted=1), "log": Counts(inserted=1), "u": Counts(inserted=1)}
    assert report.push == {"t": Counts(inserted=1, updated=1, deleted=1)}
    one.sync()
    level(one, other)


def test_a_row_that_both_changed_around_a_migrator_is_a_conflict(ends: Ends, folder: Path) -> None:
    """Compared with a base of the older shape, a row is still one that both ends changed, or deleted and changed."""
    one, other = with_a_migrator(ends, folder, 2)
    one.run("INSERT INTO t SELECT n, 'v' || n FROM generate_series(1, 5) n")
    one.sync()
    other.sync()
    (folder / "2.sql").write_text("ALTER TABLE t ADD COLUMN at timestamptz DEFAULT clock_timestamp()")
    one.operations.migrate()
    one.run("UPDATE t SET v = 'one' WHERE id IN (1, 2)", "DELETE FROM t WHERE id = 3")
    one.sync()
    other.run("UPDATE t SET v = 'other' WHERE id IN (1, 3)", "DELETE FROM t WHERE id = 2")
    other.operations.migrate()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.key, c.kind) for c in error.conflicts] == [
        ("[1]", ConflictKind.BOTH_CHANGED),
        ("[2]", ConflictKind.DELETED_HERE),
        ("[3]", ConflictKind.DELETED_THERE),
    ]
    other.env["VIBEY_STATE_CONFLICTS"] = "t=theirs"
    other.sync()
    level(one, other)


def test_a_branch_that_moved_while_a_migrator_ran_ahead(ends: Ends, folder: Path) -> None:
    """What is ahead of a branch that moved is told what to do, and after that its sync goes through."""
    one, other = with_a_migrator(ends, folder, 2)
    one.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    one.sync()
    other.sync()
    one.run("UPDATE t SET v = 'one' WHERE id = 1")
    one.sync()
    (folder / "2.sql").write_text(SECOND)
    other.operations.migrate()
    error = other.refused(SchemaMismatch)
    assert "ahead of the branch by the migration(s) 2" in error.message
    assert "another database that is still at the branch's migrations" in error.hint
    one.operations.migrate()
    one.sync()
    other.run("UPDATE t SET v = 'other' WHERE id = 2")
    other.sync()
    one.sync()
    level(one, other)


def test_a_ledger_is_guarded_in_the_new_shape_too(ends: Ends, folder: Path) -> None:
    """Behind a migrator of its own: a row of an append-only table that was changed or removed is a divergence."""
    (one,) = with_a_migrator(ends, folder, 1)
    one.run("INSERT INTO log VALUES (1, 'x'), (2, 'y'), (3, 'z')", "INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    one.sync()
    (folder / "2.sql").write_text(SECOND + "; ALTER TABLE log ADD COLUMN n int DEFAULT 3")
    one.operations.migrate()
    one.run("UPDATE log SET v = 'other' WHERE id = 2", "DELETE FROM log WHERE id = 3")
    error = one.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.key, c.kind) for c in error.conflicts] == [
        ("log", key, ConflictKind.DIVERGENCE) for key in ("[2]", "[3]")
    ]
    one.run("UPDATE log SET v = 'y' WHERE id = 2", "INSERT INTO log VALUES (3, 'z')", "DELETE FROM t")
    one.refused(TooManyDeletes, max_deletes=1)
    assert one.sync(max_deletes=2).push == {"t": Counts(deleted=2)}
    level(one)


def test_a_key_of_other_columns_that_were_there_before(ends: Ends, folder: Path) -> None:
    """A migrator makes another column the key: refused by table, of the branch and of a base, with what mends it."""
    one, other = with_a_migrator(ends, folder, 2)
    one.run("INSERT INTO t VALUES (1, 'b'), (2, 'a')", "INSERT INTO log VALUES (1, 'x')")
    one.sync()
    other.sync()
    (folder / "2.sql").write_text("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (v)")
    other.operations.migrate()

    def refused() -> None:
        error = other.refused(SchemaMismatch)
        assert "table t: a migration changed its primary key" in error.message
        assert "state forget" in error.hint

    refused()
    # Where no row is left to be told apart, the branch goes on; what agreed with its older state still cannot.
    one.run("DELETE FROM t")
    one.sync()
    one.operations.migrate()
    one.sync()
    refused()
    other.operations.forget()
    other.sync()
    one.sync()
    level(one, other)
    assert one.rows("t") == ["(1,b)", "(2,a)"]


def test_what_a_migrator_took_away_is_refused_by_name(ends: Ends, folder: Path) -> None:
    """A table that is gone, and one whose key is another: neither is read as a table without rows."""
    (one,) = with_a_migrator(ends, folder, 1)
    one.run("INSERT INTO log VALUES (1, 'x')", "INSERT INTO t VALUES (1, 'a')")
    one.sync()
    (folder / "2.sql").write_text("ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD COLUMN k int DEFAULT 1;"
                                  " ALTER TABLE t ADD PRIMARY KEY (k)")  # fmt: skip
    one.operations.migrate()
    error = one.refused(SchemaMismatch)
    assert "table t: a migration changed its primary key" in error.message
    assert "state forget" in error.hint
    (folder / "3.sql").write_text("DROP TABLE t")
    one.operations.migrate()
    error = one.refused(TableRefused)
    assert "state forget-table t" in error.hint
    one.config = replace(one.config, exclude=("t",))
    one.operations.forget_table("t")
    one.sync()
    level(one)
