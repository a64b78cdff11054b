"""What a synced table is and which rule settles its conflicts. Pure values, from a profile or a catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from vibey_actions.errors import SettingError, TableRefused
from vibey_actions.state.identity import Fold, Folds
from vibey_actions.state.lanes import COLUMNS, DOCUMENT_TABLE, KEY, Endings, ReadEndings


class Rule(str, Enum):
    """How a row that both ends changed differently is settled."""

    NEWEST = "newest"
    MINE = "mine"
    THEIRS = "theirs"
    REFUSE = "refuse"
    COLUMNS = "columns"
    """Each column by itself; what both ends changed differently goes by the table's ``otherwise``."""


@dataclass(frozen=True, slots=True)
class Table:
    """A synced table as the core sees it.

    ``name`` is the table's name in the document, ``key`` the primary key's columns in declared order, ``columns``
    every carried column (generated ones left out), sorted by code point, which is the order of members in a row.
    ``serialized`` are those of them whose values are the text output of their type, because JSON would lose something.
    ``folds`` are the key's columns whose equal values may have different texts, each with what does not count.
    """

    name: str
    key: tuple[str, ...]
    columns: tuple[str, ...]
    rule: Rule = Rule.REFUSE
    newest_by: str | None = None
    append_only: bool = False
    serialized: tuple[str, ...] = ()
    folds: tuple[tuple[str, Fold], ...] = ()
    otherwise: Rule = Rule.REFUSE
    """For ``Rule.COLUMNS``: what settles a column that both ends changed differently, and a row as a whole."""
    endings: Endings | None = None
    """For the table of documents, which has a rule of its own: the statuses that end one. None for any other table."""

    def __post_init__(self) -> None:
        if self.append_only and self.rule is not Rule.REFUSE:
            raise SettingError(
                f"table {self.name} is append-only and cannot have the conflict rule {self.rule.value}",
                "remove the rule: a row of an append-only table is never settled by one",
            )
        if self.otherwise is Rule.COLUMNS:
            raise SettingError(
                f"table {self.name} has columns as the rule that stands behind columns",
                "use newest, mine, theirs or refuse as otherwise",
            )
        if Rule.NEWEST in (self.rule, self.otherwise) and self.newest_by is None:
            raise SettingError(
                f"table {self.name} has the conflict rule newest but declares no column to compare",
                f'declare it: [tables.{self.name}] newest-by = "updated_at"',
            )


@dataclass(frozen=True, slots=True)
class Declaration:
    """The synced tables by name, in name order."""

    tables: Mapping[str, Table] = field(default_factory=dict)

    @property
    def serialized(self) -> dict[str, tuple[str, ...]]:
        """By table, the columns that are carried as text output; tables without such are left out."""
        return {name: table.serialized for name, table in self.tables.items() if table.serialized}

    @property
    def folds(self) -> Folds:
        """By table, the key's columns whose equal values may have different texts; tables without such are left out."""
        return {name: dict(table.folds) for name, table in self.tables.items() if table.folds}

    def with_overrides(self, overrides: Mapping[str, Rule]) -> Declaration:
        """The declaration with VIBEY_STATE_CONFLICTS applied.

        Raises SettingError for an unknown table, ``newest`` without a declared column, ``columns`` where the table does
        not declare it, or any rule for an append-only table.
        """
        tables = dict(self.tables)
        for name, rule in overrides.items():
            table = tables.get(name)
            if table is None:
                raise SettingError(
                    f"VIBEY_STATE_CONFLICTS names the table {name}, which is not synced",
                    "name a synced table: `vibey-actions state status` lists them",
                )
            if table.append_only:
                raise SettingError(
                    f"VIBEY_STATE_CONFLICTS gives the append-only table {name} a rule",
                    "remove it: a divergence of an append-only table is never settled by a rule",
                )
            if rule is Rule.COLUMNS and table.rule is not Rule.COLUMNS:
                raise SettingError(
                    f"VIBEY_STATE_CONFLICTS gives the table {name} the rule columns, which it does not declare",
                    f'declare it in the configuration file: [tables.{name}] conflict = "columns"',
                )
            tables[name] = replace(table, rule=rule)
        return Declaration(tables)

    def with_documents(self, endings: ReadEndings) -> Declaration:
        """The declaration with the rule of documents for their table, where that is among the tables.

        It is known by its columns and key. ``endings`` is asked only then. Raises SettingError where the table has
        another rule.
        """
        table = self.tables.get(DOCUMENT_TABLE)
        if table is None or table.columns != COLUMNS or table.key != KEY:
            return self
        if table.rule is not Rule.REFUSE or table.append_only:
            raise SettingError(
                f"the table {table.name} holds the documents of lanes and cannot have another rule than theirs",
                "remove its rule: the end of a document beats any status but another worker's claim, else the branch's "
                "row stands. Where it is a table of your own: documents = false in [state]",
            )
        return Declaration({**self.tables, table.name: replace(table, endings=endings())})


def undeclared(name: str, where: str = "the branch") -> TableRefused:
    """The error for a table that ``where`` holds and this database does not sync."""
    forget = f"or take it off the branch on purpose: `vibey-actions state forget-table {name}`"
    mend = f"migrate or configure this database so that {name} is synced, {forget}"
    if name == DOCUMENT_TABLE:
        mend = (
            "if these are the documents of lanes: set documents = true in [state] of .github/vibey-state.toml and run "
            f"`vibey-actions migrate`, which makes their table; else {mend}"
        )
    return TableRefused(f"{where} holds the table {name}, which this database does not sync", mend)
