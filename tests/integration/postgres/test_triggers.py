"""Triggers of the database's own while rows are applied: kept from firing where declared, else named."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.support.dumps import dump
from tests.support.ends import End, Ends
from tests.support.roles import forget_role, sync_as_new_role
from vibey_actions.config import Config, Migrations, TableConfig
from vibey_actions.errors import DatabaseFailed, RowRefused
from vibey_actions.postgres import apply as apply_module
from vibey_actions.postgres import fill as fill_module
from vibey_actions.state import cycle
from vibey_actions.state.report import SyncState

OFF = TableConfig(triggers="off")
FUNCTIONS = """
CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at := now(); RETURN NEW; END $$;
CREATE FUNCTION drop_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'fired'; END $$
"""
STATES = (
    "SELECT coalesce(array_agg(tgrelid::regclass || '.' || tgname || ' ' || tgenabled::text"
    " ORDER BY tgrelid::regclass::text, tgname), '{}') FROM pg_trigger WHERE NOT tgisinternal"
)


def level(one: End, other: End) -> None:
    """Sync until both have seen each other, and prove by their dumps that they hold the same."""
    one.sync()
    other.sync()
    assert dump(one.dsn) == dump(other.dsn)
    assert other.operations.status().state is SyncState.IN_SYNC


def as_owner(end: End) -> str:
    """Have the end's database belong to a role that is no superuser, and sync as that role; returns it."""
    role = sync_as_new_role(end)
    end.run(f'ALTER DATABASE "{psycopg.conninfo.conninfo_to_dict(end.dsn)["dbname"]}" OWNER TO "{role}"')
    with psycopg.connect(end.dsn, autocommit=True) as connection:
        objects = connection.execute(
            "SELECT format('%s %s', CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, c.oid::regclass)"
            " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE nspname IN ('public', 'vibey_actions') AND relkind IN ('r', 'p', 'f')"
        ).fetchall()
        for (thing,) in objects:
            connection.execute(f'ALTER {thing} OWNER TO "{role}"'.encode())
        connection.execute(f'ALTER SCHEMA vibey_actions OWNER TO "{role}"'.encode())
        connection.execute(f'GRANT ALL ON SCHEMA public TO "{role}"'.encode())
    return role


# A table, a partitioned one, and a child under a key that is checked late; triggers in every state on each.
SCHEMA = (
    FUNCTIONS,
    "CREATE TABLE t (id int PRIMARY KEY, at timestamptz)",
    "CREATE TABLE part (id int, day int, at timestamptz, PRIMARY KEY (id, day)) PARTITION BY LIST (day)",
    "CREATE TABLE part1 PARTITION OF part FOR VALUES IN (1)",
    'CREATE TABLE "Part 2" PARTITION OF part DEFAULT',
    "CREATE TABLE child (id int PRIMARY KEY, t int REFERENCES t DEFERRABLE INITIALLY DEFERRED, at timestamptz)",
    *(
        f'CREATE TRIGGER "{name}" BEFORE INSERT OR UPDATE ON {table} FOR EACH ROW EXECUTE FUNCTION {function}()'
        for table in ("t", "part", "child")
        for name, function in (("O stamp", "stamp"), ("A stamp", "stamp"), ("R fail", "fail"), ("D fail", "fail"))
    ),
    "CREATE TRIGGER own BEFORE INSERT ON part1 FOR EACH ROW EXECUTE FUNCTION drop_it()",
    "CREATE TRIGGER statement AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON child EXECUTE FUNCTION fail()",
    "CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE FOR EACH ROW EXECUTE FUNCTION fail()",
    *(
        f'ALTER TABLE {table} {state} TRIGGER "{name}"'
        for table in ("t", "part", "child")
        for state, name in (("ENABLE ALWAYS", "A stamp"), ("ENABLE REPLICA", "R fail"), ("DISABLE", "D fail"))
    ),
    # A partition may have another state than its root.
    'ALTER TABLE part1 ENABLE ALWAYS TRIGGER "O stamp"',
    'ALTER TABLE "Part 2" DISABLE TRIGGER "A stamp"',
)


def rows(end: End) -> None:
    """Rows in every table, as another session that fires nothing would write them."""
    with psycopg.connect(end.dsn) as connection:
        connection.execute("SET session_replication_role = replica")
        for table in ("t", "part", "child"):
            connection.execute(f'ALTER TABLE {table} DISABLE TRIGGER "R fail"'.encode())
            connection.execute(f'ALTER TABLE {table} DISABLE TRIGGER "A stamp"'.encode())
        connection.execute("INSERT INTO t SELECT n, '2020-01-01' FROM generate_series(1, 300) n")
        connection.execute("INSERT INTO part SELECT n, n % 2, '2020-01-01' FROM generate_series(1, 300) n")
        connection.execute("INSERT INTO child SELECT n, n, '2020-01-01' FROM generate_series(1, 300) n")


