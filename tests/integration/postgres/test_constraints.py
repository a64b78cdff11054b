"""A merge that is clean row by row and would break the database: every such row is named before anything is written."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.dumps import dump
from tests.support.ends import End, Ends, known_to
from tests.support.roles import forget_role, sync_as_new_role
from vibey_actions.config import Config, TableConfig
from vibey_actions.errors import Conflicts, DatabaseFailed
from vibey_actions.postgres import apply as apply_module
from vibey_actions.state.declaration import Rule
from vibey_actions.state.report import Conflict, ConflictKind, SyncState


def level(one: End, other: End) -> None:
    """Sync until both have seen each other, and prove by their dumps that they hold the same."""
    one.sync()
    other.sync()
    one.sync()
    assert dump(one.dsn) == dump(other.dsn)


def refusal(end: End) -> list[Conflict]:
    """The conflicts of a sync that writes nothing at either end, which `status` shows as well."""
    error = end.refused(Conflicts)
    assert isinstance(error, Conflicts)
    report = end.operations.status()
    assert report.state is SyncState.CONFLICT
    assert list(report.conflicts) == list(error.conflicts)
    assert all(conflict.kind is ConflictKind.CONSTRAINT for conflict in error.conflicts)
    return list(error.conflicts)


# Each: the table, what both ends have, the row that comes from the branch, the row that is here, the constraint.
CLASHES = {
    "plain": ("u text UNIQUE", "2, 'x'", "3, 'x'", "plain_u_key"),
    "late": ("u text UNIQUE DEFERRABLE INITIALLY DEFERRED", "2, 'x'", "3, 'x'", "late_u_key"),
    "two": ("a int, b text, UNIQUE (b, a) INCLUDE (id)", "2, 7, 'x'", "3, 7, 'x'", "two_b_a_id_key"),
    "alike": ("u int UNIQUE NULLS NOT DISTINCT", "2, NULL", "3, NULL", "alike_u_key"),
    "folded": ("u citext UNIQUE", "2, 'x'", "3, 'X'", "folded_u_key"),
    "computed": ("u text, g text GENERATED ALWAYS AS (lower(u)) STORED UNIQUE", "2, 'x'", "3, 'X'", "computed_g_key"),
    "booking": (
        "room int, during daterange, EXCLUDE USING gist (room WITH =, during WITH &&)",
        "2, 1, '[2020-01-01,2020-02-01)'",
        "3, 1, '[2020-01-31,2020-03-01)'",
        "booking_room_during_excl",
    ),
    # What a query of ours calls its own parts.
    "v": ("v0 text UNIQUE, k text, n text, op text, c0 text, held text", "2, 'x'", "3, 'x'", "v_v0_key"),
    "n": ("n text UNIQUE, s text, e text, r text, o text", "2, 'x'", "3, 'x'", "n_n_key"),
    "held": ('held text UNIQUE, "vibey key" text, "100%" text', "2, 'x'", "3, 'x'", "held_held_key"),
}  # fmt: skip


def test_every_pair_of_rows_that_a_constraint_keeps_apart_is_named_at_once(ends: Ends) -> None:
    """Unique and exclusion constraints and indexes of every kind, with both rows, in one report."""
    clashes = known_to(ends, CLASHES)
    tables = [f"CREATE TABLE {name} (id int PRIMARY KEY, {columns})" for name, (columns, *_) in clashes.items()]
    one, other = ends.pair(
        "CREATE EXTENSION citext; CREATE EXTENSION btree_gist",
        *tables,
        "CREATE TABLE part (id int, day date, u text, PRIMARY KEY (id, day), UNIQUE (u, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE part1 PARTITION OF part DEFAULT",
        "CREATE TABLE expr (id int PRIMARY KEY, v text, w int)",
        "CREATE UNIQUE INDEX low ON expr (lower(v), (w % 2) DESC) WHERE w > 0 AND v <> ''",
        "CREATE TABLE keyed (id citext PRIMARY KEY)",
    )
    one.run(*(f"INSERT INTO {name} VALUES ({row})" for name, (_, row, _, _) in clashes.items()))
    one.run("INSERT INTO part VALUES (2, '2020-01-01', 'x')", "INSERT INTO expr VALUES (2, 'X', 1), (20, 'Z', 0)")
    one.run("INSERT INTO keyed VALUES ('a')")
    other.run(*(f"INSERT INTO {name} VALUES ({row})" for name, (_, _, row, _) in clashes.items()))
    other.run("INSERT INTO part VALUES (3, '2020-01-01', 'x')", "INSERT INTO expr VALUES (3, 'x', 3), (30, 'z', 0)")
    other.run("INSERT INTO keyed VALUES ('A')")
    one.sync()
    commits = ends.commits()
    found = refusal(other)
    assert ends.commits() == commits
    assert sorted((c.table, c.key, c.constraint) for c in found) == sorted(
        [(name, "[2]", constraint) for name, (*_, constraint) in clashes.items()]
        + [("part", '[2,"2020-01-01"]', "part_u_day_key"), ("expr", "[2]", "low"), ("keyed", '["a"]', "keyed_pkey")]
    )
    for conflict in found:
        other_key = {"part": '[3,"2020-01-01"]', "keyed": '["A"]'}.get(conflict.table, "[3]")
        assert other_key in conflict.why
        assert other_key in conflict.advice
    other.run(*(f"DELETE FROM {table}" for table in (*clashes, "part", "expr", "keyed")))
    level(other, one)


def test_rows_that_only_seem_to_clash_go_through(ends: Ends) -> None:
    """Nulls, rows outside a predicate, values that a row here gives up, and other case under a plain index."""
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, u text UNIQUE, v text, w int)",
        "CREATE UNIQUE INDEX low ON t (lower(v)) WHERE w > 0",
        "CREATE TABLE d (id int PRIMARY KEY, during int4range, EXCLUDE USING gist (during WITH &&))",
    )
    one.run("INSERT INTO t VALUES (1, 'a', 'A', 1), (2, 'b', 'B', 0)", "INSERT INTO d VALUES (1, '[1,5)')")
    level(one, other)
    one.run("INSERT INTO t VALUES (3, NULL, 'b', 1), (4, 'A', NULL, 1)", "INSERT INTO d VALUES (2, '[5,9)')")
    one.run("UPDATE t SET u = 'free' WHERE id = 1", "INSERT INTO t VALUES (5, 'a', 'q', 0)")
    one.sync()
    other.run(
        "INSERT INTO t VALUES (6, NULL, 'B', 0), (7, 'B', NULL, 1)", "INSERT INTO d VALUES (3, '[9,10)'), (4, NULL)"
    )
    level(other, one)


FAMILY = """
CREATE TABLE parent (a int, b text, u int UNIQUE, PRIMARY KEY (a, b));
CREATE TABLE simple (id int PRIMARY KEY, b text, a int, FOREIGN KEY (a, b) REFERENCES parent);
CREATE TABLE "full" (id int PRIMARY KEY, b text, a int, FOREIGN KEY (a, b) REFERENCES parent MATCH FULL);
CREATE TABLE byvalue (id int PRIMARY KEY, u int REFERENCES parent (u) ON UPDATE CASCADE);
CREATE TABLE tree (id int PRIMARY KEY, up int REFERENCES tree)
"""


def test_foreign_keys_in_both_directions(ends: Ends) -> None:
    """Composite, MATCH FULL, to another unique key, to the own table: the row that lacks its parent, and the parent."""
    one, other = ends.pair(FAMILY)
    one.run("INSERT INTO parent VALUES (1, 'x', 10), (2, 'y', 20), (3, 'z', 30), (4, 'w', 40)")
    one.run("INSERT INTO tree VALUES (1), (2)")
    level(one, other)
    # Here go parents 1 and 2 and the root 1; there go 3 and the value 40 and the root 2.
    other.run("DELETE FROM parent WHERE a < 3", "DELETE FROM tree WHERE id = 1", "INSERT INTO tree VALUES (22, 2)")
    other.run("INSERT INTO simple VALUES (11, 'z', 3)", "INSERT INTO byvalue VALUES (11, 40)")
    one.run("INSERT INTO simple VALUES (1, 'x', 1), (2, 'none', NULL)", "INSERT INTO \"full\" VALUES (1, 'y', 2)")
    one.run("INSERT INTO byvalue VALUES (1, 10), (2, NULL)", "INSERT INTO tree VALUES (11, 1)")
    one.run("DELETE FROM parent WHERE a = 3", "UPDATE parent SET u = 41 WHERE a = 4", "DELETE FROM tree WHERE id = 2")
    one.sync()
    found = refusal(other)
    assert sorted((c.table, c.key, c.constraint) for c in found) == [
        ("byvalue", "[11]", "byvalue_u_fkey"),
        ("byvalue", "[1]", "byvalue_u_fkey"),
        ("full", "[1]", "full_a_b_fkey"),
        ("simple", "[11]", "simple_a_b_fkey"),
        ("simple", "[1]", "simple_a_b_fkey"),
        ("tree", "[11]", "tree_up_fkey"),
        ("tree", "[22]", "tree_up_fkey"),
    ]
    why = {(c.table, c.key): c.why for c in found}
    assert 'parent [1,"x"]' in why["simple", "[1]"]
    assert 'parent [2,"y"]' in why["full", "[1]"]
    assert 'parent [3,"z"], which was deleted on the branch' in why["simple", "[11]"]
    assert 'parent [4,"w"], which was changed on the branch' in why["byvalue", "[11]"]
    assert "tree [1]" in why["tree", "[11]"]
    other.run("DELETE FROM simple", "DELETE FROM byvalue", "DELETE FROM tree WHERE id = 22")
    other.run("INSERT INTO parent VALUES (1, 'x', 10), (2, 'y', 20)", "INSERT INTO tree VALUES (1)")
    level(other, one)


def test_a_row_that_both_ends_composed_is_held_against_check_constraints(ends: Ends) -> None:
    """Merged column by column, a row may hold what neither end allows, or clash with another such row."""
    config = Config(tables={"t": TableConfig(conflict=Rule.COLUMNS)})
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, a int, b int, CONSTRAINT few CHECK (a + b < 10), UNIQUE (a, b))",
        config=config,
    )
    one.run("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3), (4, 0, 4)")
    level(one, other)
    one.run("UPDATE t SET a = 7 WHERE id = 1", "UPDATE t SET a = 0 WHERE id = 2", "UPDATE t SET a = 4 WHERE id = 3")
    one.sync()
    other.run("UPDATE t SET b = 7 WHERE id = 1", "UPDATE t SET b = 4 WHERE id = 2", "UPDATE t SET b = 5 WHERE id = 3")
    other.run("UPDATE t SET b = 9 WHERE id = 4")
    # Row 2 is (0, 4) now, as row 4 was; row 1 would be (7, 7).
    assert [(c.key, c.constraint) for c in refusal(other)] == [("[1]", "few")]
    other.run("UPDATE t SET b = 2 WHERE id = 1")
    level(other, one)
    assert one.rows("t") == ["(1,7,2)", "(2,0,4)", "(3,4,5)", "(4,0,9)"]


def test_tables_that_are_not_synced(ends: Ends) -> None:
    """A parent that only one end has is missed, a child that would be orphaned is named, a declared action runs."""
    config = Config(exclude=("place", "visit", "note"))
    schema = (
        "CREATE TABLE place (id int PRIMARY KEY)",
        "CREATE TABLE guest (id int PRIMARY KEY, place int REFERENCES place)",
        "CREATE TABLE visit (room int, guest int REFERENCES guest, PRIMARY KEY (room, guest))",
        "CREATE TABLE note (id int PRIMARY KEY, guest int REFERENCES guest ON DELETE CASCADE)",
    )
    one, other = ends.pair(*schema, config=config)
    one.run("INSERT INTO place VALUES (1)", "INSERT INTO guest VALUES (1), (2)")
    one.sync()
    other.sync()
    one.run("UPDATE guest SET place = 1 WHERE id = 2", "DELETE FROM guest WHERE id = 1")
    one.sync()
    other.run("INSERT INTO visit VALUES (5, 1)", "INSERT INTO note VALUES (1, 1)")
    found = refusal(other)
    assert [(c.table, c.key, c.constraint) for c in found] == [
        ("guest", "[2]", "guest_place_fkey"),
        ("visit", "[5, 1]", "visit_guest_fkey"),
    ]
    assert "place, a table that is not synced" in found[0].why
    assert "guest [1]" in found[1].why
    other.run("INSERT INTO place VALUES (1)", "DELETE FROM visit")
    other.sync()
    assert other.rows("guest") == ["(2,1)"]
    assert other.rows("note") == []


def test_rows_in_conflict_and_broken_constraints_are_in_one_report(ends: Ends) -> None:
    """What would break a constraint whatever becomes of the rows in conflict is named with them; the rest waits."""
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, u text UNIQUE)",
        "CREATE TABLE p (id int PRIMARY KEY, v text UNIQUE)",
        "CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p, v text REFERENCES p (v))",
    )
    one.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO p VALUES (1, 'x'), (2, 'y'), (3, 'z')")
    one.run("INSERT INTO c VALUES (7, 3)")
    level(one, other)
    # Rows 1 of t and p and row 7 of c conflict; what else comes hangs on these or not.
    one.run("UPDATE t SET u = 'c' WHERE id = 1", "INSERT INTO t VALUES (3, 'new'), (5, 'd')")
    one.run("UPDATE p SET v = 'w' WHERE id = 1", "INSERT INTO c VALUES (1, 1, NULL), (2, 2, NULL), (5, NULL, 'w')")
    one.run("UPDATE c SET p = NULL WHERE id = 7", "DELETE FROM p WHERE id = 3")
    one.sync()
    other.run("UPDATE t SET u = 'd' WHERE id = 1", "INSERT INTO t VALUES (9, 'new')", "DELETE FROM p WHERE id < 3")
    other.run("UPDATE c SET v = 'z' WHERE id = 7")
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert "5 row(s) conflict" in error.message
    assert sorted((c.table, c.key, c.constraint) for c in error.conflicts) == [
        ("c", "[2]", "c_p_fkey"),
        ("c", "[7]", ""),
        ("p", "[1]", ""),
        ("t", "[1]", ""),
        ("t", "[3]", "t_u_key"),
    ]
    report = other.operations.status()
    assert (report.state, list(report.conflicts)) == (SyncState.CONFLICT, list(error.conflicts))
    # Once the rows are settled, what hung on them is a conflict where it still is one.
    other.env["VIBEY_STATE_CONFLICTS"] = "t=mine,p=mine,c=theirs"
    assert sorted((c.table, c.key, c.constraint) for c in refusal(other)) == [
        ("c", "[1]", "c_p_fkey"),
        ("c", "[2]", "c_p_fkey"),
        ("c", "[5]", "c_v_fkey"),
        ("t", "[3]", "t_u_key"),
        ("t", "[5]", "t_u_key"),
    ]


def test_a_row_written_here_after_the_look_is_found_at_the_write(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer that comes between the read and the locks makes a conflict, not a plain refusal of PostgreSQL."""
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, u text UNIQUE, CHECK (u <> ''))",
        "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY, p int REFERENCES p)",
    )
    one.run("INSERT INTO p VALUES (1)")
    level(one, other)
    one.run("INSERT INTO t VALUES (1, 'x')", "INSERT INTO c VALUES (1, 1)")
    one.sync()
    real = apply_module.lock

    def late(*arguments: object) -> None:
        other.run("INSERT INTO t VALUES (2, 'x') ON CONFLICT DO NOTHING", "DELETE FROM p")
        real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(apply_module, "lock", late)
    with pytest.raises(Conflicts) as caught:
        other.sync()
    assert [(c.table, c.key, c.constraint) for c in caught.value.conflicts] == [
        ("c", "[1]", "c_p_fkey"),
        ("t", "[1]", "t_u_key"),
    ]


