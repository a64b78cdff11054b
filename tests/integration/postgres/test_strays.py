"""Rows that somebody writes beside the branch's changes, in any synced table, are seen and named before the commit."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.dumps import dump
from tests.support.ends import End, Ends
from vibey_actions.config import Config, TableConfig
from vibey_actions.errors import RowRefused
from vibey_actions.postgres import strays
from vibey_actions.state.report import SyncState

OFF = TableConfig(triggers="off")
TABLES = (
    "CREATE TABLE t (id int PRIMARY KEY, v int)",
    "CREATE TABLE log (id serial PRIMARY KEY, t int)",
    "CREATE TABLE total (id int PRIMARY KEY, sum bigint)",
)
# What the trigger does, and what the refusal says of it.
DEEDS = {
    "inserts": ("INSERT INTO log (t) VALUES (NEW.id)", "table log: rows were written (1 more inserted than meant)"),
    "updates": ("UPDATE total SET sum = sum + 1 WHERE id = 2", "table total: rows were written (1 more updated"),
    "deletes": ("DELETE FROM log WHERE t = 7", "table log: rows were written (1 more deleted than meant)"),
    "moves": ("UPDATE log SET id = id + 100 WHERE t = 7", "table log: rows were written (1 more updated"),
    "trades": ("DELETE FROM t WHERE id = 9; INSERT INTO t VALUES (10)", "table t: rows were written (1 more inserted"),
    "truncates": ("TRUNCATE log", "table log: it was truncated while"),
}


def trigger(deed: str, *, name: str = "noter") -> str:
    """SQL of a trigger of t that does something for each row, but not for the rows that it writes itself."""
    return (
        f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        f" IF pg_trigger_depth() < 2 THEN {deed}; END IF; RETURN NEW; END $$;"
        f"CREATE TRIGGER {name} AFTER INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION {name}()"
    )


def level(one: End, other: End) -> None:
    """Sync until both have seen each other, and prove by their dumps that they hold the same."""
    one.sync()
    other.sync()
    one.sync()
    assert dump(one.dsn) == dump(other.dsn)
    assert other.operations.status().state is SyncState.IN_SYNC


def pair(ends: Ends) -> tuple[End, End]:
    """Two ends that hold the same rows in three tables."""
    one, other = ends.pair(*TABLES)
    one.run("INSERT INTO t VALUES (1, 1), (9, 9)", "INSERT INTO log (t) VALUES (7), (8)")
    one.run("INSERT INTO total VALUES (1, 1), (2, 2)")
    level(one, other)
    return one, other


@pytest.mark.parametrize("deed", DEEDS)
def test_what_a_trigger_writes_elsewhere_is_refused_by_name(ends: Ends, deed: str) -> None:
    """The table that was written, the trigger and its table, and the setting that helps; then that setting does."""
    statement, said = DEEDS[deed]
    one, other = pair(ends)
    other.run(trigger(statement))
    one.run("UPDATE t SET v = 2 WHERE id = 1", "UPDATE total SET sum = 5 WHERE id = 1")
    one.sync()
    error = other.refused(RowRefused)
    assert said in error.message
    assert "the trigger noter of t may have done that" in error.message
    assert '[tables.t] triggers = "off"' in error.hint
    other.config = Config(tables={"t": OFF})
    level(one, other)


def test_what_changes_nothing_in_the_end_goes_through(ends: Ends) -> None:
    """A sum that is computed anew, a row that is written as it is or comes and goes: compared, and found the same."""
    one, other = pair(ends)
    deeds = (
        "UPDATE total SET sum = (SELECT sum(v) FROM t) WHERE id = 1",
        "UPDATE log SET t = t",
        "INSERT INTO log VALUES (99, 99); DELETE FROM log WHERE id = 99",
    )
    for end in (one, other):
        end.run(*(trigger(deed, name=f"noter{n}") for n, deed in enumerate(deeds)))
    one.run("UPDATE t SET v = 20 WHERE id = 1", "INSERT INTO t VALUES (3, 3)")
    assert one.value("SELECT sum FROM total WHERE id = 1") == 32
    other.run("INSERT INTO log (t) VALUES (10)")
    level(one, other)


def test_what_fires_late_or_through_a_rule_or_a_table_that_is_not_synced(ends: Ends) -> None:
    """A constraint trigger that is put off, a rule, and a foreign key's action on a table with a trigger of its own."""
    config = Config(exclude=("note",))
    one, other = ends.pair(
        *TABLES,
        "CREATE TABLE note (id int PRIMARY KEY, t int REFERENCES t ON DELETE CASCADE)",
        config=config,
    )
    one.run("INSERT INTO t VALUES (1, 1), (2, 2)")
    level(one, other)
    late = trigger("INSERT INTO log (t) VALUES (0)").replace("CREATE TRIGGER", "CREATE CONSTRAINT TRIGGER")
    other.run(late.replace("FOR EACH", "DEFERRABLE INITIALLY DEFERRED FOR EACH"))
    one.run("UPDATE t SET v = 3 WHERE id = 1")
    one.sync()
    assert "the trigger noter of t" in other.refused(RowRefused).message
    other.run(
        "DROP TRIGGER noter ON t",
        "CREATE RULE also AS ON UPDATE TO t DO ALSO INSERT INTO log (t) VALUES (NEW.id)",
    )
    error = other.refused(RowRefused)
    assert "the rule also of t" in error.message
    assert "exclude log" in error.hint
    other.run("DROP RULE also ON t")
    other.sync()
    other.run("INSERT INTO note VALUES (1, 2)")
    other.run(
        "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql"
        " AS $$ BEGIN INSERT INTO log (t) VALUES (0); RETURN NULL; END $$",
        "CREATE TRIGGER tell AFTER DELETE ON note FOR EACH ROW EXECUTE FUNCTION tell()",
    )
    one.run("DELETE FROM t WHERE id = 2")
    one.sync()
    error = other.refused(RowRefused)
    assert "table log" in error.message
    assert "a trigger of a table that is not synced" in error.message


