"""Chunks of keys: where tables are cut, and what is read again."""

from __future__ import annotations

import pytest

from vibey_actions.state import bounds as cutting
from vibey_actions.state.bounds import EVERYTHING, BoundsBuilder, KeyRange, chunk_of, chunk_ranges

BOUNDS = [b"c", b"f", b"m"]


@pytest.mark.parametrize(
    ("key", "chunk"),
    [(b"", 0), (b"a", 0), (b"bz", 0), (b"c", 1), (b"c0", 1), (b"e", 1), (b"f", 2), (b"l", 2), (b"m", 3), (b"z", 3)],
)
def test_chunk_of_is_width_bucket(key: bytes, chunk: int) -> None:
    """0 in front of the first bound, n from the n-th on, as PostgreSQL's width_bucket(key, bounds)."""
    assert chunk_of(BOUNDS, key) == chunk
    assert chunk_of([], key) == 0


@pytest.mark.parametrize(
    ("chunks", "ranges"),
    [
        ([], []),
        ([0], [(b"", b"c")]),
        ([1], [(b"c", b"f")]),
        ([3], [(b"m", None)]),
        ([0, 1], [(b"", b"f")]),
        ([0, 2], [(b"", b"c"), (b"f", b"m")]),
        ([1, 2, 3], [(b"c", None)]),
        ([0, 1, 2, 3], [(b"", None)]),
        ([0, 3], [(b"", b"c"), (b"m", None)]),
    ],
)
def test_ranges_of_chunks(chunks: list[int], ranges: list[tuple[bytes, bytes | None]]) -> None:
    """A chunk's range starts at its bound and ends before the next; neighbours are one range."""
    assert chunk_ranges(BOUNDS, chunks) == [KeyRange(low, high) for low, high in ranges]


def test_ranges_hold_exactly_their_chunks_keys() -> None:
    """A key is in a chunk's range when chunk_of says so."""
    for chunk in range(4):
        (found,) = chunk_ranges(BOUNDS, [chunk])
        for key in (b"", b"a", b"c", b"d", b"f", b"ff", b"m", b"n"):
            assert (key in found) == (chunk_of(BOUNDS, key) == chunk)
    assert chunk_ranges([], [0]) == [EVERYTHING]
    assert b"" in EVERYTHING


def keys(count: int, start: int = 0) -> list[bytes]:
    return [f"{number:06}".encode() for number in range(start, start + count)]


def by_row(builder: BoundsBuilder, count: int, size: int, start: int = 0) -> BoundsBuilder:
    for key in keys(count, start):
        builder.row(key, size)
    return builder


@pytest.mark.parametrize(
    ("count", "size", "cut_at"),
    [
        (0, 10, []),
        (512, 10, []),
        (513, 10, [512]),
        (1024, 10, [512]),
        (1025, 10, [512, 1024]),
        (5, 600_000, [1, 2, 3, 4]),
        (3, 2_000_000, [1, 2]),
        (7, 300_000, [3, 6]),
    ],
)
def test_cuts(count: int, size: int, cut_at: list[int]) -> None:
    """A chunk has at most 512 rows and, from its second row on, at most 1 MiB."""
    assert by_row(BoundsBuilder([], [EVERYTHING]), count, size).build() == [keys(2000)[at] for at in cut_at]


@pytest.mark.parametrize("size", [1, 10, 2047, 2048, 2049, 5000, 300_000, 1_048_576, 1_048_577, 3_000_000])
@pytest.mark.parametrize("portions", [[1], [512], [513], [512, 512, 512], [100, 412, 1, 511, 600], [1] * 5, [2000]])
def test_rows_together_are_cut_like_rows_one_by_one(size: int, portions: list[int]) -> None:
    """Equally large rows that come in portions are cut where they would be one by one."""
    together, single = BoundsBuilder([], [EVERYTHING]), BoundsBuilder([], [EVERYTHING])
    start = 0
    for count in portions:
        together.rows(keys(count, start), count * size)
        by_row(single, count, size, start)
        start += count
    together.rows([], 0)
    assert together.build() == single.build()
    by_row(together, 1100, size, start)
    by_row(single, 1100, size, start)
    assert together.build() == single.build()


def test_old_bounds_are_kept_where_nothing_is_read() -> None:
    """Bounds inside a range that is read anew are dropped; its own ends and all others stay."""
    old = [b"b", b"d", b"f", b"h", b"k"]
    assert BoundsBuilder(old, []).build() == old
    assert BoundsBuilder(old, [EVERYTHING]).build() == []
    assert BoundsBuilder(old, [KeyRange(b"d", b"h")]).build() == [b"b", b"d", b"h", b"k"]
    assert BoundsBuilder(old, [KeyRange(b"", b"d"), KeyRange(b"h", None)]).build() == [b"d", b"f", b"h"]


def test_new_and_old_bounds_are_sorted_and_single() -> None:
    """Bounds ascend, whatever was kept and whatever came new; none stands there twice."""
    builder = BoundsBuilder([b"000000", b"000512", b"5"], [])
    assert by_row(builder, 1025, 10).build() == [b"000000", b"000512", b"001024", b"5"]


def test_never_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit every second bound goes, until few enough are left; they stay ascending."""
    monkeypatch.setattr(cutting, "MAX_CHUNKS", 10)
    for count in (10, 11, 20, 21, 333):
        found = BoundsBuilder(keys(count), []).build()
        assert found == sorted(found)
        assert set(found) <= set(keys(count))
        assert (5 if count > 10 else count) <= len(found) <= 10
