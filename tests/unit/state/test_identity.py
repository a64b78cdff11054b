"""Keys that are equal in the database have one identity, in every document that says so."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest

from tests.support.documents import document, in_pieces, read
from vibey_actions.errors import SchemaMismatch, Unreadable
from vibey_actions.rows.canonical import encode
from vibey_actions.state.declaration import Declaration, Table
from vibey_actions.state.document import DocumentReader, DocumentWriter, key_of
from vibey_actions.state.identity import Fold, folded
from vibey_actions.state.merge import check_carried

FOLDED = {
    Fold.SCALE: [
        ("1.00", "1"), ("1.0", "1"), ("1", "1"), ("100", "100"), ("-1.50", "-1.5"), ("0.00", "0"), ("0E-10", "0"),
        ("1.5E-7", "1.5E-7"), ("1.50E-7", "1.5E-7"), ("1.0E-7", "1E-7"), ("0.0000010", "0.000001"),
        ("-1.000E-9", "-1E-9"), ('"NaN"', '"NaN"'), ('"-Infinity"', '"-Infinity"'), ("null", "null"),
        ("123456789012345678901234567890123456789.10", "123456789012345678901234567890123456789.1"),
    ],
    Fold.PADDING: [('"a  "', '"a"'), ('"  a "', '"  a"'), ('" "', '""'), ('""', '""'), ('"a\\t "', '"a\\t"'),
                   ('"\\\\ "', '"\\\\"'), ('"a\\u00a0"', '"a\\u00a0"')],
    Fold.SIGN: [('"-0"', '"0"'), ('"0"', '"0"'), ('"-0.5"', '"-0.5"'), ('"-1e-300"', '"-1e-300"')],
}  # fmt: skip
CASES = [(fold, text, same) for fold, pairs in FOLDED.items() for text, same in pairs]


@pytest.mark.parametrize(("fold", "text", "same"), CASES)
def test_what_does_not_count_is_taken_off(fold: Fold, text: str, same: str) -> None:
    """Zeros behind a fraction, spaces behind a text, the sign of zero; nothing else, and a second time nothing more."""
    assert folded(fold, text.encode()) == same.encode()
    assert folded(fold, same.encode()) == same.encode()
    assert folded(None, text.encode()) == text.encode()


def test_random_numbers_are_one_exactly_when_they_are_equal() -> None:
    """Two numbers of any scale have one text if, and only if, they are equal; and that text is canonical."""
    chance = random.Random(86)  # noqa: S311 - the same numbers every time
    found: dict[Decimal, bytes] = {}
    for _ in range(20_000):
        number = Decimal(chance.choice([0, 1, 10, 120, 123, 10**9, 123456])).scaleb(-chance.randrange(14))
        number = -number if number and chance.random() < 0.5 else number
        text = folded(Fold.SCALE, encode(number))
        assert found.setdefault(number, text) == text
        assert encode(Decimal(text.decode())) == text
    assert len(set(found.values())) == len(found)


def test_a_row_and_its_text_have_one_identity() -> None:
    """The identity of a decoded row is the key that a document's reader takes from its text."""
    row = {"n": Decimal("1.500"), "p": "é  ", "f": "-0", "other": Decimal("1.0")}
    folds = {"n": Fold.SCALE, "p": Fold.PADDING, "f": Fold.SIGN}
    assert key_of(row, ("p", "n", "f", "other"), folds) == b'["\\u00e9",1.5,"0",1.0]'


def written(folds: dict[str, dict[str, Fold]], rows: list[bytes], serialized: tuple[str, ...] = ()) -> bytes:
    parts: list[bytes] = []
    writer = DocumentWriter(parts.append, ["1"], lambda: None, {"t": serialized} if serialized else {}, folds)
    writer.table("t")
    for row in rows:
        writer.rows(row)
    writer.close()
    return b"".join(parts)


def test_a_document_says_how_its_keys_are_folded() -> None:
    """An exact document with the folds in front of the migrations; rows stand in the order of their identities."""
    rows = [b'{"n":1.50}', b'{"n":1.6}', b'{"n":10.0}']
    text = written({"t": {"n": Fold.SCALE}}, rows)
    assert text == (
        b'{"format":"vibey-state/1x","keys":{"t":{"n":"scale"}},"schema":["1"],'
        b'"tables":{"t":[{"n":1.50},{"n":1.6},{"n":10.0}]}}'
    )
    assert text == encode(__import__("json").loads(text, parse_float=Decimal))
    reader = DocumentReader([text], key_of={"t": ("n",)}.get)
    assert reader.folds == {"t": {"n": Fold.SCALE}}
    assert read(text, {"t": ("n",)}) == (["1"], {"t": rows})
    both = written({"t": {"n": Fold.SCALE}}, rows, ("f",))
    assert b'"schema":["1"],"serialized":{"t":["f"]},"tables"' in both
    assert DocumentReader([both]).serialized == {"t": ("f",)}


@pytest.mark.parametrize("rows", [[b'{"n":1.5}', b'{"n":1.50}'], [b'{"n":2}', b'{"n":1.0}']])
def test_two_rows_of_one_identity_are_unreadable(rows: list[bytes]) -> None:
    """Texts that differ and ascend are not enough: their identities have to."""
    text = written({"t": {"n": Fold.SCALE}}, rows)
    with pytest.raises(Unreadable, match="out of order, or two have one key"):
        read(text, {"t": ("n",)})


