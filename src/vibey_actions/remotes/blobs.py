"""A blob on its way to and from GitHub in pieces: base64 made and taken apart as it flows, never held whole."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path

from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.gitobjects import blob_digest

_PIECE = 3 << 16
_LONGEST_VALUE = 1 << 16
_WHITE = b" \t\r\n"


class BlobBody:
    """The JSON that creates a blob of the file ``source``, with a length known before the first byte.

    Once it was sent, ``name`` is the blob's name. Raises RemoteFailed where the file changes meanwhile.
    """

    _HEAD = b'{"encoding":"base64","content":"'
    _TAIL = b'"}'

    def __init__(self, source: Path, size: int, algorithm: str) -> None:
        self._source = source
        self._size = size
        self._algorithm = algorithm
        self.name = ""

    def __len__(self) -> int:
        return len(self._HEAD) + 4 * ((self._size + 2) // 3) + len(self._TAIL)

    def __iter__(self) -> Iterator[bytes]:
        digest, left = blob_digest(self._size, self._algorithm), self._size
        yield self._HEAD
        with self._source.open("rb", buffering=_PIECE) as file:
            while piece := file.read(_PIECE):
                digest.update(piece)
                left -= len(piece)
                if left < 0:
                    break
                yield base64.b64encode(piece)
        if left:
            raise RemoteFailed("the sealed file changed while it was sent", "run again")
        self.name = digest.hexdigest()
        yield self._TAIL


def decode_blob(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """The bytes of a blob from GitHub's JSON answer about it, wherever in it ``content`` stands.

    Raises RemoteFailed where the answer is no such JSON, its encoding is not base64, or the content is cut.
    """
    reader = _Reader(pieces)
    found, encoding = False, None
    reader.expect(b"{")
    while True:
        name = reader.string()
        reader.expect(b":")
        if name == b"content":
            yield from _decoded(reader.long_string())
            found = True
        elif name == b"encoding":
            encoding = reader.string()
        else:
            reader.skip_value()
        if reader.expect(b",}") == b"}":
            break
    if not found or encoding != b"base64":
        raise RemoteFailed("GitHub answered a blob without its content", "run again")


def _decoded(pieces: Iterator[bytes]) -> Iterator[bytes]:
    pending, ended = b"", False
    for piece in pieces:
        text = pending + piece
        pending = text[-1:] if text.endswith(b"\\") else b""
        text = text[: len(text) - len(pending)]
        text = text.replace(b"\\n", b"").replace(b"\\r", b"").replace(b"\\/", b"/")
        whole = len(text) - len(text) % 4
        if ended and text:
            raise RemoteFailed("GitHub answered a blob with more content after its end", "run again")
        ended = text.endswith(b"=", 0, whole)
        yield _base64(text[:whole])
        pending = text[whole:] + pending
    if pending:
        raise RemoteFailed("GitHub answered a blob whose content is cut short", "run again")


def _base64(text: bytes) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True) if text else b""
    except binascii.Error as error:
        raise RemoteFailed("GitHub answered a blob whose content is not base64", "run again") from error


class _Reader:
    """Reads a flat JSON object from pieces."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._buffer = b""

    def expect(self, one_of: bytes) -> bytes:
        """The next character that is no white space, which has to be in ``one_of``."""
        while True:
            self._buffer = self._buffer.lstrip(_WHITE)
            if self._buffer:
                break
            self._more()
        found, self._buffer = self._buffer[:1], self._buffer[1:]
        if found not in one_of:
            raise self._malformed()
        return found

    def string(self) -> bytes:
        """A short string, its escapes left as they are."""
        self.expect(b'"')
        at = 0
        while True:
            end = self._buffer.find(b'"', at)
            if end >= 0 and (end - len(self._buffer[:end].rstrip(b"\\"))) % 2 == 0:
                text, self._buffer = self._buffer[:end], self._buffer[end + 1 :]
                return text
            if end < 0:
                at = len(self._buffer)
                self._more()
            else:
                at = end + 1
            if len(self._buffer) > at + _LONGEST_VALUE or at > _LONGEST_VALUE:
                raise self._malformed()

    def long_string(self) -> Iterator[bytes]:
        """A string without quotes inside, in pieces."""
        self.expect(b'"')
        while (end := self._buffer.find(b'"')) < 0:
            piece, self._buffer = self._buffer, b""
            yield piece
            self._more()
        yield self._buffer[:end]
        self._buffer = self._buffer[end + 1 :]

    def skip_value(self) -> None:
        """A string, number, true, false or null that is of no interest."""
        start = self.expect(b'"-0123456789tfn')
        if start == b'"':
            self._buffer = start + self._buffer
            self.string()
            return
        while True:
            self._buffer = self._buffer.lstrip(b"+-.0123456789eEtrufalsn")
            if self._buffer:
                return
            self._more()

    def _more(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise RemoteFailed("GitHub's answer about a blob is cut short", "run again")
        self._buffer += piece

    def _malformed(self) -> RemoteFailed:
        return RemoteFailed("GitHub's answer about a blob is not the JSON it should be", "run again")
