"""What is shown cannot hide, reorder or command anything."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibey_actions.text import shown, visible


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain text, Größe 日本 😀", "plain text, Größe 日本 😀"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\r\nb\tc", "a\\x0d\\x0ab\\x09c"),
        ("\x00\x7f\x85", "\\x00\\x7f\\x85"),
        ("\u202egnp.exe", "\\u202egnp.exe"),
        ("a\u200bb\ufeff\u2066", "a\\u200bb\\ufeff\\u2066"),
        ("a\u2028b\u2029", "a\\u2028b\\u2029"),
        ("\U000e0041", "\\U000e0041"),
        ("\udc80", "\\udc80"),
        ("\u3164\u2800", "\\u3164\\u2800"),
    ],
)
def test_known_cases(text: str, expected: str) -> None:
    """Control, line, bidirectional, zero-width, tag and blank characters are spelled out; letters are left."""
    assert visible(text) == expected


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_unseen_is_left(text: str) -> None:
    """Whatever comes in, the result is one line without controls or formats, and can be encoded."""
    line = visible(text)
    assert {unicodedata.category(c) for c in line} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()
    assert len((line + "x").splitlines()) == 1
    assert visible(line) == line
    line.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain words", "plain words"),
        ("grün 例 🙂", "grün 例 🙂"),
        ("two\r\nlines\n\tand\x0bmore ", "two lines and more"),
        ("\x1b[31mred\x07", "\\x1b[31mred\\x07"),
        ("\u202eevil\u2066\ufeff", "\\u202eevil\\u2066\\ufeff"),
        ("\x9b2J\x7f", "\\x9b2J\\x7f"),
        ("\udcff", "\\udcff"),
        ("", ""),
    ],
)
def test_a_part_of_a_message(text: str, expected: str) -> None:
    """Line ends become blanks, whatever else is not printed becomes a visible escape."""
    assert shown(text) == expected


def test_a_long_text_is_cut() -> None:
    """The cut is marked."""
    assert shown("x" * 50, 10) == "x" * 9 + "…"