# What the members of an exact document's head may not be; ROW is the one row of the table t.
BAD_FOLDS = {
    "empty": "{}", "a list": '["t"]', "a text": '"t"', "null": "null", "a table without columns": '{"t":{}}',
    "columns as a list": '{"t":["n"]}', "columns as a text": '{"t":"n"}', "an unknown fold": '{"t":{"n":"case"}}',
    "a fold in capitals": '{"t":{"n":"SCALE"}}', "a number as fold": '{"t":{"n":1}}',
    "true as fold": '{"t":{"n":true}}',
    "null as fold": '{"t":{"n":null}}', "a list as fold": '{"t":{"n":["scale"]}}',
    "a column twice": '{"t":{"n":"scale","n":"scale"}}', "a table twice": '{"t":{"n":"scale"},"t":{"n":"scale"}}',
    "columns unsorted": '{"t":{"n":"scale","a":"scale"}}', "tables unsorted": '{"u":{"n":"scale"},"t":{"n":"scale"}}',
    "a space": '{"t": {"n":"scale"}}', "an escape that need not be": '{"t":{"\\u006e":"scale"}}',
    "a column that no row has": '{"t":{"a":"scale","n":"scale"}}',
}  # fmt: skip
BAD_SERIALIZED = {
    "empty": "{}", "a list": '["t"]', "a text": '"t"', "null": "null", "a table without columns": '{"t":[]}',
    "columns as an object": '{"t":{"f":1}}', "columns as a text": '{"t":"f"}', "a number as column": '{"t":[1]}',
    "null as column": '{"t":["f",null]}', "a column twice": '{"t":["f","f"]}', "columns unsorted": '{"t":["f","e"]}',
    "a table twice": '{"t":["f"],"t":["f"]}', "tables unsorted": '{"u":["f"],"t":["f"]}', "a space": '{"t":["f" ]}',
    "an escape that need not be": '{"t":["\\u0066"]}', "a column that no row has": '{"t":["e","f"]}',
    "a column of numbers": '{"t":["f","n"]}',
}  # fmt: skip
ROW = '"tables":{"t":[{"f":"1","n":1.0}]}}'
BAD_HEADS = {
    **{f"keys: {name}": f'"vibey-state/1x","keys":{text},"schema":[],' for name, text in BAD_FOLDS.items()},
    **{f"serialized: {name}": f'"vibey-state/1x","schema":[],"serialized":{text},' for name, text in
       BAD_SERIALIZED.items()},
    "keys in format 1": '"vibey-state/1","keys":{"t":{"n":"scale"}},"schema":[],',
    "serialized in format 1": '"vibey-state/1","schema":[],"serialized":{"t":["f"]},',
    "neither": '"vibey-state/1x","schema":[],',
    "keys behind the schema": '"vibey-state/1x","schema":[],"keys":{"t":{"n":"scale"}},',
    "serialized before the schema": '"vibey-state/1x","serialized":{"t":["f"]},"schema":[],',
    "keys twice": '"vibey-state/1x","keys":{"t":{"n":"scale"}},"keys":{"t":{"n":"scale"}},"schema":[],',
    "serialized twice": '"vibey-state/1x","schema":[],"serialized":{"t":["f"]},"serialized":{"t":["f"]},',
    "one of the two empty": '"vibey-state/1x","keys":{"t":{"n":"scale"}},"schema":[],"serialized":{},',
    "another member": '"vibey-state/1x","keys":{"t":{"n":"scale"}},"order":[],"schema":[],',
}  # fmt: skip


@pytest.mark.parametrize("head", BAD_HEADS.values(), ids=BAD_HEADS)
def test_any_other_head_is_unreadable(head: str) -> None:
    """Format 1 names no columns, an exact document says why it is one, and nothing in it is guessed at or skipped."""
    text = f'{{"format":{head}{ROW}'.encode()
    for size in (1, len(text)):
        with pytest.raises(Unreadable) as caught:
            read(in_pieces(text, size), {"t": ("n",)})
        assert type(caught.value) is Unreadable


@pytest.mark.parametrize(
    "head",
    [
        '"vibey-state/1","schema":[],',
        '"vibey-state/1x","keys":{"t":{"n":"scale"}},"schema":[],',
        '"vibey-state/1x","schema":[],"serialized":{"t":["f"]},',
        '"vibey-state/1x","keys":{"a":{"z":"sign"},"t":{"n":"scale"}},"schema":[],"serialized":{"t":["f"],"u":["a"]},',
    ],
)
def test_the_heads_that_there_are(head: str) -> None:
    """What the bad ones are made of is read, names of tables without rows included."""
    read(f'{{"format":{head}{ROW}'.encode(), {"t": ("n",)})


def test_a_document_that_folds_other_keys_is_refused() -> None:
    """A key whose type differs between the ends is named before a row is compared."""
    table = Table("t", ("n",), ("n",), folds=(("n", Fold.SCALE),))
    assert Declaration({"t": table}).folds == {"t": {"n": Fold.SCALE}}
    check_carried(table, DocumentReader([written({"t": {"n": Fold.SCALE}}, [])]))
    for other in (document({}), written({"t": {"n": Fold.PADDING}}, []), written({"t": {"m": Fold.SCALE}}, [])):
        with pytest.raises(SchemaMismatch, match=r"column\(s\) .*n have another type"):
            check_carried(table, DocumentReader([other]))
