"""Which columns have to be carried as their type's text output, and which keys folded, so that rows are exact.

Format 1 carries what to_jsonb gives, and that loses some values: the JSON null, minus zero, the bounds of an array, the
text of json, whatever a cast to json of the type's own leaves out (docs/format.md, "Exact rows"). Under a profile
such values are refused (`faithful`); any other database carries these columns as text, and its document says so. And
where equal values of a type have different texts, as key they are one row's: the document says that too.
"""

from __future__ import annotations

from dataclasses import replace

from vibey_actions.postgres.tables import Carriage, Column
from vibey_actions.state.identity import Fold

_LOSSY_NUMBERS = ("real", "double precision")
# By base type: numeric(p,s) and character(n) have one text per value, so only those without a modifier are here.
_FOLDS = {"numeric": Fold.SCALE, "bpchar": Fold.PADDING, "real": Fold.SIGN, "double precision": Fold.SIGN}


def exact(column: Column) -> Column:
    """The column as an exact row carries it."""
    if column.generated:
        return column
    lossy = column.carriage is not Carriage.TEXT or column.base_type in _LOSSY_NUMBERS
    carried = replace(column, carriage=Carriage.TEXT, serialized=True) if lossy else column
    return replace(carried, fold=_FOLDS.get(column.base_type))
