"""Migrations are applied once, whole, in order and recorded; everything else is refused with the place and the cure."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from vibey_actions.config import Config, Migrations
from vibey_actions.errors import Busy, MigrationFailed, SchemaMismatch, SettingError, VibeyError
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.locks import advisory_lock
from vibey_actions.postgres.migrate import applied_versions, migrate

FIRST = "CREATE TABLE a (id int PRIMARY KEY);\n"
SECOND = "INSERT INTO a VALUES (1);\nINSERT INTO a VALUES (2);\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A directory with two migrations."""
    (tmp_path / "0001_first.sql").write_text(FIRST)
    (tmp_path / "0002_second.sql").write_text(SECOND)
    return tmp_path


def configured(folder: Path) -> Config:
    """A configuration that names the directory."""
    return Config(migrations=Migrations(directory=folder))


def one(dsn: str, query: str) -> object:
    """The first value of a query, as a user's own session sees it."""
    with psycopg.connect(dsn, autocommit=True) as session:
        row = session.execute(query).fetchone()
    return row and row[0]


def test_files_are_applied_once_and_recorded(dsn: str, folder: Path) -> None:
    """In name order, each with its checksum; a second run applies nothing and changes nothing."""
    assert migrate(dsn, configured(folder)).applied == ("0001_first", "0002_second")
    recorded = one(dsn, "SELECT array_agg(row(version, checksum)::text || xmin ORDER BY version) FROM schema_migration")
    assert hashlib.sha256(FIRST.encode()).hexdigest() in str(recorded)
    again = migrate(dsn, configured(folder))
    assert (again.applied, again.versions) == ((), ("0001_first", "0002_second"))
    assert recorded == one(
        dsn, "SELECT array_agg(row(version, checksum)::text || xmin ORDER BY version) FROM schema_migration"
    )
    assert one(dsn, "SELECT count(*) FROM a") == 2


OWN_TABLES = """
SELECT string_agg(concat_ws(' ', c.relname, a.attname, format_type(a.atttypid, a.atttypmod), a.attnotnull,
    pg_get_expr(d.adbin, d.adrelid), (SELECT 'key' FROM pg_constraint k WHERE k.conrelid = c.oid AND k.contype = 'p'
    AND k.conkey = ARRAY[a.attnum])), e'\\n' ORDER BY c.relname, a.attnum)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'
"""


@pytest.mark.parametrize("config", [Config(), Config(migrations=Migrations(command=("true",)))])
def test_our_own_tables_are_exactly_those_of_the_specification(dsn: str, config: Config) -> None:
    """Without migrations, or with a command, schema_migration, state_sync and our schema are made where missing."""
    for _ in range(2):
        assert migrate(dsn, config).versions == ()
        assert one(dsn, OWN_TABLES) == (
            "schema_migration version text t key\n"
            "schema_migration applied_at timestamp with time zone t now()\n"
            "schema_migration checksum text f\n"
            "state_sync remote text t key\n"
            "state_sync base_commit text t\n"
            "state_sync synced_at timestamp with time zone t now()"
        )
        assert one(dsn, "SELECT 'vibey_actions'::regnamespace::text") == "vibey_actions"


