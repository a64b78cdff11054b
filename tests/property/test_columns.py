"""Column by column, whatever the rows hold: each column of the merged row is what its own history says."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.property.settings import bounded
from tests.property.test_canonical import values
from vibey_actions.rows.canonical import decode, encode, members
from vibey_actions.state.declaration import Rule, Table
from vibey_actions.state.report import Conflict
from vibey_actions.state.rules import settle

NAMES = ["a", "b", "é", '"']
SECOND = [Rule.MINE, Rule.THEIRS, Rule.REFUSE]


@st.composite
def three_rows(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """A base and two ends, each column of them one of a few values."""
    few = draw(st.lists(values, min_size=2, max_size=3))
    one = st.fixed_dictionaries({"id": st.just(1), **{name: st.sampled_from(few) for name in NAMES}})
    return draw(one), draw(one), draw(one)


@bounded(200)
@given(three_rows(), st.sampled_from(SECOND))
def test_every_column_follows_its_own_history(
    rows: tuple[dict[str, Any], dict[str, Any], dict[str, Any]], otherwise: Rule
) -> None:
    """One end's change is taken, equal changes stand, and only different ones are left to the second rule."""
    table = Table("t", ("id",), tuple(sorted(["id", *NAMES])), Rule.COLUMNS, otherwise=otherwise)
    base, mine, theirs = map(encode, rows)
    found = settle(table, b"[1]", base, mine, theirs)
    texts = [{name: encode(value) for name, value in row.items()} for row in rows]
    disputed = [name for name in NAMES if len({text[name] for text in texts}) == 3]
    if isinstance(found, Conflict):
        assert disputed
        assert otherwise is Rule.REFUSE
        return
    assert found is not None
    assert found == encode(decode(found))
    for name, value in members(found).items():
        at_base, here, there = (text[name] for text in texts)
        expected = there if here == at_base else here
        assert value == (there if name in disputed and otherwise is Rule.THEIRS else expected)


@bounded(100)
@given(three_rows(), st.sampled_from(SECOND))
def test_both_ends_come_to_the_same_row(
    rows: tuple[dict[str, Any], dict[str, Any], dict[str, Any]], otherwise: Rule
) -> None:
    """Seen from the other end, with the rules mine and theirs changed about, the row is the same one."""
    mirrored = {Rule.MINE: Rule.THEIRS, Rule.THEIRS: Rule.MINE}.get(otherwise, otherwise)
    columns = tuple(sorted(["id", *NAMES]))
    here, there = (Table("t", ("id",), columns, Rule.COLUMNS, otherwise=rule) for rule in (otherwise, mirrored))
    base, mine, theirs = map(encode, rows)
    one, other = settle(here, b"[1]", base, mine, theirs), settle(there, b"[1]", base, theirs, mine)
    assert one == other or (isinstance(one, Conflict) and isinstance(other, Conflict))
