"""The seal: gzip, then AES-256-GCM, streamed in both directions (docs/format.md, "Sealed file").

``VBYSTAT1`` + 12 random bytes + AES-256-GCM(key, nonce, gzip(text, mtime=0)) with the magic as associated data and the
tag at the end. Opening authenticates the whole ciphertext in a first pass; nothing of it is decrypted for use before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from isal import isal_zlib
from isal.igzip_lib import IsalError

from vibey_actions.errors import Unreadable, WrongKey

MAGIC = b"VBYSTAT1"
NONCE_SIZE = 12
TAG_SIZE = 16
KEY_SIZE = 32

MAX_UNPACKED = 16 * 1024 * 1024 * 1024
"""The cap on the unpacked text, in bytes."""

_HEADER_SIZE = len(MAGIC) + NONCE_SIZE
_CHUNK = 256 * 1024
_GZIP = 31  # zlib's window bits for a gzip container
_GZIP_START = b"\x1f\x8b\x08\x00\x00\x00\x00\x00"  # no name, no comment, mtime 0
_LEVEL = 1  # igzip's: as small as zlib's level 6 here, at seven times its speed


class SealWriter:
    """Seals what is written to it into ``file``; ``close`` completes it. A new random nonce every time."""

    def __init__(self, file: BinaryIO, key: bytes) -> None:
        nonce = os.urandom(NONCE_SIZE)
        self._file = file
        self._packer = isal_zlib.compressobj(_LEVEL, isal_zlib.DEFLATED, _GZIP)
        self._encryptor = Cipher(algorithms.AES(key), modes.GCM(nonce)).encryptor()
        self._encryptor.authenticate_additional_data(MAGIC)
        file.write(MAGIC + nonce)

    def write(self, text: bytes) -> None:
        packed = self._packer.compress(text)
        if packed:
            self._file.write(self._encryptor.update(packed))

    def close(self) -> None:
        self._file.write(self._encryptor.update(self._packer.flush()))
        self._encryptor.finalize()
        self._file.write(self._encryptor.tag)


def open_sealed(path: Path, key: bytes, *, max_unpacked: int = MAX_UNPACKED) -> Iterator[bytes]:
    """The text sealed in ``path``, in chunks, after the whole file has authenticated.

    Raises Unreadable for a file that is no sealed state, was cut or changed or unpacks to more than ``max_unpacked``
    bytes, and WrongKey for one sealed under another key.
    """
    with path.open("rb") as file:
        size = _authenticated_size(file, key)
        file.seek(0)
        yield from _unpack(_decrypt(file, size, key), max_unpacked)


def _authenticated_size(file: BinaryIO, key: bytes) -> int:
    size = os.fstat(file.fileno()).st_size
    head = file.read(_HEADER_SIZE)
    if size == 0:
        raise Unreadable("the sealed state is empty (0 bytes)", _RESTORE)
    if not head.startswith(MAGIC[: len(head)]):
        raise Unreadable(f"this is no sealed state: it begins with {_shown(head)}, not with VBYSTAT1", _RESTORE)
    if size <= _HEADER_SIZE + TAG_SIZE:
        raise Unreadable(f"the sealed state is cut short: {size} bytes", _RESTORE)
    file.seek(0)
    start = b""
    try:
        for piece in _decrypt(file, size, key):
            start = start or piece[: len(_GZIP_START)]
    except InvalidTag:
        raise _does_not_authenticate(start) from None
    return size


_RESTORE = (
    "nothing was written; if the branch itself is damaged, find the last commit that opens with "
    "`vibey-actions state show --at COMMIT` and move the branch back to it"
)


def _does_not_authenticate(start: bytes) -> Unreadable:
    # With the right key the text starts as every gzip stream of ours does; 64 bits are no accident.
    if start == _GZIP_START:
        return Unreadable("the key fits, but the sealed state was changed or cut short since it was sealed", _RESTORE)
    return WrongKey(
        "the sealed state does not open with this key: it was sealed under another key, or changed since",
        "use the key that sealed it (`vibey-actions state key` says where yours comes from); nothing was written",
    )


def _shown(head: bytes) -> str:
    return "a plain JSON text" if head.lstrip().startswith(b"{") else f"the bytes {head[:8].hex()}"


def _decrypt(file: BinaryIO, size: int, key: bytes) -> Iterator[bytes]:
    """The packed bytes in chunks; raises InvalidTag at the end where the file does not authenticate."""
    nonce = _read(file, _HEADER_SIZE)[len(MAGIC) :]
    decryptor = Cipher(algorithms.AES(key), modes.GCM(nonce)).decryptor()
    decryptor.authenticate_additional_data(MAGIC)
    left = size - _HEADER_SIZE - TAG_SIZE
    while left > 0:
        piece = _read(file, min(_CHUNK, left))
        left -= len(piece)
        yield decryptor.update(piece)
    decryptor.finalize_with_tag(_read(file, TAG_SIZE))


def _read(file: BinaryIO, size: int) -> bytes:
    piece = file.read(size)
    if len(piece) < size:
        raise Unreadable("the sealed state was cut while it was read")
    return piece


def _unpack(pieces: Iterator[bytes], max_unpacked: int) -> Iterator[bytes]:
    unpacker = isal_zlib.decompressobj(_GZIP)
    unpacked = 0
    try:
        for piece in pieces:
            data = piece
            while data and not unpacker.eof:
                text = unpacker.decompress(data, _CHUNK)
                data = unpacker.unconsumed_tail
                unpacked += len(text)
                if unpacked > max_unpacked:
                    raise Unreadable(f"the sealed state unpacks to more than {max_unpacked} bytes; nothing was read")
                if text:
                    yield text
            if unpacker.eof and (data or unpacker.unused_data):
                raise Unreadable("the sealed state holds more than one gzip stream")
    except IsalError:  # type: ignore[misc]
        raise Unreadable("the sealed state opens but does not unpack: it was not made by this format") from None
    except InvalidTag:
        raise Unreadable("the sealed state was changed while it was read") from None
    if not unpacker.eof:
        raise Unreadable("the sealed state opens but its text ends too early")