def test_a_file_runs_with_the_users_own_settings(dsn: str, folder: Path) -> None:
    """The database's search_path decides where unqualified names go, not the one we read with."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("CREATE SCHEMA app")
        setup.execute(f'ALTER DATABASE "{conninfo_to_dict(dsn)["dbname"]}" SET search_path TO app')
    assert migrate(dsn, configured(folder)).versions == ("0001_first", "0002_second")
    assert one(dsn, "SELECT count(*) FROM app.a") == 2
    assert one(dsn, "SELECT to_regclass('public.schema_migration') IS NOT NULL")


def test_what_a_file_sets_for_its_session_does_not_reach_the_next(dsn: str, tmp_path: Path) -> None:
    """A file in the manner of pg_dump empties search_path and takes another role; record and next file are as ever."""
    (tmp_path / "1.sql").write_text(
        "SELECT pg_catalog.set_config('search_path', '', false); SET ROLE pg_monitor;"
        "SET standard_conforming_strings = off;"
    )
    (tmp_path / "2.sql").write_text(r"CREATE TABLE b (id int, note text DEFAULT '\'); INSERT INTO b VALUES (1)")
    assert migrate(dsn, configured(tmp_path)).applied == ("1", "2")
    assert one(dsn, "SELECT note FROM public.b") == "\\"


def test_a_failing_file_leaves_nothing_and_names_its_line(dsn: str, folder: Path) -> None:
    """What came before stays, nothing of the failing file does, and the next run goes on with it once corrected."""
    (folder / "0002_second.sql").write_text("INSERT INTO a VALUES (1);\n-- ä\nINSERT INTO nowhere VALUES (2);\n")
    with pytest.raises(MigrationFailed, match='0002_second failed at line 3: relation "nowhere" does not exist'):
        migrate(dsn, configured(folder))
    assert one(dsn, "SELECT count(*) FROM a") == 0
    (folder / "0002_second.sql").write_text(SECOND)
    assert migrate(dsn, configured(folder)).applied == ("0002_second",)


def test_an_error_of_a_migration_quotes_no_row(dsn: str, folder: Path) -> None:
    """A violated constraint is named; the value that violated it is not."""
    (folder / "0003.sql").write_text("INSERT INTO a SELECT id FROM a WHERE id = 2")
    with pytest.raises(MigrationFailed, match=r"0003 failed: .*a_pkey") as caught:
        migrate(dsn, configured(folder))
    assert "(2)" not in str(caught.value)
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


def test_a_changed_file_is_refused_by_name_before_anything_runs(dsn: str, folder: Path) -> None:
    """An applied file is history: its change is refused, also when only white space changed."""
    migrate(dsn, configured(folder))
    (folder / "0001_first.sql").write_text(FIRST + "\n")
    (folder / "0003.sql").write_text("CREATE TABLE never ()")
    with pytest.raises(MigrationFailed, match="changed after it was applied: 0001_first"):
        migrate(dsn, configured(folder))
    assert one(dsn, "SELECT to_regclass('public.never')") is None


def test_an_applied_version_without_a_file_is_a_notice(dsn: str, folder: Path) -> None:
    """An older checkout may lack a file; that is said and nothing more."""
    migrate(dsn, configured(folder))
    (folder / "0001_first.sql").unlink()
    said: list[str] = []
    assert migrate(dsn, configured(folder), notice=said.append).versions == ("0001_first", "0002_second")
    assert said == ["applied, but without a file in the migrations directory: 0001_first"]


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("BEGIN; CREATE TABLE b (); COMMIT;", "line 1: BEGIN controls the transaction"),
        ("\\i other.sql", "command of psql"),
        ("COPY a FROM stdin;\n3\n\\.\n", "COPY from stdin"),
    ],
)
def test_what_cannot_run_is_refused_before_any_file_runs(dsn: str, folder: Path, sql: str, said: str) -> None:
    """All files are looked through first: not even the good ones before it are applied."""
    (folder / "0003.sql").write_text(sql)
    with pytest.raises(MigrationFailed, match=said):
        migrate(dsn, configured(folder))
    assert one(dsn, "SELECT to_regclass('public.a')") is None


@pytest.mark.parametrize("sql", ["CREATE INDEX CONCURRENTLY ON a (id)", "VACUUM a", "CREATE DATABASE vibey_never"])
def test_what_the_server_refuses_in_a_transaction_has_a_clear_error(dsn: str, folder: Path, sql: str) -> None:
    """The reason is the server's, the cure is ours."""
    (folder / "0003.sql").write_text(sql)
    with pytest.raises(MigrationFailed, match=r"0003 failed.* transaction block") as caught:
        migrate(dsn, configured(folder))
    assert "one transaction with its record" in caught.value.hint


