"""Commands that a dispatched run refuses before anything starts: those that touch the state or its key.

Source: ADR 0086, decision 12. This is a plain word to who dispatches one; the wall is that a command is given neither
the key nor the owner's database, however it is spelled.
"""

from __future__ import annotations

import re
from typing import Final

from vibey_actions.errors import CommandReserved, SettingError
from vibey_actions.text import shown

LONGEST: Final = 65_536
"""Bytes of a command; GitHub's own limit for all inputs of a dispatch."""

_OURS: Final = re.compile(r"vibey-actions|vibey_actions(\..*)?")
_STATE_OF: Final = "vibey"
_QUOTES: Final = str.maketrans("", "", "'\"\\")
_BETWEEN: Final = re.compile(r"[\s;|&()<>{}$`=,]+")


def check_command(command: str) -> None:
    """Raise SettingError for no command or one that no shell takes, CommandReserved for a reserved one."""
    if not command.strip():
        raise SettingError("no command was given", "write the line for the shell under with: of the step, as command:")
    if "\0" in command or len(command.encode("utf-8", "replace")) > LONGEST:
        raise SettingError(
            f"the command holds a NUL character or more than {LONGEST} bytes", "put it into a script of the repository"
        )
    if (word := reserved(command)) is not None:
        raise CommandReserved(
            f"the command runs `{shown(word, 80)}`, which touches the state or its key and is reserved",
            "work on the state through VIBEY_PG_URL; this program's own commands run on your machine",
        )


def reserved(command: str) -> str | None:
    """The reserved word of ``command``, found by its last path component wherever it stands; None without one."""
    words = [word.rsplit("/", 1)[-1] for word in _BETWEEN.split(command.translate(_QUOTES))]
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if _OURS.fullmatch(word):
            return word
        if word == _STATE_OF and following == "state":
            return f"{word} {following}"
    return None
