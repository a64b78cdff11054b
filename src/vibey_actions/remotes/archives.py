"""Zip archives of artifacts: a file is taken out by its exact name, and only so many bytes of it.

Nothing that an archive says of itself is believed: its names are no paths, its sizes are counted.
"""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from vibey_actions.errors import ArtifactUnusable, FileFailed
from vibey_actions.remotes.words import megabytes
from vibey_actions.text import shown

LARGEST: Final = 2 << 30
"""The largest archive that is downloaded, and the largest file that is taken out of one, in bytes."""
NOT_OURS: Final = "it was not made by the step close; nothing of it was used"

_LARGEST_DIRECTORY: Final = 1 << 20
_END: Final = b"PK\x05\x06"
_END_SIZE: Final = 22
_LOCATOR: Final = b"PK\x06\x07"
_LOCATOR_SIZE: Final = 20
_RECORD_SIZE: Final = 56
_LONGEST_END: Final = _RECORD_SIZE + _LOCATOR_SIZE + _END_SIZE + (1 << 16)
_PIECE: Final = 1 << 18


@contextmanager
def private_file(path: Path) -> Iterator[BinaryIO]:
    """``path``, empty and for this user alone, to write to. Raises FileFailed where the disk does not take it."""
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            yield file
    except OSError as error:
        raise FileFailed(
            f"{path} cannot be written: {error.strerror or type(error).__name__}", "make room on the runner's disk"
        ) from error


def copy(pieces: Iterable[bytes], file: BinaryIO, what: str) -> None:
    """Write ``pieces`` to ``file``. Raises ArtifactUnusable, naming ``what``, where they are more than LARGEST."""
    size = 0
    for piece in pieces:
        size += len(piece)
        if size > LARGEST:
            raise ArtifactUnusable(f"{what} has more than {megabytes(LARGEST)}", NOT_OURS)
        file.write(piece)


def take_out(archive: Path, files: Mapping[str, Path]) -> set[str]:
    """Copy the files that ``files`` names out of a zip archive, each to its place, mode 0600; returns which it has.

    Names in the archive are compared and never used as paths. Raises ArtifactUnusable, naming ``archive``, for one that
    is cut, damaged or hostile: a member that is twice there, encrypted, or larger than anything of ours.
    """
    with _reading(archive) as opened:
        found = [one for one in opened.infolist() if one.filename in files]
        names = {one.filename for one in found}
        if len(names) < len(found):
            raise ArtifactUnusable(f"{archive.name} holds one file twice", NOT_OURS)
        for one in found:
            with opened.open(one) as source, private_file(files[one.filename]) as target:
                copy(iter(lambda: source.read(_PIECE), b""), target, f"{one.filename} in {archive.name}")
        return names


@contextmanager
def _reading(archive: Path) -> Iterator[zipfile.ZipFile]:
    """The archive, opened. What reading it raises in the block is an ArtifactUnusable."""
    try:
        _check_directory(archive)
        with zipfile.ZipFile(archive) as opened:
            yield opened
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, OSError, RuntimeError, ValueError) as error:
        raise ArtifactUnusable(
            f"{archive.name} is no zip archive that can be read: {shown(str(error), 120) or type(error).__name__}",
            NOT_OURS,
        ) from None


def _check_directory(archive: Path) -> None:
    """Refuse an archive whose list of members would take much memory; ours has two."""
    with archive.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - _LONGEST_END))
        tail = file.read()
    end = tail.rfind(_END)
    if end < 0 or len(tail) - end < _END_SIZE:
        raise ArtifactUnusable(f"{archive.name} is cut short, or no zip archive", NOT_OURS)
    listing = tail[end + 12 : end + 16]
    if tail.startswith(_LOCATOR, max(0, end - _LOCATOR_SIZE)):
        record = max(0, end - _LOCATOR_SIZE - _RECORD_SIZE)
        listing = tail[record + 40 : record + 48]
    if int.from_bytes(listing, "little") > _LARGEST_DIRECTORY:
        raise ArtifactUnusable(f"{archive.name} holds more files than any export", NOT_OURS)