@pytest.mark.parametrize("end", ["commit", "rollback", "commit; begin", "rollback; begin"])
def test_a_file_that_hides_a_commit_is_found_out(dsn: str, folder: Path, end: str) -> None:
    """Under a setting that changes what a string is, the end of the transaction is seen when it has happened."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute(f'ALTER DATABASE "{conninfo_to_dict(dsn)["dbname"]}" SET standard_conforming_strings TO off')
    (folder / "0003.sql").write_text(f"SELECT '\\'' ; {end}; --'")
    with pytest.raises(MigrationFailed, match="0003 ended the transaction it runs in"):
        migrate(dsn, configured(folder))
    assert one(dsn, "SELECT count(*) FROM schema_migration WHERE version = '0003'") == 0


def test_two_at_once_do_no_harm(dsn: str, folder: Path) -> None:
    """Of several runs at the same moment one applies and the others find it done."""
    (folder / "0001_first.sql").write_text(FIRST + "SELECT pg_sleep(0.3);")
    applied: list[tuple[str, ...]] = []
    failed: list[VibeyError] = []

    def run() -> None:
        try:
            applied.append(migrate(dsn, configured(folder)).applied)
        except VibeyError as error:
            failed.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert failed == []
    assert sorted(applied) == [(), (), (), ("0001_first", "0002_second")]


def test_a_migration_that_does_not_end_is_not_waited_for_for_ever(dsn: str, folder: Path) -> None:
    """The wait is said, and it ends."""
    said: list[str] = []
    with (
        connect(dsn, purpose="test") as other,
        advisory_lock(other, "migrate", "x", 0, said.append),
        pytest.raises(Busy, match="another migration of this database is running"),
    ):
        migrate(dsn, configured(folder), notice=said.append, wait_seconds=1)
    assert len(said) == 1
    assert migrate(dsn, configured(folder)).applied


def test_a_scratch_database_is_migrated_as_far_as_asked(dsn: str, folder: Path) -> None:
    """With upto only those versions are applied; one without a file is refused by name before anything runs."""
    with pytest.raises(MigrationFailed, match="no file for the migration 0009"):
        migrate(dsn, configured(folder), upto=["0001_first", "0009"])
    assert migrate(dsn, configured(folder), upto=["0001_first"]).versions == ("0001_first",)
    assert migrate(dsn, configured(folder), upto=["0001_first", "0002_second"]).applied == ("0002_second",)
    with pytest.raises(MigrationFailed, match="cannot stop at the branch's"):
        migrate(dsn, Config(migrations=Migrations(command=("true",))), upto=[])


def test_an_older_record_without_checksums_is_worked_with(dsn: str, folder: Path) -> None:
    """A schema_migration of before, without a checksum column or with checksums of another kind, is left as it is."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("CREATE TABLE schema_migration (version varchar(50) PRIMARY KEY, dirty boolean DEFAULT false)")
        setup.execute("INSERT INTO schema_migration VALUES ('0001_first')")
        setup.execute("CREATE TABLE a (id int PRIMARY KEY)")
    assert migrate(dsn, configured(folder)).versions == ("0001_first", "0002_second")
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("ALTER TABLE schema_migration ADD checksum text DEFAULT 'v1:abc'")
    said: list[str] = []
    migrate(dsn, configured(folder), notice=said.append)
    assert said == [
        f"the checksum recorded for {version} is not SHA-256 and was not compared"
        for version in ("0001_first", "0002_second")
    ]


