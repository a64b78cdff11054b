"""PostgreSQL's text of a key and of a row is the core's, for every type and under every setting of the database."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from vibey_actions.config import Config
from vibey_actions.errors import TableRefused
from vibey_actions.postgres.catalog import read_catalog
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.expressions import key_text, row_image, row_json, row_source
from vibey_actions.postgres.snapshot import Snapshot
from vibey_actions.postgres.tables import Carriage, PgTable
from vibey_actions.rows.canonical import canonical

TEXTS = (
    "", " ", "a", "A", "ä", "Z", "~", "\x7f", "\x80", "\x01", "\x1f", "\b\f\n\r\t", '"', "\\", "'", "%s", "\\u0041",
    "\u2028", "\ufeff", "\uffff", "\U00010000", "\U0010ffff", "🎉🎉", "e\u0301", "a" * 300, "\x7fé\U0001f600\\\"",
)  # fmt: skip
NUMBERS = (
    "0", "0.0", "0.000000", "0.0000000", "0.000000000", "-0.0000001", "0.0000001", "0.00000012", "0.000001",
    "0.0000010", "0.00000010", "1", "1.50", "-1", "100", "1e130", "-1e-130", "1e-20", "0.000000120", "NaN",
    "Infinity", "-Infinity", "123456789012345678901234567890.0000000001", "0.10000000000", "0.00000000000",
)  # fmt: skip
FLOATS = (
    "0", "1", "-1", "1e-7", "1.5e-7", "1e-6", "0.1", "0.30000000000000004", "1e15", "1e16", "1e22", "1e300",
    "-1.7976931348623157e308", "2.2250738585072014e-308", "5e-324", "NaN", "Infinity", "-Infinity", "123456.789",
)  # fmt: skip
REALS = ("0", "0.1", "1e-7", "1.17549435e-38", "1e-45", "3.4028235e38", "-1.5e-10", "16777216", "NaN", "Infinity")
TIMES = ("infinity", "-infinity", "2020-01-01", "0044-03-15 BC", "4713-01-01 BC", "15000-12-31")
STAMPS = (*TIMES, "2020-01-01 12:34:56.789", "2020-01-01 12:34:56.000001", "0001-01-01 00:00:00.5 BC")

KEYS: dict[str, tuple[str, ...]] = {
    "smallint": ("-32768", "0", "9", "10", "32767"),
    "integer": ("-2147483648", "-1", "0", "9", "10", "2147483647"),
    "bigint": ("-9223372036854775808", "9007199254740993", "9223372036854775807"),
    "oid": ("0", "4294967295", "17"),
    "numeric": NUMBERS,
    "numeric(20,10)": ("0", "1", "0.0000000001", "1234567890.5"),
    "real": REALS,
    "double precision": FLOATS,
    "boolean": ("t", "f"),
    "text": TEXTS,
    "varchar": TEXTS,
    "varchar(400)": TEXTS,
    "char(5)": ("", "a", "ab   ", "äöü", "\x7f", "🎉"),
    '"char"': ("a", '"', "\\", "\x01", "\x7f"),
    "name": ("a", "Ä", "🎉", '"'),
    "uuid": ("00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"),
    "bytea": ("", "\\xdeadbeef", "\\x00", "\\x5c"),
    "date": TIMES,
    "timestamp": STAMPS,
    "timestamp(3)": STAMPS,
    "timestamptz": STAMPS,
    "timestamptz(0)": ("2020-01-01", "infinity"),
    "time": ("00:00", "24:00", "12:34:56.789"),
    "time(2)": ("00:00", "12:34:56.789"),
    "timetz": ("00:00+00", "24:00-15:59", "12:34:56.789+05:30"),
    "interval": ("0", "1 year", "-1 mon 3 days -04:05:06.7", "178000000 years"),
    "inet": ("10.0.0.1", "::1", "10.0.0.0/8"),
    "cidr": ("10.0.0.0/8", "2001:db8::/32"),
    "macaddr": ("08:00:2b:01:02:03",),
    "macaddr8": ("08:00:2b:01:02:03:04:05",),
    "pg_lsn": ("0/0", "FF/AB"),
    "money": ("$0.00", "-$1,234.50"),
    "bit(3)": ("101", "000"),
    "varbit": ("", "1"),
    "xid8": ("0", "18446744073709551615"),
    "int4range": ("empty", "[1,10)", "(,)"),
    "tsrange": ("[2020-01-01,2021-01-01)", "(,infinity]"),
    "int4multirange": ("{}", "{[1,2),[5,9)}"),
    "tsvector": ("a:1 'b c':2", ""),
    "mood": ("sad", "ünï'c\"ode", "🎉", "back\\slash"),
    "label": TEXTS,
    "counted": ("1", "10", "2"),
    "exact": NUMBERS,
    "citext": ("A", "ä", "🎉"),
    "ltree": ("a.b", "a"),
}
TYPES = r"""
CREATE TYPE mood AS ENUM ('sad', 'ünï''c"ode', '🎉', 'back\slash');
CREATE DOMAIN label AS text; CREATE DOMAIN counted AS bigint CHECK (VALUE > 0); CREATE DOMAIN exact AS numeric;
CREATE EXTENSION citext; CREATE EXTENSION ltree
"""
HOSTILE = (
    "timezone TO 'Asia/Kathmandu'", "datestyle TO 'SQL, DMY'", "intervalstyle TO 'iso_8601'",
    "bytea_output TO 'escape'", "extra_float_digits TO 0", 'search_path TO "$user", public',
    "standard_conforming_strings TO off", "xmlbinary TO 'hex'", "quote_all_identifiers TO on", "array_nulls TO off",
    "transform_null_equals TO on", "row_security TO on", "default_transaction_isolation TO 'serializable'",
    "default_transaction_read_only TO off", "enable_sort TO off", "escape_string_warning TO off",
)  # fmt: skip


def read(dsn: str, *, exact_rows: bool = True) -> Iterator[tuple[psycopg.Connection, PgTable]]:
    """Every synced table, with a connection as the sync uses it."""
    with connect(dsn, purpose="sync") as connection:
        for table in read_catalog(connection, Config(), exact_rows=exact_rows).tables.values():
            yield connection, table


@pytest.fixture
def typed(dsn: str) -> str:
    """A database with a table per key type that is accepted."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        try:
            setup.execute(TYPES.encode())
        except psycopg.errors.UndefinedFile:
            pytest.skip("this server was installed without its contributed extensions")
        for number, (kind, values) in enumerate(KEYS.items()):
            setup.execute(f"CREATE TABLE t{number} (k {kind} PRIMARY KEY, other int)".encode())
            for value in values:
                insert = f"INSERT INTO t{number} VALUES (%s::text::{kind}, 1) ON CONFLICT DO NOTHING"
                setup.execute(insert.encode(), (value,))
    return dsn


