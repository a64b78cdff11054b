"""Merging column by column: names in words, base, mine, theirs, the second rule, and what comes out."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.rows.canonical import encode
from vibey_actions.state.declaration import Declaration, Rule, Table
from vibey_actions.state.report import Conflict, ConflictKind
from vibey_actions.state.rules import settle

NEWEST, MINE, THEIRS, REFUSE = Rule.NEWEST, Rule.MINE, Rule.THEIRS, Rule.REFUSE
BOTH, HERE, THERE = ConflictKind.BOTH_CHANGED, ConflictKind.DELETED_HERE, ConflictKind.DELETED_THERE
UNORDERED = ConflictKind.UNORDERED_TIMES

Values = tuple[Any, Any, Any] | None
"""The columns a, at and b of a row whose key is 1."""


def row(values: Values) -> bytes | None:
    return values and encode({"a": values[0], "at": values[1], "b": values[2], "id": 1})


def merged(base: Values, mine: Values, theirs: Values, otherwise: Rule) -> bytes | Conflict | None:
    table = Table("t", ("id",), ("a", "at", "b", "id"), Rule.COLUMNS, newest_by="at", otherwise=otherwise)
    return settle(table, b"[1]", row(base), row(mine), row(theirs))


CASES: list[tuple[str, Values, Values, Values, Rule, Values | ConflictKind]] = [
    ("different columns", (1, 0, 1), (2, 0, 1), (1, 0, 2), REFUSE, (2, 0, 2)),
    ("different columns, whatever the rule", (1, 0, 1), (2, 0, 1), (1, 0, 2), THEIRS, (2, 0, 2)),
    ("two there, one here", (1, 0, 1), (1, 5, 1), (2, 0, 2), MINE, (2, 5, 2)),
    ("one changed alike, one only here", (1, 0, 1), (2, 0, 2), (2, 0, 1), REFUSE, (2, 0, 2)),
    ("a column emptied here", (1, 0, 1), (None, 0, 1), (1, 0, 2), REFUSE, (None, 0, 2)),
    ("a column filled there", (None, 0, 1), (None, 0, 2), (1, 0, 1), REFUSE, (1, 0, 2)),
    ("only the scale changed here", (Decimal("1.0"), 0, 1), (Decimal("1.00"), 0, 1), (Decimal("1.0"), 0, 2), REFUSE,
     (Decimal("1.00"), 0, 2)),
    ("true is not 1", (1, 0, 1), (True, 0, 1), (1, 0, 2), REFUSE, (True, 0, 2)),
    ("members of an object are no columns", ({"x": 1, "y": 1}, 0, 1), ({"x": 2, "y": 1}, 0, 1),
     ({"x": 1, "y": 2}, 0, 1), REFUSE, BOTH),
    ("one disputed", (1, 0, 1), (2, 0, 2), (3, 0, 1), REFUSE, BOTH),
    ("one disputed, mine", (1, 0, 1), (2, 0, 1), (3, 0, 2), MINE, (2, 0, 2)),
    ("one disputed, theirs", (1, 0, 1), (2, 0, 2), (3, 0, 1), THEIRS, (3, 0, 2)),
    ("newest is here", (1, None, 1), (2, "2024-01-02", 1), (3, "2024-01-01", 2), NEWEST, (2, "2024-01-02", 2)),
    ("newest is there", (1, None, 1), (2, "2024-01-01", 2), (3, "2024-01-02", 1), NEWEST, (3, "2024-01-02", 2)),
    ("only the time is disputed", (1, None, 1), (2, "2024-01-02", 1), (1, "2024-01-01", 2), NEWEST,
     (2, "2024-01-02", 2)),
    ("equal times", (1, None, 1), (2, "2024-01-01", 1), (3, "2024-01-01", 1), NEWEST, UNORDERED),
    ("equal times, nothing disputed", (1, None, 1), (2, None, 1), (1, None, 2), NEWEST, (2, None, 2)),
    ("no base, refuse", None, (1, 0, 1), (1, 0, 2), REFUSE, BOTH),
    ("no base, mine", None, (1, 0, 1), (2, 0, 2), MINE, (1, 0, 1)),
    ("no base, theirs", None, (1, 0, 1), (2, 0, 2), THEIRS, (2, 0, 2)),
    ("no base, newest", None, (1, "2024-01-01", 1), (2, "2024-01-02", 2), NEWEST, (2, "2024-01-02", 2)),
    ("no base, equal times", None, (1, "2024-01-01", 1), (2, "2024-01-01", 2), NEWEST, UNORDERED),
    ("deleted here, changed there, refuse", (1, 0, 1), None, (1, 0, 2), REFUSE, HERE),
    ("deleted here, changed there, mine", (1, 0, 1), None, (1, 0, 2), MINE, None),
    ("deleted here, changed there, theirs", (1, 0, 1), None, (1, 0, 2), THEIRS, (1, 0, 2)),
    ("deleted here, changed there, newest", (1, 0, 1), None, (1, "2024-01-02", 2), NEWEST, HERE),
    ("changed here, deleted there, refuse", (1, 0, 1), (1, 0, 2), None, REFUSE, THERE),
    ("changed here, deleted there, newest", (1, 0, 1), (1, "2024-01-02", 2), None, NEWEST, THERE),
    ("deleted here, untouched there", (1, 0, 1), None, (1, 0, 1), REFUSE, None),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_the_case_matrix(case: tuple[str, Values, Values, Values, Rule, Values | ConflictKind]) -> None:
    """Every way in which two ends can have changed a row comes out as the table declares it."""
    _, base, mine, theirs, otherwise, expected = case
    found = merged(base, mine, theirs, otherwise)
    if isinstance(expected, ConflictKind):
        assert isinstance(found, Conflict)
        assert found.kind is expected
    else:
        assert found == row(expected)


@pytest.mark.parametrize(("otherwise", "kind"), [(REFUSE, BOTH), (NEWEST, UNORDERED)])
def test_a_conflict_names_the_disputed_columns_alone(otherwise: Rule, kind: ConflictKind) -> None:
    """What both changed alike and what one end changed is not in dispute and not named; values never are."""
    found = merged(("x1", 7, "y1"), ("x2", 7, "y2"), ("x3", 7, "y3"), otherwise)
    assert isinstance(found, Conflict)
    assert found.kind is kind
    assert "the columns a, b" in found.why
    assert "VIBEY_STATE_CONFLICTS=t=mine" in found.advice
    single = merged((1, 7, 1), (2, 7, 2), (3, 7, 1), otherwise)
    assert isinstance(single, Conflict)
    assert "the column a " in single.why


def test_a_column_that_the_base_lacks_is_disputed_where_it_differs() -> None:
    """A base without the column says nothing of it: equal at both ends it stands, different it is a conflict."""
    table = Table("t", ("id",), ("id", "n", "v"), Rule.COLUMNS)
    base = encode({"id": 1, "v": 1})
    here, there = encode({"id": 1, "n": None, "v": 2}), encode({"id": 1, "n": None, "v": 1})
    assert settle(table, b"[1]", base, here, there) == here
    found = settle(table, b"[1]", base, here, encode({"id": 1, "n": 1, "v": 1}))
    assert isinstance(found, Conflict)
    assert "the column n " in found.why


def test_names_and_numbers_of_any_form_stay_canonical() -> None:
    """The composed row is the canonical text that the encoder itself would write."""
    names = ["", '"', "\\", "é", "\x7f", "🎉", "a\nb", "\uffff"]
    base = dict.fromkeys(names, 0)
    here = {**base, "é": Decimal("1" + "0" * 5000)}
    there = {**base, "🎉": Decimal("1.50"), '"': [{"b": None, "a": "ü"}]}
    table = Table("t", ("",), tuple(sorted(names)), Rule.COLUMNS)
    assert settle(table, b"[0]", encode(base), encode(here), encode(there)) == encode(
        {**there, "é": Decimal("1" + "0" * 5000)}
    )


def test_columns_are_declared_never_overridden_in() -> None:
    """VIBEY_STATE_CONFLICTS may name columns only where the file does, and may put another rule in its place."""
    plain, declared = Table("t", ("id",), ("id",)), Table("t", ("id",), ("id",), Rule.COLUMNS, otherwise=THEIRS)
    with pytest.raises(SettingError, match="does not declare"):
        Declaration({"t": plain}).with_overrides({"t": Rule.COLUMNS})
    assert Declaration({"t": declared}).with_overrides({"t": Rule.COLUMNS}).tables["t"] == declared
    assert Declaration({"t": declared}).with_overrides({"t": MINE}).tables["t"].rule is MINE


def test_what_a_table_cannot_declare() -> None:
    """Columns stand behind no columns, newest needs its column, and an append-only table takes no rule."""
    with pytest.raises(SettingError, match="behind columns"):
        Table("t", ("id",), ("id",), Rule.COLUMNS, otherwise=Rule.COLUMNS)
    with pytest.raises(SettingError, match="no column to compare"):
        Table("t", ("id",), ("id",), Rule.COLUMNS, otherwise=NEWEST)
    with pytest.raises(SettingError, match="append-only"):
        Table("t", ("id",), ("id",), Rule.COLUMNS, append_only=True)
