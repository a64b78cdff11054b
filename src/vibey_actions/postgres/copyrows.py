"""A row's values as a line of COPY input."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from vibey_actions.errors import SchemaMismatch
from vibey_actions.postgres.tables import Carriage, Column
from vibey_actions.rows.canonical import encode

Field = Callable[[Any], str]

_NULL = "\\N"


def line_of(table: str, columns: Sequence[Column]) -> Callable[[Mapping[str, Any]], str]:
    """A function that writes a row's ``columns`` as one line of COPY's text format, its end included.

    The function raises SchemaMismatch where a value is not of a form that the column's type has.
    """
    fields = [(column.name, _field(table, column)) for column in columns]

    def line(row: Mapping[str, Any]) -> str:
        return "\t".join([field(row[name]) for name, field in fields]) + "\n"

    return line


def escaped(text: str) -> str:
    """Text as COPY's text format writes it."""
    if "\\" in text:
        text = text.replace("\\", "\\\\")
    if "\n" in text:
        text = text.replace("\n", "\\n")
    if "\t" in text:
        text = text.replace("\t", "\\t")
    if "\r" in text:
        text = text.replace("\r", "\\r")
    return text


def _field(table: str, column: Column) -> Field:
    return _json_field if column.carriage is not Carriage.TEXT else _scalar_field(table, column.name)


def _json_field(value: Any) -> str:
    return _NULL if value is None else encode(value).decode("ascii").replace("\\", "\\\\")


def _scalar_field(table: str, column: str) -> Field:
    def field(value: Any) -> str:
        if value is None:
            return _NULL
        if isinstance(value, str):
            return escaped(value)
        if isinstance(value, bool):
            return "t" if value else "f"
        if isinstance(value, (int, Decimal)):
            return str(value)
        raise SchemaMismatch(
            f"table {table}: the state holds a list or an object for the column {column}, whose type takes neither",
            "bring both ends to the same schema (`vibey-actions migrate`), then sync",
        )

    return field
