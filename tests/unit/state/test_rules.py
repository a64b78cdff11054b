"""What becomes of one row: names in words, base, mine, theirs, the rule, and what comes out."""

from __future__ import annotations

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.rows.canonical import encode
from vibey_actions.state.declaration import Declaration, Rule, Table
from vibey_actions.state.report import Conflict, ConflictKind, Counts, Report, SyncState
from vibey_actions.state.rules import Row, settle

NEWEST, MINE, THEIRS, REFUSE = Rule.NEWEST, Rule.MINE, Rule.THEIRS, Rule.REFUSE
BOTH, HERE, THERE = ConflictKind.BOTH_CHANGED, ConflictKind.DELETED_HERE, ConflictKind.DELETED_THERE
UNORDERED, DIVERGED = ConflictKind.UNORDERED_TIMES, ConflictKind.DIVERGENCE


def row(value: str, at: object = "2024-01-01T00:00:00+00:00") -> bytes:
    return encode({"at": at, "id": 1, "v": value})


A, B, C = row("a"), row("b"), row("c")
OLD, NEW = row("old", "2024-01-01T00:00:00+00:00"), row("new", "2024-01-02T00:00:00+00:00")
NONE = None

ALWAYS: list[tuple[str, Row, Row, Row, Row]] = [
    ("nobody has it", NONE, NONE, NONE, NONE),
    ("nobody changed it", A, A, A, A),
    ("only here changed", A, B, A, B),
    ("only there changed", A, A, B, B),
    ("both changed it alike", A, B, B, B),
    ("only here deleted", A, NONE, A, NONE),
    ("only there deleted", A, A, NONE, NONE),
    ("both deleted it", A, NONE, NONE, NONE),
    ("only here inserted", NONE, A, NONE, A),
    ("only there inserted", NONE, NONE, A, A),
    ("both inserted it alike", NONE, A, A, A),
]


@pytest.mark.parametrize("rule", Rule)
@pytest.mark.parametrize("case", ALWAYS, ids=[case[0] for case in ALWAYS])
def test_no_rule_is_asked(rule: Rule, case: tuple[str, Row, Row, Row, Row]) -> None:
    """Where only one end changed the row, or both did alike, that stands whatever the rule."""
    _, base, mine, theirs, merged = case
    table = Table("t", ("id",), ("at", "id", "v"), rule, newest_by="at")
    assert settle(table, b"[1]", base, mine, theirs) == merged


BY_RULE: list[tuple[str, Row, Row, Row, Rule, Row | ConflictKind]] = [
    ("both changed", A, B, C, REFUSE, BOTH),
    ("both changed, mine", A, B, C, MINE, B),
    ("both changed, theirs", A, B, C, THEIRS, C),
    ("both inserted", NONE, B, C, REFUSE, BOTH),
    ("both inserted, mine", NONE, B, C, MINE, B),
    ("both inserted, theirs", NONE, B, C, THEIRS, C),
    ("deleted here, changed there", A, NONE, C, REFUSE, HERE),
    ("deleted here, changed there, mine", A, NONE, C, MINE, NONE),
    ("deleted here, changed there, theirs", A, NONE, C, THEIRS, C),
    ("deleted here, changed there, newest", A, NONE, NEW, NEWEST, HERE),
    ("changed here, deleted there", A, B, NONE, REFUSE, THERE),
    ("changed here, deleted there, mine", A, B, NONE, MINE, B),
    ("changed here, deleted there, theirs", A, B, NONE, THEIRS, NONE),
    ("changed here, deleted there, newest", A, NEW, NONE, NEWEST, THERE),
    ("re-inserted here with other values, changed there", A, B, C, REFUSE, BOTH),
    ("newest is mine", A, NEW, OLD, NEWEST, NEW),
    ("newest is theirs", A, OLD, NEW, NEWEST, NEW),
    ("newest without a base", NONE, OLD, NEW, NEWEST, NEW),
    ("newest, the base is newer than both", row("a", "2099-01-01T00:00:00+00:00"), OLD, NEW, NEWEST, NEW),
    ("equal times", A, B, C, NEWEST, UNORDERED),
    ("a missing time here", A, row("b", None), OLD, NEWEST, OLD),
    ("a missing time there", A, OLD, row("b", None), NEWEST, OLD),
    ("two missing times", A, row("b", None), row("c", None), NEWEST, UNORDERED),
    ("with an offset against without", A, row("b", "2024-01-01T00:00:00"), NEW, NEWEST, UNORDERED),
    ("no time here", A, row("b", "soon"), NEW, NEWEST, UNORDERED),
    ("no time there", A, NEW, row("b", 5), NEWEST, UNORDERED),
    ("infinity", A, row("b", "infinity"), row("c", "294276-12-31T00:00:00+00:00"), NEWEST, row("b", "infinity")),
    ("BC", A, row("b", "0044-03-15T00:00:00+00:00 BC"), OLD, NEWEST, OLD),
]


