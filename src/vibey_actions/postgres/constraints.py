"""The constraints of the tables that are to change, from the catalog: what keeps rows apart, and what links them.

Read in the apply alone, in three queries however many tables there are. Names of functions and operators are qualified:
the catalog prints them for the pinned search_path.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.naming import document_name
from vibey_actions.postgres.sql import blocks
from vibey_actions.postgres.tables import Catalog, PgTable
from vibey_actions.text import visible

_ACTING = "cnd"
"""Actions of a foreign key that write to the row that points: cascade, set null, set default."""
_RESTRICTING = "r"
"""The one that forbids what another row would make good in the same statement."""


@dataclass(frozen=True, slots=True)
class Unique:
    """A unique index or exclusion constraint of ``table``. ``columns`` has "" for an expression.

    Two rows clash where every one of ``operators`` holds between what the ``expressions`` give for them.
    ``immediate`` ones are checked row by row. ``whole``: ``restoration`` (None: the ``index_definition``, read where it
    is to be run) brings back all that ``removal`` takes.
    """

    table: str
    oid: int
    name: str
    is_key: bool
    immediate: bool
    expressions: tuple[str, ...]
    columns: tuple[str, ...]
    collations: tuple[str, ...]
    operators: tuple[str, ...]
    predicate: str | None
    nulls_alike: bool
    removal: str
    restoration: str | None
    whole: bool


@dataclass(frozen=True, slots=True)
class LinkEnd:
    """One end of a foreign key. ``name`` is the document's, or for a table that is not synced the one to show.

    ``sql`` reads the rows that the key means, ``whole`` says whether these are all of the table's (and not a
    partition's), ``columns`` are the key's here.
    """

    name: str
    sql: str
    whole: bool
    columns: tuple[str, ...]
    table: PgTable | None


@dataclass(frozen=True, slots=True)
class Link:
    """A foreign key. Each of ``operators`` takes the parent's value first. ``child_key``: the child's primary key.

    ``whole``: ``restoration`` brings back all that ``removal`` takes.
    """

    oid: int
    name: str
    child: LinkEnd
    parent: LinkEnd
    child_key: tuple[str, ...]
    operators: tuple[str, ...]
    on_update: str
    on_delete: str
    removal: str
    restoration: str
    whole: bool

    @property
    def acts(self) -> bool:
        """Whether a change of the parent makes PostgreSQL write to the child."""
        return self.on_delete in _ACTING or self.on_update in _ACTING

    @property
    def blind_to(self) -> str:
        """The operations on a parent (d, u) at which it does not see that another row takes over what is referenced."""
        actions = (("d", self.on_delete), ("u", self.on_update))
        return "".join(operation for operation, action in actions if action in _ACTING + _RESTRICTING)

    @property
    def to_key(self) -> bool:
        """Whether it references the parent's primary key, by which rows are told apart."""
        return self.parent.table is not None and set(self.parent.columns) == set(self.parent.table.table.key)


@dataclass(frozen=True, slots=True)
class Constraints:
    """By table's document name; ``checks`` and ``generated`` hold names and SQL conditions or expressions."""

    unique: Mapping[str, tuple[Unique, ...]]
    checks: Mapping[str, tuple[tuple[str, str], ...]]
    generated: Mapping[str, tuple[tuple[str, str], ...]]


def read_constraints(connection: psycopg.Connection, catalog: Catalog, names: Iterable[str]) -> Constraints:
    """What keeps the rows of the tables ``names`` apart or in bounds."""
    of_oid = {catalog.tables[name].oid: name for name in names}
    oids = {"oids": list(of_oid)}
    unique: dict[str, list[Unique]] = defaultdict(list)
    checks: dict[str, list[tuple[str, str]]] = defaultdict(list)
    generated: dict[str, list[tuple[str, str]]] = defaultdict(list)
    with saying("reading the constraints of the tables that are to change"):
        for row in _rows(connection, "unique", oids):
            table = of_oid[row.pop("root")]
            values: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
            # An operator class without equality cannot be asked: PostgreSQL has the last word.
            if len(values["operators"]) == len(values["expressions"]):
                unique[table].append(Unique(table=table, **values))
        for row in _rows(connection, "checks", oids):
            checks[of_oid[row["conrelid"]]].append((row["conname"], row["condition"]))
        if any(column.generated for name in of_oid.values() for column in catalog.tables[name].columns):
            for row in _rows(connection, "generated", oids):
                generated[of_oid[row["attrelid"]]].append((row["attname"], row["expression"]))
    return Constraints(
        {name: tuple(found) for name, found in unique.items()},
        {name: tuple(found) for name, found in checks.items()},
        {name: tuple(found) for name, found in generated.items()},
    )


def read_links(connection: psycopg.Connection, catalog: Catalog, names: Iterable[str]) -> tuple[Link, ...]:
    """Every foreign key from or to one of the tables ``names``, those of tables that are not synced too."""
    synced = {table.oid: table for table in catalog.tables.values()}
    with saying("reading the foreign keys of the tables that are to change"):
        rows = _rows(connection, "links", {"oids": [catalog.tables[name].oid for name in names]})
    return tuple(
        Link(
            oid=row["oid"],
            name=row["name"],
            child=_end(row, "child", row["columns"], synced),
            parent=_end(row, "parent", row["referenced"], synced),
            child_key=tuple(row["child_key"]),
            operators=tuple(row["operators"]),
            on_update=row["on_update"],
            on_delete=row["on_delete"],
            removal=row["removal"],
            restoration=row["restoration"],
            whole=row["whole"],
        )
        for row in rows
    )


def index_definition(connection: psycopg.Connection, oid: int) -> str:
    """The command that makes an index again, for the search_path of the moment: names mean there what they mean in it.

    Raises psycopg.Error.
    """
    row = connection.execute(blocks("constraints")["index_definition"], (oid,)).fetchone()
    assert row is not None  # noqa: S101 - a query without FROM gives one row
    return str(row[0])


def _end(row: Mapping[str, Any], end: str, columns: Sequence[str], synced: Mapping[int, PgTable]) -> LinkEnd:
    table = synced.get(row[end])
    name = table.name if table else visible(document_name(row[f"{end}_schema"], row[f"{end}_relname"]))
    only = "" if row[f"{end}_partitioned"] else "ONLY "
    return LinkEnd(name, only + row[f"{end}_sql"], row[f"{end}_whole"], tuple(columns), table)


def _rows(connection: psycopg.Connection, block: str, parameters: Mapping[str, object]) -> list[dict[str, Any]]:
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(blocks("constraints")[block], parameters).fetchall()
