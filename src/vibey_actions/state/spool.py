"""Changes kept aside between the merge and the apply: in memory while few, else in a file under a throw-away key.

No text of rows is ever on disk in the clear: the key is random, lives in this process alone, and the file has no name.
"""

from __future__ import annotations

import os
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import BinaryIO, cast

from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from vibey_actions.errors import FileFailed

_IN_MEMORY = 1024 * 1024
_BLOCK = 256 * 1024
_LENGTHS = struct.Struct("<Iii")
_ABSENT = -1


@contextmanager
def _in_temporary_folder() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        folder = tempfile.tempdir or "any folder for temporary files"
        raise FileFailed(
            f"changes that wait to be applied cannot be kept in {folder}: {error.strerror or type(error).__name__}",
            "free some space there, or set TMPDIR to a folder with more; nothing was written",
        ) from error


@dataclass(frozen=True, slots=True)
class Change:
    """One row as it is here and as it is to become, canonical texts; None is no row."""

    key: bytes
    before: bytes | None
    after: bytes | None


class Spool:
    """Takes changes in order and gives them back in that order, as often as asked."""

    def __init__(self) -> None:
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._file: BinaryIO | None = None
        self._key = b""
        self.count = 0

    def add(self, change: Change) -> None:
        before, after = change.before, change.after
        record = _LENGTHS.pack(
            len(change.key),
            _ABSENT if before is None else len(before),
            _ABSENT if after is None else len(after),
        )
        self._buffer += (record, change.key, before or b"", after or b"")
        self._buffered += len(record) + len(change.key) + len(before or b"") + len(after or b"")
        self.count += 1
        if self._buffered >= _IN_MEMORY:
            self._spill()

    def _spill(self) -> None:
        with _in_temporary_folder():
            if self._file is None:
                self._file = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - lives as long as the spool
                self._key = os.urandom(32)
                self._encryptor = self._cipher().encryptor()
            self._file.write(self._encryptor.update(b"".join(self._buffer)))
            self._file.flush()
        self._buffer.clear()
        self._buffered = 0

    def _cipher(self) -> Cipher[modes.CTR]:
        # One stream under one fresh key: a constant nonce is used once.
        return Cipher(algorithms.AES(self._key), modes.CTR(bytes(16)))

    def _blocks(self) -> Iterator[bytes]:
        if self._file is not None:
            decryptor = self._cipher().decryptor()
            position = 0
            while block := os.pread(self._file.fileno(), _BLOCK, position):
                position += len(block)
                yield decryptor.update(block)
        yield b"".join(self._buffer)

    def __iter__(self) -> Iterator[Change]:
        pieces: list[bytes] = []
        missing = 0  # of a row larger than a block: it is put together once, when all of it is there
        for block in self._blocks():
            pieces.append(block)
            missing -= len(block)
            if missing > 0:
                continue
            data = b"".join(pieces)
            position, end = 0, len(data)
            while end - position >= _LENGTHS.size:
                key_size, before_size, after_size = _LENGTHS.unpack_from(data, position)
                start = position + _LENGTHS.size
                size = key_size + max(before_size, 0) + max(after_size, 0)
                if end - start < size:
                    missing = start + size - end
                    break
                middle = start + key_size
                last = middle + max(before_size, 0)
                yield Change(
                    data[start:middle],
                    None if before_size < 0 else data[middle:last],
                    None if after_size < 0 else data[last : start + size],
                )
                position = start + size
            pieces = [data[position:]]

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        self._buffer.clear()
