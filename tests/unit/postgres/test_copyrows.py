"""Rows as lines of COPY's text format."""

from __future__ import annotations

from decimal import Decimal

import pytest

from vibey_actions.errors import SchemaMismatch
from vibey_actions.postgres.copyrows import lines_of
from vibey_actions.postgres.tables import Carriage, Column


def column(name: str, carriage: Carriage) -> Column:
    kind = "jsonb" if carriage is Carriage.JSON else "text"
    return Column(name=name, type=kind, base_type=kind, carriage=carriage, not_null=False)


COLUMNS = [column("b", Carriage.TEXT), column("a", Carriage.JSON)]


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("plain", "plain"),
        ("", ""),
        ("a\\b", "a\\\\b"),
        ("a\nb", "a\\nb"),
        ("a\tb", "a\\tb"),
        ("a\rb", "a\\rb"),
        ("\\N", "\\\\N"),
        ("\\.", "\\\\."),
        ("\x01\x7f\x85\u2028é😀", "\x01\x7f\x85\u2028é😀"),
        (None, "\\N"),
        (True, "t"),
        (False, "f"),
        (7, "7"),
        (Decimal("1.500"), "1.500"),
    ],
)
@pytest.mark.parametrize("others", [[], ["plain"], [None], [1]], ids=["alone", "text", "null", "number"])
def test_a_value_is_written_alike_whatever_stands_beside_it(text: object, field: str, others: list[object]) -> None:
    """Only what COPY gives a meaning is escaped, beside values that need nothing and those of other kinds."""
    rows = [{"b": value} for value in [*others, text, *others]]
    assert lines_of("t", COLUMNS[:1])(rows)[len(others)] == field


def test_columns_stand_in_the_order_asked_for() -> None:
    """Whatever the order of a row's members; JSON is one text, its null the column's."""
    rows: list[dict[str, object]] = [{"a": {"k": "x\ty\\"}, "b": "1"}, {"a": None, "b": "2"}]
    assert lines_of("t", COLUMNS)(rows) == ['1\t{"k":"x\\\\ty\\\\\\\\"}', "2\t\\N"]
    assert lines_of("t", COLUMNS)([]) == []


def test_a_list_where_the_type_takes_none_is_refused_by_name() -> None:
    """The table and the column are named."""
    with pytest.raises(SchemaMismatch, match=r"table t: .* for b, whose type"):
        lines_of("t", COLUMNS)([{"a": [1], "b": "x"}, {"a": [1], "b": [1]}])
