"""Which columns have to be carried as their type's text output, so that a row comes back exactly.

Format 1 carries what to_jsonb gives, and that loses some values: the JSON null, minus zero, the bounds of an array, the
text of json, whatever a cast to json of the type's own leaves out (docs/format.md, "Exact rows"). Under a profile
such values are refused (`faithful`); any other database carries these columns as text, and its document says so.
"""

from __future__ import annotations

from dataclasses import replace

from vibey_actions.postgres.tables import Carriage, Column

_LOSSY_NUMBERS = ("real", "double precision")


def exact(column: Column) -> Column:
    """The column as an exact row carries it."""
    lossy = column.carriage is not Carriage.TEXT or column.base_type in _LOSSY_NUMBERS
    return replace(column, carriage=Carriage.TEXT, serialized=True) if lossy and not column.generated else column
