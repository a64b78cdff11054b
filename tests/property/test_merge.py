"""The merge against a naive one over dictionaries: any rows, any rules, any knowledge of what did not change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.settings import bounded
from tests.support.documents import in_pieces
from tests.support.views import MemoryView, Rows, partial_view
from vibey_actions.rows.canonical import encode
from vibey_actions.state import scanner
from vibey_actions.state.declaration import Declaration, Rule, Table
from vibey_actions.state.document import DocumentReader, DocumentWriter
from vibey_actions.state.merge import Merge, merge
from vibey_actions.state.progress import Silent

NAMES = ("a", "b", "c")
COLUMNS = ("at", "id", "v")
Content = Mapping[str, Rows]


def text_of_row(number: int, value: tuple[int | None, str]) -> bytes:
    at, v = value
    return encode({"at": None if at is None else f"2024-01-0{at}T00:00:00", "id": number, "v": v})


# Few keys and few values, so that the ends meet often.
values = st.none() | st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from(["x", "y", "},{" * 9]))
histories = st.one_of(
    values.map(lambda row: (row, row, row)),
    st.tuples(values, values).map(lambda two: (two[0], two[1], two[1])),
    st.tuples(values, values).map(lambda two: (two[1], two[0], two[1])),
    st.tuples(values, values).map(lambda two: (two[0], two[0], two[1])),
    st.tuples(values, values, values),
)
"""One row: here, on the branch, in the base. Often untouched, or touched by one end, or alike by both."""
tables = st.dictionaries(st.integers(0, 11), histories, max_size=12)
bounds = st.lists(st.integers(0, 12), max_size=4, unique=True).map(lambda cuts: sorted(encode([cut]) for cut in cuts))
kinds = st.sampled_from([Rule.NEWEST, Rule.MINE, Rule.THEIRS, Rule.REFUSE, None])


@dataclass
class Expected:
    """What a merge has to find, table by table."""

    pull: dict[str, list[tuple[bytes, bytes | None, bytes | None]]]
    push: dict[str, tuple[int, int, int]]
    conflicts: list[tuple[str, bytes]]
    merged: dict[str, dict[bytes, bytes]]


def naive(kind_of: Mapping[str, Rule | None], base: Content, mine: Content, theirs: Content) -> Expected:
    """The rules as the specification words them, over whole dictionaries. The kind None is append-only."""
    found = Expected({}, {}, [], {})
    for name in NAMES:
        push = [0, 0, 0]
        for key in sorted({*base[name], *mine[name], *theirs[name]}):
            was, here, there = base[name].get(key), mine[name].get(key), theirs[name].get(key)
            settled, result = outcome(kind_of[name], was, here, there)
            if not settled:
                found.conflicts.append((name, key))
                continue
            if result != here:
                found.pull.setdefault(name, []).append((key, here, result))
            if result != there:
                push[0 if there is None else 2 if result is None else 1] += 1
            if result is not None:
                found.merged.setdefault(name, {})[key] = result
        if any(push):
            found.push[name] = (push[0], push[1], push[2])
    return found


def outcome(kind: Rule | None, was: bytes | None, here: bytes | None, there: bytes | None) -> tuple[bool, bytes | None]:
    if kind is None and was is not None:
        return here == was == there, was
    for one, other in ((here, there), (there, here)):
        if one in (was, other):
            return True, other
    if kind is Rule.MINE:
        return True, here
    if kind is Rule.THEIRS:
        return True, there
    if kind is Rule.NEWEST and here is not None and there is not None:
        # One format of times here, and null sorts in front of a string: the texts' order is the times'.
        times = [text.split(b",")[0].replace(b"null", b"") for text in (here, there)]
        return times[0] != times[1], here if times[0] > times[1] else there
    return False, None


def text_of(content: Content) -> bytes:
    parts = []
    for name in NAMES:
        if content[name]:
            parts.append(encode(name) + b":[" + b",".join(content[name][key] for key in sorted(content[name])) + b"]")
    return b'{"format":"vibey-state/1","schema":[],"tables":{' + b",".join(parts) + b"}}"


def run(
    declaration: Declaration,
    base: DocumentReader | None,
    theirs: DocumentReader | None,
    view_of: Callable[[str], MemoryView],
) -> tuple[Merge, bytes]:
    parts: list[bytes] = []
    writer = DocumentWriter(parts.append, [], lambda: None)
    return merge(declaration, base, theirs, view_of, writer=writer, progress=Silent()), b"".join(parts)


def check(found: Merge, written: bytes, expected: Expected) -> None:
    try:
        pulled = {
            name: [(change.key, change.before, change.after) for change in spool] for name, spool in found.pull.items()
        }
        assert pulled == expected.pull
        assert {name: count.total for name, count in found.pull_counts.items()} == {
            name: len(changes) for name, changes in expected.pull.items()
        }
        pushed = {name: (c.inserted, c.updated, c.deleted) for name, c in found.push_counts.items()}
        assert pushed == expected.push
        assert [(conflict.table, conflict.key.encode()) for conflict in found.conflicts] == expected.conflicts
        assert found.rows == sum(map(len, expected.merged.values()))
        if not expected.conflicts:
            assert written == text_of({name: expected.merged.get(name, {}) for name in NAMES})
        for cuts in found.bounds.values():
            assert cuts == sorted(set(cuts))
    finally:
        found.close()


@bounded(300)
@given(st.data())
def test_the_merge_is_the_naive_merge(data: Any) -> None:
    """Every way to know less or more of what changed gives the same pull, push, conflicts, counts and document."""
    kind_of = data.draw(st.fixed_dictionaries(dict.fromkeys(NAMES, kinds)))
    moved = data.draw(st.booleans())
    cells = {name: data.draw(tables) for name in NAMES}
    mine, theirs, base = (content(cells, end) for end in range(3))
    if data.draw(st.integers(0, 3)) == 0:
        base = content({name: {} for name in NAMES}, 0)
    if not moved:
        theirs = base
    declaration = Declaration(
        {
            name: Table(name, ("id",), COLUMNS, kind or Rule.REFUSE, "at", append_only=kind is None)
            for name, kind in kind_of.items()
        }
    )
    expected = naive(kind_of, base, mine, theirs)
    cuts = data.draw(bounds)
    also = data.draw(st.lists(st.integers(0, 5), max_size=3))
    window = data.draw(st.sampled_from([1, 60, 150, 512 * 1024]))
    views: list[Callable[[str], MemoryView]] = [
        lambda name: MemoryView(mine[name]),
        lambda name: partial_view(mine[name], base[name], cuts),
        lambda name: partial_view(mine[name], base[name], cuts, also),
    ]
    keys = dict.fromkeys(NAMES, ("id",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scanner, "WINDOW", window)
        for view in views:
            for checked in (True, False):

                def reader(content: Content, checked: bool = checked) -> DocumentReader:  # noqa: FBT001
                    return DocumentReader(in_pieces(text_of(content), 70), key_of=keys.get if checked else None)

                check(*run(declaration, reader(base), reader(theirs), view), expected)
                if not moved:
                    same = reader(base)
                    check(*run(declaration, same, same, view), expected)
                if not any(base.values()):
                    check(*run(declaration, None, reader(theirs), view), expected)


def content(cells: Mapping[str, Mapping[int, tuple[Any, ...]]], end: int) -> dict[str, dict[bytes, bytes]]:
    """The rows of one of the three ends."""
    return {
        name: {encode([key]): text_of_row(key, three[end]) for key, three in table.items() if three[end] is not None}
        for name, table in cells.items()
    }
