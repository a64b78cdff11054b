"""What a command prints, as harmless lines."""

from __future__ import annotations

import pytest

from vibey_actions.actions.foreign import LONGEST, Lines


def lines(*pieces: bytes) -> list[str]:
    """The lines for bytes that come in these pieces."""
    said: list[str] = []
    taking = Lines(said.append)
    for piece in pieces:
        taking.feed(piece)
    taking.close()
    assert all(line.endswith("\n") and line.count("\n") == 1 for line in said)
    return [line[:-1] for line in said]


@pytest.mark.parametrize(
    ("printed", "shown"),
    [
        (b"plain\n", ["plain"]),
        (b"\tindented\tand\n", ["        indented        and"]),
        (b"::set-output name=x::y\n", ["\\x3a:set-output name=x::y"]),
        (b"  ::add-mask::a\n", ["  \\x3a:add-mask::a"]),
        (b"\t::error::a\n", ["        \\x3a:error::a"]),
        (b"x ##[error]y\n", ["x ##\\x5berror]y"]),
        (b"\x1b[31mred\x1b[0m \x1b]0;title\x07\n", ["red \\x1b]0;title\\x07"]),
        (b"\x1b[1m::error::x\n", ["\\x3a:error::x"]),
        (b"10%\r50%\r100%\r\nafter\n", ["10%", "50%", "100%", "after"]),
        (b"a\r::error::b\n", ["a", "\\x3a:error::b"]),
        (b"\xff\xfe\n", ["\\xff\\xfe"]),
        ("a\u202eb\u2028::error::c\n".encode(), ["a\\u202eb\\u2028::error::c"]),
        (b"no end", ["no end"]),
        (b"", []),
    ],
)
def test_a_line_does_nothing(printed: bytes, shown: list[str]) -> None:
    """Runner commands, terminal controls and invisible characters are shown, colours left out, whatever the pieces."""
    assert lines(printed) == shown
    assert lines(*(printed[at : at + 1] for at in range(len(printed)))) == shown


def test_a_line_without_end_is_cut() -> None:
    """A command that never ends its line does not fill the memory."""
    found = lines(b"x" * (2 * LONGEST), b"y")
    assert [len(line) for line in found] == [LONGEST, LONGEST, 1]
