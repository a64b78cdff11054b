"""What one end changed arrives at the other as one guarded transaction, whatever the tables hang together by."""

from __future__ import annotations

import threading
import time

import psycopg
import pytest

from tests.support.ends import End, Ends
from tests.support.machines import until
from vibey_actions.errors import Conflicts, DatabaseFailed, GaveUp, RowRefused, StateMoved
from vibey_actions.postgres import apply as apply_module
from vibey_actions.postgres.sql import identifier
from vibey_actions.state.report import ConflictKind, SyncState


def level(one: End, other: End) -> None:
    """Sync until both have seen each other, then prove that they are equal and at rest."""
    one.sync()
    other.sync()
    one.sync()
    assert one.everything() == other.everything()
    one.forget_agreements()
    report = one.operations.status()
    assert (report.state, report.to_pull, report.to_push) == (SyncState.IN_SYNC, 0, 0)


FAMILY = """
CREATE TABLE parent{n} (id int PRIMARY KEY, name text);
CREATE TABLE child{n} (id int PRIMARY KEY, parent int {not_null} REFERENCES parent{n} {action}, name text);
"""
ACTIONS = ("", "ON DELETE CASCADE", "ON DELETE SET NULL", "ON DELETE RESTRICT")
FAMILIES = [(action, not_null) for action in ACTIONS for not_null in ("", "NOT NULL")]


def each(end: End, count: int, *statements: str) -> None:
    """Run statements once for every number, which stands as {n} in them."""
    end.run(*(statement.format(n=n) for n in range(count) for statement in statements))


@pytest.fixture
def families(ends: Ends) -> tuple[End, End]:
    """Two databases with parents and children tied in every way, two parents and two children in each."""
    schema = "".join(FAMILY.format(n=n, action=a, not_null=not_null) for n, (a, not_null) in enumerate(FAMILIES))
    one, other = ends.pair(schema)
    each(one, len(FAMILIES), "INSERT INTO parent{n} VALUES (1, 'a'), (2, 'b')")
    each(one, len(FAMILIES), "INSERT INTO child{n} VALUES (1, 1, 'x'), (2, 2, 'y')")
    level(one, other)
    return one, other


def test_a_parent_that_only_changes_keeps_its_children(families: tuple[End, End]) -> None:
    """A changed parent is updated in place: no cascade runs, and a new child of it arrives with it."""
    one, other = families
    each(
        one,
        len(FAMILIES),
        "UPDATE parent{n} SET name = 'changed' WHERE id = 1; INSERT INTO parent{n} VALUES (3, 'c')",
        "INSERT INTO child{n} VALUES (3, 3, 'z')",
        "DELETE FROM child{n} WHERE id = 2; DELETE FROM parent{n} WHERE id = 2",
    )
    level(one, other)
    for n in range(len(FAMILIES)):
        assert other.rows(f"child{n}") == ["(1,1,x)", "(3,3,z)"]
        assert other.rows(f"parent{n}") == ["(1,changed)", "(3,c)"]


def test_children_move_to_another_parent_as_theirs_goes(families: tuple[End, End]) -> None:
    """A child that was re-pointed to a parent, old or new, outlives the one that was deleted."""
    one, other = families
    each(
        one,
        len(FAMILIES),
        "INSERT INTO parent{n} VALUES (3, 'new'), (4, 'new')",
        "UPDATE child{n} SET parent = 2 WHERE id = 1",
        "UPDATE child{n} SET parent = 3 WHERE id = 2",
        "UPDATE child{n} SET parent = 4 WHERE id = 1",
        "DELETE FROM parent{n} WHERE id < 3",
    )
    level(one, other)
    for n in range(len(FAMILIES)):
        assert other.rows(f"child{n}") == ["(1,4,x)", "(2,3,y)"]


@pytest.mark.parametrize("action", ["", "ON DELETE CASCADE"])
def test_a_child_added_here_of_a_parent_deleted_there_is_a_conflict(ends: Ends, action: str) -> None:
    """No cascade takes the child and no reference is emptied: constraint, child and parent are named at once."""
    one, other = ends.pair(FAMILY.format(n="", action=action, not_null=""))
    one.run("INSERT INTO parent VALUES (1, 'a'), (2, 'b')")
    level(one, other)
    one.run("DELETE FROM parent")
    one.sync()
    other.run("INSERT INTO child VALUES (5, 1, 'x'), (6, 2, 'y'), (7, 2, 'z')")
    commits = ends.commits()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.key, c.kind, c.constraint) for c in error.conflicts] == [
        ("child", key, ConflictKind.CONSTRAINT, "child_parent_fkey") for key in ("[5]", "[6]", "[7]")
    ]
    assert "parent [2]" in error.conflicts[2].why
    assert ends.commits() == commits
    other.run("DELETE FROM child")
    level(one, other)


