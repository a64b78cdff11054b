"""Foreign keys over the rows as they are to be: no row may lose its parent, no action may take what nobody deleted."""

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
    """Every row that stays here and references a row that is deleted, or changed in what is referenced.

    Raises RowRefused where another row takes over what is referenced, but the key's own action would not know that.
    """
    parent = stages.get(link.parent.name)
    if parent is None or not (parent.operations & {"d", "u"}) or _leaves_alone(link, parent):
        return []
    child = stages.get(link.child.name)
    stays = f" AND NOT {_goes(child, 'c')}" if child else ""
    taken = (
        "false"
        if _computed(link.parent)
        else f"EXISTS (SELECT FROM {_coming(parent, link.parent.columns)} q WHERE {_points(link, 'c', 'q')})"
    )
    query = (
        f"SELECT {_child_key(link)}, s.k, s.op = 'd', {taken} FROM {_leaving(link, parent)}"
        f" JOIN {link.child.sql} c ON {_points(link, 'c', 'p')} WHERE true{stays} ORDER BY 1 LIMIT {MOST_NAMED}"
    )
    with saying(f"looking for rows of {link.child.name} whose parent is to be deleted"):
        found = connection.execute(query.encode()).fetchall()
    for row, key, _, taken_over in found:
        if taken_over and link.acts:
            raise _misled(link, row, key)
    return [_losing(link, row, key, deleted=deleted) for row, key, deleted, taken_over in found if not taken_over]


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


def _leaving(link: Link, parent: Stage) -> str:
    """Rows of the parent (p) whose referenced values go, with their staged change (s)."""
    gone = "s.op = 'd'"
    if not (link.to_key or _computed(link.parent)):
        changed = (f"p.{identifier(c)} IS DISTINCT FROM {parent.value(c, 's')}" for c in link.parent.columns)
        gone = f"(s.op = 'd' OR (s.op = 'u' AND ({' OR '.join(changed)})))"
    return f"{link.parent.sql} p JOIN {parent.name} s ON {gone} AND {parent.match('p', 's')}"


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
    )


def _misled(link: Link, row: str, key: str) -> RowRefused:
    return RowRefused(
        f"table {link.parent.name}, row {key}: on the branch another row took over what {link.child.name} {row} "
        f"references, which the action of the foreign key {link.name} would not see; nothing was written",
        f"make the same change to {link.parent.name} here by hand, then sync",
    )
