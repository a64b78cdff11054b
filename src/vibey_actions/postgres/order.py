"""In which order tables are written: every table after those its foreign keys point at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from heapq import heapify, heappop, heappush


def parents_first(parents: Mapping[str, Iterable[str]]) -> tuple[str, ...]:
    """The names of ``parents`` (table -> tables it references), parents before children, else in name order.

    References to itself or to a name that is no key count for nothing. In a cycle the member whose name comes first
    is taken before its parents, so the order depends on names alone.
    """
    waiting = {name: {p for p in found if p != name and p in parents} for name, found in parents.items()}
    children: dict[str, list[str]] = {name: [] for name in waiting}
    for name, found in waiting.items():
        for parent in found:
            children[parent].append(name)
    free = [name for name, found in waiting.items() if not found]
    heapify(free)
    order: list[str] = []
    while waiting:
        name = heappop(free) if free else _first_of_a_cycle(waiting)
        del waiting[name]
        order.append(name)
        for child in children[name]:
            if child in waiting:
                waiting[child].discard(name)
                if not waiting[child]:
                    heappush(free, child)
    return tuple(order)


def _first_of_a_cycle(waiting: Mapping[str, set[str]]) -> str:
    """The first name of a cycle that waits for nothing outside itself or another cycle above it."""
    path: list[str] = []
    name = min(waiting)
    while name not in path:
        path.append(name)
        name = min(waiting[name])
    return min(path[path.index(name) :])
