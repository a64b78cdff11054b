"""Canonical JSON, rule by rule: one text for every value, every number exact, nothing that is not JSON."""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path

import pytest

from vibey_actions.rows import canonical as canonical_module
from vibey_actions.rows.canonical import NotJson, canonical, decode, encode, encode_each, json_lines, key_text

VECTORS = Path(__file__).parents[2] / "data" / "format-1"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b'{"b":1,"a":2}', b'{"a":2,"b":1}'),
        (b'{"\\uffff":1,"\\ud83d\\ude00":2,"B":3,"a":4,"":5}', b'{"":5,"B":3,"a":4,"\\uffff":1,"\\ud83d\\ude00":2}'),
        (b' { "a" : [ 1 , 2 ] }\r\n\t', b'{"a":[1,2]}'),
        (b"[3,1,2]", b"[3,1,2]"),
        (b'{"z":{"b":[],"a":{}}}', b'{"z":{"a":{},"b":[]}}'),
        (b"[true,false,null]", b"[true,false,null]"),
    ],
    ids=["keys sorted", "sorted by code point, not UTF-16", "no spaces", "arrays in order", "nested", "constants"],
)
def test_structure(text: bytes, expected: bytes) -> None:
    """Members are sorted by code point at every depth, arrays keep their order, spaces go."""
    assert canonical(text) == expected


@pytest.mark.parametrize(
    ("character", "expected"),
    [
        ('"', b'"\\""'),
        ("\\", b'"\\\\"'),
        ("\b", b'"\\b"'),
        ("\f", b'"\\f"'),
        ("\n", b'"\\n"'),
        ("\r", b'"\\r"'),
        ("\t", b'"\\t"'),
        ("\x00", b'"\\u0000"'),
        ("\x01", b'"\\u0001"'),
        ("\x1f", b'"\\u001f"'),
        ("/", b'"/"'),
        (" ", b'" "'),
        ("~", b'"~"'),
        ("\x7f", b'"\\u007f"'),
        ("\x80", b'"\\u0080"'),
        ("\xe4", b'"\\u00e4"'),
        ("\u20ac", b'"\\u20ac"'),
        ("\u2028", b'"\\u2028"'),
        ("\uffff", b'"\\uffff"'),
        ("\U00010000", b'"\\ud800\\udc00"'),
        ("\U0001f600", b'"\\ud83d\\ude00"'),
        ("\U0010ffff", b'"\\udbff\\udfff"'),
    ],
)
def test_escapes(character: str, expected: bytes) -> None:
    """Each kind of character has its one escape, and reads back as itself."""
    assert encode(character) == expected
    assert decode(expected) == character


def test_every_character_is_written_as_python_writes_it() -> None:
    """Every code point of the first planes but DEL is escaped as Python's json escapes it; DEL is escaped too."""
    text = "".join(chr(point) for point in range(0x11000) if not 0xD800 <= point < 0xE000)
    assert encode(text) == json.dumps(text, ensure_ascii=True).replace("\x7f", "\\u007f").encode("ascii")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", "0"),
        ("-0", "0"),
        ("9007199254740993", "9007199254740993"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551616", "18446744073709551616"),
        ("1.00", "1.00"),
        ("-0.0", "-0.0"),
        ("0.00000015", "1.5E-7"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1E-7"),
        ("6.9e-17", "6.9E-17"),
        ("0.00000000000000006938893903907228", "6.938893903907228E-17"),
        ("1e5", "1E+5"),
        ("1.0e5", "1.0E+5"),
        ("1E+5", "1E+5"),
        ("12e-1", "1.2"),
        ("1e400", "1E+400"),
        (
            "3.14159265358979323846264338327950288419716939937510",
            "3.14159265358979323846264338327950288419716939937510",
        ),
        ("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827"),
    ],
)
def test_numbers(text: str, expected: str) -> None:
    """Integers keep their digits; a fraction or an exponent is written as str(Decimal(text)), never through a float."""
    assert canonical(text.encode()) == expected.encode()
    assert canonical(expected.encode()) == expected.encode()


@pytest.mark.parametrize("digits", [19, 20, 34, 35, 100, 3999, 4000, 4001, 4299, 4300, 4301, 131_072])
def test_integers_of_any_size(digits: int) -> None:
    """An integer of every size up to numeric's limit keeps all its digits, also past Python's limit of 4,300."""
    for text in (b"1" + b"7" * (digits - 1), b"-" + b"9" * digits, b'{"a":[' + b"1" * digits + b",1.50]}"):
        assert canonical(text) == text


def test_fractions_of_numerics_full_length() -> None:
    """16,383 digits behind the point stay as they are."""
    text = b"123." + b"0123456789" * 1638 + b"012"
    assert canonical(text) == text


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b" ",
        b"NaN",
        b"Infinity",
        b"-Infinity",
        b"[NaN]",
        b"nan",
        b"01",
        b"1.",
        b".5",
        b"+1",
        b"1e",
        b"0x10",
        b"1 2",
        b'"a',
        b"'a'",
        b'{"a":1,}',
        b"[1,]",
        b"{a:1}",
        b'"\x01"',
        b'"\\x41"',
        b'"\\u12"',
        b'"\xff"',
        b'"\xed\xa0\xbd"',
        b"\xef\xbb\xbf1",
        b"[1]x",
        b"[1E999999999999999999999]",
        b"[" + b"1" * 5000 + b"x]",
    ],
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    """Text that is not JSON is NotJson, never a value and never another exception."""
    with pytest.raises(NotJson):
        decode(text)


