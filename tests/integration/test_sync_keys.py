"""Keys that are equal in the database are one row, and what has no such text is refused by the constraint's name."""

from __future__ import annotations

import psycopg
import pytest

from tests.support.ends import End, Ends
from vibey_actions.errors import Conflicts
from vibey_actions.state import cycle
from vibey_actions.state.report import ConflictKind, Counts, SyncState

KINDS = {
    "numeric": ("1.0", "1.00", "2.5"),
    "float8": ("0", "-0", "0.5"),
    "real": ("-0", "0", "1e-7"),
    "bpchar": ("a", "a  ", "b"),
    "exact": ("0.00000010", "0.0000001", "-1.50"),
    "padded": ("", "   ", "é"),
}
DOMAINS = "CREATE DOMAIN exact AS numeric; CREATE DOMAIN loose AS bpchar; CREATE DOMAIN padded AS loose"
TABLE = """{domains}; CREATE TABLE t (a int, k {kind}, v text, PRIMARY KEY (k, a));
CREATE TABLE child (id int PRIMARY KEY, k {kind}, a int, FOREIGN KEY (k, a) REFERENCES t)"""


def level(one: End, other: End) -> None:
    """Both ends have the same rows, also where every row is compared anew."""
    for end in (one, other, one):
        end.sync()
    assert one.everything() == other.everything()
    for end in (one, other):
        end.forget_agreements()
        report = end.sync()
        assert (report.state, report.to_pull, report.to_push) == (SyncState.IN_SYNC, 0, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_under_two_texts(ends: Ends, kind: str) -> None:
    """A key that another text was given to is an update of its row at the other end, children and all."""
    first, second, third = KINDS[kind]
    one, other = ends.pair(TABLE.format(kind=kind, domains=DOMAINS))
    one.run(f"INSERT INTO t VALUES (1, '{first}', 'x'), (2, '{first}', 'y'), (1, '{third}', 'z')")
    one.run(f"INSERT INTO child VALUES (1, '{first}', 1), (2, '{third}', 1)")
    level(one, other)
    other.run(f"UPDATE t SET k = '{second}', v = 'new' WHERE k = '{first}' AND a = 1")
    assert other.sync().push == {"t": Counts(updated=1)}
    assert one.sync().pull == {"t": Counts(updated=1)}
    level(one, other)
    texts = one.value("SELECT array_agg(k::text::bytea ORDER BY a) FROM t WHERE v IN ('new', 'y')")
    assert texts == other.value("SELECT array_agg(k::text::bytea ORDER BY a) FROM t WHERE v IN ('new', 'y')")
    assert one.value(f"SELECT count(*) FROM t WHERE k = '{first}'") == 2
    assert one.rows("t") == other.rows("t")
    one.run("DELETE FROM child", f"DELETE FROM t WHERE k = '{first}'")
    level(one, other)
    assert other.value("SELECT count(*) FROM t") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_one_key_inserted_at_both_ends_is_one_row(ends: Ends, kind: str) -> None:
    """Under two texts the two ends hold different rows of one key: a conflict, which a rule settles."""
    first, second, _ = KINDS[kind]
    one, other = ends.pair(TABLE.format(kind=kind, domains=DOMAINS))
    level(one, other)
    one.run(f"INSERT INTO t VALUES (1, '{first}', 'x')")
    other.run(f"INSERT INTO t VALUES (1, '{second}', 'x')")
    one.sync()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.kind) for c in error.conflicts] == [("t", ConflictKind.BOTH_CHANGED)]
    other.env["VIBEY_STATE_CONFLICTS"] = "t=mine"
    other.sync()
    one.sync()
    assert one.rows("t") == other.rows("t")
    assert one.value("SELECT count(*) FROM t") == 1


def test_a_fill_and_many_chunks_keep_to_the_order_of_identities(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Thousands of numeric keys of every scale: filled in one stream, then changed at both ends, chunk by chunk."""
    one, other = ends.pair("CREATE TABLE t (k numeric PRIMARY KEY, v int)")
    one.run("INSERT INTO t SELECT trim_scale(n::numeric / 8) + ('0.' || repeat('0', n % 5 + 1))::numeric, n"
            " FROM generate_series(-1500, 1500) n")  # fmt: skip
    one.sync()
    monkeypatch.setattr(cycle, "LARGE_FILL", 1)
    other.sync()
    assert one.rows("t") == other.rows("t")
    one.run("UPDATE t SET k = k * 1.000, v = v + 1 WHERE v % 100 = 7", "DELETE FROM t WHERE v % 100 = 3")
    other.run("UPDATE t SET v = -v WHERE v % 100 = 50", "INSERT INTO t VALUES (1e100, 1), (1e-100, 2), (0.1, 3)")
    level(one, other)


def test_only_unbounded_types_make_an_exact_document(ends: Ends) -> None:
    """numeric(10,2) and character(5) have one text per value: their state stays in format 1."""
    end = ends.make("CREATE TABLE t (n numeric(10,2), c char(5), PRIMARY KEY (n, c))")
    end.run("INSERT INTO t VALUES (1.5, 'a'), (-2, 'b ')")
    end.sync()
    assert end.operations.show(None, None, None).format == "vibey-state/1"
    end.run("CREATE TABLE u (n numeric PRIMARY KEY)", "INSERT INTO u VALUES (1.0)")
    end.sync()
    assert end.operations.show(None, None, None).format == "vibey-state/1x"


NO_CASE = """
CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
CREATE TABLE t (k text COLLATE nocase PRIMARY KEY, v int)
"""
EQUAL = {
    "citext": ("CREATE EXTENSION citext; CREATE TABLE t (k citext PRIMARY KEY, v int)", "'A'", "'a'"),
    "interval": ("CREATE TABLE t (k interval PRIMARY KEY, v int)", "'1 day'", "'24:00'"),
    "jsonb": ("CREATE TABLE t (k jsonb PRIMARY KEY, v int)", "'[1.0]'", "'[1.00]'"),
    "numeric[]": ("CREATE TABLE t (k numeric[] PRIMARY KEY, v int)", "'{1.0}'", "'{1.00}'"),
    "numrange": ("CREATE TABLE t (k numrange PRIMARY KEY, v int)", "'[1.0,2)'", "'[1,2)'"),
    "collation": (NO_CASE, "'A'", "'a'"),
}  # fmt: skip


@pytest.mark.parametrize("kind", EQUAL)
def test_what_cannot_be_told_equal_is_refused_by_the_key(ends: Ends, kind: str) -> None:
    """Two texts of one key, which only the database knows to be one: both rows and the primary key are named."""
    schema, here, there = EQUAL[kind]
    try:
        one, other = ends.pair(schema)
    except (psycopg.errors.FeatureNotSupported, psycopg.errors.UndefinedFile) as missing:
        pytest.skip(f"this server cannot: {missing}")
    level(one, other)
    one.run(f"INSERT INTO t VALUES ({here}, 1)")
    other.run(f"INSERT INTO t VALUES ({there}, 2)")
    one.sync()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.kind, c.constraint) for c in error.conflicts] == [("t", ConflictKind.CONSTRAINT, "t_pkey")]
    one.run("DELETE FROM t")
    level(one, other)
    other.run(f"UPDATE t SET k = {here}")
    level(one, other)