def test_tables_of_our_names_that_are_not_ours_are_refused(dsn: str, database: Callable[[], str]) -> None:
    """A schema_migration without versions, or another state_sync, is not written into."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("CREATE TABLE schema_migration (number int)")
    with pytest.raises(MigrationFailed, match="schema_migration has no column version"):
        migrate(dsn, Config())
    other = database()
    with psycopg.connect(other, autocommit=True) as setup:
        setup.execute("CREATE TABLE state_sync (remote text, note text)")
    with pytest.raises(MigrationFailed, match="state_sync has the columns remote, note"):
        migrate(other, Config())


def test_a_migration_may_make_the_watermarks_table_itself(dsn: str, folder: Path) -> None:
    """The system of the profile vibey does: ours comes last and only where it is missing."""
    (folder / "0003.sql").write_text(
        "CREATE TABLE state_sync (remote text PRIMARY KEY, base_commit text NOT NULL, synced_at timestamptz NOT NULL)"
    )
    assert migrate(dsn, configured(folder)).applied[-1] == "0003"


def test_a_role_without_rights_on_the_schema_migrates_what_is_there(dsn: str, folder: Path) -> None:
    """Where nothing is missing nothing is created, so a role that may create nothing gets through."""
    migrate(dsn, configured(folder))
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute(
            "CREATE ROLE vibey_test_reader LOGIN PASSWORD 'x'; GRANT SELECT ON schema_migration TO vibey_test_reader"
        )
        try:
            limited = psycopg.conninfo.make_conninfo(dsn, user="vibey_test_reader", password="x")
            assert migrate(limited, configured(folder)).applied == ()
        finally:
            setup.execute("DROP OWNED BY vibey_test_reader; DROP ROLE vibey_test_reader")


# A migrator of the database's own


def script(tmp_path: Path, text: str) -> Config:
    """A configuration whose command is a shell script."""
    path = tmp_path / "migrator"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Config(migrations=Migrations(command=(str(path), "up"), env=("APP_SETTINGS", "NOT_SET")))


def test_a_command_gets_the_basics_what_was_named_and_the_dsn(dsn: str, tmp_path: Path) -> None:
    """No key, no token and nothing else of the environment; the DSN under its four names, as a URI."""
    said: list[str] = []
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": "/home/x", "TZ": "UTC", "APP_SETTINGS": "app.settings",
        "VIBEY_STATE_KEY": "secret", "GH_TOKEN": "secret", "OTHER": "other",
    }  # fmt: skip
    config = script(tmp_path, f'env > "{tmp_path}/seen"; echo "$@" >> "{tmp_path}/seen"; pwd >> "{tmp_path}/seen"')
    migrate(dsn, config, environment=environment, cwd=tmp_path, notice=said.append)
    lines = (tmp_path / "seen").read_text().splitlines()
    seen = dict(line.split("=", 1) for line in lines if "=" in line)
    assert seen.keys() - {"PWD", "SHLVL", "_", "OLDPWD"} == {
        "PATH", "HOME", "TZ", "APP_SETTINGS",
        "VIBEY_PG_URL", "VIBEY_PG_MIGRATE_URL", "VIBEY_STATE_PG_URL", "DATABASE_URL",
    }  # fmt: skip
    assert seen["DATABASE_URL"].startswith("postgresql://")
    assert one(seen["DATABASE_URL"], "SELECT current_database()") == conninfo_to_dict(dsn)["dbname"]
    assert lines[-2:] == ["up", str(tmp_path)]
    assert said == ["env in [migrations] names NOT_SET, which is not set"]


def test_a_command_that_fails_is_heard_without_the_password(dsn: str, tmp_path: Path) -> None:
    """The end of its output is in the error, control characters visible, the password masked in every form."""
    password = str(conninfo_to_dict(dsn)["password"])
    config = script(
        tmp_path,
        f'seq 100; echo "connecting to $DATABASE_URL"; echo "password {password}" >&2\n'
        'printf "\\033[31mbroken\\n"; exit 3',
    )
    with pytest.raises(MigrationFailed, match="failed with exit code 3") as caught:
        migrate(dsn, config)
    shown = caught.value.message
    assert password not in shown
    assert "\\x1b[31mbroken" in shown
    assert "100 | connecting to" in shown
    assert " 50 " not in shown
    assert "\n" not in shown


def test_a_command_that_is_not_there_is_named(dsn: str, tmp_path: Path) -> None:
    """Not on PATH, or no program at all: one line each."""
    with pytest.raises(MigrationFailed, match="migrator no-such-program was not found on PATH"):
        migrate(dsn, Config(migrations=Migrations(command=("no-such-program",))))
    with pytest.raises(MigrationFailed, match="cannot be started: Permission denied"):
        migrate(dsn, Config(migrations=Migrations(command=(str(tmp_path),))))


def test_what_a_command_leaves_running_ends_with_it(dsn: str, tmp_path: Path) -> None:
    """A process that it started, which still holds its output, is not waited for."""
    config = script(tmp_path, f"sleep 300 & echo $! > {tmp_path}/pid")
    migrate(dsn, config)
    pid = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_a_command_killed_by_a_signal_is_said_so(dsn: str, tmp_path: Path) -> None:
    """Out of memory looks like this."""
    with pytest.raises(MigrationFailed, match="was ended by signal 9; its output ends with: nothing"):
        migrate(dsn, script(tmp_path, "kill -9 $$"))


# The versions of a document's schema


def versions(dsn: str, query: str | None) -> list[str]:
    """What the engine would write as the document's schema."""
    with connect(dsn, purpose="test") as session:
        found = applied_versions(session, Migrations(versions=query))
        assert session.execute("SHOW search_path").fetchone() == ("pg_catalog",)
        with session.transaction():
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            assert applied_versions(session, Migrations(versions=query)) == found
            assert session.execute("SHOW search_path").fetchone() == ("pg_catalog",)
    return found


