"""What foreign keys reference passes from one row to another: no child is lost or changed, whatever the action."""

from __future__ import annotations

from collections.abc import Iterable

import psycopg
import pytest

from tests.support.dumps import dump
from tests.support.ends import End, Ends
from tests.support.roles import forget_role, sync_as_new_role
from vibey_actions.config import Config
from vibey_actions.errors import Conflicts, DatabaseFailed, RowRefused
from vibey_actions.postgres import writing
from vibey_actions.state.report import SyncState

ACTIONS = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")
DEFINITIONS = (
    "SELECT array_agg(conname || ' ' || pg_get_constraintdef(oid) ORDER BY conrelid::regclass::text, conname)"
    " FROM pg_constraint WHERE connamespace = 'public'::regnamespace"
)


def raw(end: End, *statements: str) -> None:
    """Run statements as one transaction in which no foreign key acts: what is left has to keep them."""
    with psycopg.connect(end.dsn) as connection:
        connection.execute("SET session_replication_role = replica")
        for statement in statements:
            connection.execute(statement.encode())


def rotate(end: End, table: str, values: Iterable[str]) -> None:
    """Pass the values of u on: the first to the row that has the second, and so on around."""
    names = list(values)
    following = " ".join(f"WHEN '{old}~' THEN '{new}'" for old, new in zip(names, names[1:] + names[:1], strict=True))
    raw(
        end,
        f"UPDATE {table} SET u = u || '~' WHERE u = ANY('{{{','.join(names)}}}')",
        f"UPDATE {table} SET u = CASE u {following} END WHERE u LIKE '%~'",
    )


def level(one: End, other: End) -> None:
    """Sync until both have seen each other, and prove by their dumps that they hold the same."""
    one.sync()
    other.sync()
    one.sync()
    assert dump(one.dsn) == dump(other.dsn)
    assert other.operations.status().state is SyncState.IN_SYNC


@pytest.mark.parametrize("late", ["", " DEFERRABLE INITIALLY DEFERRED"], ids=["at once", "late"])
def test_values_pass_on_under_every_action(ends: Ends, late: str) -> None:
    """Swapped, taken over, followed, in both directions; children that moved, stayed, or are new at the other end."""
    one, other = ends.pair(
        *(
            f"CREATE TABLE p{n} (id int PRIMARY KEY, u text NOT NULL UNIQUE);"
            f"CREATE TABLE c{n} (id int PRIMARY KEY, u text DEFAULT 'x' REFERENCES p{n} (u)"
            f" ON DELETE {action} ON UPDATE {action}{late});"
            f"CREATE TABLE g{n} (id int PRIMARY KEY, c int REFERENCES c{n} ON DELETE CASCADE);"
            f"CREATE TABLE tree{n} (id int PRIMARY KEY, u text NOT NULL UNIQUE, up text DEFAULT 'x' REFERENCES"
            f" tree{n} (u) ON DELETE {action} ON UPDATE {action}{late})"
            for n, action in enumerate(ACTIONS)
        )
    )
    numbers = range(len(ACTIONS))
    for n in numbers:
        one.run(
            f"INSERT INTO p{n} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'x'), (5, 'e')",
            f"INSERT INTO c{n} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'e')",
            f"INSERT INTO g{n} VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
            f"INSERT INTO tree{n} VALUES (1, 'a', NULL), (2, 'b', 'a'), (3, 'c', 'c'), (4, 'x', 'b'), (5, 'e', 'c')",
        )
    level(one, other)
    definitions = other.value(DEFINITIONS)
    for n in numbers:
        # Taken over by another row, without a circle.
        raw(one, f"DELETE FROM p{n} WHERE id = 3", f"INSERT INTO p{n} VALUES (6, 'c')")
        raw(one, f"UPDATE p{n} SET u = 'f' WHERE id = 5", f"INSERT INTO p{n} VALUES (7, 'e')")
        raw(one, f"UPDATE c{n} SET u = 'f' WHERE id = 4")
        raw(one, f"DELETE FROM tree{n} WHERE id = 3", f"INSERT INTO tree{n} VALUES (6, 'c', 'c')")
        other.run(f"INSERT INTO c{n} VALUES (12, 'e'), (13, 'c')", f"INSERT INTO g{n} VALUES (13, 13)")
    one.sync()
    level(other, one)
    for n in numbers:
        rotate(one, f"p{n}", "ab")
        raw(one, f"UPDATE c{n} SET u = 'a' WHERE id = 2")
        rotate(one, f"tree{n}", "ab")
        other.run(f"INSERT INTO c{n} VALUES (10, 'a'), (11, 'b')", f"INSERT INTO g{n} VALUES (10, 10)")
        other.run(f"INSERT INTO tree{n} VALUES (10, 'new', 'c')")
    one.sync()
    level(other, one)
    for n in numbers:
        assert other.rows(f"p{n}") == ["(1,b)", "(2,a)", "(4,x)", "(5,f)", "(6,c)", "(7,e)"]
        assert other.rows(f"c{n}") == ["(1,a)", "(10,a)", "(11,b)", "(12,e)", "(13,c)", "(2,a)", "(3,c)", "(4,f)"]
        assert len(other.rows(f"g{n}")) == 6
        tree = ["(1,b,)", "(10,new,c)", "(2,a,a)", "(4,x,b)", "(5,e,c)", "(6,c,c)"]
        assert other.rows(f"tree{n}") == tree
        rotate(other, f"p{n}", "abc")
        raw(other, f"UPDATE c{n} SET u = CASE u WHEN 'a' THEN 'b' ELSE u END", f"DELETE FROM c{n} WHERE id = 3")
        raw(other, f"DELETE FROM g{n} WHERE c = 3")
        rotate(other, f"tree{n}", "abc")
        one.run(f"INSERT INTO c{n} VALUES (20, 'a'), (21, 'b'), (22, 'c')", f"INSERT INTO g{n} VALUES (20, 20)")
        one.run(f"INSERT INTO tree{n} VALUES (20, 'newer', 'a')")
    other.sync()
    level(one, other)
    assert one.rows("c4") == other.rows("c4") != []
    assert other.value(DEFINITIONS) == definitions


