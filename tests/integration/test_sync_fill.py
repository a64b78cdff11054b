"""A large state streams into an empty database and leaves it as the general path would, schema included."""

from __future__ import annotations

import os
import subprocess
from contextlib import closing
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.ends import End, Ends
from vibey_actions.config import Config
from vibey_actions.errors import Conflicts, DatabaseFailed, RowRefused, Unreadable, VibeyError
from vibey_actions.postgres import bulkload
from vibey_actions.postgres import fill as fill_module
from vibey_actions.postgres.binaries import find_binaries
from vibey_actions.postgres.bulkload import Deferred
from vibey_actions.postgres.catalog import read_catalog
from vibey_actions.postgres.connection import connect
from vibey_actions.state import cycle
from vibey_actions.state.report import SyncState

SCHEMA = r"""
CREATE TABLE kind (name text PRIMARY KEY);
CREATE TABLE item (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    kind text REFERENCES kind ON DELETE SET NULL DEFERRABLE INITIALLY DEFERRED,
    up bigint REFERENCES item,
    code text UNIQUE,
    doc jsonb, tags text[], price numeric(12, 4), twice numeric GENERATED ALWAYS AS (price * 2) STORED
);
CREATE INDEX item_partial ON item (kind) WHERE price > 1;
CREATE INDEX item_expression ON item (lower(code), (doc ->> 'a')) WITH (fillfactor = 70);
CREATE UNIQUE INDEX item_unique ON item (code DESC NULLS LAST) INCLUDE (price);
CREATE INDEX item_gin ON item USING gin (doc jsonb_path_ops);
CREATE INDEX item_commented ON item (price); COMMENT ON INDEX item_commented IS 'kept';
CREATE INDEX item_statistics ON item ((price + 1)); ALTER INDEX item_statistics ALTER COLUMN 1 SET STATISTICS 50;
CREATE TABLE pair (a text, b int, PRIMARY KEY (a, b));
CREATE TABLE pairs (
    id int PRIMARY KEY, a text, b int,
    CONSTRAINT "full %s" FOREIGN KEY (a, b) REFERENCES pair MATCH FULL ON UPDATE CASCADE ON DELETE CASCADE
);
CREATE UNIQUE INDEX replica ON pairs (id); ALTER TABLE pairs REPLICA IDENTITY USING INDEX replica;
CREATE INDEX "clustered ""q" ON pairs (a); ALTER TABLE pairs CLUSTER ON "clustered ""q";
CREATE TABLE part (id int, day date, item bigint REFERENCES item, PRIMARY KEY (id, day)) PARTITION BY RANGE (day);
CREATE TABLE part1 PARTITION OF part FOR VALUES FROM ('2020-01-01') TO ('2021-01-01');
CREATE TABLE part2 PARTITION OF part DEFAULT;
CREATE INDEX part_item ON part (item);
CREATE INDEX part2_only ON part2 (day);
CREATE TABLE top (id int PRIMARY KEY, v text);
CREATE TABLE below (PRIMARY KEY (id)) INHERITS (top);
CREATE TABLE never (id serial PRIMARY KEY);
CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'append only'; END $$;
CREATE TABLE ledger (id int PRIMARY KEY, v text);
CREATE TABLE keyed (
    id int, a int, b text, c text,
    CONSTRAINT "key ""q" PRIMARY KEY (id) INCLUDE (c), UNIQUE (a) DEFERRABLE INITIALLY DEFERRED, UNIQUE (b, a)
);
CREATE TABLE on_unique (id int PRIMARY KEY, a int, b text, FOREIGN KEY (b, a) REFERENCES keyed (b, a));
CREATE TABLE spaced (id int PRIMARY KEY WITH (fillfactor = 60), v text UNIQUE);
COMMENT ON CONSTRAINT spaced_v_key ON spaced IS 'kept';
CREATE TABLE seen (id int PRIMARY KEY, v text);
CREATE VIEW grouped AS SELECT id, v FROM seen GROUP BY id;
CREATE TRIGGER append BEFORE UPDATE OR DELETE ON ledger FOR EACH ROW EXECUTE FUNCTION refuse();
ALTER TABLE ledger ENABLE ALWAYS TRIGGER append
"""
ROWS = (
    "INSERT INTO kind VALUES ('a'), ('b')",
    """INSERT INTO item (kind, up, code, doc, tags, price) SELECT CASE WHEN n % 3 > 0 THEN 'a' END, 1 + n / 2, 'c' || n,
    jsonb_build_object('a', n), ARRAY['x', NULL, n::text], n / 7.0 FROM generate_series(1, 700) n""",
    "INSERT INTO pair SELECT 'p', n FROM generate_series(1, 20) n",
    "INSERT INTO pairs SELECT n, 'p', n FROM generate_series(1, 20) n",
    "INSERT INTO part SELECT n, date '2020-06-01' + n * 20, n FROM generate_series(1, 50) n",
    "INSERT INTO top VALUES (1, 'top'); INSERT INTO below VALUES (1, 'below'), (2, 'below')",
    "INSERT INTO ledger VALUES (1, 'x')",
    "INSERT INTO keyed VALUES (1, 1, 'x', 'y'), (2, 2, 'x', 'y')",
    "INSERT INTO on_unique VALUES (1, 2, 'x')",
    "INSERT INTO spaced VALUES (1, 'v'); INSERT INTO seen VALUES (1, 'v')",
)


