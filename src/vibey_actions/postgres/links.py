"""Foreign keys over the rows as they are to be: no row may lose its parent, no action may take what nobody deleted.

What is referenced may pass from one row of the parent to another. The actions of a foreign key and RESTRICT do not see
that: they take the old row's end for the value's. Such a key is found here, to be put aside while the rows are written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import psycopg

from vibey_actions.errors import RowRefused
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.constraints import Link, LinkEnd
from vibey_actions.postgres.expressions import key_text
from vibey_actions.postgres.sql import identifier
from vibey_actions.postgres.staging import Stage
from vibey_actions.state.report import Conflict, ConflictKind

MOST_NAMED = 10_000
"""Of one foreign key; more are not named one by one."""

Stages = Mapping[str, Stage]


def lacking_parents(connection: psycopg.Connection, stages: Stages, link: Link) -> list[Conflict]:
    """Every row that comes and references a row that is not there, nor comes. Raises psycopg.Error."""
    child, parent = stages.get(link.child.name), stages.get(link.parent.name)
    if child is None or not link.child.whole or _computed(link.child):
        return []
    wants = " AND ".join(f"n.{identifier(column)} IS NOT NULL" for column in link.child.columns)
    stays = f" AND NOT {_goes(parent, 'p')}" if parent else ""
    query = (
        f"SELECT s.k, {_name_of_parent(link)} FROM {child.name} s"
        f" CROSS JOIN LATERAL (SELECT {_values(child, link.child.columns)}) n WHERE s.op <> 'd' AND {wants}"
        f" AND NOT EXISTS (SELECT FROM {link.parent.sql} p WHERE {_points(link, 'n', 'p')}{stays})"
        f"{_none_comes(link, parent, 'n')} ORDER BY s.n LIMIT {MOST_NAMED}"
    )
    found = connection.execute(query.encode()).fetchall()
    return [_lacking(link, row, missing) for row, missing in found]


def losing_parents(connection: psycopg.Connection, stages: Stages, link: Link) -> list[Conflict]:
    """Every row that stays here and references what is deleted, or changed, and no other row takes over."""
    parent = stages.get(link.parent.name)
    if parent is None or not (parent.operations & {"d", "u"}) or _leaves_alone(link, parent):
        return []
    query = (
        f"SELECT {_child_key(link)}, s.k, s.op = 'd' FROM {_leaving(link, parent)}"
        f" JOIN {_staying(stages, link)} ON {_points(link, 'c', 'p')}"
        f" WHERE true{_none_comes(link, parent, 'c')} ORDER BY 1 LIMIT {MOST_NAMED}"
    )
    with saying(f"looking for rows of {link.child.name} whose parent is to be deleted"):
        found = connection.execute(query.encode()).fetchall()
    return [_losing(link, row, key, deleted=deleted) for row, key, deleted in found]


def misled(connection: psycopg.Connection, stages: Stages, links: Sequence[Link]) -> list[Link]:
    """The foreign keys that would act on, or forbid, rows whose parent only passes what they reference to another row.

    No final row may lose its parent. Raises RowRefused, naming the key and two rows, where one cannot be put aside.
    """
    found: list[Link] = []
    for link in links:
        parent = stages.get(link.parent.name)
        if parent is None or not parent.operations & set(link.blind_to) or not _passes_on(link, parent):
            continue
        with saying(f"looking for rows of {link.child.name} whose parent is another row afterwards"):
            rows = connection.execute(_passing_on(stages, link, parent).encode()).fetchone()
            if rows is None:
                continue
            if not link.whole or (link.child.table is None and losing_parents(connection, stages, link)):
                raise _held(link, *rows)
        found.append(link)
    return found


def _passing_on(stages: Stages, link: Link, parent: Stage) -> str:
    """The query for one child as it is to be that references what a row gives up, and the key of that row."""
    leaving = _leaving(link, parent, link.blind_to)
    child = stages.get(link.child.name)
    # A synced child without a parent was refused before; one that is not synced may be meant to go.
    taken = f" WHERE NOT (true{_none_comes(link, parent, 'c')})" if link.child.table is None else ""
    query = (
        f"(SELECT {_child_key(link)}, s.k FROM {leaving} JOIN {_staying(stages, link)}"
        f" ON {_points(link, 'c', 'p')}{taken} LIMIT 1)"
    )
    if child is not None and not _computed(link.child):
        coming = f"(SELECT s.k, {_values(child, link.child.columns)} FROM {child.name} s WHERE s.op <> 'd')"
        query += f" UNION ALL (SELECT n.k, s.k FROM {leaving} JOIN {coming} n ON {_points(link, 'n', 'p')} LIMIT 1)"
    return query


def _passes_on(link: Link, parent: Stage) -> bool:
    """Whether another row could take over what a row of the parent gives up."""
    return not (link.to_key and parent.tells_keys_apart)


def moves_away(connection: psycopg.Connection, stages: Stages, links: Sequence[Link]) -> bool:
    """Whether a row that changes points now at one that is deleted or gives up what is referenced.

    Then neither table can be written before the other: the rows go in one statement.
    """
    for link in links:
        child, parent = stages.get(link.child.name), stages.get(link.parent.name)
        if child is None or parent is None or "u" not in child.operations or _leaves_alone(link, parent):
            continue
        query = (
            f"SELECT EXISTS (SELECT FROM {_leaving(link, parent)} JOIN {link.child.sql} c ON {_points(link, 'c', 'p')}"
            f" JOIN {child.name} o ON o.op = 'u' AND {child.match('c', 'o')})"
        )
        with saying(f"looking for rows of {link.child.name} that move to another parent"):
            if connection.execute(query.encode()).fetchone() == (True,):
                return True
    return False


def _leaves_alone(link: Link, parent: Stage) -> bool:
    """Whether nothing that the staged changes do to the parent can reach a child."""
    return "d" not in parent.operations and ((link.to_key and parent.tells_keys_apart) or "u" not in parent.operations)


def _leaving(link: Link, parent: Stage, operations: str = "du") -> str:
    """Rows of the parent (p) whose referenced values go by one of ``operations``, with their staged change (s)."""
    gone = [f"s.op = 'd' AND {str('d' in operations).lower()}"]
    if "u" in operations and not _computed(link.parent) and _passes_on(link, parent):
        # As foreign keys see it: equal values of other bytes (1.0 and 1.00) are a change.
        before = ", ".join(f"p.{identifier(c)}" for c in link.parent.columns)
        after = ", ".join(f"CAST({parent.value(c, 's')} AS {_type(link.parent, c)})" for c in link.parent.columns)
        gone.append(f"s.op = 'u' AND record_image_ne(ROW({before}), ROW({after}))")
    return f"{link.parent.sql} p JOIN {parent.name} s ON ({' OR '.join(gone)}) AND {parent.match('p', 's')}"


def _staying(stages: Stages, link: Link) -> str:
    """The FROM item c of the children that stay as they are."""
    child = stages.get(link.child.name)
    stays = f" WHERE NOT {_goes(child, 'here')}" if child else ""
    return f"(SELECT here.* FROM {link.child.sql} here{stays}) c"


def _type(end: LinkEnd, column: str) -> str:
    assert end.table is not None  # noqa: S101 - a staged table is a synced one
    return end.table.column(column).type


def _computed(end: LinkEnd) -> bool:
    """Whether a column is a generated one, which a staged row does not hold."""
    return end.table is not None and any(end.table.column(column).generated for column in end.columns)


def _coming(stage: Stage, columns: Sequence[str]) -> str:
    return f"(SELECT {_values(stage, columns)} FROM {stage.name} s WHERE s.op <> 'd')"


def _values(stage: Stage, columns: Sequence[str]) -> str:
    return ", ".join(f"{stage.value(column, 's')} AS {identifier(column)}" for column in columns)


def _goes(stage: Stage, row: str) -> str:
    return f"EXISTS (SELECT FROM {stage.name} held WHERE held.op <> 'i' AND {stage.match(row, 'held')})"


def _none_comes(link: Link, parent: Stage | None, child: str) -> str:
    """The condition that no row comes which ``child`` would point at."""
    if parent is None or _computed(link.parent):
        return ""
    return f" AND NOT EXISTS (SELECT FROM {_coming(parent, link.parent.columns)} q WHERE {_points(link, child, 'q')})"


def _points(link: Link, child: str, parent: str) -> str:
    pairs = zip(link.parent.columns, link.operators, link.child.columns, strict=True)
    return " AND ".join(f"{parent}.{identifier(p)} {operator} {child}.{identifier(c)}" for p, operator, c in pairs)


def _child_key(link: Link) -> str:
    """The text of the key of a row c, which may be of a table that is not synced."""
    if link.child.table is not None:
        return key_text(link.child.table, "c")
    if not link.child_key:
        return "''"
    return f"jsonb_build_array({', '.join(f'c.{identifier(column)}' for column in link.child_key)})::text"


def _name_of_parent(link: Link) -> str:
    """The text of the key that a row n points at; null where it is not the parent's primary key, type for type."""
    parent, child = link.parent.table, link.child.table
    if parent is None or child is None or not link.to_key:
        return "NULL"
    pairs = list(zip(link.parent.columns, link.child.columns, strict=True))
    if any(parent.column(p).type != child.column(c).type for p, c in pairs):
        return "NULL"
    columns = ", ".join(f"n.{identifier(c)} AS {identifier(p)}" for p, c in pairs)
    return f"(SELECT {key_text(parent, 'x')} FROM (SELECT {columns}) x)"


