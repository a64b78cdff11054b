"""A database's tables in memory, as the merge sees them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from vibey_actions.state.bounds import EVERYTHING, KeyRange, chunk_of, chunk_ranges
from vibey_actions.state.merge import Keyed

Rows = Mapping[bytes, bytes]
"""Canonical rows by their canonical keys."""


@dataclass
class MemoryView:
    """Rows of one table in key order, as far as they stand in ``ranges``."""

    content: Rows
    ranges: Sequence[KeyRange] = (EVERYTHING,)
    bounds: Sequence[bytes] = ()

    def rows(self) -> Iterator[Keyed]:
        for key in sorted(self.content):
            if any(key in one for one in self.ranges):
                yield key, self.content[key]


def partial_view(content: Rows, base: Rows, bounds: Sequence[bytes], also: Sequence[int] = ()) -> MemoryView:
    """A view that reads only the chunks in which the rows are not the base's, and those in ``also``."""
    changed = {chunk_of(bounds, key) for key in {*content, *base} if content.get(key) != base.get(key)}
    chunks = sorted(changed | {chunk for chunk in also if chunk <= len(bounds)})
    return MemoryView(content, chunk_ranges(bounds, chunks), bounds)