def test_a_chain_of_values_with_children_that_follow(ends: Ends) -> None:
    """Each row takes what the next gives up, and every child goes with its parent, as ON UPDATE CASCADE had it."""
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, place int NOT NULL UNIQUE, v text)",
        "CREATE TABLE c (id int PRIMARY KEY, place int NOT NULL REFERENCES p (place) ON UPDATE CASCADE)",
        "CREATE TABLE d (id int PRIMARY KEY, place int NOT NULL REFERENCES p (place))",
    )
    one.run("INSERT INTO p SELECT n, n FROM generate_series(1, 40) n", "INSERT INTO c SELECT id, place FROM p")
    one.run("INSERT INTO d SELECT id, place FROM p WHERE id < 5")
    level(one, other)
    one.run(*(f"UPDATE p SET place = place + 1 WHERE id = {n}" for n in range(40, 9, -1)))
    raw(one, "UPDATE p SET place = 10 WHERE id = 1", "UPDATE d SET place = 10 WHERE id = 1")
    raw(one, "UPDATE c SET place = 10 WHERE id = 1")
    other.run("UPDATE p SET v = 'here' WHERE id = 2", "INSERT INTO d VALUES (50, 20)")
    one.sync()
    level(other, one)
    assert other.value("SELECT count(*) FROM c JOIN p USING (id, place)") == 40
    assert other.rows("d") == ["(1,10)", "(2,2)", "(3,3)", "(4,4)", "(50,20)"]


def test_a_chain_of_values_in_a_table_that_references_itself(ends: Ends) -> None:
    """Rows pass a value on while others come that rows which change point at: no order does, and it goes through."""
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, place int NOT NULL UNIQUE, up int REFERENCES t,"
        " above int REFERENCES t (place) ON UPDATE CASCADE)"
    )
    one.run("INSERT INTO t SELECT n, n, nullif(n - 1, 0), nullif(n - 1, 0) FROM generate_series(1, 9) n")
    level(one, other)
    one.run(*(f"UPDATE t SET place = place + 1 WHERE id = {n}" for n in range(9, 3, -1)))
    one.run("INSERT INTO t VALUES (20, 4, 3, 3)", "UPDATE t SET up = 20, above = 4 WHERE id IN (2, 4, 9)")
    other.run("INSERT INTO t VALUES (30, 30, 5, 5)")
    one.sync()
    level(other, one)
    assert {"(20,4,3,3)", "(30,30,5,5)", "(9,10,20,4)"} < set(other.rows("t"))