@pytest.mark.parametrize("text", [b'"\\ud83d"', b'"\\ude00"', b'"\\ude00\\ud83d"', b'{"\\ud83d":1}', b'["\\ud83dx"]'])
def test_half_a_surrogate_pair_is_refused(text: bytes) -> None:
    """Half a pair is neither read nor written; a whole one stays (see the escapes)."""
    with pytest.raises(NotJson):
        decode(text)
    with pytest.raises(NotJson):
        encode(["\ud83d"])


@pytest.mark.parametrize("text", [b"[" * 20_000 + b"]" * 20_000, b'{"a":' * 20_000 + b"1" + b"}" * 20_000])
def test_nesting_without_end_is_refused(text: bytes) -> None:
    """A value nested deeper than the interpreter can follow is NotJson, not a crash."""
    with pytest.raises(NotJson):
        canonical(text)


def test_encoding_a_value_nested_too_deeply_is_refused() -> None:
    """The writer refuses such a value as the reader does."""
    value: list[object] = []
    for _ in range(50_000):
        value = [value]
    with pytest.raises(NotJson):
        encode(value)


def test_reasonable_nesting_works() -> None:
    """A few hundred levels are nothing special."""
    text = b'{"a":[' * 150 + b"1.50" + b"]}" * 150
    assert canonical(text) == text


def test_decimals_stay_decimals() -> None:
    """No number is ever read as a float."""
    value = decode(b'{"a":[1.0,1e2,5],"b":{"c":0.1}}')
    assert value == {"a": [Decimal("1.0"), Decimal("1E+2"), 5], "b": {"c": Decimal("0.1")}}
    assert [type(item) for item in (*value["a"], value["b"]["c"])] == [Decimal, Decimal, int, Decimal]


def test_scale_makes_another_row() -> None:
    """1.0 and 1.00 differ, as they do in numeric."""
    assert canonical(b'{"a":1.0}') != canonical(b'{"a":1.00}')


def test_key_is_an_array_in_declared_order() -> None:
    """A key is the canonical array of the key columns' values, in the order of the declaration, not of the names."""
    row = {"b": 'x"\xe4', "a": Decimal("1.00"), "c": None}
    assert key_text(row, ("b", "a")) == b'["x\\"\\u00e4",1.00]'
    assert key_text(row, ("a", "b")) == b'[1.00,"x\\"\\u00e4"]'


def test_lines_for_postgresql_are_one_value_a_line() -> None:
    """What goes to PostgreSQL in bulk is one JSON text a line; a newline inside a string stays escaped."""
    values = [{"b": 1, "a": "\n\xe4\x7f"}, [Decimal("1.00")], None]
    lines = json_lines(values).split("\n")
    assert lines == ['{"a":"\\n\xe4\x7f","b":1}', "[1.00]", "null"]


@pytest.mark.parametrize("name", ["plain.json", "export.plain.json"])
def test_vectors_are_written_the_same_again(name: str) -> None:
    """Documents of the system whose format this is decode and encode to the same bytes."""
    text = (VECTORS / name).read_bytes()
    assert canonical(text) == text


def test_text_beyond_ascii_is_escaped_alike_whether_there_is_little_or_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The two ways of escaping give the same text, also around backslashes, quotes and control characters."""
    alphabet = ["é", "日", "😀", "\\", '"', "a", "\x01", "\x02", "\x7f", "\u2028", "\n", "\\u0001", "\\u0002", "\uffff"]
    choose = random.Random(7)  # noqa: S311 - test data
    monkeypatch.setattr(canonical_module, "_SPARSE", 1 << 30)
    for _ in range(500):
        value = {"".join(choose.choices(alphabet, k=choose.randint(0, 30))): choose.choices(alphabet, k=40)}
        monkeypatch.setattr(canonical_module, "_FEW", 1 << 30)
        little = encode(value)
        monkeypatch.setattr(canonical_module, "_FEW", -1)
        assert encode(value) == little
        assert decode(little) == value


@pytest.mark.parametrize("run", ["é", "日本", "😀" * 8, "é" * 9, "日" * 1000, "\uffff\U0010ffff"])
def test_a_little_beyond_ascii_in_a_long_text_is_escaped_as_python_does(run: str) -> None:
    """Runs of any length in much plain text are written as the json module writes them, each time that they come."""
    value = ("plain " * 10_000).join([run] * 3)
    assert encode([value, value]) == json.dumps([value, value], separators=(",", ":")).encode()


def test_many_values_are_each_encoded_as_one_is() -> None:
    """Encoding many at once gives the same texts, plain or not; one that cannot be encoded refuses them all."""
    plain = [["a", 1], ("b", Decimal("1.00")), None, {"z": True, "a": []}]
    for values in ([], plain, [*plain, "é😀"], [*plain, "\x7f"]):
        assert encode_each(values) == [encode(value) for value in values]
    with pytest.raises(NotJson):
        encode_each([*plain, "\ud800"])
