"""The rows of a table as they are to be, as FROM items: those that stay as they are, and those that come.

Both stand under the table's own name and with all its columns, so that what the catalog prints of an index or a check
constraint means the same over them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vibey_actions.postgres.expressions import key_text, target
from vibey_actions.postgres.sql import identifier
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.tables import PgTable


@dataclass(frozen=True, slots=True)
class FinalRows:
    """Of one staged table. ``generated`` holds its generated columns and what they are computed from."""

    stage: Stage
    generated: Sequence[tuple[str, str]] = ()

    @property
    def table(self) -> PgTable:
        return self.stage.table

    @property
    def own(self) -> str:
        """The alias under which either item stands: the table's name."""
        return identifier(self.table.relname)

    @property
    def key(self) -> str:
        """The column of ``coming`` that holds the key's text."""
        return identifier(_unlike("vibey key", self.table))

    @property
    def number(self) -> str:
        """The column of ``coming`` that holds the number of the staged row."""
        return identifier(_unlike("vibey number", self.table))

    @property
    def operation(self) -> str:
        """The column of ``coming`` that holds the operation: i or u."""
        return identifier(_unlike("vibey operation", self.table))

    def beside(self, alias: str) -> str:
        """``alias``, or another one where the table itself is called that."""
        return f"{alias}_" if self.table.relname == alias else alias

    def here(self) -> str:
        """The rows that are in the table now."""
        return f"{target(self.table)} AS {self.own}"

    def stays(self) -> str:
        """The condition that a row of ``here`` is neither changed nor deleted."""
        held = self.beside("held")
        return (
            f"NOT EXISTS (SELECT FROM {self.stage.name} {held}"
            f" WHERE {held}.op <> 'i' AND {self.stage.match(self.own, held)})"
        )

    def key_here(self) -> str:
        """The key's text of a row of ``here``."""
        return key_text(self.table, self.own)

    def coming(self) -> str:
        """The rows that are inserted or changed, with ``key``, ``number`` and ``operation``."""
        values = ", ".join(
            f"CAST({self.stage.value(column.name, 's')} AS {column.type}) AS {identifier(column.name)}"
            for column in self.table.carried
        )
        item = (
            f"(SELECT s.k AS {self.key}, s.n AS {self.number}, s.op AS {self.operation}, {values}"
            f" FROM {self.stage.name} s WHERE s.op <> 'd') AS {self.own}"
        )
        if self.generated:
            computed = ", ".join(f"({expression}) AS {identifier(name)}" for name, expression in self.generated)
            item = f"(SELECT {self.own}.*, {computed} FROM {item}) AS {self.own}"
        return item


def _unlike(name: str, table: PgTable) -> str:
    """``name``, longer where a column of the table is called that."""
    names = {column.name for column in table.columns}
    while name in names:
        name += "_"
    return name
