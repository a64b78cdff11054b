"""Foreign keys around deletions: no row may lose its parent, and no cascade may take what nobody deleted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import psycopg

from vibey_actions.errors import Conflicts
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.expressions import key_text, target
from vibey_actions.postgres.sql import identifier
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.tables import Catalog, ForeignKey, PgTable
from vibey_actions.state.report import Conflict, ConflictKind


def refuse_orphans(connection: psycopg.Connection, catalog: Catalog, stages: Mapping[str, Stage]) -> None:
    """Raise Conflicts naming every row that stays and references a row that is to be deleted."""
    conflicts: list[Conflict] = []
    for child, key, parent in _links_to_deleted(catalog, stages):
        stays = ""
        if child.name in stages:
            own = stages[child.name]
            stays = f" AND NOT EXISTS (SELECT FROM {own.name} o WHERE o.op <> 'i' AND {own.match('c', 'o')})"
        query = f"SELECT {key_text(child, 'c')}, s.k {_joined(child, key, parent)}{stays} ORDER BY 1"
        with saying(f"looking for rows of {child.name} whose parent is to be deleted"):
            found = connection.execute(query.encode()).fetchall()
        conflicts += [_orphan(child, key, orphan, parent.table.name, deleted) for orphan, deleted in found]
    if conflicts:
        raise Conflicts(
            f"{len(conflicts)} row(s) here reference rows that were deleted on the branch; nothing was written",
            "for each: bring the parent back there, or delete or re-point the row here, then sync",
            conflicts,
        )


def release_links(connection: psycopg.Connection, catalog: Catalog, stages: Mapping[str, Stage]) -> None:
    """Take references off rows that are to be deleted, before they are: those of rows that stay, and around a cycle
    those of rows that are deleted later. Raises psycopg.Error."""
    for child, key, parent in _links_to_deleted(catalog, stages):
        own = stages.get(child.name)
        if own is None or any(child.column(name).generated for name in key.columns):
            continue
        nullable = not any(child.column(name).not_null for name in key.columns)
        values = ", ".join(
            f"{identifier(name)} = {'NULL' if nullable else own.value(name, 'o')}" for name in key.columns
        )
        which = "o.op <> 'i'" if nullable and _is_late(catalog, key) else "o.op = 'u'"
        connection.execute(
            f"UPDATE {target(child)} c SET {values} FROM {own.name} o, {target(parent.table)} p, {parent.name} s"
            f" WHERE {which} AND {own.match('c', 'o')} AND {_references(key)}"
            f" AND s.op = 'd' AND {parent.match('p', 's')}".encode()
        )


def late_columns(catalog: Catalog, name: str, *, itself: bool = True) -> frozenset[str]:
    """Columns of ``name`` that are written once all rows are in: they reference, around a cycle, a table that is
    written later, or (``itself``) the table itself."""
    table = catalog.tables[name]
    return frozenset(
        column
        for key in table.foreign_keys
        if _is_late(catalog, key) and (itself or key.references != name)
        for column in key.columns
        if not table.column(column).not_null and not table.column(column).generated
    ) - frozenset(table.table.key)


def _is_late(catalog: Catalog, key: ForeignKey) -> bool:
    order = catalog.parents_first
    return key.references in catalog.tables and order.index(key.references) >= order.index(key.table)


def _links_to_deleted(catalog: Catalog, stages: Mapping[str, Stage]) -> Iterator[tuple[PgTable, ForeignKey, Stage]]:
    for name in sorted(catalog.tables):
        child = catalog.tables[name]
        for key in child.foreign_keys:
            if key.references in stages:
                yield child, key, stages[key.references]


def _joined(child: PgTable, key: ForeignKey, parent: Stage) -> str:
    return (
        f"FROM {target(child)} c JOIN {target(parent.table)} p ON {_references(key)}"
        f" JOIN {parent.name} s ON s.op = 'd' AND {parent.match('p', 's')} WHERE true"
    )


def _references(key: ForeignKey) -> str:
    pairs = zip(key.columns, key.referenced_columns, strict=True)
    return " AND ".join(f"c.{identifier(column)} = p.{identifier(referenced)}" for column, referenced in pairs)


def _orphan(child: PgTable, key: ForeignKey, orphan: str, parent: str, deleted: str) -> Conflict:
    return Conflict(
        child.name,
        orphan,
        ConflictKind.CONSTRAINT,
        f"the row references {parent} {deleted}, which was deleted on the branch (foreign key {key.name})",
        f"bring {parent} {deleted} back on the branch, or delete or re-point this row here",
        constraint=key.name,
    )
