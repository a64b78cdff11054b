"""A cursor over streamed ASCII text that finds where one JSON value ends, without holding the whole text."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from vibey_actions.errors import Unreadable
from vibey_actions.rows.canonical import decode
from vibey_actions.state.identity import Fold

WINDOW = 128 * 1024
"""How much text is looked at at a time, in bytes."""

MAX_ROW = 1024 * 1024 * 1024
"""The largest row, in bytes: PostgreSQL cannot hold a larger field."""

_scan_once = json.JSONDecoder(parse_float=str, parse_int=str).scan_once  # type: ignore[attr-defined]
_array_of_raw = msgspec.json.Decoder(list[msgspec.Raw])


class Batch:
    """Some consecutive rows of a table: ``text`` is the rows joined by commas.

    ``folds`` says by key column what of its text does not count. ``rows`` is each one by itself; ``values`` are
    the rows decoded, ``keys`` their keys and ``columns`` those that every one has, in order; all three only where a
    check has needed them already.
    """

    __slots__ = ("_rows", "columns", "folds", "keys", "size", "text", "values")

    def __init__(self, text: bytes, size: int, *, rows: list[msgspec.Raw] | None, values: list[Any] | None) -> None:
        self.text = text
        self.size = size
        self._rows = rows
        self.values = values
        self.keys: list[bytes] | None = None
        self.columns: tuple[str, ...] | None = None
        self.folds: Mapping[str, Fold] = {}

    def __len__(self) -> int:
        return self.size

    @property
    def rows(self) -> list[bytes]:
        if self._rows is None:
            self._rows = _array_of_raw.decode(b"[" + self.text + b"]")
        return list(map(bytes, self._rows))

    @property
    def ends(self) -> bytes:
        """The first and the last row, joined by a comma."""
        if self._rows is None:
            self._rows = _array_of_raw.decode(b"[" + self.text + b"]")
        return bytes(self._rows[0]) + b"," + bytes(self._rows[-1])


class Scanner:
    """Reads JSON piecewise from chunks of text. Raises Unreadable where the text ends or is malformed."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._buffer = b""
        self._position = 0
        self._ended = False

    def _fill(self, wanted: int) -> int:
        """Have ``wanted`` bytes ahead if the text has them; returns how many there are."""
        ahead = len(self._buffer) - self._position
        if ahead >= wanted or self._ended:
            return ahead
        parts = [self._buffer[self._position :]]
        while ahead < wanted:
            chunk = next(self._chunks, None)
            if chunk is None:
                self._ended = True
                break
            parts.append(chunk)
            ahead += len(chunk)
        self._buffer, self._position = b"".join(parts), 0
        return ahead

    def at(self, literal: bytes) -> bool:
        """Whether the text goes on with ``literal``."""
        self._fill(len(literal))
        return self._buffer.startswith(literal, self._position)

    def take(self, literal: bytes) -> bool:
        """Step over ``literal`` if the text goes on with it."""
        found = self.at(literal)
        if found:
            self._position += len(literal)
        return found

    def expect(self, literal: bytes) -> None:
        if not self.take(literal):
            ended = self._fill(1) == 0
            raise Unreadable("the state ends too early" if ended else "the state is not a document of this format")

    def at_end(self) -> bool:
        return self._fill(1) == 0

    def value(self) -> bytes:
        """The text of the next value, which is an object, an array or a string."""
        size = WINDOW
        while True:
            ahead = self._fill(size)
            window = self._window(size)
            end = _value_end(window, 0)
            if end is not None:
                self._position += end
                return window[:end]
            if ahead < size or size > MAX_ROW:
                raise Unreadable("the state holds text that is not JSON, or a row over 1 GiB")
            size *= 2

    def batch(self, row_start: bytes, *, decoded: bool) -> Batch:
        """The next rows of an array of objects: as many whole ones as a window holds, at least one.

        ``row_start`` is how every row of the table begins; the cursor stands on a row and ends behind one. With
        ``decoded`` the batch holds the rows' values.
        """
        size = WINDOW
        while True:
            ahead = self._fill(size)
            window = self._window(size)
            batch = _cut_at_last_row(window, b"}," + row_start, decoded=decoded) or _walk_rows(window)
            if batch is not None:
                self._position += len(batch.text)
                return batch
            if ahead < size or size > MAX_ROW:
                raise Unreadable("the state holds text that is not JSON, or a row over 1 GiB")
            size *= 2

    def _window(self, size: int) -> bytes:
        return self._buffer[self._position : self._position + size]


def _value_end(window: bytes, start: int) -> int | None:
    try:
        return int(_scan_once(window.decode("ascii"), start)[1])
    except (StopIteration, ValueError):
        return None
    except RecursionError:
        raise Unreadable("the state holds a value that is nested too deeply") from None


def _cut_at_last_row(window: bytes, boundary: bytes, *, decoded: bool) -> Batch | None:
    """Cut where the last row seems to begin. The text may occur inside a row; then what is cut is no array."""
    cut = window.rfind(boundary)
    if cut < 0:
        return None
    text = window[: cut + 1]
    try:
        if decoded:
            values = decode(b"[" + text + b"]")
            return Batch(text, len(values), rows=None, values=values)
        rows = _array_of_raw.decode(b"[" + text + b"]")
        return Batch(text, len(rows), rows=rows, values=None)
    except (msgspec.MsgspecError, RecursionError, ValueError):
        return None


def _walk_rows(window: bytes) -> Batch | None:
    """Cut row by row: slower, always right. None where the window does not hold one whole row."""
    try:
        text = window.decode("ascii")
    except UnicodeDecodeError:
        raise Unreadable("the state holds text that is not canonical") from None
    ends = []
    position = 0
    while True:
        try:
            _, end = _scan_once(text, position)
        except (StopIteration, ValueError):
            break
        except RecursionError:
            raise Unreadable("the state holds a value that is nested too deeply") from None
        ends.append((position, end))
        if text[end : end + 1] != ",":
            break
        position = end + 1
    if not ends:
        return None
    rows = [msgspec.Raw(window[start:end]) for start, end in ends]
    return Batch(window[: ends[-1][1]], len(rows), rows=rows, values=None)
