"""Text from rows, keys, servers and users made safe to show: nothing invisible, nothing that a terminal obeys."""

from __future__ import annotations

import unicodedata
from typing import Final

LONGEST: Final = 600

_HIDDEN_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Cn", "Co", "Zl", "Zp"})
"""Control characters, formats (bidirectional, zero-width), lone surrogates, unassigned, private, line separators."""
_HIDDEN: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
"""Letters and marks that are drawn as nothing."""


def visible(text: str) -> str:
    r"""``text`` with every character that is not drawn as itself written ``\xNN``, ``\uNNNN`` or ``\UNNNNNNNN``.

    What comes out is one line, and comes out of a second call as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(character) if _hidden(character) else character for character in text)


def shown(text: str, limit: int = LONGEST) -> str:
    """``text`` as a part of a message: white space of any kind becomes single blanks, the rest is made visible.

    A longer text than ``limit`` is cut and ends in an ellipsis.
    """
    line = " ".join(text[: 4 * limit].split())
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    return visible(line)


def harmless(text: str) -> str:
    r"""``text`` as one line that no runner takes for a command: what would begin one is written ``\xNN``.

    The runner looks for ``::`` at the start of a line, blanks aside, and for ``##[`` anywhere in it.
    """
    line = visible(text).replace("##[", "##\\x5b")
    stripped = line.lstrip()
    return line[: len(line) - len(stripped)] + "\\x3a" + stripped[1:] if stripped.startswith("::") else line


def counted(count: int, noun: str) -> str:
    """``count`` of what a regular ``noun`` names: "1 row", "2 rows"."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _hidden(character: str) -> bool:
    return unicodedata.category(character) in _HIDDEN_CATEGORIES or character in _HIDDEN


def _escaped(character: str) -> str:
    point = ord(character)
    if point <= 0xFF:  # noqa: PLR2004
        return f"\\x{point:02x}"
    return f"\\u{point:04x}" if point <= 0xFFFF else f"\\U{point:08x}"  # noqa: PLR2004
