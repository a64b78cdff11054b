"""A database ahead of its branch: the branch's rows are brought to the newer migrations and merged there."""

from __future__ import annotations

from pathlib import Path

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.ends import End, Ends
from vibey_actions.config import Config, Migrations
from vibey_actions.errors import SchemaMismatch, TableRefused

FIRST = """
CREATE TABLE t (id int PRIMARY KEY, v text, gone text);
CREATE TABLE c (id int PRIMARY KEY, t int REFERENCES t);
INSERT INTO t VALUES (0, 'from a migration', 'x')
"""


class Folder:
    """A folder of migrations, one of them there from the start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir()
        self.add("1", FIRST)

    def add(self, version: str, text: str) -> None:
        """One more migration."""
        (self.path / f"{version}.sql").write_text(text, "utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Migrations that every end of the test takes."""
    return Folder(tmp_path / "migrations")


def scratch_databases(end: End) -> int:
    """How many scratch databases are left on the server."""
    return int(end.value("SELECT count(*) FROM pg_database WHERE datname LIKE 'vibey_scratch_%'"))


def test_rows_of_the_branch_come_to_the_newer_shape(ends: Ends, folder: Folder) -> None:
    """New table, new column with a default, dropped and renamed columns: only edits are edits, at both ends."""
    one, other = ends.pair(migrations=folder.path)
    one.run("INSERT INTO t SELECT n, 'v' || n, 'x' FROM generate_series(1, 9) n", "INSERT INTO c VALUES (1, 1)")
    one.sync()
    other.sync()
    one.run(
        "UPDATE t SET v = 'there' WHERE id = 1", "DELETE FROM t WHERE id = 9", "INSERT INTO t VALUES (20, 'n', 'y')"
    )
    one.sync()
    folder.add("2", "ALTER TABLE t ADD COLUMN e int NOT NULL DEFAULT 7; ALTER TABLE t DROP COLUMN gone")
    folder.add("3", "ALTER TABLE t RENAME COLUMN v TO w; CREATE TABLE n (id int PRIMARY KEY); INSERT INTO n VALUES (1)")
    folder.add("4", "ALTER TABLE t ADD COLUMN at timestamptz DEFAULT now(); ALTER TABLE t DROP COLUMN at")
    folder.add("5", "ALTER TABLE t ADD COLUMN later timestamptz; ALTER TABLE t ALTER COLUMN later SET DEFAULT now()")
    other.run("UPDATE t SET v = 'here' WHERE id = 2")
    other.operations.migrate()
    other.run("UPDATE t SET e = 8 WHERE id = 3")
    left = scratch_databases(other)
    report = other.sync()
    assert scratch_databases(other) == left
    assert (report.to_pull, report.to_push, report.pushed) == (3, 2, True)
    assert other.value("SELECT array_agg(id || w || e ORDER BY id) FROM t WHERE w <> 'v' || id OR e <> 7") == [
        "0from a migration7", "1there7", "2here7", "3v38", "20n7",
    ]  # fmt: skip
    error = one.refused(SchemaMismatch)
    assert "behind" in error.message
    assert "2, 3, 4, 5" in error.message
    one.operations.migrate()
    report = one.sync()
    assert (report.to_pull, report.to_push) == (2, 0)
    assert one.everything() == other.everything()


