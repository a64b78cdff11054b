"""What JSON would change is found and named where rows are carried as JSON; everything else passes."""

from __future__ import annotations

import psycopg
import pytest

from vibey_actions.config import Config
from vibey_actions.errors import RowRefused
from vibey_actions.postgres.catalog import read_catalog
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.snapshot import Snapshot

LOSSY = {
    "jsonb": ["null"],
    "json": ['{"a":1}', '{"b":1,"a":1}', '{"a":1,"a":2}', '"\\u0000"', '"\\ud83d"', "null", '["\\u0041"]'],
    "json[]": ['{NULL,"null"}', '{"{\\"b\\":1,  \\"a\\":2}"}'],
    "jsonb[]": ['{"null"}'],
    "int[]": ["[0:1]={1,2}", "[2:3][1:1]={{1},{2}}"],
    "float8": ["-0"],
    "real": ["-0"],
    "float8[]": ["{-0}"],
    "held": ['("{""b"":1}",)', "(,-0)"],
    "hstore": ["a=>1"],
    "kept": ["a=>1"],
}
HARMLESS = {
    "jsonb": ['{"a": null, "b": [null, 1.00, 1e400]}', '"null"', "{}"],
    "json": ['{"a": 1, "b": [1, 2]}', '"\\\\u0000"', "1.50"],
    "jsonb[]": ['{NULL,"{\\"a\\": null}"}'],
    "int[]": ["{}", "{1,NULL}", "{{1,2},{3,4}}"],
    "text[]": ['{"\\\\u0000","null",NULL,"a\\"b,{}"}'],
    "numeric[]": ["{1.00,NaN,Infinity}"],
    "float8": ["0", "NaN", "-Infinity", "5e-324", "0.30000000000000004"],
    "real": ["0", "0.1"],
    "held": ['("{""a"": 1}",0)', "(,)"],
    "bytea": ["\\xdeadbeef", ""],
    "timestamptz[]": ["{infinity,0044-03-15 BC}"],
    "tsrange": ['["2020-01-01","2021-01-01")'],
    "text": ["-0", "null", "\\u0000"],
}


def rows(dsn: str) -> dict[str, list[bytes] | RowRefused]:
    """Each table's rows, or why it is refused."""
    found: dict[str, list[bytes] | RowRefused] = {}
    with connect(dsn, purpose="sync") as connection:
        catalog = read_catalog(connection, Config(), exact_rows=False)
        for name in catalog.tables:
            try:
                found[name] = [row for _, row in Snapshot(connection, catalog, [], {}).view(name).rows()]
            except RowRefused as error:
                found[name] = error
    return found


@pytest.fixture
def typed(dsn: str) -> str:
    """A database with a composite type, hstore and a domain over it."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        try:
            setup.execute("CREATE EXTENSION hstore; CREATE DOMAIN kept AS hstore")
        except psycopg.errors.UndefinedFile:
            pytest.skip("this server was installed without its contributed extensions")
        setup.execute("CREATE TYPE held AS (j json, f float8)")
    return dsn


def tables(dsn: str, values: dict[str, list[str]]) -> list[tuple[str, str]]:
    """A table per value, each with a harmless row beside it; returns types and values by the table's number."""
    cases = [(kind, value) for kind, several in values.items() for value in several]
    with psycopg.connect(dsn, autocommit=True) as setup:
        for number, (kind, value) in enumerate(cases):
            table = f"t{number:03}"
            setup.execute(f'CREATE TABLE {table} ("k%s" text PRIMARY KEY, "v %s" {kind})'.encode())
            setup.execute(f"INSERT INTO {table} VALUES ('a', NULL), ('MY KEY', %s::text::{kind})".encode(), (value,))
    return cases


def test_each_value_that_would_change_is_refused_by_name(typed: str) -> None:
    """Table, key and column are in the message, the value is not; a cast that fails is no bare SQL error."""
    cases = tables(typed, LOSSY)
    for (table, found), (kind, value) in zip(rows(typed).items(), cases, strict=True):
        assert isinstance(found, RowRefused), (kind, value, found)
        assert table in found.message
        assert "v %s" in found.message
        assert '["MY KEY"]' in found.message, (kind, value, found.message)
        assert found.hint


def test_what_comes_back_as_it_was_passes(typed: str) -> None:
    """No value is refused for looking like one that is lost."""
    cases = tables(typed, HARMLESS)
    for found, case in zip(rows(typed).values(), cases, strict=True):
        assert isinstance(found, list), (case, found)
        assert len(found) == 2