@pytest.mark.parametrize("deferrable", ["", "DEFERRABLE INITIALLY DEFERRED"])
def test_a_child_added_there_of_a_parent_deleted_here_is_a_conflict(ends: Ends, deferrable: str) -> None:
    """The other way round: the child cannot come in, which is said of each such row, checked late or not."""
    one, other = ends.pair(FAMILY.format(n="", action=deferrable, not_null=""))
    one.run("INSERT INTO parent VALUES (1, 'a'), (2, 'b')")
    level(one, other)
    one.run("INSERT INTO child VALUES (5, 1, 'x'), (6, 2, 'y'), (7, NULL, 'z')")
    one.sync()
    other.run("DELETE FROM parent")
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.key, c.kind, c.constraint) for c in error.conflicts] == [
        ("child", key, ConflictKind.CONSTRAINT, "child_parent_fkey") for key in ("[5]", "[6]")
    ]


UNIQUE = ("UNIQUE (u)", "UNIQUE (u, v)", "UNIQUE (u) DEFERRABLE", "EXCLUDE USING btree (u WITH =)")


def test_unique_values_are_swapped_and_moved(ends: Ends) -> None:
    """Rows trade their unique values, pass them on, and take those of a row that goes."""
    table = "CREATE TABLE t{n} (id int PRIMARY KEY, u text NOT NULL, v int, {constraint});"
    one, other = ends.pair("".join(table.format(n=n, constraint=kind) for n, kind in enumerate(UNIQUE)))
    each(one, len(UNIQUE), "INSERT INTO t{n} VALUES (1, 'a', 0), (2, 'b', 0), (3, 'c', 0), (4, 'd', 0), (5, 'e', 0)")
    level(one, other)
    each(
        one,
        len(UNIQUE),
        "UPDATE t{n} SET u = 'tmp' WHERE id = 1",
        "UPDATE t{n} SET u = 'a' WHERE id = 2",
        "UPDATE t{n} SET u = 'b' WHERE id = 1",
        "UPDATE t{n} SET u = 'z' WHERE id = 4",
        "UPDATE t{n} SET u = 'd' WHERE id = 3",
        "DELETE FROM t{n} WHERE id = 5",
        "INSERT INTO t{n} VALUES (6, 'e', 0), (0, 'c', 0)",
    )
    level(one, other)


def test_two_rows_that_come_to_share_a_unique_value_are_a_conflict(ends: Ends) -> None:
    """Every violation of every unique index is in one report, with both rows, and nothing is written."""
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, u text UNIQUE, v text, w int)",
        "CREATE UNIQUE INDEX low ON t (lower(v)) WHERE w > 0",
    )
    one.run("INSERT INTO t VALUES (1, 'one', 'A', 1)")
    level(one, other)
    one.run("INSERT INTO t VALUES (2, 'same', 'B', 1), (3, 'three', 'C', 0)")
    one.sync()
    other.run("INSERT INTO t VALUES (4, 'same', 'D', 1), (5, 'five', 'b', 1), (6, 'six', 'c', 1)")
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert sorted((c.table, c.key, c.kind, c.constraint) for c in error.conflicts) == [
        ("t", "[2]", ConflictKind.CONSTRAINT, "low"),
        ("t", "[2]", ConflictKind.CONSTRAINT, "t_u_key"),
    ]
    whys = " ".join(conflict.why for conflict in error.conflicts)
    assert "[4]" in whys
    assert "[5]" in whys
    assert "same" not in whys


def test_rows_that_reference_their_own_table(ends: Ends) -> None:
    """Children before parents in key order, a loop, a row that is its own parent, and all of it gone again."""
    ties = (*ACTIONS, "DEFERRABLE")
    table = "CREATE TABLE node{n} (id int PRIMARY KEY, up int REFERENCES node{n} {tie});"
    one, other = ends.pair("".join(table.format(n=n, tie=tie) for n, tie in enumerate(ties)))
    each(one, len(ties), "INSERT INTO node{n} VALUES (1, 3), (2, 1), (3, 3), (4, 5), (5, 4), (6, NULL)")
    level(one, other)
    each(
        one,
        len(ties),
        "UPDATE node{n} SET up = 6 WHERE id IN (1, 3)",
        "UPDATE node{n} SET up = NULL WHERE id IN (4, 5); DELETE FROM node{n} WHERE id IN (4, 5)",
        "INSERT INTO node{n} VALUES (7, 8), (8, 2); UPDATE node{n} SET up = 7 WHERE id = 6",
    )
    level(one, other)
    each(one, len(ties), "UPDATE node{n} SET up = NULL; DELETE FROM node{n}")
    level(one, other)