def test_an_index_that_cannot_be_asked_leaves_the_last_word_to_postgresql(ends: Ends) -> None:
    """Over the row's own type nothing can be foreseen; the sync still ends in one clean error that names it."""
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, u int)",
        "CREATE FUNCTION whole(t) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1.u'",
        "CREATE UNIQUE INDEX own_type ON t (whole(t.*))",
    )
    one.run("INSERT INTO t VALUES (1, 5)")
    one.sync()
    other.run("INSERT INTO t VALUES (2, 5)")
    assert "own_type" in other.refused(DatabaseFailed).message


def test_a_value_that_another_parent_takes_over_is_not_cascaded_away(ends: Ends) -> None:
    """A foreign key's own action cannot know that the value stays; no child is lost."""
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE)",
        "CREATE TABLE c (id int PRIMARY KEY, u int REFERENCES p (u) ON DELETE CASCADE)",
        "CREATE TABLE q (id int PRIMARY KEY, u int UNIQUE)",
        "CREATE TABLE d (id int PRIMARY KEY, u int NOT NULL REFERENCES q (u))",
    )
    one.run("INSERT INTO p VALUES (1, 10)", "INSERT INTO c VALUES (1, 10)")
    one.run("INSERT INTO q VALUES (1, 10)", "INSERT INTO d VALUES (1, 10)")
    level(one, other)
    take_over = "WITH gone AS (DELETE FROM q WHERE id = 1) UPDATE q SET u = 10 WHERE id = 2"
    one.run("INSERT INTO q VALUES (2, 20)", "ALTER TABLE q DROP CONSTRAINT q_u_key CASCADE", take_over)
    one.run("ALTER TABLE q ADD UNIQUE (u)", "ALTER TABLE d ADD FOREIGN KEY (u) REFERENCES q (u)")
    level(one, other)
    assert other.rows("d") == ["(1,10)"]
    one.run("UPDATE c SET u = NULL", "DELETE FROM p", "INSERT INTO p VALUES (2, 10)", "UPDATE c SET u = 10")
    level(one, other)
    assert other.rows("c") == ["(1,10)"]


def test_a_status_that_may_not_look_says_so(ends: Ends) -> None:
    """Without the right to temporary tables the status still tells what a sync would do, and a sync names the right."""
    one, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY)")
    one.run("INSERT INTO t VALUES (1)")
    one.sync()
    name = psycopg.conninfo.conninfo_to_dict(other.dsn)["dbname"]
    role = sync_as_new_role(other)
    other.run(f'REVOKE TEMPORARY ON DATABASE "{name}" FROM PUBLIC')
    try:
        other.run(f'GRANT ALL ON ALL TABLES IN SCHEMA public, vibey_actions TO "{role}"')
        other.run(f'GRANT USAGE ON SCHEMA vibey_actions TO "{role}"')
        report = other.operations.status()
        assert (report.state, report.to_pull) == (SyncState.BEHIND, 1)
        assert any("temporary" in notice for notice in other.notices)
        error = other.refused(DatabaseFailed)
        assert "temporary" in error.message
        assert "GRANT TEMPORARY" in error.hint
    finally:
        forget_role(other, role)