def test_composite_keys_partitions_and_cycles(ends: Ends) -> None:
    """Several columns, partitioned at both ends of the key, and two tables that reference each other's values."""
    one, other = ends.pair(
        "CREATE TABLE p (id int, day int, u int NOT NULL, PRIMARY KEY (id, day), UNIQUE (u, day))"
        " PARTITION BY LIST (day)",
        "CREATE TABLE p1 PARTITION OF p FOR VALUES IN (1); CREATE TABLE p2 PARTITION OF p DEFAULT",
        "CREATE TABLE c (id int, day int, u int, PRIMARY KEY (id, day),"
        " FOREIGN KEY (u, day) REFERENCES p (u, day) ON UPDATE CASCADE ON DELETE CASCADE) PARTITION BY LIST (day)",
        "CREATE TABLE c1 PARTITION OF c FOR VALUES IN (1); CREATE TABLE c2 PARTITION OF c DEFAULT",
        "CREATE TABLE a (id int PRIMARY KEY, u int UNIQUE, b int); CREATE TABLE b (id int PRIMARY KEY, u int UNIQUE,"
        " a int REFERENCES a (u) ON UPDATE CASCADE ON DELETE SET NULL)",
        "ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b (u) ON UPDATE CASCADE ON DELETE CASCADE",
    )
    raw(one, "INSERT INTO p VALUES (1, 1, 1), (2, 1, 2), (3, 2, 1)", "INSERT INTO c VALUES (1, 1, 1), (2, 1, 2)")
    raw(one, "INSERT INTO c VALUES (3, 2, 1)", "INSERT INTO a VALUES (1, 1, 2), (2, 2, 1)")
    raw(one, "INSERT INTO b VALUES (1, 1, 1), (2, 2, 2)")
    level(one, other)
    definitions = other.value(DEFINITIONS)
    other.run("INSERT INTO c VALUES (9, 1, 1)", "INSERT INTO a VALUES (9, 9, 1)")
    raw(one, "UPDATE p SET u = 3 WHERE id = 2", "UPDATE p SET u = 2 WHERE id = 1", "INSERT INTO p VALUES (5, 1, 1)")
    for table in "ab":
        raw(one, f"UPDATE {table} SET u = -u", f"UPDATE {table} SET u = 3 + u")
    raw(one, "DELETE FROM p WHERE id = 3", "INSERT INTO p VALUES (4, 2, 1)")
    one.sync()
    level(other, one)
    assert other.rows("c") == ["(1,1,1)", "(2,1,2)", "(3,2,1)", "(9,1,1)"]
    assert other.rows("a") == ["(1,2,2)", "(2,1,1)", "(9,9,1)"]
    assert other.rows("b") == ["(1,2,1)", "(2,1,2)"]
    assert other.value(DEFINITIONS) == definitions


def test_a_key_that_is_written_otherwise_and_means_the_same(ends: Ends) -> None:
    """1.0 becomes 1.00 and 'a' becomes 'A': a foreign key acts on that, and children that did not change stay."""
    one, other = ends.pair(
        "CREATE EXTENSION citext",
        "CREATE TABLE p (id numeric PRIMARY KEY, u citext UNIQUE)",
        *(
            f"CREATE TABLE c{n} (id int PRIMARY KEY, p numeric DEFAULT 1 REFERENCES p ON UPDATE {action},"
            f" u citext DEFAULT 'a' REFERENCES p (u) ON UPDATE {action})"
            for n, action in enumerate(ACTIONS)
        ),
        "CREATE TABLE keyed (p numeric REFERENCES p ON UPDATE CASCADE, n int, PRIMARY KEY (p, n))",
    )
    one.run("INSERT INTO p VALUES (1.0, 'a'), (2.0, 'b')", "INSERT INTO keyed VALUES (1.0, 1)")
    one.run(*(f"INSERT INTO c{n} VALUES (1, 1.0, 'a'), (2, 2.0, 'b')" for n in range(len(ACTIONS))))
    level(one, other)
    raw(one, "UPDATE p SET id = 1.00 WHERE id = 1", "UPDATE p SET u = 'B' WHERE u = 'b'")
    raw(one, "UPDATE c2 SET p = 1.00 WHERE id = 1", "UPDATE keyed SET p = 1.000")
    other.run(*(f"INSERT INTO c{n} VALUES (9, 1.0, 'b')" for n in range(len(ACTIONS))))
    other.run("INSERT INTO keyed VALUES (1.0, 9)")
    one.sync()
    level(other, one)
    assert other.rows("p") == ["(1.00,a)", "(2.0,B)"]
    for n in range(len(ACTIONS)):
        first = "(1,1.00,a)" if n == 2 else "(1,1.0,a)"
        assert other.rows(f"c{n}") == [first, "(2,2.0,b)", "(9,1.0,b)"]
    assert other.rows("keyed") == ["(1.0,9)", "(1.000,1)"]


