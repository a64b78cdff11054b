"""Cells beyond what jsonb can hold: carried, or refused by table, key and column before anything is written.

The real ones take minutes and some gigabytes of memory: VIBEY_TEST_HUGE=1 runs them.
"""

from __future__ import annotations

import os

import psycopg
import pytest

from tests.support.ends import Ends
from vibey_actions.config import Config
from vibey_actions.errors import RowRefused
from vibey_actions.postgres import snapshot
from vibey_actions.postgres.catalog import read_catalog
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.sizes import refusing_what_is_too_large

TABLE = "CREATE TABLE t (id int PRIMARY KEY, v text, j jsonb, f float8, b bytea, e text[])"

huge = pytest.mark.skipif(
    not os.environ.get("VIBEY_TEST_HUGE"), reason="takes minutes and gigabytes: VIBEY_TEST_HUGE=1"
)


def test_a_row_over_the_limit_is_refused_by_its_key(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain text as PostgreSQL prints it, and text that only becomes so long by its escapes."""
    one, other = ends.pair(TABLE)
    one.run("INSERT INTO t (id, v) VALUES (1, 'a')")
    one.sync()
    other.sync()
    monkeypatch.setattr(snapshot, "MAX_ROW_TEXT", 1000)
    for text in ("repeat('x', 2000)", "repeat('é', 300)"):
        one.run(f"UPDATE t SET v = {text}")
        error = one.refused(RowRefused)
        assert error.message.startswith("table t, row [1]: the row is too large to be carried")
        assert ends.commits() == 1


def test_what_postgresql_cannot_print_is_named(dsn: str) -> None:
    """The server's own limit: the largest cell's table, row and column are said with what the server says."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute(TABLE.encode())
        setup.execute("INSERT INTO t (id, v, b) VALUES (1, 'a', NULL), (7, 'b', convert_to(repeat('x', 9000), 'UTF8'))")
    with connect(dsn, purpose="test") as connection:
        table = read_catalog(connection, Config()).tables["t"]
        connection.execute("BEGIN")
        with pytest.raises(RowRefused) as caught, refusing_what_is_too_large(connection, table):
            connection.execute("DO $$ BEGIN RAISE 'out of memory' USING ERRCODE = 'program_limit_exceeded'; END $$")
        assert "table t, row [7]" in caught.value.message
        assert "b holds 9000 bytes" in caught.value.message
        assert "out of memory" in caught.value.message


@huge
@pytest.mark.parametrize(
    "values",
    ["v) VALUES (1, repeat('x', 270000000)", "j) VALUES (1, to_jsonb(repeat('x', 255000000))"],
)
def test_a_huge_cell_is_carried(ends: Ends, values: str) -> None:
    """270 million characters of text, and as much jsonb as there can be, arrive as they are."""
    one, other = ends.pair(TABLE)
    one.run(f"INSERT INTO t (id, {values})")
    one.sync()
    other.sync()
    digest = "SELECT md5(coalesce(v, j::text)) FROM t"
    assert one.value(digest) == other.value(digest)
    assert one.sync().rows is None


@huge
@pytest.mark.parametrize(
    "values",
    [
        "v) VALUES (1, repeat('ä', 270000000)",
        "v, e) VALUES (1, repeat('x', 500000000), ARRAY[repeat('y', 400000000)]",
        "b) VALUES (1, convert_to(repeat('x', 600000000), 'UTF8')",
    ],
)
def test_a_row_that_nobody_could_read_is_refused(ends: Ends, values: str) -> None:
    """Rows whose text is longer than is carried, or than PostgreSQL prints: named, and nothing is pushed."""
    end = ends.make(TABLE)
    end.run(f"INSERT INTO t (id, {values})")
    with pytest.raises(RowRefused, match=r"table t, row \[1\]: the row is too large"):
        end.sync()
