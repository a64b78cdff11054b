"""Unique values that rows swap or pass on to one another arrive, and what gave way meanwhile is back as it was."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.dumps import dump
from tests.support.ends import End, Ends, known_to
from tests.support.roles import forget_role, sync_as_new_role
from vibey_actions.errors import Conflicts, DatabaseFailed, RowRefused
from vibey_actions.postgres import swaps, writing
from vibey_actions.postgres.swaps import levels_of
from vibey_actions.state.report import SyncState

# Column and constraint of a table with the columns id and u, and three values that clash with nothing.
KINDS = {
    "nullable": ("u int UNIQUE", ("1", "2", "3")),
    "needed": ("u int NOT NULL UNIQUE", ("1", "2", "3")),
    "late": ("u int NOT NULL UNIQUE DEFERRABLE", ("1", "2", "3")),
    "half": ("u int NOT NULL, more int, UNIQUE (u, more)", ("1, 9", "2, 9", "3, 9")),
    "alike": ("u int UNIQUE NULLS NOT DISTINCT", ("1", "NULL", "3")),
    "checked": ("u int UNIQUE CHECK (u IS NOT NULL)", ("1", "2", "3")),
    "spans": ("u int4range NOT NULL, EXCLUDE USING gist (u WITH &&)", ("'[1,5)'", "'[5,9)'", "'[9,12)'")),
    "maybe": ("u int4range, EXCLUDE USING gist (u WITH &&)", ("'[1,5)'", "'[5,9)'", "'[9,12)'")),
    "computed": ("u int NOT NULL, g int GENERATED ALWAYS AS (u * 2) STORED UNIQUE", ("1", "2", "3")),
    "folded": ("u citext NOT NULL UNIQUE", ("'a'", "'b'", "'c'")),
    "n": ("n int NOT NULL UNIQUE, k int, s int, v0 int", ("1", "2", "3")),
}
DEFINITIONS = (
    "SELECT coalesce(array_agg(d ORDER BY d), '{}') FROM ("
    "SELECT pg_get_indexdef(indexrelid) FROM pg_index JOIN pg_class c ON c.oid = indrelid"
    " WHERE relnamespace = 'public'::regnamespace"
    " UNION ALL SELECT conname || ' ' || contype::text || ' ' || pg_get_constraintdef(oid) FROM pg_constraint) AS x(d)"
)


def level(one: End, other: End) -> None:
    """Sync until both have seen each other, and prove by their dumps that they hold the same."""
    one.sync()
    other.sync()
    assert dump(one.dsn) == dump(other.dsn)
    assert other.operations.status().state is SyncState.IN_SYNC


def rearrange(end: End, *statements: str) -> None:
    """Run statements as one transaction without the constraints that are in the way."""
    with psycopg.connect(end.dsn) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def rotate(end: End, table: str) -> None:
    """Pass the values of rows 1, 2 and 3 on in a circle, through rows that are made anew."""
    rows = f"SELECT * FROM {table} WHERE id < 4"
    columns = end.value(
        "SELECT array_agg(attname::text ORDER BY attnum) FROM pg_attribute"
        f" WHERE attrelid = '{table}'::regclass AND attnum > 1 AND attgenerated = ''"
    )
    names = ", ".join(columns)
    rearrange(
        end,
        f"CREATE TEMP TABLE old ON COMMIT DROP AS {rows}",
        f"DELETE FROM {table} WHERE id < 4",
        f"INSERT INTO {table} (id, {names}) SELECT id % 3 + 1, {names} FROM old",
    )


def test_values_swapped_in_a_circle(ends: Ends) -> None:
    """Whatever keeps them apart: put off, emptied meanwhile or put aside; all definitions are as before."""
    kinds = known_to(ends, KINDS)
    one, other = ends.pair(
        "CREATE EXTENSION citext",
        *(f"CREATE TABLE {name} (id int PRIMARY KEY, {columns})" for name, (columns, _) in kinds.items()),
        "CREATE TABLE expr (id int PRIMARY KEY, u text NOT NULL, w int NOT NULL)",
        "CREATE UNIQUE INDEX low ON expr (lower(u) DESC, (w % 10)) INCLUDE (w) WITH (fillfactor = 70) WHERE w > 0",
    )
    for name, (_, values) in kinds.items():
        one.run(*(f"INSERT INTO {name} VALUES ({number}, {value})" for number, value in enumerate(values, 1)))
    one.run("INSERT INTO expr VALUES (1, 'A', 1), (2, 'b', 11), (3, 'C', 2)")
    level(one, other)
    definitions = other.value(DEFINITIONS)
    for name in (*kinds, "expr"):
        rotate(one, name)
    level(one, other)
    assert other.value(DEFINITIONS) == definitions
    assert other.rows("needed") == ["(1,3)", "(2,1)", "(3,2)"]


def test_values_passed_on_without_a_circle_put_nothing_aside(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """A shift of many rows goes level by level; a row that goes or comes at either end of the chain is no matter."""
    monkeypatch.setattr(swaps, "_put_aside", None)
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, place int NOT NULL UNIQUE, side int NOT NULL, UNIQUE (side, place),"
        " late int NOT NULL UNIQUE DEFERRABLE)",
        "CREATE TABLE child (id int PRIMARY KEY, place int REFERENCES t (place) DEFERRABLE INITIALLY DEFERRED)",
    )
    one.run(
        "INSERT INTO t SELECT n, n, 0, n FROM generate_series(1, 60) n", "INSERT INTO child VALUES (1, 30), (2, 31)"
    )
    level(one, other)
    one.run("DELETE FROM t WHERE id = 60")
    one.run(*(f"UPDATE t SET place = place + 1 WHERE id = {n}" for n in range(59, 31, -1)))
    one.run("INSERT INTO t VALUES (61, 32, 0, 61), (0, 0, 0, 0)", "UPDATE child SET place = 32 WHERE id = 2")
    # In another order than the places.
    one.run("UPDATE t SET late = 90 - late WHERE id BETWEEN 31 AND 59")
    level(one, other)


def test_what_hangs_on_a_constraint_is_named_instead(ends: Ends) -> None:
    """A comment, its foreign key's comment or a replica identity would be lost with it: refused with both rows."""
    one, other = ends.pair(
        "CREATE TABLE noted (id int PRIMARY KEY, u int NOT NULL CONSTRAINT one_each UNIQUE)",
        "COMMENT ON CONSTRAINT one_each ON noted IS 'kept'",
        "CREATE TABLE target (id int PRIMARY KEY, u int NOT NULL CONSTRAINT aimed_at UNIQUE)",
        "CREATE TABLE child (id int PRIMARY KEY, u int CONSTRAINT aims REFERENCES target (u))",
        "COMMENT ON CONSTRAINT aims ON child IS 'kept'",
        "CREATE TABLE told (id int PRIMARY KEY, u int NOT NULL CONSTRAINT identity UNIQUE)",
        "ALTER TABLE told REPLICA IDENTITY USING INDEX identity",
    )
    for table, constraint in (("noted", "one_each"), ("target", "aimed_at"), ("told", "identity")):
        one.run(f"INSERT INTO {table} VALUES (1, 1), (2, 2), (3, 3)")
        level(one, other)
        rotate(one, table)
        one.sync()
        error = other.refused(RowRefused)
        assert constraint in error.message
        assert "[1]" in error.message
        assert "DEFERRABLE" in error.hint
        rotate(other, table)
        level(one, other)


