"""The merge rule of documents: what stands of two rows that both changed."""

from __future__ import annotations

from typing import Any

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.rows.canonical import encode
from vibey_actions.state.declaration import Declaration, Rule, Table, undeclared
from vibey_actions.state.lanes import COLUMNS, KEY, Endings, Kind
from vibey_actions.state.rules import Row, settle

ENDINGS: Endings = {
    Kind("jobs", "type", "job"): frozenset({"done", "failed"}),
    Kind("requests", "kind", "mention"): frozenset({"replied", "error"}),
}
TABLE = Table("document", KEY, COLUMNS, endings=ENDINGS)


def row(status: object, who: str = "", *, db: str = "jobs", exact: bool = True, **content: Any) -> bytes:
    document = {"type": "job", "status": status, "who": who, **content}
    doc: object = encode(document).decode() if exact else document
    values = {"changed_at": "2026-01-01T00:00:00+00:00", "db": db, "deleted": False, "doc": doc, "id": "1", "rev": who}
    return encode(values)


TOMBSTONE = encode({"changed_at": "x", "db": "jobs", "deleted": True, "doc": None, "id": "1", "rev": "9-x"})
PENDING, MINE, THEIRS = row("pending"), row("running", "mine"), row("running", "theirs")
DONE, FAILED = row("done", "mine"), row("failed", "theirs")
HELD, ENDED = row("running", "mine", claimId="c1"), row("done", "mine", claimId="c1")
TAKEN, PENDING_ANEW = row("running", "theirs", claimId="c2"), row("pending", "theirs", attempts=1)
CLEARED = row("done", "mine", lastClaimId="c1")
RETAKEN = row("pending", "theirs", claimId="c2", lastClaimId="c1")
ANEW = row("done", "mine", claimId="c3", lastClaimId="c2")
TRIED, BROUGHT_ON = row("pending", "theirs", lastClaimId="c2"), row("half", "theirs", lastClaimId="c2")
BEFORE = row("running", "mine", claimId="c1", lastClaimId="c2")
RENEWED, BUILT = row("running", "mine", claimId="c1", leaseUntil=2), row("built", "theirs", claimId="c1")
NAMELESS = row("running", claimId={"a": 1})
LATE = row("failed", "mine", claimId="c1", attempts=2, lastError="no", earlierAttempts=1)
LATE_DONE = row("done", "mine", claimId="c1", attempts=2, earlierAttempts=1)
RETRIED, RETRIED_BEFORE = row("pending", "op", attempts=0, earlierAttempts=3), row("pending", attempts=0)
OLD_LATE = row("failed", "mine", claimId="c1", attempts=2, lastError="no")
RETRIED_AND_SWEPT = row("pending", "op", attempts=2, earlierAttempts=3)
SWEPT = row("pending", "theirs", attempts=2, earlierAttempts=1)
ABSURD = row("pending", "theirs", attempts="many", earlierAttempts=1)

