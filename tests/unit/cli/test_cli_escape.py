"""What is shown cannot hide, reorder or command anything."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibey_actions.cli.escape import escape


@pytest.mark.parametrize(
    ("text", "shown"),
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
def test_known_cases(text: str, shown: str) -> None:
    """Control, line, bidirectional, zero-width, tag and blank characters are spelled out; letters are left."""
    assert escape(text) == shown


@given(st.text(st.characters(exclude_categories=[])))
def test_nothing_unseen_is_left(text: str) -> None:
    """Whatever comes in, the result is one line without controls or formats, and can be encoded."""
    shown = escape(text)
    assert {unicodedata.category(c) for c in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"} == set()
    assert len((shown + "x").splitlines()) == 1
    shown.encode("utf-8")
