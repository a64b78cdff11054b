"""Sealed documents on this machine: opened for reading, and drafts of what is to be pushed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from vibey_actions.errors import FileFailed, Unreadable
from vibey_actions.state.checked import CheckedFiles
from vibey_actions.state.declaration import Declaration
from vibey_actions.state.document import DocumentReader, DocumentWriter, Serialized
from vibey_actions.state.identity import NO_FOLDS, Folds
from vibey_actions.state.owned import create_owned, private_folder, sweep_files
from vibey_actions.state.seal import SealWriter, open_sealed

_DRAFT = ".vibey-draft"


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
    def draft(
        self, schema: list[str], serialized: Serialized, folds: Folds = NO_FOLDS
    ) -> Iterator[tuple[DocumentWriter, Path]]:
        """A writer, and the file that holds the sealed document once the writer was closed. Gone afterwards.

        Raises FileFailed where the folder cannot be used.
        """
        with _keeping(self.folder):
            private_folder(self.folder)
        with sealed_file(self.folder, self.key) as (write, close, path):
            yield DocumentWriter(write, schema, close, serialized, folds), path


@contextmanager
def sealed_file(folder: Path, key: bytes) -> Iterator[tuple[Callable[[bytes], None], Callable[[], None], Path]]:
    """A sealed file in the making, mode 0600 in ``folder``: how to write text, how to complete it, and where it is.

    It is removed at the end of the block wherever it still stands there; those of processes that died are removed on
    the way in. Raises FileFailed, naming the folder, where it cannot be written.
    """
    with _keeping(folder):
        sweep_files(folder, _DRAFT)
        path, descriptor = create_owned(folder, _DRAFT)
    file = os.fdopen(descriptor, "wb")
    try:
        with _keeping(folder):
            writer = SealWriter(file, key)

        def write(text: bytes) -> None:
            with _keeping(folder):
                writer.write(text)

        def close() -> None:
            with _keeping(folder):
                writer.close()
                file.flush()
                os.fsync(descriptor)

        yield write, close, path
    finally:
        # What counts was flushed by ``close``; a full disk is not said twice.
        with suppress(OSError):
            file.close()
        # What cannot be removed now is removed by the next.
        with suppress(OSError):
            path.unlink(missing_ok=True)


def put_in_place(path: Path, out: Path) -> None:
    """Have the completed file ``path`` stand at ``out``, in place of what is there. Raises FileFailed."""
    with _keeping(out.absolute().parent):
        path.replace(out)


@contextmanager
def _keeping(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileFailed(
            f"the sealed state cannot be written in {folder}: {error.strerror or type(error).__name__}",
            "free some space there, or name a folder that can be written (drafts are kept under XDG_CACHE_HOME)",
        ) from error


def reopen(
    fetch: Callable[[], Path], discard: Callable[[], None], read: Callable[[Path], DocumentReader]
) -> DocumentReader:
    """Open what ``fetch`` gives; a local copy that does not open is fetched anew once before that is believed."""
    try:
        return read(fetch())
    except Unreadable:
        discard()
        return read(fetch())