@pytest.fixture
def applied(dsn: str) -> str:
    """A database with a record of versions that sort differently as numbers, in the locale and by code point."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("CREATE TABLE schema_migration (version text PRIMARY KEY); CREATE TABLE numbers (n int)")
        setup.execute("CREATE SEQUENCE counter")
        setup.execute(
            "INSERT INTO schema_migration VALUES ('b'), ('B'), ('a'), ('10'), ('9'), ('\U0001f600'), ('\uff41')"
        )
        setup.execute("INSERT INTO numbers VALUES (10), (9), (9)")
    return dsn


def test_versions_are_sorted_by_code_point(applied: str) -> None:
    """From schema_migration or the query, whatever order the database has."""
    expected = ["10", "9", "B", "a", "b", "\uff41", "\U0001f600"]
    assert versions(applied, None) == expected
    assert versions(applied, "SELECT version FROM schema_migration ORDER BY version DESC;") == expected


def test_versions_of_any_type_are_taken_as_text_once_each(applied: str) -> None:
    """Numbers become their digits; a % in the query is the query's."""
    assert versions(applied, "SELECT n FROM numbers WHERE n::text LIKE '%'") == ["10", "9"]
    assert versions(applied, "SELECT n FROM numbers WHERE false") == []


def test_no_record_is_no_version(dsn: str) -> None:
    """A database without schema_migration has applied nothing that we know of."""
    assert versions(dsn, None) == []


@pytest.mark.parametrize(
    "query",
    [
        "SELECT version, 1 FROM schema_migration",
        "SELECT",
        "SELECT NULL::text",
        "SELECT 1; SELECT 2",
        "DELETE FROM schema_migration RETURNING version",
        "SELECT nextval('counter')",
        "SELEKT",
        "",
        "SELECT version::int FROM schema_migration",
    ],
)
def test_a_query_that_is_not_one_column_of_versions_is_refused(applied: str, query: str) -> None:
    """Two columns, none, NULL, two statements, a write: a setting that cannot be used, and nothing is changed."""
    with connect(applied, purpose="test") as session, pytest.raises(SettingError, match="the versions query"):
        applied_versions(session, Migrations(versions=query))
    assert one(applied, "SELECT count(*) FROM schema_migration") == 7
    assert one(applied, "SELECT is_called FROM counter") is False


def test_a_query_of_a_missing_table_means_that_migrations_are_missing(dsn: str) -> None:
    """A fresh database does not have its migrator's table yet."""
    with pytest.raises(SchemaMismatch) as caught:
        versions(dsn, "SELECT name FROM django_migrations")
    assert "migrate" in caught.value.hint
