"""What was written at one end arrives at the other, whatever the tables are made of, and as whatever role."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.support.dumps import dump, sequences_behind
from tests.support.ends import End, Ends
from tests.support.roles import forget_role, sync_as_new_role
from vibey_actions.errors import Conflicts, DatabaseFailed, VibeyError
from vibey_actions.state.report import SyncState


def level(one: End, other: End) -> None:
    """Sync until both have seen each other, and prove by their dumps that they hold the same."""
    one.sync()
    other.sync()
    assert dump(one.dsn) == dump(other.dsn)
    assert sequences_behind(other.dsn, ("public",)) == []
    assert other.operations.status().state is SyncState.IN_SYNC


def at_once(end: End, *statements: str) -> None:
    """Run statements as one transaction."""
    with psycopg.connect(end.dsn) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_references_around_a_circle_that_cannot_be_put_off(ends: Ends) -> None:
    """NOT NULL in both directions and never deferrable: rows come, are tied anew, and go."""
    one, other = ends.pair(
        "CREATE TABLE a (id int PRIMARY KEY, b int NOT NULL, v text UNIQUE)",
        "CREATE TABLE b (id int PRIMARY KEY, a int NOT NULL REFERENCES a, c int)",
        "CREATE TABLE c (id int PRIMARY KEY, a int NOT NULL REFERENCES a ON DELETE CASCADE)",
        "ALTER TABLE a ADD FOREIGN KEY (b) REFERENCES b",
        "ALTER TABLE b ADD FOREIGN KEY (c) REFERENCES c",
        "CREATE TABLE apart (id int PRIMARY KEY)",
    )
    one.run(
        "WITH a AS (INSERT INTO a VALUES (1, 1, 'x'), (2, 2, 'y')), c AS (INSERT INTO c VALUES (1, 1), (2, 2))"
        " INSERT INTO b VALUES (1, 2, 2), (2, 1, 1)"
    )
    level(one, other)
    one.run("INSERT INTO apart VALUES (1)")
    one.run(
        "WITH a AS (INSERT INTO a VALUES (3, 3, NULL)), b AS (INSERT INTO b VALUES (3, 3, 3)),"
        " u AS (UPDATE a SET b = 3 WHERE id = 2) INSERT INTO c VALUES (3, 3)"
    )
    one.run("UPDATE b SET a = 3, c = NULL", "UPDATE a SET b = 3", "DELETE FROM b WHERE id < 3", "DELETE FROM c")
    one.run("DELETE FROM a WHERE id < 3", "UPDATE a SET v = 'x'")
    level(one, other)
    one.run("WITH a AS (DELETE FROM a) DELETE FROM b")
    level(one, other)
    assert other.rows("a") == []


def test_children_that_need_a_parent_move_from_one_that_goes_to_one_that_comes(ends: Ends) -> None:
    """With whatever action, the new parent taking over the unique name of the old, over three tables."""
    actions = ("NO ACTION", "RESTRICT", "CASCADE", "SET DEFAULT", "SET NULL")
    schema = [
        f"CREATE TABLE p{n} (id int PRIMARY KEY, name text NOT NULL UNIQUE);"
        f"CREATE TABLE m{n} (id int PRIMARY KEY, p int NOT NULL DEFAULT 0 REFERENCES p{n} ON DELETE {action});"
        f"CREATE TABLE c{n} (id int PRIMARY KEY, m int NOT NULL REFERENCES m{n} ON DELETE {action},"
        f" p int NOT NULL DEFAULT 0 REFERENCES p{n} ON UPDATE CASCADE)"
        for n, action in enumerate(actions)
    ]
    one, other = ends.pair(*schema)
    for n in range(len(actions)):
        one.run(f"INSERT INTO p{n} VALUES (0, 'none'), (1, 'a'), (2, 'b')", f"INSERT INTO m{n} VALUES (1, 1), (2, 2)")
        one.run(f"INSERT INTO c{n} VALUES (1, 1, 1), (2, 2, 1), (3, 1, 0)")
    level(one, other)
    for n in range(len(actions)):
        one.run(f"UPDATE p{n} SET name = 'old' WHERE id = 1", f"INSERT INTO p{n} VALUES (5, 'a')")
        one.run(f"INSERT INTO m{n} VALUES (5, 5)", f"UPDATE c{n} SET m = 5, p = 5 WHERE id < 3")
        one.run(
            f"UPDATE c{n} SET m = 2 WHERE id = 3", f"DELETE FROM m{n} WHERE id = 1", f"DELETE FROM p{n} WHERE id = 1"
        )
    level(one, other)
    assert other.rows("c2") == ["(1,5,5)", "(2,5,5)", "(3,2,0)"]


def test_actions_of_foreign_keys(ends: Ends) -> None:
    """ON UPDATE of other unique values, SET NULL and SET DEFAULT: what they did at one end is what arrives."""
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u text UNIQUE, w int, UNIQUE (w, id))",
        "CREATE TABLE cascading (id int PRIMARY KEY, u text REFERENCES p (u) ON UPDATE CASCADE ON DELETE SET NULL)",
        "CREATE TABLE nulling (id int PRIMARY KEY, u text REFERENCES p (u) ON UPDATE SET NULL ON DELETE CASCADE)",
        "CREATE TABLE defaulting (id int PRIMARY KEY, u text DEFAULT 'd' REFERENCES p (u) ON DELETE SET DEFAULT)",
        "CREATE TABLE pair (id int PRIMARY KEY, w int, p int, FOREIGN KEY (w, p) REFERENCES p (w, id) MATCH FULL"
        " ON UPDATE CASCADE)",
    )
    one.run("INSERT INTO p VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, 'd', 4)")
    for table in ("cascading", "nulling", "defaulting"):
        one.run(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, NULL)")
    one.run("INSERT INTO pair VALUES (1, 1, 1), (2, NULL, NULL)")
    level(one, other)
    one.run("UPDATE defaulting SET u = 'c' WHERE id = 1", "UPDATE p SET u = 'changed', w = 7 WHERE id = 1")
    one.run("DELETE FROM p WHERE id = 2")
    level(one, other)
    assert other.rows("cascading") == ["(1,changed)", "(2,)", "(3,c)", "(4,)"]
    assert other.rows("nulling") == ["(1,)", "(3,c)", "(4,)"]
    assert other.rows("defaulting") == ["(1,c)", "(2,d)", "(3,c)", "(4,)"]
    assert other.rows("pair") == ["(1,7,1)", "(2,,)"]


def test_a_parent_that_only_changes_keeps_children_that_nobody_sent(ends: Ends) -> None:
    """Children that only this end has stay under every action, and are counted."""
    actions = ("CASCADE", "SET NULL", "SET DEFAULT")
    one, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY, u int UNIQUE, v text)",
        *(
            f"CREATE TABLE c{n} (id int PRIMARY KEY,"
            f" p int DEFAULT 0 REFERENCES p ON DELETE {action} ON UPDATE {action},"
            f" u int REFERENCES p (u) ON DELETE {action} ON UPDATE {action})"
            for n, action in enumerate(actions)
        ),
    )
    one.run("INSERT INTO p VALUES (1, 1, 'a'), (2, 2, 'b')")
    level(one, other)
    for n in range(len(actions)):
        other.run(f"INSERT INTO c{n} SELECT n, 1, 1 FROM generate_series(1, 50) n")
    one.run("UPDATE p SET v = 'changed', u = NULL WHERE id = 2", "UPDATE p SET v = 'changed'")
    one.sync()
    level(other, one)
    assert [one.value(f"SELECT count(*) FROM c{n} WHERE p = 1 AND u = 1") for n in range(3)] == [50, 50, 50]
    one.run("UPDATE p SET u = 9 WHERE id = 1", "INSERT INTO c0 VALUES (51, 1, 9)")
    other.run("INSERT INTO c1 VALUES (60, 1, 1)")
    one.sync()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.key, c.constraint) for c in error.conflicts] == [("c1", "[60]", "c1_u_fkey")]


def test_identity_and_generated_columns(ends: Ends) -> None:
    """ALWAYS in the key or not, given other values; generated ones are computed here, over types of every kind."""
    one, other = ends.pair(
        "CREATE TABLE t (id int PRIMARY KEY, n bigint GENERATED ALWAYS AS IDENTITY UNIQUE, v text,"
        " g text GENERATED ALWAYS AS (upper(v)) STORED, d int GENERATED BY DEFAULT AS IDENTITY (START 10))",
        "CREATE TABLE k (id int GENERATED ALWAYS AS IDENTITY, n int, PRIMARY KEY (id, n))",
        "CREATE TABLE keys_only (a int, b text, PRIMARY KEY (a, b))",
    )
    one.run("INSERT INTO t (id, v) VALUES (1, 'a'), (2, 'b'), (3, 'c')", "INSERT INTO k (n) VALUES (1), (2)")
    one.run("INSERT INTO keys_only VALUES (1, 'a'), (2, 'b')")
    level(one, other)
    one.run("UPDATE t SET n = DEFAULT, v = 'x' WHERE id = 2", "UPDATE t SET d = 5 WHERE id = 1")
    one.run("DELETE FROM k WHERE id = 1", "INSERT INTO k (id, n) OVERRIDING SYSTEM VALUE VALUES (7, 7)")
    one.run("DELETE FROM keys_only WHERE a = 1", "INSERT INTO keys_only VALUES (1, 'z')")
    level(one, other)
    assert other.rows("t") == ["(1,1,a,A,5)", "(2,4,x,X,11)", "(3,3,c,C,12)"]
    kinds = "SELECT array_agg(attidentity::text ORDER BY attnum) FROM pg_attribute WHERE attrelid = 't'::regclass"
    assert other.value(kinds + " AND attidentity <> ''") == ["a", "d"]
    other.run("INSERT INTO t (id, v) VALUES (9, 'new')", "INSERT INTO k (n) VALUES (3)")
    assert other.value("SELECT n FROM t WHERE id = 9") == 5
    assert other.value("SELECT id FROM k WHERE n = 3") == 8


SEQUENCES = {
    # how it counts, what was written, where the other end stands before, what that end gives out next
    "up": ("INCREMENT 1", (1, 2, 30), None, 31),
    "ahead": ("INCREMENT 1", (1, 2, 30), 100, 101),
    "down": ("INCREMENT -1", (-1, -2, -30), None, -31),
    "down_ahead": ("INCREMENT -5", (-1, -6), -101, -106),
    "bounded": ("MINVALUE 10 MAXVALUE 50", (5, 11, 4000), None, 12),
    "beyond": ("MAXVALUE 50", (60, 70), None, 1),
    "cycling": ("MAXVALUE 50 CYCLE", (49, 50), None, 1),
    "stepping": ("INCREMENT 10", (1, 11, 15), None, 25),
    "Mixed Case": ("INCREMENT 1", (3,), None, 4),
    "empty": ("START 7", (), None, 7),
    "extreme": ("MINVALUE -9223372036854775808 START -9223372036854775808", (-5,), None, -4),
}


def test_sequences_of_every_kind(ends: Ends) -> None:
    """At least past every row that came, never back, within their bounds; integer and numeric columns."""
    one, other = ends.pair(
        *(
            f'CREATE SEQUENCE "s {name}" {options}; CREATE TABLE "{name}" (id bigint PRIMARY KEY DEFAULT'
            f' nextval(\'"s {name}"\')); ALTER SEQUENCE "s {name}" OWNED BY "{name}".id'
            for name, (options, *_) in SEQUENCES.items()
        ),
        "CREATE SEQUENCE loose; CREATE TABLE fraction (id int PRIMARY KEY, n numeric DEFAULT nextval('loose'))",
    )
    for name, (_, written, position, _) in SEQUENCES.items():
        one.run(*(f'INSERT INTO "{name}" VALUES ({number})' for number in written))
        if position is not None:
            other.run(f"SELECT setval('\"s {name}\"', {position})")
    one.run("INSERT INTO fraction VALUES (1, 7.5), (2, 'NaN'), (3, '1e100'), (4, NULL)")
    one.sync()
    other.sync()
    assert {name: other.value(f"SELECT nextval('\"s {name}\"')") for name in SEQUENCES} == {
        name: following for name, (*_, following) in SEQUENCES.items()
    }
    assert other.value("SELECT nextval('loose')") == 9


def test_partitions_and_inheritance(ends: Ends) -> None:
    """Rows that move to another partition or come from the default one, sub-partitions, and tables that inherit."""
    one, other = ends.pair(
        "CREATE TABLE m (id int, day int, v text, PRIMARY KEY (id, day)) PARTITION BY RANGE (day)",
        "CREATE TABLE m1 PARTITION OF m FOR VALUES FROM (0) TO (10) PARTITION BY HASH (id)",
        "CREATE TABLE m1a PARTITION OF m1 FOR VALUES WITH (MODULUS 2, REMAINDER 0)",
        "CREATE TABLE m1b PARTITION OF m1 FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
        "CREATE TABLE m2 (v text, gone int, day int NOT NULL, id int NOT NULL); ALTER TABLE m2 DROP COLUMN gone",
        "ALTER TABLE m ATTACH PARTITION m2 FOR VALUES FROM (10) TO (20)",
        "CREATE TABLE m3 PARTITION OF m DEFAULT",
        "CREATE TABLE child (id int PRIMARY KEY, m int, day int, FOREIGN KEY (m, day) REFERENCES m ON DELETE CASCADE)",
        "CREATE TABLE top (id int PRIMARY KEY, v text UNIQUE)",
        "CREATE TABLE below (PRIMARY KEY (id), UNIQUE (v), more int) INHERITS (top)",
    )
    one.run("INSERT INTO m SELECT n, n, 'v' || n FROM generate_series(0, 30) n", "INSERT INTO child VALUES (1, 5, 5)")
    one.run("INSERT INTO top VALUES (1, 'a'), (2, 'b')", "INSERT INTO below VALUES (1, 'a', 1), (3, 'c', 3)")
    level(one, other)
    one.run(
        "INSERT INTO m VALUES (5, 15, 'moved')", "UPDATE child SET day = 15", "DELETE FROM m WHERE id = 5 AND day = 5"
    )
    one.run("UPDATE m SET day = day + 100 WHERE day BETWEEN 8 AND 22 AND id <> 5", "UPDATE m SET v = 'w' WHERE day = 1")
    one.run("UPDATE ONLY top SET v = CASE id WHEN 1 THEN 'B' ELSE 'a' END", "DELETE FROM ONLY top WHERE v = 'a'")
    one.run("UPDATE below SET v = 'b' WHERE id = 1", "INSERT INTO below VALUES (2, 'a', 9)")
    level(one, other)
    assert other.rows("child") == ["(1,5,15)"]
    assert other.rows("ONLY top") == ["(1,B)"]


def test_columns_that_are_called_like_ours(ends: Ends) -> None:
    """Every name that a statement of ours gives to a part of it, as columns and as tables."""
    names = ("n", "op", "k", "c0", "c1", "s", "r", "o", "p", "q", "c", "x", "e", "held", "vibey_stage_0", "back", "v0")
    columns = ", ".join(f"{name} text" for name in names)
    tables = ("s", "r", "o", "n", "v", "held", "c0")
    one, other = ends.pair(
        *(
            f"CREATE TABLE {name} (id int PRIMARY KEY, up int REFERENCES {name}, {columns}, UNIQUE (k, n))"
            for name in tables
        )
    )
    for table in tables:
        one.run(f"INSERT INTO {table} (id, k, n, c0, s) SELECT i, i, i, i, i FROM generate_series(1, 5) i")
    level(one, other)
    for table in tables:
        at_once(one, f"UPDATE {table} SET k = 'tmp' WHERE id = 1", f"UPDATE {table} SET k = 1, n = 1 WHERE id = 2",
                f"UPDATE {table} SET k = 2, n = 2, up = 2 WHERE id = 1", f"INSERT INTO {table} (id, up) VALUES (9, 1)",
                f"DELETE FROM {table} WHERE id = 4")  # fmt: skip
        other.run(f"UPDATE {table} SET v0 = 'here' WHERE id = 5", f"INSERT INTO {table} (id, k, n) VALUES (6, 6, 6)")
    one.sync()
    level(other, one)


@pytest.fixture
def role(ends: Ends) -> Iterator[tuple[End, End, str]]:
    """Two ends, the second of which is synced as a role of its own that has no rights yet."""
    one, other = ends.pair(
        "CREATE TABLE t (id serial PRIMARY KEY, v text); CREATE TABLE own (id int PRIMARY KEY, who text)",
        "CREATE TABLE seen (id int PRIMARY KEY)",
    )
    one.run("INSERT INTO t (v) VALUES ('a'), ('b')")
    one.sync()
    name = sync_as_new_role(other)
    yield one, other, name
    forget_role(other, name)


def test_a_role_with_the_rights_on_rows_alone(role: tuple[End, End, str]) -> None:
    """SELECT, INSERT, UPDATE and DELETE do; every right that is missing is named until they are all there."""
    one, other, name = role
    grants = (
        ('permission denied for table', f'GRANT SELECT ON ALL TABLES IN SCHEMA public TO "{name}"'),
        ("permission denied for table", f'GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "{name}"'),
        ("permission denied for sequence", f'GRANT SELECT, UPDATE ON ALL SEQUENCES IN SCHEMA public TO "{name}"'),
    )  # fmt: skip
    other.run("DROP SCHEMA vibey_actions CASCADE")
    for missing, grant in grants:
        error = other.refused(DatabaseFailed)
        assert missing in error.message
        assert "needs" in error.hint
        other.run(grant)
    assert other.sync().to_pull == 2
    assert any("may not create the schema vibey_actions" in notice for notice in other.notices)
    assert dump(one.dsn) == dump(other.dsn)
    other.run("INSERT INTO t (v) VALUES ('c')")
    assert other.rows("t") == ["(1,a)", "(2,b)", "(3,c)"]


def test_a_policy_that_hides_rows_is_an_error(role: tuple[End, End, str]) -> None:
    """A shorter table would read as deletions: the table with the policy is named, forced on its owner too."""
    _, other, name = role
    other.run(f'GRANT ALL ON ALL TABLES IN SCHEMA public TO "{name}"', f'GRANT ALL ON SCHEMA vibey_actions TO "{name}"')
    other.run(f'GRANT ALL ON ALL TABLES IN SCHEMA vibey_actions TO "{name}"')
    other.run(f'GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO "{name}"')
    other.run("CREATE POLICY mine ON own USING (who = current_user)", "ALTER TABLE own ENABLE ROW LEVEL SECURITY")

    def refused() -> VibeyError:
        error = other.refused(DatabaseFailed)
        assert 'policy for table "own"' in error.message
        assert "BYPASSRLS" in error.hint
        return error

    refused()
    other.run(f'ALTER TABLE own OWNER TO "{name}"', "ALTER TABLE own FORCE ROW LEVEL SECURITY")
    refused()
    other.run("ALTER TABLE own NO FORCE ROW LEVEL SECURITY")
    assert other.sync().to_pull == 2
