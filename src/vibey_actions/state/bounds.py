"""Where a table is cut into chunks of consecutive keys, so that an unchanged chunk need not be read again."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

ROWS_PER_CHUNK = 512
BYTES_PER_CHUNK = 1024 * 1024
MAX_CHUNKS = 4096


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from ``low`` (included) to ``high`` (not included; None: no end)."""

    low: bytes
    high: bytes | None

    def __contains__(self, key: bytes) -> bool:
        return self.low <= key and (self.high is None or key < self.high)


EVERYTHING = KeyRange(b"", None)


def chunk_ranges(bounds: Sequence[bytes], chunks: Sequence[int]) -> list[KeyRange]:
    """The key ranges of ``chunks``, ascending numbers as ``chunk_of`` gives them; neighbours are joined."""
    ranges: list[KeyRange] = []
    for chunk in chunks:
        low = bounds[chunk - 1] if chunk else b""
        high = bounds[chunk] if chunk < len(bounds) else None
        if ranges and ranges[-1].high == low:
            ranges[-1] = KeyRange(ranges[-1].low, high)
        else:
            ranges.append(KeyRange(low, high))
    return ranges


def chunk_of(bounds: Sequence[bytes], key: bytes) -> int:
    """The chunk a key is in: 0 before the first bound, n from the n-th bound on (PostgreSQL's width_bucket)."""
    return bisect_right(bounds, key)


def _inside(bound: bytes, ranges: Sequence[KeyRange], lows: Sequence[bytes]) -> bool:
    """Whether a range holds ``bound`` behind its own low end; the ranges are ascending and disjoint."""
    place = bisect_left(lows, bound)
    return place > 0 and bound in ranges[place - 1]


class BoundsBuilder:
    """Cuts anew where rows are read, keeps the old bounds elsewhere."""

    def __init__(self, old: Sequence[bytes], read: Sequence[KeyRange]) -> None:
        lows = [one.low for one in read]
        self._kept = [bound for bound in old if not _inside(bound, read, lows)]
        self._new: list[bytes] = []
        self._rows = 0
        self._bytes = 0

    def row(self, key: bytes, size: int) -> None:
        """A row that was read here, or that comes new into a chunk."""
        self._rows += 1
        self._bytes += size
        if self._rows > ROWS_PER_CHUNK or (self._bytes > BYTES_PER_CHUNK and self._rows > 1):
            self._new.append(key)
            self._rows, self._bytes = 1, size

    def rows(self, keys: Sequence[bytes], size: int) -> None:
        """Rows of ``size`` bytes in all that come new; the same as row by row, but that they count as equally large."""
        if not keys:
            return
        step = max(1, min(ROWS_PER_CHUNK, BYTES_PER_CHUNK * len(keys) // max(size, 1)))
        first = max(0, step - self._rows)
        self._new.extend(keys[first::step])
        self._rows = (len(keys) - first - 1) % step + 1 if first < len(keys) else self._rows + len(keys)
        self._bytes = self._rows * size // len(keys)

    def build(self) -> list[bytes]:
        bounds = sorted({*self._kept, *self._new})
        while len(bounds) > MAX_CHUNKS:
            bounds = bounds[1::2]
        return bounds