def test_a_role_that_is_not_the_owner_is_told_so(ends: Ends) -> None:
    """Putting a constraint aside is the owner's right; another way is taken where there is one."""
    one, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, u int NOT NULL UNIQUE, v int UNIQUE)")
    one.run("INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
    level(one, other)
    role = sync_as_new_role(other)
    other.run(f'GRANT USAGE ON SCHEMA vibey_actions TO "{role}"')
    try:
        other.run(f'GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public, vibey_actions TO "{role}"')
        rearrange(one, "UPDATE t SET v = NULL", "UPDATE t SET v = id % 3 + 1")
        level(one, other)
        rotate(one, "t")
        one.sync()
        error = other.refused(DatabaseFailed)
        assert "t_u_key" in error.message
        assert "owner" in error.message + error.hint
    finally:
        forget_role(other, role)


def test_rows_that_pass_nothing_on_cost_no_question(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Constraints are read and asked about only after PostgreSQL refused the plain way."""
    one, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, u int UNIQUE)")
    one.run("INSERT INTO t SELECT n, n FROM generate_series(1, 9) n")
    level(one, other)
    monkeypatch.setattr(writing, "read_constraints", None)
    monkeypatch.setattr(writing, "untangle", None)
    one.run("DELETE FROM t WHERE id = 1", "UPDATE t SET u = 1 WHERE id = 2", "INSERT INTO t VALUES (10, 2)")
    level(one, other)


def test_what_only_a_partition_keeps_apart(ends: Ends) -> None:
    """Indexes and constraints of partitions by themselves, of every bound: swapped there, free elsewhere, or named."""
    one, other = ends.pair(
        "CREATE TABLE part (id int, day int, u int NOT NULL, more int, PRIMARY KEY (id, day)) PARTITION BY LIST (day)",
        "CREATE TABLE part1 (gone int, u int NOT NULL, id int NOT NULL, more int, day int NOT NULL);"
        "ALTER TABLE part1 DROP COLUMN gone; ALTER TABLE part ATTACH PARTITION part1 FOR VALUES IN (1)",
        "CREATE TABLE part2 PARTITION OF part DEFAULT PARTITION BY HASH (id)",
        "CREATE TABLE part2a PARTITION OF part2 FOR VALUES WITH (MODULUS 1, REMAINDER 0)",
        "CREATE UNIQUE INDEX own ON part1 ((u + 0)); CREATE UNIQUE INDEX deep ON part2a (u) WHERE more > 0",
        "ALTER TABLE part1 ADD CONSTRAINT own_more UNIQUE (more)",
    )
    one.run("INSERT INTO part VALUES (1, 1, 1, 1), (2, 1, 2, 2), (1, 2, 1, 1), (2, 2, 2, 2), (3, 2, 1, 0)")
    level(one, other)
    definitions = other.value(DEFINITIONS)
    rearrange(
        one,
        "CREATE TEMP TABLE old ON COMMIT DROP AS SELECT * FROM part WHERE id < 3",
        "DELETE FROM part WHERE id < 3",
        "INSERT INTO part SELECT 3 - id, day, u, more FROM old",
    )
    level(one, other)
    assert other.value(DEFINITIONS) == definitions
    one.run("INSERT INTO part VALUES (5, 1, 50, NULL), (5, 2, 50, 1)")
    other.run("INSERT INTO part VALUES (6, 1, 50, NULL), (6, 2, 50, 1), (7, 2, 50, 0)")
    one.sync()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert sorted((c.table, c.key, c.constraint) for c in error.conflicts) == [
        ("part", "[5,1]", "own"),
        ("part", "[5,2]", "deep"),
    ]


def test_values_that_only_some_rows_have_to_themselves(ends: Ends) -> None:
    """Partial indexes: values are swapped, or pass on because a row enters or leaves what the index is about."""
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, u int NOT NULL, live boolean NOT NULL, v text)",
        "CREATE UNIQUE INDEX one_live ON t (u) WHERE live",
        "CREATE UNIQUE INDEX one_text ON t (v) WHERE v IS NOT NULL AND NOT live",
    )
    one.run("INSERT INTO t SELECT n, n, n < 7, n FROM generate_series(1, 12) n")
    level(one, other)
    definitions = other.value(DEFINITIONS)
    rearrange(one, "UPDATE t SET live = false WHERE id < 7", "UPDATE t SET u = 7 - u, live = true WHERE id < 7")
    level(one, other)
    # Row 1 leaves, row 8 enters with its value; rows 9 and 10 swap their texts.
    one.run("UPDATE t SET live = false, v = NULL WHERE id = 1", "UPDATE t SET live = true, u = 6 WHERE id = 8")
    rearrange(one, "UPDATE t SET v = v || '~' WHERE id IN (9, 10)", "UPDATE t SET v = 19 - id WHERE id IN (9, 10)")
    level(one, other)
    assert other.value(DEFINITIONS) == definitions
    other.run("UPDATE t SET u = 100 WHERE id = 2")
    one.run("UPDATE t SET u = 100 WHERE id = 3")
    one.sync()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.key, c.constraint) for c in error.conflicts] == [("t", "[3]", "one_live")]


def test_levels() -> None:
    """Every number after those that it waits for, as early as can be; None where some wait for one another."""
    assert levels_of([]) == []
    assert levels_of([(2, 1), (3, 2), (5, 1), (5, 3), (7, 6)]) == [[1, 6], [2, 7], [3], [5]]
    assert levels_of([(1, 2), (2, 1), (3, 1)]) is None
    assert levels_of([(2, 1), (2, 1)]) == [[1], [2]]