@pytest.fixture
def filling(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Have every state count as large; what comes back lists the fills that went through."""
    monkeypatch.setattr(cycle, "LARGE_FILL", 0)
    done: list[str] = []
    real = fill_module.fill

    def fill(connection: psycopg.Connection, *arguments: Any) -> Any:
        result = real(connection, *arguments)
        done.append(connection.info.dbname)
        return result

    monkeypatch.setattr("vibey_actions.postgres.store.fill", fill)
    return done


def dump(end: End) -> str:
    """The database's schema as pg_dump writes it, without what changes from call to call."""
    folder = os.environ.get("VIBEY_TEST_PG_BIN") or find_binaries(None)
    done = subprocess.run(
        [f"{folder}/pg_dump", "--schema-only", "--schema=public", "--dbname", end.dsn],
        check=True,
        capture_output=True,
        text=True,
    )
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith(("\\restrict", "\\unrestrict")))


def source(ends: Ends) -> End:
    """An end with all kinds of tables, whose rows are on the branch."""
    end = ends.make(SCHEMA)
    end.run(*ROWS)
    end.sync()
    return end


def test_a_fill_is_what_the_general_path_makes(ends: Ends, filling: list[str]) -> None:
    """Rows, indexes, constraints, settings and sequences are those of a database filled row by row, and at rest."""
    first = source(ends)
    filled = ends.make(SCHEMA)
    before = dump(filled)
    report = filled.sync()
    assert filling == [conninfo_to_dict(filled.dsn)["dbname"]]
    assert report.to_pull == 801
    assert filled.everything() == first.everything()
    assert dump(filled) == before
    assert filled.value("SELECT nextval('item_id_seq')") == 701
    assert filled.value("SELECT nextval('never_id_seq')") == 1
    assert filled.sync().rows is None
    filled.forget_agreements()
    again = filled.sync()
    assert (again.state, again.to_pull, again.to_push) == (SyncState.IN_SYNC, 0, 0)
    filled.run("UPDATE below SET v = 'changed' WHERE id = 1", "DELETE FROM kind WHERE name = 'a'")
    filled.sync()
    first.sync()
    assert first.everything() == filled.everything()


def test_what_is_put_off(ends: Ends) -> None:
    """Keys that their definition restores whole come after the rows; all others are kept up row by row."""
    end = ends.make(SCHEMA)
    with closing(connect(end.dsn, purpose="test")) as connection:
        tables = list(read_catalog(connection, Config()).tables.values())
        with connection.transaction(force_rollback=True):
            put_off = Deferred.drop(connection, tables, keep_unique=False)
        with connection.transaction(force_rollback=True):
            unique_kept = Deferred.drop(connection, tables, keep_unique=True)
    kept = {"part", "part1", "part2", "seen", "spaced"}
    names = {index.name for index in put_off.indexes}
    assert names.isdisjoint({f"{table}_pkey" for table in kept})
    assert names >= {'key "q', "keyed_b_a_key", "item_pkey", "public.item_unique"}
    assert "keyed_a_key" not in names, "the trigger of a deferrable key hangs on it"
    names = {index.name for index in unique_kept.indexes}
    assert "public.item_gin" in names
    assert names.isdisjoint({"item_pkey", "keyed_b_a_key", "public.item_unique"})