@pytest.mark.parametrize(
    "migration",
    [
        "ALTER TABLE t ADD COLUMN at timestamptz NOT NULL DEFAULT now()",
        "ALTER TABLE t ADD COLUMN at timestamptz NOT NULL DEFAULT now(); ALTER TABLE t ALTER COLUMN at DROP DEFAULT",
        "ALTER TABLE t ADD COLUMN u uuid DEFAULT gen_random_uuid()",
        "ALTER TABLE t ADD COLUMN u uuid; UPDATE t SET u = gen_random_uuid()",
        "ALTER TABLE t ADD COLUMN n serial",
        "ALTER TABLE t ADD COLUMN n int GENERATED ALWAYS AS IDENTITY",
        "ALTER TABLE t ADD COLUMN d date DEFAULT CURRENT_DATE",
        "ALTER TABLE t ADD COLUMN d date DEFAULT now()::date",
    ],
)
def test_values_that_differ_from_run_to_run_are_refused(ends: Ends, folder: Folder, migration: str) -> None:
    """From the clock, at random, from a sequence: the migration and the table are named, and nothing is pushed."""
    one = ends.make(migrations=folder.path)
    one.run("INSERT INTO t VALUES (1, 'a', 'x'), (2, 'b', 'x')")
    one.sync()
    commits = ends.commits()
    folder.add("2", migration)
    one.operations.migrate()
    error = one.refused(SchemaMismatch)
    assert "the migration(s) 2 give" in error.message
    assert "(in t" in error.message
    assert "forget" in error.hint
    assert ends.commits() == commits


def test_without_the_right_to_make_a_database_the_refusal_says_so(ends: Ends, folder: Folder) -> None:
    """A role that owns the database but lacks CREATEDB is told the right, and what to run instead."""
    one = ends.make(migrations=folder.path)
    one.sync()
    folder.add("2", "ALTER TABLE t ADD COLUMN e int")
    one.operations.migrate()
    name = conninfo_to_dict(one.dsn)["dbname"]
    role = f"role_{name}"
    one.run(f"CREATE ROLE \"{role}\" LOGIN PASSWORD '{role}'", f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{role}"',
            f'GRANT ALL ON DATABASE "{name}" TO "{role}"', f'GRANT ALL ON SCHEMA vibey_actions TO "{role}"',
            f'GRANT ALL ON ALL TABLES IN SCHEMA vibey_actions TO "{role}"')  # fmt: skip
    one.env["VIBEY_STATE_PG_URL"] = make_conninfo(one.dsn, user=role, password=role)
    try:
        error = one.refused(SchemaMismatch)
        assert "may not create the scratch database" in error.message
        assert "CREATEDB" in error.hint
        assert "vibey-actions migrate" in error.hint
    finally:
        one.run(f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')


def test_a_migration_that_fails_on_the_branchs_rows_is_named(ends: Ends, folder: Folder) -> None:
    """Rows of the branch that the newer schema does not take: the refusal says so, and nothing is written."""
    one = ends.make(migrations=folder.path)
    one.run("INSERT INTO t VALUES (1, 'MARKER', 'x')")
    one.sync()
    one.run("DELETE FROM t WHERE id = 1")
    folder.add("2", "ALTER TABLE t ADD CHECK (v <> 'MARKER')")
    one.operations.migrate()
    error = one.refused(SchemaMismatch)
    assert "cannot be brought to them here" in error.message
    assert "MARKER" not in error.message + error.hint


def test_a_table_that_was_made_by_hand_is_named_with_a_way_out(ends: Ends, folder: Folder) -> None:
    """A branch from before there were migrations: what they do not make is named, and the way of the hint leads on."""
    made = "CREATE TABLE pet (id int PRIMARY KEY)"
    one, other = ends.pair(made)
    one.run("INSERT INTO pet VALUES (1)")
    one.sync()
    other.sync()
    folder.add("2", made.replace("TABLE", "TABLE IF NOT EXISTS"))
    one.config = Config(migrations=Migrations(directory=folder.path))
    one.operations.migrate()
    error = one.refused(TableRefused)
    assert "the table pet, which the migrations that it has applied do not make" in error.message
    assert "have a migration make pet (CREATE TABLE IF NOT EXISTS" in error.hint
    ends.git("update-ref", "-d", "refs/heads/vibey-state")
    one.operations.forget()
    one.sync()
    third = ends.make(migrations=folder.path)
    third.sync()
    assert third.rows("pet") == ["(1)"]