def test_nothing_is_put_aside_that_need_not_be(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parents that go with their children, children that move away, values that nobody takes over: by order alone."""
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)",
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE,"
        " u int REFERENCES p (u) ON DELETE CASCADE ON UPDATE CASCADE)",
    )
    one.run("INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)", "INSERT INTO c VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
    level(one, other)
    plans: list[frozenset[int]] = []
    real = writing._Writer.clear

    def clear(writer: writing._Writer, plan: writing._Plan) -> None:
        plans.append(plan.aside)
        real(writer, plan)

    monkeypatch.setattr(writing._Writer, "clear", clear)
    one.run("DELETE FROM p WHERE id = 1", "UPDATE p SET u = 20 WHERE id = 2", "UPDATE c SET u = 20 WHERE id = 3")
    one.run("INSERT INTO p VALUES (4, 4)")
    level(one, other)
    assert other.rows("c") == ["(2,2,20)", "(3,3,20)"]
    assert plans == [frozenset()]


def test_a_key_that_cannot_be_made_again_whole_is_named(ends: Ends) -> None:
    """A comment on a foreign key would be lost with it: refused by name, with the two rows and what to do."""
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)",
        "CREATE TABLE c (id int PRIMARY KEY, u int CONSTRAINT kept REFERENCES p (u) ON DELETE CASCADE)",
        "COMMENT ON CONSTRAINT kept ON c IS 'kept'",
    )
    one.run("INSERT INTO p VALUES (1, 10)", "INSERT INTO c VALUES (5, 10)")
    level(one, other)
    raw(one, "DELETE FROM p", "INSERT INTO p VALUES (2, 10)")
    one.sync()
    error = other.refused(RowRefused)
    assert "table p, row [1]" in error.message
    assert "c [5]" in error.message
    assert "kept" in error.message
    assert "by hand" in error.hint
    raw(other, "DELETE FROM p", "INSERT INTO p VALUES (2, 10)")
    level(other, one)


def test_a_role_that_does_not_own_the_child_is_told_so(ends: Ends) -> None:
    """Putting a foreign key aside is the owner's right; the error names the key and whom to connect as."""
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)",
        "CREATE TABLE c (id int PRIMARY KEY, u int REFERENCES p (u) ON DELETE CASCADE)",
    )
    one.run("INSERT INTO p VALUES (1, 10)", "INSERT INTO c VALUES (5, 10)")
    level(one, other)
    raw(one, "DELETE FROM p", "INSERT INTO p VALUES (2, 10)")
    one.sync()
    role = sync_as_new_role(other)
    other.run(f'GRANT USAGE ON SCHEMA vibey_actions TO "{role}"')
    other.run(f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, vibey_actions TO "{role}"')
    try:
        error = other.refused(DatabaseFailed)
        assert "c_u_fkey" in error.message
        assert "VIBEY_STATE_PG_URL" in error.hint
    finally:
        forget_role(other, role)


def test_children_that_are_not_synced(ends: Ends) -> None:
    """Theirs is the declared action, and a row whose parent only passes its value on stays; both at once is refused."""
    config = Config(exclude=("note",))
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)",
        "CREATE TABLE note (id int PRIMARY KEY, u int REFERENCES p (u) ON DELETE CASCADE ON UPDATE CASCADE)",
        config=config,
    )
    one.run("INSERT INTO p VALUES (1, 10), (2, 20), (3, 30), (4, 40)")
    level(one, other)
    other.run("INSERT INTO note VALUES (1, 10), (2, 20)")
    raw(one, "DELETE FROM p WHERE id = 1", "INSERT INTO p VALUES (5, 10)", "DELETE FROM p WHERE id = 4")
    one.sync()
    other.sync()
    assert other.rows("note") == ["(1,10)", "(2,20)"]
    one.run("UPDATE p SET u = 21 WHERE id = 2")
    one.sync()
    other.sync()
    assert other.rows("note") == ["(1,10)", "(2,21)"]
    raw(one, "DELETE FROM p WHERE id IN (2, 5)", "INSERT INTO p VALUES (6, 10)")
    one.sync()
    assert "note_u_fkey" in other.refused(RowRefused).message
    other.run("DELETE FROM note WHERE id = 2")
    other.sync()
    assert other.rows("note") == ["(1,10)"]
    assert other.rows("p") == one.rows("p") == ["(3,30)", "(6,10)"]


def test_a_child_that_is_left_behind_is_a_conflict_all_the_same(ends: Ends) -> None:
    """One value is taken over, another is not: the child of the latter is named, and the status says so as well."""
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)",
        "CREATE TABLE c (id int PRIMARY KEY, u int REFERENCES p (u) ON DELETE CASCADE)",
    )
    one.run("INSERT INTO p VALUES (1, 10), (2, 20)", "INSERT INTO c VALUES (1, 10)")
    level(one, other)
    raw(one, "DELETE FROM p", "INSERT INTO p VALUES (3, 10)")
    other.run("INSERT INTO c VALUES (2, 20)")
    one.sync()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.key) for c in error.conflicts] == [("c", "[2]")]
    assert list(other.operations.status().conflicts) == list(error.conflicts)
