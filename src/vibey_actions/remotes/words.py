"""Text that came from a server or a user, made safe to show on one line."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

LONGEST = 600
Notice = Callable[[str], None]
"""Takes one line that a person should see while work goes on."""


def silent(_line: str) -> None:
    """The Notice of a caller that shows nothing."""


def shown(text: str, limit: int = LONGEST) -> str:
    """``text`` on one line: line ends become spaces, control and format characters become visible escapes.

    A longer text than ``limit`` is cut and ends in an ellipsis.
    """
    line = " ".join(text[: 4 * limit].split())
    if len(line) > limit:
        line = line[: limit - 1] + "…"
    return "".join(_visible(character) for character in line)


def _visible(character: str) -> str:
    if unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Zl", "Zp"}:
        return character.encode("unicode_escape", "backslashreplace").decode("ascii")
    return character


def megabytes(size: int) -> str:
    """A number of bytes as people read it in limits: ``41.9 MB``."""
    return f"{size / 1_000_000:.1f} MB"
