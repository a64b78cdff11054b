"""Whole states moved without a merge: out of a database, into one, and without a table."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Any

import pytest

from tests.support.documents import document
from tests.support.views import MemoryView
from vibey_actions.errors import SchemaMismatch, TableRefused, Unreadable
from vibey_actions.rows.canonical import encode
from vibey_actions.state import spool
from vibey_actions.state.declaration import Declaration, Table
from vibey_actions.state.document import DocumentReader, DocumentWriter
from vibey_actions.state.report import Counts
from vibey_actions.state.spool import Change
from vibey_actions.state.transfer import copy_document, replacement, write_database

Plain = dict[str, list[dict[str, Any]]]
DECLARED = Declaration({name: Table(name, ("id",), ("id", "v")) for name in ("c", "b", "a")})
STATE: Plain = {"a": [{"id": 1, "v": "x"}, {"id": 2, "v": "x"}], "c": [{"id": 1, "v": "\u00e4"}]}


def view_of(content: Plain) -> Callable[[str], MemoryView]:
    return lambda name: MemoryView({encode([row["id"]]): encode(row) for row in content.get(name, [])})


def reader(content: Plain, *, checked: bool = True) -> DocumentReader:
    return DocumentReader([document(content, ["1"])], key_of=(lambda _: ("id",)) if checked else None)


def written(write: Callable[[DocumentWriter], object]) -> tuple[bytes, object]:
    parts: list[bytes] = []
    ended: list[bool] = []
    result = write(DocumentWriter(parts.append, ["1"], lambda: ended.append(True)))
    assert ended == [True]
    return b"".join(parts), result


def test_a_database_becomes_a_document() -> None:
    """Every row of every declared table, by name; the counts leave out tables without rows."""
    text, counts = written(lambda writer: write_database(DECLARED, view_of(STATE), writer))
    assert text == document(STATE, ["1"])
    assert counts == {"a": 2, "c": 1}


@pytest.mark.parametrize(("name", "rows"), [("a", 2), ("c", 1), ("b", 0), ("z", 0)])
def test_a_document_without_a_table(name: str, rows: int) -> None:
    """The table is gone with as many rows as it had, everything else is the same bytes."""
    text, left_out = written(lambda writer: copy_document(reader(STATE), writer, name))
    assert text == document({table: content for table, content in STATE.items() if table != name}, ["1"])
    assert left_out == rows


@pytest.mark.parametrize("checked", [True, False])
def test_replacement_makes_the_rows_the_documents(*, checked: bool) -> None:
    """Missing rows come, other rows change, rows that the document does not hold go; equal ones are no change."""
    here: Plain = {"a": [{"id": 1, "v": "x"}, {"id": 2, "v": "old"}, {"id": 3, "v": "x"}], "b": [{"id": 7, "v": "x"}]}
    changes, counts = replacement(DECLARED, reader(STATE, checked=checked), view_of(here))
    found = {name: list(of_table) for name, of_table in changes.pull.items()}
    text = {name: [encode(row) for row in rows] for name, rows in {**here, "state": STATE["a"]}.items()}
    assert found == {
        "a": [Change(b"[2]", text["a"][1], text["state"][1]), Change(b"[3]", text["a"][2], None)],
        "b": [Change(b"[7]", text["b"][0], None)],
        "c": [Change(b"[1]", None, encode(STATE["c"][0]))],
    }
    assert changes.pull_counts == {
        "a": Counts(updated=1, deleted=1),
        "b": Counts(deleted=1),
        "c": Counts(inserted=1),
    }
    assert counts == {"a": 2, "c": 1}
    changes.close()


def test_replacement_by_the_same_is_nothing() -> None:
    """A database that holds the document's rows has nothing to change."""
    changes, counts = replacement(DECLARED, reader(STATE), view_of(STATE))
    assert (changes.pull, counts) == ({}, {"a": 2, "c": 1})
    assert changes.bounds == {"a": [], "b": [], "c": []}


def test_replacement_by_an_empty_state_is_every_deletion() -> None:
    """An empty document is a state without rows, once it was read to its end."""
    changes, counts = replacement(DECLARED, reader({}), view_of(STATE))
    assert counts == {}
    assert changes.pull_counts == {"a": Counts(deleted=2), "c": Counts(deleted=1)}
    changes.close()


@pytest.mark.parametrize("name", ["A", "ab", "d"])
def test_undeclared_tables_are_refused(name: str) -> None:
    """A table that is not synced here is refused by name wherever it stands."""
    with pytest.raises(TableRefused, match=f"table {name}, which"):
        replacement(DECLARED, reader({**STATE, name: [{"id": 1}]}), view_of({}))


def test_other_columns_are_refused() -> None:
    """Columns that only one end knows are refused by name."""
    with pytest.raises(SchemaMismatch, match="only the branch knows"):
        replacement(DECLARED, reader({"b": [{"id": 1, "v": "x", "w": 1}]}), view_of({}))


def test_a_fault_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch, temporary_files: list[IO[bytes]]) -> None:
    """A document that is refused after changes were spooled leaves no file behind."""
    monkeypatch.setattr(spool, "_IN_MEMORY", 1)
    for content, error in ((STATE | {"z": [{"id": 1}]}, TableRefused), (STATE | {"c": [{"id": 1}]}, SchemaMismatch)):
        with pytest.raises(error):
            replacement(DECLARED, reader(content), view_of({}))
    with pytest.raises(Unreadable):
        replacement(DECLARED, DocumentReader([document(STATE, ["1"]) + b"x"]), view_of({}))
    assert len(temporary_files) == 5
    assert all(file.closed for file in temporary_files)
