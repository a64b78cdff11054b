"""What a command prints, as lines of the log that do nothing: no command of the runner's, no control of a terminal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from vibey_actions.text import harmless

BEGIN: Final = "--- what the command prints ---"
END: Final = "--- the command has ended ---"
"""Lines of the log around what a command prints."""
LONGEST: Final = 1 << 14
"""Bytes after which a line goes on in the next one."""

_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_ENDS: Final = re.compile(rb"\r\n|\n|\r(?!$)")


class Lines:
    """Takes bytes as they come, and gives ``write`` whole lines; ``close`` gives it the last one."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self._write = write
        self._rest = b""

    def feed(self, piece: bytes) -> None:
        """The next bytes."""
        *whole, self._rest = _ENDS.split(self._rest + piece)
        for line in whole:
            self._say(line)
        while len(self._rest) > LONGEST:
            self._say(self._rest[:LONGEST])
            self._rest = self._rest[LONGEST:]

    def close(self) -> None:
        """There is nothing more."""
        if self._rest:
            self._say(self._rest.rstrip(b"\r"))
        self._rest = b""

    def _say(self, line: bytes) -> None:
        text = _COLOURS.sub("", line.decode("utf-8", "backslashreplace"))
        self._write(harmless(text.expandtabs(8)) + "\n")