CASES: list[tuple[str, Row, Row, Row, Row]] = [
    ("only here claimed", PENDING, MINE, PENDING, MINE),
    ("only there claimed", PENDING, PENDING, THEIRS, THEIRS),
    ("both claimed: it was there first", PENDING, MINE, THEIRS, THEIRS),
    ("both made it", None, MINE, THEIRS, THEIRS),
    ("ended here, claimed there", PENDING, DONE, THEIRS, DONE),
    ("claimed here, ended there", PENDING, MINE, FAILED, FAILED),
    ("ended at both ends", PENDING, DONE, FAILED, FAILED),
    ("ended here, released there", MINE, DONE, row("pending", "theirs"), DONE),
    ("sent back here by an operator", FAILED, row("pending", "retried"), FAILED, row("pending", "retried")),
    ("sent back here, ended anew there", FAILED, row("pending", "retried"), DONE, DONE),
    ("deleted here, claimed there", PENDING, TOMBSTONE, THEIRS, THEIRS),
    ("claimed here, deleted there", PENDING, MINE, TOMBSTONE, TOMBSTONE),
    ("ended here, deleted there", MINE, DONE, TOMBSTONE, TOMBSTONE),
    ("removed here, claimed there", PENDING, None, THEIRS, THEIRS),
    ("claimed here, removed there", PENDING, MINE, None, None),
    ("ended here, removed there", MINE, DONE, None, DONE),
    ("its lease was taken back there", HELD, ENDED, PENDING_ANEW, ENDED),
    ("its lease was renewed there", HELD, ENDED, RENEWED, ENDED),
    ("its lease was lost there", HELD, ENDED, TAKEN, TAKEN),
    ("it failed under a lease that was lost there", HELD, row("failed", "mine", claimId="c1"), TAKEN, TAKEN),
    ("its claim never was there", PENDING, ENDED, TAKEN, TAKEN),
    ("no base, and another has it there", None, ENDED, TAKEN, TAKEN),
    ("ended in place, still claimed there", HELD, CLEARED, row("pending", "theirs", claimId="c1"), CLEARED),
    ("ended in place, lost there", HELD, CLEARED, RETAKEN, RETAKEN),
    ("claimed anew and ended here, lost there", HELD, ANEW, TAKEN, TAKEN),
    ("ended here, tried there by another as well", HELD, ENDED, TRIED, TRIED),
    ("ended in place, brought on there by another", HELD, CLEARED, BROUGHT_ON, BROUGHT_ON),
    ("ended here, taken back there after an earlier try", BEFORE, ENDED, TRIED, ENDED),
    ("no base, and taken back there after an earlier try", None, CLEARED, row("pending", lastClaimId="c1"), CLEARED),
    ("swept here, renewed there", HELD, row("failed", "mine"), RENEWED, RENEWED),
    ("swept here, went on there", HELD, row("failed", "mine"), BUILT, BUILT),
    ("failed unclaimed here, claimed there", PENDING, row("failed", "mine"), TAKEN, TAKEN),
    ("failed late here, sent back there by an operator", HELD, LATE, RETRIED, RETRIED),
    ("failed late here, sent back there by an older version", HELD, OLD_LATE, RETRIED_BEFORE, RETRIED_BEFORE),
    ("failed late here, sent back, claimed and swept there", HELD, LATE, RETRIED_AND_SWEPT, RETRIED_AND_SWEPT),
    ("failed late here, only taken back there", HELD, LATE, SWEPT, LATE),
    ("failed late here, with attempts there that are no count", HELD, LATE, ABSURD, LATE),
    ("done late here, sent back there by an operator", HELD, LATE_DONE, RETRIED, LATE_DONE),
    ("ended here, claimed there by nobody who is named", HELD, ENDED, row("running", "theirs", claimId=""), ENDED),
    ("ended here, claimed there by what is no name", HELD, ENDED, NAMELESS, NAMELESS),
]


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_what_stands(case: tuple[str, Row, Row, Row, Row]) -> None:
    """An end beats any status but a claim of another's, else the branch's row stands; nothing is a conflict."""
    _, base, mine, theirs, merged = case
    assert settle(TABLE, b"[1]", base, mine, theirs) == merged


def test_rows_that_are_not_exact_are_read_too() -> None:
    """A document that is carried as JSON, not as its text, has its end seen."""
    done = row("done", exact=False)
    assert settle(TABLE, b"[1]", None, done, row("running", exact=False)) == done


@pytest.mark.parametrize(
    "mine",
    [
        row("done", db="other"),
        row("done", type="note"),
        row("replied"),
        row(["done"]),
        row(None),
        encode({"db": "jobs", "doc": "no JSON", "id": "1"}),
        encode({"db": "jobs", "doc": "[]", "id": "1"}),
    ],
    ids=["other database", "other kind", "another machine's end", "a list", "null", "no JSON", "no object"],
)
def test_what_is_no_end_gives_way(mine: bytes) -> None:
    """Only an end of the machine that the document belongs to counts; anything else is as good as any status."""
    assert settle(TABLE, b"[1]", None, mine, THEIRS) == THEIRS


def test_each_kind_has_its_own_ends() -> None:
    """built is no end of a mention, replied is."""
    built, replied = (row(status, db="requests", kind="mention", type=None) for status in ("built", "replied"))
    assert settle(TABLE, b"[1]", None, built, replied) == replied
    assert settle(TABLE, b"[1]", None, replied, built) == replied
    assert settle(TABLE, b"[1]", None, built, THEIRS) == THEIRS


def test_the_table_is_known_by_its_columns_and_key() -> None:
    """Another table that is called document keeps its own rule, and the machines are not asked for."""
    asked: list[int] = []

    def endings() -> Endings:
        asked.append(1)
        return ENDINGS

    others = (
        Table("document", ("id",), COLUMNS),
        Table("document", KEY, ("db", "id", "title")),
        Table("documents", KEY, COLUMNS),
    )
    for other in others:
        assert Declaration({other.name: other}).with_documents(endings).tables[other.name].endings is None
    assert not asked
    found = Declaration({"document": Table("document", KEY, COLUMNS)}).with_documents(endings)
    assert found.tables["document"].endings == ENDINGS


@pytest.mark.parametrize("ruled", [{"rule": Rule.MINE}, {"append_only": True}], ids=["a rule", "append-only"])
def test_no_other_rule_is_taken(ruled: dict[str, Any]) -> None:
    """A rule of the configuration or the environment for this table is refused, not ignored."""
    with pytest.raises(SettingError) as caught:
        Declaration({"document": Table("document", KEY, COLUMNS, **ruled)}).with_documents(lambda: ENDINGS)
    assert "document" in caught.value.message
    assert "documents = false" in caught.value.hint


def test_a_database_without_the_table_is_told_how_to_get_it() -> None:
    """The refusal of a branch with documents names the key that has migrate make their table."""
    assert "documents = true" in undeclared("document").hint
    assert "documents = true" not in undeclared("other").hint