@pytest.mark.parametrize("fills", [False, True])
def test_triggers_that_are_off_do_not_fire_and_are_as_before(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, *, fills: bool
) -> None:
    """Applied or filled, as plain owner: no row is rewritten, and every trigger, of partitions too, is as before."""
    config = Config(tables=dict.fromkeys(("t", "part", "child"), OFF))
    one, other = ends.make(*SCHEMA), ends.make(*SCHEMA, config=config)
    rows(one)
    one.sync()
    before = other.value(STATES)
    assert {text[-1] for text in before} == {"O", "A", "R", "D"}
    filled: list[int] = []
    real = fill_module._copy
    monkeypatch.setattr("vibey_actions.postgres.fill._copy", lambda *args: filled.append(1) or real(*args))  # type: ignore[func-returns-value]
    monkeypatch.setattr(cycle, "LARGE_FILL", 0 if fills else 2**40)
    role = as_owner(other)
    try:
        other.sync()
        assert bool(filled) == fills
        assert other.value(STATES) == before
        assert dump(one.dsn) == dump(other.dsn)
        if not fills:
            one.run("ALTER TABLE t DISABLE TRIGGER USER", "UPDATE t SET at = '2021-01-01' WHERE id = 1")
            one.run("ALTER TABLE child DISABLE TRIGGER USER", "DELETE FROM child WHERE id = 2")
            one.run("INSERT INTO t VALUES (301, '2021-01-01')", "UPDATE child SET t = 301 WHERE id = 3")
            one.sync()
            other.sync()
            assert other.value(STATES) == before
            assert dump(one.dsn) == dump(other.dsn)
    finally:
        forget_role(other, role)


def test_the_refusal_names_trigger_table_column_and_setting(ends: Ends) -> None:
    """A row that is rewritten, dropped or kept: which triggers fire there, what differs, and what to declare."""
    tables = ("stamped", "dropped", "kept", "weird ]x")
    schema = [f'CREATE TABLE "{table}" (id int PRIMARY KEY, at timestamptz, v int)' for table in tables]
    one = ends.make(*schema)
    one.run(*(f"INSERT INTO \"{table}\" VALUES (1, '2020-01-01', 1)" for table in tables))
    one.sync()
    other = ends.make(
        *schema,
        FUNCTIONS,
        "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$",
    )
    other.sync()
    other.run(
        "CREATE TRIGGER stamper BEFORE UPDATE ON stamped FOR EACH ROW EXECUTE FUNCTION stamp()",
        "CREATE TRIGGER asleep BEFORE UPDATE ON stamped FOR EACH ROW EXECUTE FUNCTION fail()",
        "ALTER TABLE stamped DISABLE TRIGGER asleep",
        "CREATE TRIGGER dropper BEFORE INSERT ON dropped FOR EACH ROW EXECUTE FUNCTION drop_it()",
        "CREATE TRIGGER keeper BEFORE DELETE ON kept FOR EACH ROW EXECUTE FUNCTION keep()",
        'CREATE RULE silent AS ON UPDATE TO "weird ]x" DO INSTEAD NOTHING',
    )
    changes = {
        "stamped": "UPDATE stamped SET at = '2021-01-01', v = 2",
        "dropped": "INSERT INTO dropped VALUES (2, NULL, 2)",
        "kept": "DELETE FROM kept",
        "weird ]x": 'UPDATE "weird ]x" SET v = 2',
    }
    expected = {
        "stamped": ("row [1]: the column at is not", "trigger stamper", "[tables.stamped] triggers"),
        "dropped": ("row [2]: the row is not there", "trigger dropper", "[tables.dropped] triggers"),
        "kept": ("row [1]: the row is still there", "trigger keeper", "[tables.kept] triggers"),
        "weird ]x": ("row [1]: the column v is not", "a rule", '[tables."weird ]x"] triggers'),
    }
    for table, change in changes.items():
        one.run(change)
        one.sync()
        error = other.refused(RowRefused)
        cause, name, setting = expected[table]
        assert cause in error.message
        assert f"table {table}" in error.message
        assert name in error.message
        assert "asleep" not in error.message
        assert setting in error.hint
        other.run(*(f'DROP TRIGGER {t} ON "{table}"' for t in [name.split()[-1]] if t != "rule"))
        other.run(f'DROP RULE IF EXISTS silent ON "{table}"')
        other.sync()