def test_a_trigger_that_needs_a_key(ends: Ends, filling: list[str]) -> None:
    """A trigger's ON CONFLICT finds the key that it names as rows come in."""
    tables = "CREATE TABLE t (id int PRIMARY KEY, v text UNIQUE); CREATE TABLE a (id int PRIMARY KEY); "
    first = ends.make(tables)
    other = ends.make(tables, trigger("t", "AFTER INSERT", "INSERT INTO a VALUES (7) ON CONFLICT (id) DO NOTHING;"))
    first.run("INSERT INTO t VALUES (1, 'a'), (2, 'b')", "INSERT INTO a VALUES (7)")
    first.sync()
    other.sync()
    assert filling == [conninfo_to_dict(other.dsn)["dbname"]]
    assert other.rows("t") == first.rows("t")
    assert other.rows("a") == ["(7)"]


def test_keys_that_are_equal_only_in_this_database(ends: Ends, filling: list[str]) -> None:
    """Two keys of the state that are one in this database's type: refused by the key's name, nothing is written."""
    first = ends.make("CREATE TABLE t (id text PRIMARY KEY)")
    other = ends.make("CREATE TABLE t (id interval PRIMARY KEY)")
    first.run("INSERT INTO t VALUES ('1 day'), ('24:00:00')")
    first.sync()
    before = dump(other)
    caught = other.refused(Conflicts)
    assert "t_pkey" in str(getattr(caught, "conflicts", ""))
    assert filling == []
    assert other.rows("t") == []
    assert dump(other) == before


def test_a_foreign_key_that_is_not_valid_takes_the_general_path(ends: Ends, filling: list[str]) -> None:
    """A constraint that its definition would not restore is never dropped."""
    first, other = ends.pair(
        "CREATE TABLE p (id int PRIMARY KEY); CREATE TABLE c (id int PRIMARY KEY, p int)",
        "ALTER TABLE c ADD CONSTRAINT later FOREIGN KEY (p) REFERENCES p NOT VALID",
    )
    first.run("INSERT INTO p VALUES (1)", "INSERT INTO c VALUES (1, 1)")
    first.sync()
    before = dump(other)
    other.sync()
    assert filling == []
    assert other.everything() == first.everything()
    assert dump(other) == before


def test_a_reader_makes_the_fill_step_back(ends: Ends, filling: list[str]) -> None:
    """While anybody reads there, rows go in the way that blocks no reader."""
    first, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY)")
    first.run("INSERT INTO t VALUES (1), (2)")
    first.sync()
    with psycopg.connect(other.dsn) as reader:
        reader.execute("SELECT FROM t")
        other.sync()
    assert filling == []
    assert other.rows("t") == ["(1)", "(2)"]


def test_rows_that_appear_meanwhile_are_merged(ends: Ends, monkeypatch: pytest.MonkeyPatch, filling: list[str]) -> None:
    """A table that is no longer empty at the fill starts the cycle again: the row stays and is pushed."""
    first, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY)")
    first.run("INSERT INTO t VALUES (1)")
    first.sync()
    real_can = fill_module.can_fill

    def can_fill(*arguments: Any) -> bool:
        found = real_can(*arguments)
        other.run("INSERT INTO t VALUES (7)")
        return found

    monkeypatch.setattr("vibey_actions.postgres.store.can_fill", can_fill)
    report = other.sync()
    assert report.attempts == 2
    assert report.pushed
    assert other.rows("t") == ["(1)", "(7)"]


def trigger(on: str, timing: str, body: str) -> str:
    """A row trigger."""
    return (
        f"CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN {body} RETURN NEW; END $$;"
        f"CREATE TRIGGER x {timing} ON {on} FOR EACH ROW EXECUTE FUNCTION f()"
    )


