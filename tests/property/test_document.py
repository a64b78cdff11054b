"""Documents: any is read as it was written whatever the windows; a damaged one is accepted only if it is whole."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.settings import bounded
from tests.support.documents import document, in_pieces, read
from vibey_actions.errors import Unreadable
from vibey_actions.rows.canonical import encode
from vibey_actions.state import scanner

KEY = ("id", "k")
KEYS = {"a": KEY, "b": KEY}

# Text that looks like what stands between rows, inside strings and nested values.
snippets = st.sampled_from(
    ['"},{"id":', "},{", "]}", '{"id":1}', "\\", '"', "\u00e4", "\U0001f600", "\x7f", "x" * 40, ","]
)
strings = st.lists(snippets | st.text(st.characters(exclude_categories=["Cs"]), max_size=3), max_size=4).map("".join)
scalars = (
    strings | st.integers(-5, 10**20) | st.none() | st.booleans() | st.sampled_from([Decimal("1.50"), Decimal("1E+9")])
)
nested = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.fixed_dictionaries({"id": inner, "k": inner}), max_size=3),
    max_leaves=6,
)
rows = st.fixed_dictionaries({"id": strings | st.integers(0, 30), "k": st.integers(0, 3) | strings, "v": nested})


def in_key_order(table: list[dict[str, Any]]) -> list[dict[str, Any]]:
    by_key = {encode([row[column] for column in KEY]): row for row in table}
    return [by_key[key] for key in sorted(by_key)]


tables = st.dictionaries(
    st.sampled_from(["a", "b"]), st.lists(rows, min_size=1, max_size=12).map(in_key_order), max_size=2
)


@bounded(100)
@given(tables, st.integers(1, 200), st.integers(1, 200), st.booleans())
def test_any_document_reads_as_written(content: dict[str, Any], window: int, piece: int, checked: bool) -> None:  # noqa: FBT001
    """Rows come out as they were written, for every window and every size of chunks."""
    text = document(content, ["1"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "WINDOW", window)
        schema, found = read(in_pieces(text, piece), KEYS if checked else None)
    assert schema == ["1"]
    assert found == {name: [encode(row) for row in content[name]] for name in sorted(content)}


def acceptable(text: bytes) -> bool:
    """Whether the text is a document, decided the slow way: read whole, rebuilt from its values, compared."""

    def unique(members: list[tuple[str, Any]]) -> dict[str, Any]:
        if len({name for name, _ in members}) != len(members):
            raise ValueError("repeated member")
        return dict(members)

    try:
        value = json.loads(text.decode("ascii"), parse_float=Decimal, object_pairs_hook=unique)
        schema, found = value["schema"], value["tables"]
        for table, content in found.items():
            keys = [encode([row[column] for column in KEYS.get(table, KEY)]) for row in content]
            if keys != sorted(set(keys)) and table in KEYS:
                return False
            if not content or any(row.keys() != content[0].keys() for row in content):
                return False
        whole = schema == sorted(set(schema)) and all(isinstance(version, str) for version in schema)
        return whole and document(found, schema) == text
    except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError):
        return False


edits = st.lists(
    st.tuples(
        st.integers(0, 10_000),
        st.sampled_from(["replace", "remove", "insert", "cut", "double"]),
        st.sampled_from(b'{}[]",:\\0 9eEnu\x00\x7f\xe4'),
    ),
    min_size=1,
    max_size=2,
)


@bounded(250)
@given(tables, edits, st.sampled_from([1, 16, 512 * 1024]))
def test_a_damaged_document_is_whole_or_unreadable(
    content: dict[str, Any], damage: list[tuple[int, str, int]], window: int
) -> None:
    """After any small damage a document is refused as Unreadable, or is a whole document still."""
    text = document(content, ["0001", "0002"])
    for at, what, byte in damage:
        text = damaged(text, at % max(1, len(text)), what, byte)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "WINDOW", window)
        try:
            read(text, KEYS)
            accepted = True
        except Unreadable:
            accepted = False
    assert accepted == acceptable(text), text


def damaged(text: bytes, at: int, what: str, byte: int) -> bytes:
    if what == "cut":
        return text[:at]
    if what == "remove":
        return text[:at] + text[at + 1 :]
    if what == "double":
        end = text.find(b",", at) + 1 or len(text)
        return text[:end] + text[at:end] + text[end:]
    return text[:at] + bytes([byte]) + text[at + (what == "replace") :]