@pytest.mark.parametrize("case", BY_RULE, ids=[case[0] for case in BY_RULE])
def test_the_rule_settles(case: tuple[str, Row, Row, Row, Rule, Row | ConflictKind]) -> None:
    """A row both ends changed differently goes by its table's rule; what no rule settles is a conflict."""
    _, base, mine, theirs, rule, expected = case
    table = Table("t", ("id",), ("at", "id", "v"), rule, newest_by="at")
    merged = settle(table, b"[1]", base, mine, theirs)
    assert (merged.kind if isinstance(merged, Conflict) else merged) == expected


LEDGER: list[tuple[str, Row, Row, Row, Row | str]] = [
    ("unchanged", A, A, A, A),
    ("appended here", NONE, A, NONE, A),
    ("appended there", NONE, NONE, A, A),
    ("the same appended at both", NONE, A, A, A),
    ("different appended under one key", NONE, A, B, "hold different rows under one key"),
    ("changed here", A, B, A, "changed here since"),
    ("changed there", A, A, B, "changed on the branch since"),
    ("changed alike at both", A, B, B, "changed here and changed on the branch since"),
    ("changed differently", A, B, C, "changed here and changed on the branch since"),
    ("removed here", A, NONE, A, "removed here since"),
    ("removed there", A, A, NONE, "removed on the branch since"),
    ("removed at both", A, NONE, NONE, "removed here and removed on the branch since"),
    ("removed here, changed there", A, NONE, B, "removed here and changed on the branch since"),
    ("changed here, removed there", A, B, NONE, "changed here and removed on the branch since"),
]


@pytest.mark.parametrize("case", LEDGER, ids=[case[0] for case in LEDGER])
def test_append_only(case: tuple[str, Row, Row, Row, Row | str]) -> None:
    """A row of the ledger that was changed or removed, or two under one key, is divergence; only new rows merge."""
    _, base, mine, theirs, expected = case
    merged = settle(Table("t", ("id",), ("at", "id", "v"), append_only=True), b"[1]", base, mine, theirs)
    if isinstance(expected, str):
        assert isinstance(merged, Conflict)
        assert merged.kind is DIVERGED
        assert expected in merged.why
        assert "VIBEY_STATE_CONFLICTS" not in merged.advice
    else:
        assert merged == expected


def test_a_conflict_names_the_row_and_the_way_out() -> None:
    """Table, key and what to do are there; values of the row are not."""
    table = Table("order", ("id",), ("at", "id", "v"), NEWEST, newest_by="at")
    secret, other = row("the secret value"), row("another secret")
    for mine, theirs in ((secret, other), (None, other), (secret, None)):
        found = settle(table, b'["\\u00e4",1]', A, mine, theirs)
        assert isinstance(found, Conflict)
        assert (found.table, found.key) == ("order", '["\\u00e4",1]')
        assert "VIBEY_STATE_CONFLICTS=order=mine" in found.advice
        assert "secret" not in repr(found)


def test_a_table_refuses_rules_it_cannot_have() -> None:
    """An append-only table has no rule, and newest needs a column to compare."""
    for rule in (NEWEST, MINE, THEIRS):
        with pytest.raises(SettingError, match="append-only"):
            Table("t", ("id",), ("id",), rule, newest_by="at", append_only=True)
    with pytest.raises(SettingError, match="no column"):
        Table("t", ("id",), ("id",), NEWEST)


def test_overrides() -> None:
    """VIBEY_STATE_CONFLICTS gives a table another rule, and nothing that its declaration does not allow."""
    tables = {
        "a": Table("a", ("id",), ("id",)),
        "b": Table("b", ("id",), ("id",), NEWEST, newest_by="at"),
        "ledger": Table("ledger", ("id",), ("id",), append_only=True),
    }
    declaration = Declaration(tables)
    changed = declaration.with_overrides({"a": MINE, "b": REFUSE}).tables
    assert [(table.name, table.rule) for table in changed.values()] == [("a", MINE), ("b", REFUSE), ("ledger", REFUSE)]
    assert declaration.tables["a"].rule is REFUSE
    assert declaration.with_overrides({}) == declaration
    for overrides, said in (
        ({"c": MINE}, "the table c, which is not synced"),
        ({"a": NEWEST}, "no column"),
        ({"ledger": REFUSE}, "append-only"),
        ({"ledger": MINE}, "append-only"),
    ):
        with pytest.raises(SettingError, match=said) as caught:
            declaration.with_overrides(overrides)
        assert caught.value.exit_code == 2
        assert caught.value.hint


def test_counts() -> None:
    """A change is an insert, an update or a delete by what was and what is to be."""
    counts = Counts()
    for before, after in ((None, A), (None, b""), (A, B), (A, None), (b"", None), (B, None)):
        counts.count(before, after)
    assert (counts.inserted, counts.updated, counts.deleted, counts.total) == (2, 1, 3, 6)


def test_a_report_adds_up() -> None:
    """What is to pull and to push is the sum over the tables."""
    report = Report(
        SyncState.BOTH_CHANGED, "r", None, 1, {"a": Counts(1, 2, 3), "b": Counts(0, 1, 0)}, {"a": Counts(0, 0, 4)}
    )
    assert (report.to_pull, report.to_push) == (7, 4)