@pytest.mark.parametrize(
    ("schema", "error", "said"),
    [
        (trigger("t", "BEFORE INSERT", "NEW.v := 'MARKER2';"), RowRefused, "trigger"),
        (trigger("t", "AFTER INSERT", "INSERT INTO u VALUES (NEW.id, 'MARKER2');"), RowRefused, "trigger"),
        (trigger("z", "AFTER INSERT", "UPDATE t SET v = 'MARKER2' WHERE id = 1;"), RowRefused, "trigger"),
        (trigger("t", "BEFORE INSERT", "RETURN NULL;"), RowRefused, "trigger"),
        (trigger("t", "BEFORE INSERT", "RAISE 'MARKER3';"), DatabaseFailed, "inserting rows into t"),
        (trigger("z", "AFTER INSERT", "PERFORM pg_terminate_backend(pg_backend_pid());"), DatabaseFailed, "z"),
        ("ALTER TABLE t ADD CHECK (v <> 'MARKER')", DatabaseFailed, "t_v_check"),
        ("ALTER TABLE t ADD UNIQUE (v)", DatabaseFailed, "t_v_key"),
        ("CREATE UNIQUE INDEX only_here ON t (v)", DatabaseFailed, "only_here"),
        ("ALTER TABLE z ADD FOREIGN KEY (t) REFERENCES t (id)", Conflicts, "z_t_fkey"),
    ],
)
def test_a_fill_that_fails_leaves_everything_as_it_was(
    ends: Ends, filling: list[str], schema: str, error: type[VibeyError], said: str
) -> None:
    """A trigger, a lost connection, a constraint that only this end has: no row, no index, no watermark changes."""
    tables = (
        "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE u (id int PRIMARY KEY, v text);"
        "CREATE TABLE z (id int PRIMARY KEY, t int); CREATE INDEX i ON t (lower(v)); "
        "ALTER TABLE t ADD FOREIGN KEY (id) REFERENCES t"
    )
    first, other = ends.make(tables), ends.make(tables, schema)
    first.run("INSERT INTO t VALUES (1, 'MARKER'), (2, 'MARKER')", "INSERT INTO z VALUES (1, 3)")
    first.sync()
    before = dump(other)
    caught = other.refused(error)
    assert said in caught.message + str(getattr(caught, "conflicts", ""))
    assert "MARKER" not in caught.message + caught.hint + "".join(other.notices)
    assert dump(other) == before
    assert other.value("SELECT count(*) FROM state_sync") == 0
    assert filling == []


