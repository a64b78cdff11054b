"""Parents come first, and the same names always give the same order."""

from __future__ import annotations

import random

import pytest

from vibey_actions.postgres.order import parents_first


@pytest.mark.parametrize(
    ("parents", "expected"),
    [
        ({}, ()),
        ({"b": [], "a": []}, ("a", "b")),
        ({"a": ["b"], "b": ["c"], "c": []}, ("c", "b", "a")),
        ({"a": ["a"], "b": ["", "elsewhere"]}, ("a", "b")),
        ({"a": ["c", "b"], "b": [], "c": []}, ("b", "c", "a")),
        ({"a": ["b"], "b": ["a"], "c": []}, ("c", "a", "b")),
        ({"a": ["x"], "x": ["y"], "y": ["x"]}, ("x", "a", "y")),
        ({"a": ["b"], "b": ["m"], "m": ["z"], "z": ["m"]}, ("m", "b", "a", "z")),
    ],
    ids=["none", "names", "chain", "self and unknown", "diamond", "cycle", "below a cycle", "far below a cycle"],
)
def test_order_by_hand(parents: dict[str, list[str]], expected: tuple[str, ...]) -> None:
    """Each small graph has the order one would write down: parents first, cycles broken at their first name."""
    assert parents_first(parents) == expected


def test_every_parent_stands_before_its_children_however_the_tables_are_listed() -> None:
    """In 50 random graphs without cycles no child precedes a parent, and shuffling the input changes nothing."""
    chance = random.Random(7)  # noqa: S311
    for _ in range(50):
        names = [f"t{n}" for n in range(12)]
        chance.shuffle(names)
        parents = {name: chance.sample(names[:place], k=min(place, 2)) for place, name in enumerate(names)}
        order = parents_first(parents)
        assert sorted(order) == sorted(names)
        assert all(order.index(parent) < order.index(name) for name, found in parents.items() for parent in found)
        shuffled = dict(chance.sample(list(parents.items()), k=len(parents)))
        assert parents_first({name: list(reversed(found)) for name, found in shuffled.items()}) == order
