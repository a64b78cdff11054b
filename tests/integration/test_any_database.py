"""Random databases go through snapshot, seal, branch, fill and apply, and come out the same to the last byte.

VIBEY_TEST_SEED sets the first seed, VIBEY_TEST_COUNT how many databases are made; a failure names its seed.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.dumps import dump, sequences_behind
from tests.support.ends import End, Ends
from tests.support.fake_values import EXTENSIONS
from tests.support.faker import Faker
from vibey_actions.config import Config
from vibey_actions.postgres.catalog import read_catalog
from vibey_actions.postgres.chunks import chunk_states
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.sql import identifier
from vibey_actions.state import cycle
from vibey_actions.state.report import SyncState
from vibey_actions.state.seal import open_sealed

SEED = int(os.environ.get("VIBEY_TEST_SEED", "86"))
COUNT = int(os.environ.get("VIBEY_TEST_COUNT", "2"))
SCHEMAS = ("public", "app")
CONFIG = Config(schemas=SCHEMAS)
HOSTILE = (
    "timezone TO 'Asia/Kathmandu'", "datestyle TO 'SQL, DMY'", "intervalstyle TO 'iso_8601'",
    "bytea_output TO 'escape'", "extra_float_digits TO -3",
    "lc_monetary TO 'C.UTF-8'", "search_path TO app, public", "row_security TO off",
    "xmlbinary TO 'hex'", "standard_conforming_strings TO off", "quote_all_identifiers TO on", "array_nulls TO off",
    "default_transaction_isolation TO 'serializable'",
)  # fmt: skip


@dataclass(frozen=True)
class Abilities:
    """The server's major version, and those of the faker's extensions that it has."""

    version: int
    extensions: list[str]


@pytest.fixture
def able(ends: Ends) -> Abilities:
    """What this server can."""
    with psycopg.connect(ends.database()) as connection:
        found = connection.execute("SELECT name FROM pg_available_extensions").fetchall()
        version = connection.info.server_version // 10000
    return Abilities(version, [name for name in EXTENSIONS if (name,) in found])


def database_of(end: End) -> str:
    return identifier(str(conninfo_to_dict(end.dsn)["dbname"]))


def document(end: End, folder: Path) -> bytes:
    """The plain text of an export, but for the base and the remote that stand in it."""
    out = folder / "export.vibey"
    end.operations.export(out)
    with connect(end.dsn, purpose="test"):
        text = b"".join(open_sealed(out, end.operations._key))
    return text[text.index(b'"state":') :]


def chunk_digests(end: End) -> dict[str, bytes]:
    """Every table as one chunk, under one salt, where its image holds no numbers that are this database's own."""
    found: dict[str, bytes] = {}
    with connect(end.dsn, purpose="test") as connection:
        for name, table in read_catalog(connection, CONFIG).tables.items():
            state = chunk_states(connection, table, b"salt", [])[0]
            own_types = any("." in column.type for column in table.carried)
            found[name] = state[:8] if own_types else state
    return found


def same(ends: list[End], folder: Path) -> None:
    """Every end holds the same: by pg_dump, by the chunks' digests, by the bytes of an export, and at rest."""
    first, *others = ends
    expected, digests, text = dump(first.dsn), chunk_digests(first), document(first, folder)
    for other in others:
        found = dump(other.dsn)
        assert found == expected, list({*found} ^ {*expected})[:6]
        assert chunk_digests(other) == digests
        assert document(other, folder) == text
    for end in ends:
        end.forget_agreements()
        report = end.sync()
        assert (report.state, report.to_pull, report.to_push) == (SyncState.IN_SYNC, 0, 0)


def prove(ends: Ends, faker: Faker, rows: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Rows at one end, applied at a second, filled into a third of other settings; then edits at all, one by one."""
    source, applied, filled = (ends.make(*faker.ddl, config=CONFIG) for _ in range(3))
    with psycopg.connect(source.dsn, autocommit=True) as connection:
        taken = sum(faker.rows(connection, table, rows) for table in faker.tables)
    for setting in HOSTILE:
        filled.run(f"ALTER DATABASE {database_of(filled)} SET {setting}")
    source.sync()
    applied.sync()
    with monkeypatch.context() as patch:
        patch.setattr(cycle, "LARGE_FILL", 1)
        filled.sync()
    filled_text = document(filled, folder)
    filled.run(f"ALTER DATABASE {database_of(filled)} RESET ALL")
    assert document(filled, folder) == filled_text
    same([source, applied, filled], folder)
    assert [sequences_behind(end.dsn, SCHEMAS) for end in (applied, filled)] == [[], []]
    for half, end in enumerate((source, applied)):
        with psycopg.connect(end.dsn, autocommit=True) as connection:
            for table in faker.tables:
                faker.edit(connection, table, half)
    source.sync()
    applied.sync()
    for end in (filled, source):
        end.sync()
    with psycopg.connect(filled.dsn, autocommit=True) as connection:
        for table in faker.tables:
            faker.rows(connection, table, 3)
    for end in (filled, source, applied):
        end.sync()
    same([source, applied, filled], folder)
    return taken


def test_every_type_in_every_place(
    ends: Ends, able: Abilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each type of the server as a column, in an array, a domain, a composite and an array of those, and as a key."""
    faker = Faker.every_type(SEED, able.extensions, able.version)
    assert prove(ends, faker, 8, tmp_path, monkeypatch) > 500


@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
def test_random_databases(
    ends: Ends, able: Abilities, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Odd names, keys of any types, compounds in compounds, foreign keys, identity and generated columns."""
    faker = Faker.random(seed, able.extensions, able.version, 10)
    try:
        taken = prove(ends, faker, 40, tmp_path, monkeypatch)
    except BaseException as error:
        error.add_note(f"VIBEY_TEST_SEED={seed} VIBEY_TEST_COUNT=1")
        raise
    assert taken > 100
