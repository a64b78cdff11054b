"""Canonical JSON against an implementation of its own kind: Python's json and Decimal, put together another way."""

from __future__ import annotations

import json
from decimal import Decimal
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.property.settings import bounded
from vibey_actions.rows.canonical import canonical, decode, encode

numbers = st.one_of(
    st.integers(-(10**40), 10**40),
    st.integers(-5, 5),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.decimals(min_value=Decimal(-1), max_value=Decimal(1), places=20),
    st.builds(lambda digits, exponent: Decimal(digits).scaleb(exponent), st.integers(-999, 999), st.integers(-60, 60)),
)
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    st.none() | st.booleans() | numbers | strings,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(strings, inner, max_size=5),
    max_leaves=20,
)


def reference(value: Any) -> str:
    """The canonical text, written the slow and obvious way."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{reference(key)}:{reference(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(reference, value)) + "]"
    if isinstance(value, Decimal):
        return str(value)
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def as_read(value: Any) -> Any:
    """The value as its text reads back: a decimal without a point and exponent is an integer."""
    if isinstance(value, dict):
        return {key: as_read(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_read(item) for item in value]
    if isinstance(value, Decimal):
        text = str(value)
        return value if any(mark in text for mark in ".E") else int(text)
    return value


@bounded()
@given(values)
def test_encode_is_the_reference(value: Any) -> None:
    """Any value is written as the obvious implementation writes it, and reads back as itself."""
    text = encode(value)
    assert text == reference(value).encode("ascii")
    assert decode(text) == as_read(value)
    assert encode(decode(text)) == reference(as_read(value)).encode("ascii")


@bounded()
@given(values, st.randoms(use_true_random=False))
def test_any_spelling_has_one_canonical_text(value: Any, choose: Random) -> None:
    """However a text is spelt - spaces, order of members, escapes - its canonical text is the same."""
    assert canonical(spelling(value, choose).encode()) == reference(as_read(value)).encode("ascii")


def spelling(value: Any, choose: Random) -> str:
    """Some JSON text of a value."""
    space = choose.choice(["", " ", "\n", "\t\r"])
    if isinstance(value, dict):
        members = [f"{spelling(key, choose)}:{spelling(value[key], choose)}" for key in value]
        choose.shuffle(members)
        return space + "{" + space + ",".join(members) + "}" + space
    if isinstance(value, list):
        return space + "[" + ",".join(spelling(item, choose) for item in value) + space + "]"
    if isinstance(value, Decimal):
        return space + str(value).replace("E", choose.choice("eE"))
    if isinstance(value, str):
        return space + '"' + "".join(spelt_character(character, choose) for character in value) + '"' + space
    return space + json.dumps(value) + space


def spelt_character(character: str, choose: Random) -> str:
    if choose.random() < 0.5:
        units = character.encode("utf-16-be").hex()
        return "".join(f"\\u{choose.choice([str.lower, str.upper])(units[i : i + 4])}" for i in range(0, len(units), 4))
    return json.dumps(character, ensure_ascii=choose.random() < 0.5)[1:-1]


@bounded()
@given(st.integers(-(10**60), 10**60), st.integers(0, 50))
def test_a_numerics_scale_is_kept(unscaled: int, scale: int) -> None:
    """A numeric's text, as PostgreSQL writes it, names the same value and scale after the way through."""
    text = f"{Decimal(unscaled).scaleb(-scale):f}" if scale else str(unscaled)
    back = decode(canonical(text.encode()))
    expected = Decimal(text)
    assert Decimal(back).as_tuple() == expected.as_tuple() or (scale == 0 and back == unscaled)