def test_a_state_that_breaks_off_leaves_everything_as_it_was(
    ends: Ends, filling: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The document turns out to be unreadable behind its last row: what was copied is gone with its transaction."""
    first, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, v text); CREATE INDEX i ON t (v)")
    first.run("INSERT INTO t SELECT n, repeat('x', 500) FROM generate_series(1, 3000) n")
    first.sync()
    before = dump(other)
    real = fill_module._copy

    def copy(*arguments: Any, **options: Any) -> Any:
        real(*arguments, **options)
        raise Unreadable("the state breaks off")

    monkeypatch.setattr(fill_module, "_copy", copy)
    other.refused(Unreadable)
    assert dump(other) == before
    monkeypatch.setattr(fill_module, "_copy", real)
    other.sync()
    assert other.rows("t") == first.rows("t")


FUNCTION = "CREATE FUNCTION c(int) RETURNS boolean LANGUAGE sql AS "
ODD = {
    "a partition's own foreign key": (
        (
            "CREATE TABLE z (id int PRIMARY KEY); CREATE TABLE a (id int, d int, z int, PRIMARY KEY (id, d))"
            " PARTITION BY RANGE (d); CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10);"
            " CREATE TABLE a2 PARTITION OF a DEFAULT; ALTER TABLE a1 ADD FOREIGN KEY (z) REFERENCES z"
        ),
        "INSERT INTO z VALUES (1); INSERT INTO a VALUES (1, 1, 1), (2, 20, 7)",
        True,
    ),
    "a foreign key to a partition": (
        (
            "CREATE TABLE z (id int, d int, PRIMARY KEY (id, d)) PARTITION BY RANGE (d);"
            " CREATE TABLE z1 PARTITION OF z FOR VALUES FROM (0) TO (10);"
            " CREATE TABLE a (id int PRIMARY KEY, d int, FOREIGN KEY (id, d) REFERENCES z1 (id, d))"
        ),
        "INSERT INTO z VALUES (1, 1); INSERT INTO a VALUES (1, 1)",
        True,
    ),
    "a comment on a partition's copy of a foreign key": (
        (
            "CREATE TABLE z (id int PRIMARY KEY); CREATE TABLE a (id int, d int, z int, PRIMARY KEY (id, d))"
            " PARTITION BY RANGE (d); ALTER TABLE a ADD CONSTRAINT root_fk FOREIGN KEY (z) REFERENCES z;"
            " CREATE TABLE a1 PARTITION OF a FOR VALUES FROM (0) TO (10); COMMENT ON CONSTRAINT root_fk ON a1 IS 'kept'"
        ),
        "INSERT INTO z VALUES (1); INSERT INTO a VALUES (1, 1, 1)",
        False,
    ),
    "a child that may hold a null in its parent's key": (
        (
            "CREATE TABLE p (id int, a int); CREATE TABLE c (z int PRIMARY KEY) INHERITS (p);"
            " ALTER TABLE p ADD PRIMARY KEY (id)"
        ),
        "INSERT INTO p VALUES (1, 1); INSERT INTO c VALUES (2, 2, 3)",
        None,
    ),
    "a check that needs its table's key while rows come": (
        "CREATE TABLE b (id int PRIMARY KEY, leaf boolean); CREATE TABLE a (id int PRIMARY KEY, v int REFERENCES b);"
        + FUNCTION
        + "'SELECT leaf FROM public.b WHERE id = $1'; ALTER TABLE a ADD CHECK (coalesce(c(v), false))",
        "INSERT INTO b VALUES (1, true); INSERT INTO a VALUES (1, 1)",
        False,
    ),
    "names that the search_path of the database hides": (
        (
            "CREATE FUNCTION lower(text) RETURNS text LANGUAGE sql IMMUTABLE AS $$ SELECT 'same' $$;"
            " CREATE TABLE p (id int PRIMARY KEY, v text); CREATE UNIQUE INDEX pl ON p (pg_catalog.lower(v));"
            " DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());"
            " END $$"
        ),
        "INSERT INTO p VALUES (1, 'x'), (2, 'y')",
        True,
    ),
    "a deferred trigger that has yet to fire": (
        (
            "CREATE TABLE a (id int PRIMARY KEY, v int); CREATE INDEX ai ON a (v);"
            " CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$;"
            " CREATE CONSTRAINT TRIGGER ct AFTER INSERT ON a DEFERRABLE INITIALLY DEFERRED"
            " FOR EACH ROW EXECUTE FUNCTION f()"
        ),
        "INSERT INTO a VALUES (1, 1)",
        True,
    ),
}


@pytest.mark.parametrize("odd", ODD)
def test_odd_schemas_come_out_as_they_were(ends: Ends, filling: list[str], odd: str) -> None:
    """Streamed in, or in order where the stream would not do: the rows are there and the schema is the same."""
    schema, rows, streamed = ODD[odd]
    first, other = ends.pair(schema)
    first.run(rows)
    first.sync()
    before = dump(other)
    other.sync()
    assert dump(other) == before
    assert other.everything() == first.everything()
    if streamed is not None:
        assert bool(filling) == streamed
    assert other.sync().rows is None


def test_what_would_not_come_back_is_never_put_off(
    ends: Ends, filling: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial on the empty tables finds an index that its restoration makes otherwise: rows go in the other way."""
    first, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE INDEX i ON t (v)")
    first.run("INSERT INTO t VALUES (1, 1)")
    first.sync()
    before = dump(other)
    monkeypatch.setattr(bulkload, "index_definition", lambda *_: "CREATE INDEX i ON public.t (v DESC)")
    other.sync()
    assert filling == []
    assert dump(other) == before
    assert other.rows("t") == ["(1,1)"]


def test_event_triggers_and_policies_take_the_general_path(ends: Ends, filling: list[str]) -> None:
    """Rules of the database on DDL never see a table without its indexes."""
    first, other = ends.pair("CREATE TABLE t (id int PRIMARY KEY, v int); CREATE INDEX i ON t (v)")
    first.run("INSERT INTO t VALUES (1, 1)")
    first.sync()
    other.run(
        "CREATE FUNCTION no() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no DDL'; END $$",
        "CREATE EVENT TRIGGER no ON ddl_command_start WHEN TAG IN ('DROP INDEX', 'ALTER TABLE') EXECUTE FUNCTION no()",
    )
    other.sync()
    assert filling == []
    assert other.rows("t") == ["(1,1)"]