def test_a_fill_names_the_column_too(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table whose rows are rewritten as they stream in is refused by column and trigger, and one written beside."""
    monkeypatch.setattr(cycle, "LARGE_FILL", 0)
    schema = "CREATE TABLE t (id int PRIMARY KEY, at timestamptz, v text); CREATE TABLE log (id int PRIMARY KEY)"
    one = ends.make(schema)
    one.run("INSERT INTO t SELECT n, '2020-01-01', 'x' FROM generate_series(1, 10) n", "INSERT INTO log VALUES (100)")
    one.sync()
    other = ends.make(
        schema, FUNCTIONS, "CREATE TRIGGER stamper BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION stamp()"
    )
    error = other.refused(RowRefused)
    assert "the column at is not what was written; its trigger stamper" in error.message
    assert '[tables.t] triggers = "off"' in error.hint
    other.run("DROP TRIGGER stamper ON t")
    other.run(
        "CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN INSERT INTO public.log VALUES (NEW.id); RETURN NEW; END $$",
        "CREATE TRIGGER noter AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()",
    )
    error = other.refused(RowRefused)
    assert "table log: rows were written (10 more inserted than meant)" in error.message
    other.config = Config(tables={"t": OFF})
    level(one, other)


def test_a_sync_that_dies_leaves_every_trigger_as_it_was(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """The triggers are off only inside the transaction that takes it back."""
    schema = (FUNCTIONS, "CREATE TABLE t (id int PRIMARY KEY, at timestamptz)")
    one = ends.make(*schema)
    other = ends.make(
        *schema,
        "CREATE TRIGGER stamper BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION stamp()",
        "ALTER TABLE t ENABLE ALWAYS TRIGGER stamper",
        config=Config(tables={"t": OFF}),
    )
    one.run("INSERT INTO t VALUES (1, '2020-01-01')")
    one.sync()

    def dies(connection: psycopg.Connection, *_: object) -> None:
        assert connection.execute("SELECT tgenabled::text FROM pg_trigger WHERE tgname = 'stamper'").fetchone() == (
            "D",
        )
        connection.execute("SELECT pg_terminate_backend(pg_backend_pid())")

    monkeypatch.setattr(apply_module, "_check_written", dies)
    other.refused(DatabaseFailed)
    assert other.value(STATES) == ["t.stamper A"]
    monkeypatch.undo()
    level(one, other)
    assert other.value(STATES) == ["t.stamper A"]


def test_a_role_that_does_not_own_the_table_is_told_so(ends: Ends) -> None:
    """Turning triggers off is the owner's right; the error names table, trigger and whom to connect as."""
    schema = (FUNCTIONS, "CREATE TABLE t (id int PRIMARY KEY, at timestamptz)")
    one = ends.make(*schema)
    other = ends.make(
        *schema,
        "CREATE TRIGGER stamper BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION stamp()",
        config=Config(tables={"t": OFF}),
    )
    one.run("INSERT INTO t VALUES (1, '2020-01-01')")
    one.sync()
    role = as_owner(other)
    try:
        other.run("ALTER TABLE t OWNER TO CURRENT_USER", f'GRANT ALL ON t TO "{role}"')
        error = other.refused(DatabaseFailed)
        assert "stamper" in error.message
        assert "must be owner of table t" in error.message
        assert "VIBEY_STATE_PG_URL" in error.hint
    finally:
        forget_role(other, role)


def test_an_older_branch_is_lifted_without_firing_anything(ends: Ends, tmp_path: Path) -> None:
    """In the scratch database where its migrations are applied, rows stay what they were."""
    older, newer = tmp_path / "older", tmp_path / "newer"
    for folder in (older, newer):
        folder.mkdir()
        (folder / "1.sql").write_text(
            "CREATE TABLE public.t (id int PRIMARY KEY, at timestamptz);"
            + FUNCTIONS.replace("FUNCTION ", "FUNCTION public.")
            + "; CREATE TRIGGER stamper BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.stamp()"
        )
    (newer / "2.sql").write_text("ALTER TABLE public.t ADD COLUMN v text DEFAULT 'new'")
    one = ends.make(migrations=older)
    other = ends.make(config=Config(migrations=Migrations(directory=newer), tables={"t": OFF}))
    with psycopg.connect(one.dsn) as connection:
        connection.execute("SET session_replication_role = replica")
        connection.execute("INSERT INTO t VALUES (1, '2020-01-01Z')")
    one.sync()
    other.sync()
    assert other.value("SELECT at = '2020-01-01Z' AND v = 'new' FROM t") is True
