"""Which sealed files were read before from end to end, so that their rows need not be checked again.

A file is known by its GCM tag (it authenticates the whole file) together with the keys its rows were checked against.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

from vibey_actions.rows.canonical import encode
from vibey_actions.state.declaration import Declaration
from vibey_actions.state.seal import TAG_SIZE

_MOST = 256


class CheckedFiles:
    """Marks in ``folder``; a mark that cannot be kept only costs a second check."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def knows(self, path: Path, declaration: Declaration) -> bool:
        try:
            return self._mark(path, declaration).exists()
        except OSError:  # too short for a tag, for one: whoever opens the file says what is wrong with it
            return False

    def note(self, path: Path, declaration: Declaration) -> None:
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._prune()
            self._mark(path, declaration).touch(mode=0o600)

    def _mark(self, path: Path, declaration: Declaration) -> Path:
        with path.open("rb") as file:
            file.seek(-TAG_SIZE, os.SEEK_END)
            tag = file.read()
        keys = encode({name: list(table.key) for name, table in declaration.tables.items()})
        return self._folder / hashlib.sha256(tag + keys).hexdigest()

    def _prune(self) -> None:
        marks = sorted(self._folder.iterdir(), key=lambda mark: mark.stat().st_mtime)
        for mark in marks[: max(0, len(marks) - _MOST)]:
            mark.unlink(missing_ok=True)
