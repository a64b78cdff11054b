"""PostgreSQL puts every row into the chunk that the core does, however many chunks there are."""

from __future__ import annotations

from collections import Counter

import psycopg
import pytest

from vibey_actions.config import Config
from vibey_actions.postgres.catalog import read_catalog
from vibey_actions.postgres.chunks import Within, chunk_states, rows_in
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.snapshot import PgTableView
from vibey_actions.state.bounds import EVERYTHING, chunk_of


@pytest.mark.parametrize("cuts", [0, 1, 255, 256, 257, 289, 290, 1000])
def test_rows_are_in_the_chunks_of_the_core(dsn: str, cuts: int) -> None:
    """With few bounds and with many: bounds that are keys, such as lie between keys, and keys outside all bounds."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("CREATE TABLE t (k text, n int, PRIMARY KEY (k, n))")
        setup.execute("INSERT INTO t SELECT chr(97 + n % 5) || chr(228), n FROM generate_series(1, 1100) n")
    with connect(dsn, purpose="test") as connection:
        table = read_catalog(connection, Config()).tables["t"]
        keys = [key for key, _ in PgTableView(connection, table, (), [EVERYTHING], None).rows()]
        bounds = sorted(key[:-1] if number % 3 else key for number, key in enumerate(keys[40 : 40 + cuts]))
        expected = Counter(chunk_of(bounds, key) for key in keys)
        states = chunk_states(connection, table, b"salt", bounds)
        assert [rows_in(state) for state in states] == [expected[chunk] for chunk in range(cuts + 1)]
        wanted = sorted({0, cuts // 2, cuts})
        within = Within(bounds, wanted)
        some = chunk_states(connection, table, b"salt", bounds, within)
        assert [rows_in(state) for state in some] == [
            expected[chunk] if chunk in wanted else 0 for chunk in range(cuts + 1)
        ]
        assert all(some[chunk] == states[chunk] for chunk in wanted)
        read = [key for key, _ in PgTableView(connection, table, bounds, [EVERYTHING], within).rows()]
        assert read == [key for key in keys if chunk_of(bounds, key) in wanted]
