"""A row's values as a line of COPY input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from vibey_actions.errors import SchemaMismatch
from vibey_actions.postgres.tables import Carriage, Column
from vibey_actions.rows.canonical import json_lines

_NULL = "\\N"


def lines_of(table: str, columns: Sequence[Column]) -> Callable[[Sequence[Mapping[str, Any]]], list[str]]:
    """A function that writes rows' ``columns`` as lines of COPY's text format, without the line's end.

    It works column by column, which is several times faster than row by row. It raises SchemaMismatch where a value is
    not of a form that the column's type has.
    """
    fields = [(column.name, _json if column.carriage is not Carriage.TEXT else _scalars) for column in columns]

    def lines(rows: Sequence[Mapping[str, Any]]) -> list[str]:
        try:
            written = [fields_of([row[name] for row in rows]) for name, fields_of in fields]
        except _NotScalarError:
            raise _no_scalar(table, columns, rows) from None
        return ["\t".join(parts) for parts in zip(*written, strict=True)]

    return lines


class _NotScalarError(Exception):
    pass


def escaped(text: str) -> str:
    """Text as COPY's text format writes it."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if not text.isprintable():
        text = text.replace("\n", "\\n").replace("\t", "\\t").replace("\r", "\\r")
    return text


def _json(values: list[Any]) -> list[str]:
    texts = json_lines(values).replace("\\", "\\\\").split("\n")
    return [_NULL if value is None else text for value, text in zip(values, texts, strict=True)]


def _scalars(values: list[Any]) -> list[str]:
    kinds = set(map(type, values))
    if kinds == {str}:
        joined = "".join(values)
        needs_none = "\\" not in joined and joined.isprintable()
        return values if needs_none else list(map(escaped, values))
    if kinds <= {int, Decimal}:
        return list(map(str, values))
    if kinds == {type(None)}:
        return [_NULL] * len(values)
    return list(map(_scalar, values))


def _scalar(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, bool):
        return "t" if value else "f"
    if isinstance(value, (int, Decimal)):
        return str(value)
    raise _NotScalarError


def _no_scalar(table: str, columns: Sequence[Column], rows: Sequence[Mapping[str, Any]]) -> SchemaMismatch:
    names = [c.name for c in columns if any(isinstance(row[c.name], (list, dict)) for row in rows)]
    return SchemaMismatch(
        f"table {table}: the state holds a list or an object for {', '.join(names)}, whose type takes neither",
        "bring both ends to the same schema (`vibey-actions migrate`), then sync",
    )