def _lacking(link: Link, row: str, missing: str | None) -> Conflict:
    parent = link.parent
    what = f"{parent.name} {missing}" if missing else f"a row of {parent.name}"
    unsynced = ", a table that is not synced" if parent.table is None else ""
    return Conflict(
        link.child.name,
        row,
        ConflictKind.CONSTRAINT,
        f"the row of the branch references {what}{unsynced}, which is not here (foreign key {link.name})",
        f"bring {what} {'' if parent.table is None else 'back '}here, or delete or re-point the row on the branch",
        constraint=link.name,
        other=(parent.name, missing or ""),
    )


def _losing(link: Link, row: str, key: str, *, deleted: bool) -> Conflict:
    parent = f"{link.parent.name} {key}"
    did = "deleted on the branch" if deleted else "changed on the branch in what the key references"
    return Conflict(
        link.child.name,
        row,
        ConflictKind.CONSTRAINT,
        f"the row references {parent}, which was {did} (foreign key {link.name})",
        f"bring {parent} back on the branch, or delete or re-point this row here",
        constraint=link.name,
        other=(link.parent.name, key),
    )


def _held(link: Link, row: str, key: str) -> RowRefused:
    return RowRefused(
        f"table {link.parent.name}, row {key}: another row takes over what {link.child.name} {row} references, which "
        f"the foreign key {link.name} would not see, and which cannot be put aside meanwhile, because other objects or "
        "settings hang on it",
        f"make the same change to {link.parent.name} here by hand, then sync; nothing was written",
    )