def test_a_key_of_every_type_is_the_cores_and_orders_by_bytes(typed: str) -> None:
    """What PostgreSQL sorts by is the key that the core takes from the row, byte for byte, and ascends."""
    seen = 0
    for connection, table in read(typed):
        kind = table.column("k").type
        query = f"SELECT {key_text(table, 'r')} FROM {row_source(table, 'r')} ORDER BY 1"
        asked = [key.encode("ascii") for (key,) in connection.execute(query.encode())]
        rows = list(Snapshot(connection, read_catalog(connection, Config()), [], {}).view(table.name).rows())
        assert asked == [key for key, _ in rows], kind
        assert asked == sorted(set(asked)), kind
        seen += len(asked)
    assert seen > 200


def test_random_keys_of_several_columns(dsn: str) -> None:
    """Random text, numbers and floats, in one composite key with a column named like the query's own alias."""
    chance = random.Random(86)  # noqa: S311 - the same rows every time
    letters = [chr(code) for code in (*range(1, 256), 0x2028, 0xFFFF, 0x10000, 0x1F389, 0x10FFFF)]
    rows = []
    for _ in range(400):
        text = "".join(chance.choices(letters, k=chance.randrange(8)))
        number = f"{chance.choice('- ')}{chance.randrange(10**6)}e{chance.randrange(-25, 25)}"
        double = struct.unpack("<d", chance.randbytes(8))[0]
        rows.append((text, number, double if double else 0.0))
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute('CREATE TABLE t (s int, r text, "N" numeric, f float8, PRIMARY KEY (r, f, "N"))')
        with setup.cursor() as cursor:
            cursor.executemany('INSERT INTO t (r, "N", f) VALUES (%s, %s::text::numeric, %s)', rows)
    for connection, table in read(dsn):
        query = f"SELECT {key_text(table, 'r')} FROM {row_source(table, 'r')} ORDER BY 1"
        asked = [key.encode("ascii") for (key,) in connection.execute(query.encode())]
        rows_read = Snapshot(connection, read_catalog(connection, Config()), [], {}).view("t").rows()
        assert asked == [key for key, _ in rows_read]


