"""Text from servers on one line, harmless to a terminal."""

from __future__ import annotations

import pytest

from vibey_actions.remotes.words import megabytes, shown


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
def test_what_is_shown(text: str, expected: str) -> None:
    """Line ends become blanks, whatever else is not printed becomes a visible escape."""
    assert shown(text) == expected


def test_a_long_text_is_cut() -> None:
    """The cut is marked."""
    assert shown("x" * 50, 10) == "x" * 9 + "…"


def test_sizes() -> None:
    """Sizes are in the megabytes of GitHub's limits."""
    assert megabytes(100_000_000) == "100.0 MB"
