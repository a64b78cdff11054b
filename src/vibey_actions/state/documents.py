"""Sealed documents on this machine: opened for reading, and drafts of what is to be pushed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vibey_actions.errors import Unreadable
from vibey_actions.state.checked import CheckedFiles
from vibey_actions.state.declaration import Declaration
from vibey_actions.state.document import DocumentReader, DocumentWriter
from vibey_actions.state.seal import SealWriter, open_sealed


@dataclass(frozen=True, slots=True)
class Documents:
    """Opens and makes sealed documents under one key; drafts live in ``folder`` and are sealed from the first byte."""

    folder: Path
    checked: CheckedFiles
    key: bytes = field(repr=False)

    def open(self, path: Path, declaration: Declaration) -> DocumentReader:
        """A reader of the document sealed in ``path``; rows are checked unless this file was read whole before.

        Raises Unreadable or WrongKey.
        """
        if self.checked.knows(path, declaration):
            return DocumentReader(open_sealed(path, self.key))
        tables = declaration.tables
        return DocumentReader(
            open_sealed(path, self.key), key_of=lambda name: tables[name].key if name in tables else None
        )

    def note_checked(self, path: Path, declaration: Declaration) -> None:
        """Remember that every row of ``path`` has been checked."""
        self.checked.note(path, declaration)

    @contextmanager
    def draft(self, schema: list[str]) -> Iterator[tuple[DocumentWriter, Path]]:
        """A writer, and the file that holds the sealed document once the writer was closed. Gone afterwards."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with sealed_file(self.folder, self.key) as (write, close, path):
            yield DocumentWriter(write, schema, close), path


@contextmanager
def sealed_file(folder: Path, key: bytes) -> Iterator[tuple[Callable[[bytes], None], Callable[[], None], Path]]:
    """A sealed file in the making, mode 0600 in ``folder``: how to write text, how to complete it, and where it is.

    It is removed at the end of the block wherever it still stands there.
    """
    descriptor, name = tempfile.mkstemp(prefix=".vibey-", dir=folder)
    path = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            writer = SealWriter(file, key)

            def close() -> None:
                writer.close()
                file.flush()
                os.fsync(file.fileno())

            yield writer.write, close, path
    finally:
        path.unlink(missing_ok=True)


def reopen(
    fetch: Callable[[], Path], discard: Callable[[], None], read: Callable[[Path], DocumentReader]
) -> DocumentReader:
    """Open what ``fetch`` gives; a local copy that does not open is fetched anew once before that is believed."""
    try:
        return read(fetch())
    except Unreadable:
        discard()
        return read(fetch())