@pytest.mark.parametrize("kind", ["jsonb", "int[]", "text[]", "point_pair"])
def test_a_key_that_cannot_order_is_refused_by_name(dsn: str, kind: str) -> None:
    """Where JSON carries them, arrays, composites and jsonb have no one text to order by: the column is named."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("CREATE TYPE point_pair AS (x int, y int)")
        setup.execute(f'CREATE TABLE "T t" ("K%s" {kind} PRIMARY KEY)'.encode())
    for _, table in read(dsn):
        assert key_text(table, "r")
        column = replace(table.columns[0], serialized=False, carriage=Carriage.COMPOUND)
        with pytest.raises(TableRefused, match=r"T t.*K%s"):
            key_text(replace(table, columns=(column,)), "r")


def both_images(connection: psycopg.Connection, table: PgTable) -> list[tuple[str, str, bytes]]:
    """Each row as ``row_json`` prints it, through to_jsonb, and as the chunks see it."""
    query = (
        f"SELECT {row_json(table, 'r')}::text, to_jsonb(r.*)::text, {row_image(table, 'r')}"
        f" FROM {row_source(table, 'r')} ORDER BY {key_text(table, 'r')}"
    )
    return connection.execute(query.encode()).fetchall()


def test_the_cheap_image_of_a_row_is_the_one_of_the_format(typed: str) -> None:
    """row_to_json is used for some types: its canonical text is that of to_jsonb, value for value."""
    functions = set()
    for connection, table in chain(read(typed), read(typed, exact_rows=False)):
        functions.add(row_json(table, "r").split("(")[0])
        for cheap, image, _ in both_images(connection, table):
            assert canonical(cheap.encode()) == canonical(image.encode()), table.column("k").type
    assert functions == {"row_to_json", "to_jsonb"}


def test_settings_of_the_database_change_nothing(typed: str, server: object) -> None:
    """Rows, keys and chunk texts are the same bytes whatever ALTER DATABASE ... SET says."""
    plain = [both_images(connection, table) for connection, table in read(typed)]
    name = conninfo_to_dict(typed)["dbname"]
    with psycopg.connect(typed, autocommit=True) as setup:
        for setting in HOSTILE:
            setup.execute(f'ALTER DATABASE "{name}" SET {setting}'.encode())
    assert [both_images(connection, table) for connection, table in read(typed)] == plain
    assert any(plain)


def test_a_column_may_have_the_name_of_an_alias(database: Callable[[], str]) -> None:
    """A column r is no row: the whole row is read and compared, not that column alone."""
    dsn = database()
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("CREATE TABLE t (s int PRIMARY KEY, r text, o int, c int, p int, base int, n int)")
        setup.execute(
            "CREATE TABLE g (s int PRIMARY KEY, r text, base int, twice int GENERATED ALWAYS AS (2 * s) STORED)"
        )
        setup.execute("INSERT INTO t VALUES (1, 'x', 2, 3, 4, 5, 6); INSERT INTO g VALUES (1, 'x', 2)")
    with connect(dsn, purpose="sync") as connection:
        snapshot = Snapshot(connection, read_catalog(connection, Config()), [], {})
        assert list(snapshot.view("t").rows()) == [(b"[1]", b'{"base":5,"c":3,"n":6,"o":2,"p":4,"r":"x","s":1}')]
        assert list(snapshot.view("g").rows()) == [(b"[1]", b'{"base":2,"r":"x","s":1}')]
