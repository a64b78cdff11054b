"""What PostgreSQL's catalog says of the synced tables: the physical side of a declaration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from vibey_actions.postgres.sql import identifier
from vibey_actions.state.declaration import Declaration, Table
from vibey_actions.state.identity import Fold


class Carriage(Enum):
    """How a column's JSON image goes back into its type."""

    TEXT = "text"
    """The content of the JSON scalar is input of the type."""
    JSON = "json"
    """A json or jsonb column: the JSON text itself is the input."""
    COMPOUND = "compound"
    """Arrays, composites and the like: json_to_record takes the JSON value apart."""


@dataclass(frozen=True, slots=True)
class Column:
    """``type`` is SQL text as format_type gives it, ``base_type`` the same with domains resolved to their base."""

    name: str
    type: str
    base_type: str
    carriage: Carriage
    not_null: bool
    generated: bool = False
    identity: str = ""
    """'a' for GENERATED ALWAYS, 'd' for BY DEFAULT, '' for none."""
    serialized: bool = False
    """Carried as the type's text output (see `exact`); ``carriage`` is then TEXT."""
    collation: str = ""
    """Qualified and quoted SQL text where it is not the database's own, else ""."""
    deterministic: bool = True
    """Whether texts of the column that are equal are the same bytes."""
    fold: Fold | None = None
    """What does not count where the column is part of a key (see `exact`)."""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """``table`` and ``references`` are document names; ``references`` is "" for a table that is not synced.

    ``on_delete`` is pg_constraint.confdeltype: a (no action), r (restrict), c (cascade), n (set null), d (set default).
    """

    name: str
    table: str
    columns: tuple[str, ...]
    references: str
    referenced_columns: tuple[str, ...]
    on_delete: str
    deferrable: bool
    on_update: str = "a"
    """As ``on_delete``, of a change to the referenced columns."""


@dataclass(frozen=True, slots=True)
class SequenceOf:
    """A sequence to advance past a column: ``sequence`` is qualified and quoted SQL text."""

    sequence: str
    column: str


@dataclass(frozen=True, slots=True)
class DerivedCounter:
    """A counter table fed by a column's maximum per group (the ledger's ``event_seq(project_id, next_seq)``)."""

    target: str
    """Qualified and quoted SQL text of the counter table."""
    group: tuple[str, ...]
    """Columns of the source, and of the counter under the same names."""
    column: str
    next_column: str


@dataclass(frozen=True, slots=True)
class PgTable:
    """One synced table. ``columns`` are in attribute order, generated ones included (and marked)."""

    table: Table
    schema: str
    relname: str
    oid: int
    partitioned: bool
    columns: tuple[Column, ...]
    foreign_keys: tuple[ForeignKey, ...] = ()
    sequences: tuple[SequenceOf, ...] = ()
    counters: tuple[DerivedCounter, ...] = ()
    triggers_off: bool = False
    """Whether the database's own triggers are kept from firing while rows are applied."""

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def sql(self) -> str:
        """The table's qualified, quoted name."""
        return f"{identifier(self.schema)}.{identifier(self.relname)}"

    @property
    def carried(self) -> tuple[Column, ...]:
        """The columns of a row: every one that is not generated."""
        return tuple(column for column in self.columns if not column.generated)

    def column(self, name: str) -> Column:
        return next(column for column in self.columns if column.name == name)

    @property
    def self_references(self) -> tuple[str, ...]:
        """Columns of foreign keys that point at the table itself."""
        return tuple(c for key in self.foreign_keys if key.references == self.name for c in key.columns)


@dataclass(frozen=True, slots=True)
class Catalog:
    """The synced tables of one database by document name, and the order in which parents come first."""

    tables: Mapping[str, PgTable]
    parents_first: tuple[str, ...]
    declaration: Declaration