def test_foreign_keys_and_rearrangements_alone_are_never_compared(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cascades over rows that go anyway, partitions, circles: what is counted is what was meant."""
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE, c int)",
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE, u int REFERENCES p (u)"
        " ON UPDATE CASCADE ON DELETE SET NULL)",
        "ALTER TABLE p ADD FOREIGN KEY (c) REFERENCES c ON DELETE CASCADE DEFERRABLE",
        "CREATE TABLE part (id int, day int, v int, PRIMARY KEY (id, day)) PARTITION BY LIST (day)",
        "CREATE TABLE part1 PARTITION OF part FOR VALUES IN (1); CREATE TABLE part2 PARTITION OF part DEFAULT",
    )
    one.run("INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO c VALUES (1, 1, 1), (2, 2, 2), (3, 3, NULL)")
    one.run("UPDATE p SET c = id", "INSERT INTO part SELECT n, n % 3, n FROM generate_series(1, 9) n")
    level(one, other)
    monkeypatch.setattr(strays, "_Rest", None)
    one.run("DELETE FROM p WHERE id = 1", "UPDATE p SET u = 20 WHERE id = 2", "UPDATE c SET u = 20 WHERE id = 3")
    one.run("UPDATE part SET day = 2 WHERE day = 1", "DELETE FROM part WHERE id = 5", "UPDATE part SET v = 0")
    one.run("INSERT INTO p VALUES (4, 4, 3)", "INSERT INTO c VALUES (4, 4, 4)")
    level(one, other)


def test_a_server_that_does_not_count_compares_every_table_where_somebody_may_write(ends: Ends) -> None:
    """With track_counts off the refusal is the same, and a database without triggers is not looked at."""
    one, other = pair(ends)
    name = psycopg.conninfo.conninfo_to_dict(other.dsn)["dbname"]
    other.run(f'ALTER DATABASE "{name}" SET track_counts = off')
    one.run("UPDATE t SET v = 2 WHERE id = 1")
    level(one, other)
    other.run(trigger("INSERT INTO log (t) VALUES (NEW.id)"))
    one.run("UPDATE t SET v = 3 WHERE id = 1")
    one.sync()
    error = other.refused(RowRefused)
    assert "table log: rows were written while" in error.message
    assert "the trigger noter of t" in error.message
    other.config = Config(tables={"t": OFF})
    level(one, other)
