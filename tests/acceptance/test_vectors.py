"""Files made by the system whose format this is: they open here, and their documents are written the same again."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Machine
from vibey_actions.keys import parse_key
from vibey_actions.rows.canonical import encode
from vibey_actions.state.document import DocumentReader, DocumentWriter
from vibey_actions.state.export import ExportReader, export_writer
from vibey_actions.state.profiles import profile
from vibey_actions.state.seal import open_sealed

VECTORS = Path(__file__).parents[1] / "data" / "format-1"
KEYS = {name: table.key for name, table in profile("vibey").tables.items()}
ROWS = 1369


def plain(name: str) -> Any:
    """A plain vector's content, numbers with a fraction as decimals."""
    return json.loads((VECTORS / name).read_text("ascii"), parse_float=Decimal)


@pytest.fixture
def reader(machine: Callable[..., Machine]) -> Machine:
    """A machine with the vectors' key, no database and no branch."""
    return machine("reader", key=(VECTORS / "key.txt").read_text("ascii"))


@pytest.mark.parametrize("name", ["state.vibey", "state.vibey-export"])
def test_the_command_shows_what_a_foreign_file_holds(reader: Machine, name: str) -> None:
    """`state show FILE` opens both sealed vectors and counts their rows, without a database."""
    shown = json.loads(reader.run("state", "show", str(VECTORS / name), "--json"))
    document = plain("plain.json")
    assert shown["schema"] == document["schema"]
    assert shown["tables"] == {table: len(rows) for table, rows in document["tables"].items()}
    assert sum(shown["tables"].values()) == ROWS


def test_the_command_prints_every_row_exactly(reader: Machine) -> None:
    """`state show FILE --table` prints each row of each table as its canonical text in the plain vector."""
    for table, rows in plain("plain.json")["tables"].items():
        printed = reader.run("state", "show", str(VECTORS / "state.vibey"), "--table", table)
        assert printed.encode("ascii") == b"".join(encode(row) + b"\n" for row in rows)


def test_a_wrong_key_is_refused(reader: Machine, key: str) -> None:
    """Another key does not open a vector, and nothing is shown of it."""
    settings = {"VIBEY_STATE_KEY": key}
    told = reader.run("state", "show", str(VECTORS / "state.vibey"), "--json", expect=1, settings=settings)
    assert json.loads(told)["error"]["code"] == "wrong-key"


def test_the_document_is_written_the_same_again() -> None:
    """Reading strictly and writing gives the plain document, byte for byte."""
    key = parse_key((VECTORS / "key.txt").read_text("ascii"))
    written: list[bytes] = []
    reader = DocumentReader(open_sealed(VECTORS / "state.vibey", key), key_of=KEYS.get)
    writer = DocumentWriter(written.append, reader.schema, nothing)
    copy(reader, writer)
    assert b"".join(written) == (VECTORS / "plain.json").read_bytes()


def test_the_export_is_written_the_same_again() -> None:
    """The same of the export, with its base and its remote."""
    key = parse_key((VECTORS / "key.txt").read_text("ascii"))
    written: list[bytes] = []
    export = ExportReader(open_sealed(VECTORS / "state.vibey-export", key), key_of=KEYS.get)
    writer = export_writer(
        written.append,
        base=export.base,
        remote=export.remote,
        schema=list(export.document.schema),
        end=nothing,
        serialized=export.document.serialized,
    )
    copy(export.document, writer)
    export.finish()
    assert b"".join(written) == (VECTORS / "export.plain.json").read_bytes()


def nothing() -> None:
    """What happens at a document's end here."""


def copy(reader: DocumentReader, writer: DocumentWriter) -> None:
    """Every table of one document into another."""
    for name, batches in reader.tables():
        writer.table(name)
        for batch in batches:
            for row in batch.rows:
                writer.rows(bytes(row))
    writer.close()