@pytest.mark.parametrize("deferrable", ["", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED"])
def test_tables_that_reference_each_other(ends: Ends, deferrable: str) -> None:
    """A cycle of foreign keys goes in, is re-tied and goes away, whether its keys can be deferred or not."""
    one, other = ends.pair(
        "CREATE TABLE a (id int PRIMARY KEY, b int); CREATE TABLE b (id int PRIMARY KEY, a int NOT NULL)",
        f"ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b {deferrable}",
        f"ALTER TABLE b ADD FOREIGN KEY (a) REFERENCES a {deferrable}",
    )
    one.run("INSERT INTO a VALUES (1), (2)", "INSERT INTO b VALUES (1, 2), (2, 1)", "UPDATE a SET b = id")
    level(one, other)
    one.run(
        "INSERT INTO a VALUES (3)", "INSERT INTO b VALUES (3, 3)", "UPDATE a SET b = 3", "DELETE FROM b WHERE id = 1"
    )
    level(one, other)
    one.run("UPDATE a SET b = NULL", "DELETE FROM b", "DELETE FROM a")
    level(one, other)


def test_a_row_that_changes_as_it_is_written_starts_the_cycle_again(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changed, deleted or inserted here between the read and the apply: StateMoved, and nothing of it is written."""
    one, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY)")
    one.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    level(one, other)
    one.run("UPDATE t SET v = 'x'", "INSERT INTO t VALUES (3, 'c')", "INSERT INTO u VALUES (1)")
    one.sync()
    real = apply_module.lock
    for meanwhile in (
        "UPDATE t SET v = 'mine' WHERE id = 2",
        "DELETE FROM t WHERE id = 1",
        "INSERT INTO t VALUES (3, 'm')",
    ):

        def before(*arguments: object, statement: str = meanwhile) -> None:
            other.run(statement)
            real(*arguments)  # type: ignore[arg-type]

        backup = other.rows("t")
        monkeypatch.setattr(apply_module, "lock", before)
        other.env["VIBEY_STATE_ATTEMPTS"] = "1"
        with pytest.raises(GaveUp) as caught:
            other.sync()
        assert isinstance(caught.value.__cause__, StateMoved)
        monkeypatch.setattr(apply_module, "lock", real)
        assert len(other.rows("u")) == 0
        other.run(
            "TRUNCATE t", *(f"INSERT INTO t VALUES {row}".replace(",", ",'").replace(")", "')") for row in backup)
        )
    level(one, other)


def test_readers_are_never_blocked_and_writers_wait(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a reader's transaction open on the table the apply goes through; a writer's makes it wait, then stop."""
    one, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, v text)")
    one.run("INSERT INTO t VALUES (1, 'a')")
    level(one, other)
    one.run("UPDATE t SET v = 'b'")
    one.sync()
    monkeypatch.setattr(apply_module, "LOCK_TIMEOUT", "50ms")
    other.env["VIBEY_STATE_ATTEMPTS"] = "2"
    with psycopg.connect(other.dsn) as reader:
        assert reader.execute("SELECT v FROM t").fetchall() == [("a",)]
        with psycopg.connect(other.dsn) as writer:
            writer.execute("INSERT INTO t VALUES (9, 'x')")
            error = other.refused(GaveUp)
            assert "another session holds a lock" in error.message
            writer.rollback()
        other.sync()
        reader.execute("SELECT v FROM t").fetchall()
    assert other.rows("t") == ["(1,b)"]


def test_a_writer_waits_for_the_apply_and_then_goes_on(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that begins while the apply holds its locks is not lost and not refused."""
    one, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, v text)")
    one.run("INSERT INTO t VALUES (1, 'a')")
    level(one, other)
    one.run("UPDATE t SET v = 'b'")
    one.sync()
    writer = threading.Thread(target=other.run, args=("UPDATE t SET v = v || '!'",))
    real = apply_module._guard

    def slowly(*arguments: object) -> None:
        writer.start()
        time.sleep(0.3)
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(apply_module, "_guard", slowly)
    other.sync()
    writer.join()
    assert other.rows("t") == ["(1,b!)"]
    monkeypatch.setattr(apply_module, "_guard", real)
    level(one, other)
    assert one.rows("t") == ["(1,b!)"]


def test_a_deadlock_starts_the_cycle_again(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sync that was chosen to give way begins anew and ends level; nothing is lost."""
    one, other = ends.pair("CREATE TABLE a (id int PRIMARY KEY); CREATE TABLE b (id int PRIMARY KEY, v int)")
    level(one, other)
    one.run("INSERT INTO a VALUES (1)", "INSERT INTO b VALUES (1, 1)")
    one.sync()
    real = apply_module.lock
    waits = "SELECT count(*) FROM pg_locks WHERE relation = 'a'::regclass AND NOT granted"
    with psycopg.connect(other.dsn) as writer:
        writer.execute("SET deadlock_timeout = '10min'")
        writer.execute("INSERT INTO b VALUES (2, 2)")

        def insert() -> None:
            writer.execute("INSERT INTO a VALUES (2)")
            writer.commit()

        thread = threading.Thread(target=insert)

        def locking(connection: psycopg.Connection, *arguments: object) -> None:
            # Who closes the circle finds it: the writer waits for `a` before this sync asks for `b`.
            monkeypatch.setattr(apply_module, "lock", real)
            connection.execute("LOCK TABLE public.a IN SHARE ROW EXCLUSIVE MODE")
            connection.execute("SET LOCAL deadlock_timeout = '10ms'")
            thread.start()
            until(lambda: other.value(waits) == 1)
            real(connection, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(apply_module, "lock", locking)
        report = other.sync()
        thread.join()
    assert report.attempts == 2
    level(one, other)
    assert one.rows("b") == ["(1,1)", "(2,2)"]


def test_sequences_go_past_what_was_written_and_never_back(ends: Ends) -> None:
    """serial, identity (ALWAYS too) and quoted names; one that is further on stays, an empty table's is untouched."""
    one, other = ends.pair(
        'CREATE TABLE "Order" ("Id" bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, "select" text)',
        "CREATE TABLE s (id serial PRIMARY KEY); CREATE TABLE empty (id serial PRIMARY KEY)",
    )
    one.run('INSERT INTO "Order" ("select") VALUES (1), (2)', "INSERT INTO s SELECT FROM generate_series(1, 5)")
    one.sync()
    other.value("SELECT setval('s_id_seq', 100)")
    other.sync()
    other.run(
        'INSERT INTO "Order" ("select") VALUES (3)', "INSERT INTO s DEFAULT VALUES", "INSERT INTO empty DEFAULT VALUES"
    )
    assert other.rows('"Order"') == ["(1,1)", "(2,2)", "(3,3)"]
    assert other.value("SELECT max(id) FROM s") == 101
    assert other.value("SELECT max(id) FROM empty") == 1
    level(one, other)
    one.run("DELETE FROM s")
    level(one, other)
    other.run("INSERT INTO s DEFAULT VALUES")
    assert other.rows("s") == ["(102)"]


GENERATED = """
CREATE TABLE g (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED,
    dropped int, last text);
ALTER TABLE g DROP COLUMN dropped
"""


def test_generated_and_dropped_columns(ends: Ends) -> None:
    """Generated values are computed at the other end, and a gap in the columns makes no difference."""
    one, other = ends.pair(GENERATED)
    one.run("INSERT INTO g (a, last) VALUES (1, 'x'), (2, 'y')")
    level(one, other)
    one.run("UPDATE g SET a = 10 WHERE id = 1")
    level(one, other)
    assert other.rows("g") == ["(1,10,20,x)", "(2,2,4,y)"]


def test_partitions_go_through_their_root_and_inherited_tables_by_themselves(ends: Ends) -> None:
    """A partitioned table is one table; a table that inherits is a table of its own, as is the one above it."""
    one, other = ends.pair(
        "CREATE TABLE m (id int, day date, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM ('2020-01-01') TO ('2021-01-01')",
        "CREATE TABLE m2 PARTITION OF m DEFAULT",
        "CREATE TABLE top (id int PRIMARY KEY, v text)",
        "CREATE TABLE below (PRIMARY KEY (id), more int) INHERITS (top)",
        "CREATE TABLE linked (id int PRIMARY KEY REFERENCES top)",
    )
    one.run("INSERT INTO m VALUES (1, '2020-05-05'), (1, '2021-05-05')", "INSERT INTO top VALUES (1, 'a'), (2, 'b')")
    one.run("INSERT INTO below VALUES (1, 'c', 3)", "INSERT INTO linked VALUES (2)")
    level(one, other)
    one.run("UPDATE m SET day = '2022-01-01' WHERE day = '2020-05-05'", "UPDATE ONLY top SET v = 'x'")
    one.run("UPDATE below SET more = 4", "DELETE FROM ONLY top WHERE id = 1")
    level(one, other)
    assert other.rows("ONLY top") == ["(2,x)"]
    assert other.rows("below") == ["(1,c,4)"]


def trigger(table: str, timing: str, body: str) -> str:
    """A row trigger on a table."""
    return (
        f"CREATE FUNCTION f_{table}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$;"
        f"CREATE TRIGGER stamp {timing} ON {table} FOR EACH ROW EXECUTE FUNCTION f_{table}()"
    )


def test_a_trigger_that_rewrites_what_is_written_is_refused(ends: Ends) -> None:
    """The row is read back in the same transaction: trigger, table and key are named, and nothing stays."""
    schema = "CREATE TABLE t (id int PRIMARY KEY, at int DEFAULT 0)"
    one, other = ends.make(schema), ends.make(schema, trigger("t", "BEFORE INSERT OR UPDATE", "NEW.at := 99;"))
    one.run("INSERT INTO t VALUES (1, 5)")
    one.sync()
    error = other.refused(RowRefused)
    assert "stamp" in error.message
    assert "[1]" in error.message
    assert other.value("SELECT count(*) FROM state_sync") == 0


def test_rows_written_just_before_the_locks_are_not_taken_for_the_branchs(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that comes between the read and the locks makes rows of this database: the next sync pushes them."""
    one, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY); CREATE TABLE log (id text PRIMARY KEY)")
    one.run("INSERT INTO t VALUES (1)", "INSERT INTO log VALUES ('by one')")
    one.sync()
    real = apply_module.lock

    def late(*arguments: object) -> None:
        other.run("INSERT INTO log VALUES ('by another')", "INSERT INTO t VALUES (2)")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(apply_module, "lock", late)
    other.sync()
    monkeypatch.undo()
    assert other.rows("log") == ['("by another")', '("by one")']
    level(other, one)
    assert one.rows("log") == ['("by another")', '("by one")']
    assert one.rows("t") == ["(1)", "(2)"]


def test_no_push_with_changes_at_both_ends(ends: Ends) -> None:
    """A pull alone brings what is there, pushes nothing, and the next sync still knows what is to be pushed."""
    one, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, v text)")
    one.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")
    level(one, other)
    one.run("UPDATE t SET v = 'theirs' WHERE id = 1")
    one.sync()
    other.run("UPDATE t SET v = 'mine' WHERE id = 2")
    commits = ends.commits()
    report = other.sync(push=False)
    assert (report.state, report.to_pull, report.to_push) == (SyncState.AHEAD, 1, 1)
    assert ends.commits() == commits
    assert other.rows("t") == ["(1,theirs)", "(2,mine)"]
    level(other, one)
    assert one.rows("t") == ["(1,theirs)", "(2,mine)"]


def test_what_the_database_refuses_is_one_clean_error(ends: Ends, tmp_path: object) -> None:
    """A check that only one end has: the constraint is named, the value is not, both ends stay."""
    schema = "CREATE TABLE t (id int PRIMARY KEY, v text)"
    one, other = ends.make(schema), ends.make(schema, "ALTER TABLE t ADD CONSTRAINT short CHECK (length(v) < 5)")
    one.run("INSERT INTO t VALUES (1, 'MARKER')")
    one.sync()
    error = other.refused(DatabaseFailed)
    assert "short" in error.message
    assert "MARKER" not in error.message + error.hint


NAMES = (
    'weird ""q', "Capital", "select", "ünïcode", "🎉", "a.b", "100%", "%s", "%(bounds)s", "x" * 63, "é" * 31, " ",
    "back\\slash", "tab\there", "line\nend", "'", "r", "s", "$1", "{}", "\x7f", "\x01", "pg_class", "a", "A",
)  # fmt: skip


def test_any_name_can_be_a_table_a_column_and_a_key(ends: Ends) -> None:
    """Push, pull, update and delete, with the one name everywhere."""
    quoted = [identifier(name) for name in NAMES]
    tables = ";".join(
        f"CREATE TABLE public.{name} ({name} int PRIMARY KEY, v text, w int REFERENCES public.{name})"
        for name in quoted
    )
    one, other = ends.pair(tables)
    one.run(*(f"INSERT INTO public.{name} VALUES (1, 'a', NULL), (2, 'b', NULL), (3, 'c', 1)" for name in quoted))
    level(one, other)
    for name in quoted:
        one.run(f"DELETE FROM public.{name} WHERE {name} = 3", f"INSERT INTO public.{name} VALUES (4, 'd')")
        other.run(f"UPDATE public.{name} SET {name} = 7 WHERE {name} = 2")
    level(one, other)
    for name in quoted:
        assert other.rows(f"public.{name}") == ["(1,a,)", "(4,d,)", "(7,b,)"]
