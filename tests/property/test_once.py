"""What lets an export be recognised on the branch: a merge that is made again behind itself changes nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.property.settings import bounded
from vibey_actions.rows.canonical import encode
from vibey_actions.state.declaration import Rule, Table
from vibey_actions.state.lanes import COLUMNS, KEY, Kind
from vibey_actions.state.report import Conflict
from vibey_actions.state.rules import Row, settle

TIMES = [None, *(f"2024-01-0{day}T00:00:00+00:00" for day in range(1, 4))]
rows = st.none() | st.builds(
    lambda at, v, w: encode({"at": at, "id": 1, "v": v, "w": w}),
    st.sampled_from(TIMES),
    st.sampled_from("xyz"),
    st.sampled_from("xyz"),
)
documents = st.none() | st.builds(
    lambda status, who: encode({"db": "jobs", "doc": {"type": "job", "status": status}, "id": "1", "rev": who}),
    st.sampled_from(["pending", "running", "done", "failed"]),
    st.sampled_from("xyz"),
)
RULES = [(rule, Rule.REFUSE) for rule in Rule] + [(Rule.COLUMNS, rule) for rule in Rule if rule is not Rule.COLUMNS]


@bounded(1500)
@given(st.sampled_from(RULES), rows, rows, rows)
def test_a_merge_made_again_changes_nothing(rules: tuple[Rule, Rule], base: Row, mine: Row, theirs: Row) -> None:
    """Whatever rule settled a row, the same export against the merged row gives that row again, or says it cannot tell.

    It cannot where a column's own rule needs times that the merge itself made equal; it never gives another row.
    """
    rule, otherwise = rules
    table = Table("t", ("id",), ("at", "id", "v", "w"), rule, newest_by="at", otherwise=otherwise)
    merged = mine if mine == theirs else settle(table, b"[1]", base, mine, theirs)
    if isinstance(merged, Conflict):
        return
    again = mine if mine == merged else settle(table, b"[1]", base, mine, merged)
    assert again == merged or (rules == (Rule.COLUMNS, Rule.NEWEST) and isinstance(again, Conflict))


@bounded(300)
@given(rows, rows, rows)
def test_an_append_only_row_too(base: Row, mine: Row, theirs: Row) -> None:
    """Rows of an append-only table, where nothing is ever settled."""
    table = Table("t", ("id",), ("at", "id", "v", "w"), append_only=True)
    merged = mine if mine == theirs == base else settle(table, b"[1]", base, mine, theirs)
    if not isinstance(merged, Conflict):
        again = mine if mine == merged == base else settle(table, b"[1]", base, mine, merged)
        assert again == merged


@bounded(300)
@given(documents, documents, documents)
def test_a_document_too(base: Row, mine: Row, theirs: Row) -> None:
    """Documents of lanes, whose rule needs no more than the two rows; and they are never in conflict."""
    table = Table("document", KEY, COLUMNS, endings={Kind("jobs", "type", "job"): frozenset({"done", "failed"})})
    merged = mine if mine == theirs else settle(table, b"[1]", base, mine, theirs)
    assert not isinstance(merged, Conflict)
    assert (mine if mine == merged else settle(table, b"[1]", base, mine, merged)) == merged
