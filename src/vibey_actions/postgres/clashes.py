"""Rows that a unique index or an exclusion constraint would not have together.

Compared with the operators and collations of the constraint itself, so that texts that are equal in the database are
equal here.
"""

from __future__ import annotations

import psycopg

from vibey_actions.postgres.constraints import Unique
from vibey_actions.postgres.finalrows import FinalRows
from vibey_actions.state.report import Conflict, ConflictKind

MOST_NAMED = 10_000
"""Of one constraint; more are not named one by one."""


def clashing_pairs(
    connection: psycopg.Connection, rows: FinalRows, unique: Unique, *, among_coming: bool
) -> list[Conflict]:
    """Every row that comes with every other one that it would clash with: one that stays, or (``among_coming``) comes.

    Raises psycopg.Error.
    """
    stay = (
        f"SELECT {_parts(rows, unique)}, {rows.key_here()} AS k FROM {rows.here()}"
        f" CROSS JOIN {_keyed(rows, unique)} WHERE {rows.stays()}"
    )
    come = _coming(rows, unique)
    queries = [f"SELECT n.k, e.k, false FROM ({come}) n JOIN ({stay}) e ON {_clash(unique, 'n', 'e')}"]
    if among_coming:
        both = f"({come}) n JOIN ({come}) e ON n.n < e.n AND {_clash(unique, 'n', 'e')}"
        queries.append(f"SELECT n.k, e.k, true FROM {both}")
    query = f"{' UNION ALL '.join(queries)} ORDER BY 1, 2 LIMIT {MOST_NAMED}"
    found = connection.execute(query.encode()).fetchall()
    return [_conflict(unique, row, other, comes=comes) for row, other, comes in found]


def waiting_pairs(connection: psycopg.Connection, rows: FinalRows, unique: Unique) -> list[tuple[int, int]]:
    """Numbers of staged updates: the first cannot be made before the second, which gives up what it takes.

    Raises psycopg.Error.
    """
    keyed, s = _keyed(rows, unique), rows.beside("s")
    now = (
        f"SELECT {_parts(rows, unique)}, {s}.n AS n FROM {rows.here()} CROSS JOIN {keyed}"
        f" JOIN {rows.stage.name} {s} ON {s}.op = 'u' AND {rows.stage.match(rows.own, s)}"
    )
    query = (
        f"SELECT n.n, e.n FROM ({_coming(rows, unique)}) n JOIN ({now}) e"
        f" ON n.op = 'u' AND n.n <> e.n AND {_clash(unique, 'n', 'e')} ORDER BY 1, 2"
    )
    return [(int(one), int(other)) for one, other in connection.execute(query.encode()).fetchall()]


def _coming(rows: FinalRows, unique: Unique) -> str:
    own = rows.own
    return (
        f"SELECT {_parts(rows, unique)}, {own}.{rows.key} AS k, {own}.{rows.number} AS n, {own}.{rows.operation} AS op"
        f" FROM {rows.coming()} CROSS JOIN {_keyed(rows, unique)}"
    )


def _keyed(rows: FinalRows, unique: Unique) -> str:
    """What the constraint is over, for each row that it is about; bare names in it mean the one item before."""
    parts = ", ".join(
        f"({expression}){f' COLLATE {collation}' if collation else ''} AS v{place}"
        for place, (expression, collation) in enumerate(zip(unique.expressions, unique.collations, strict=True))
    )
    where = f" WHERE {unique.predicate}" if unique.predicate else ""
    return f"LATERAL (SELECT {parts}{where}) AS {rows.beside('v')}"


def _parts(rows: FinalRows, unique: Unique) -> str:
    return ", ".join(f"{rows.beside('v')}.v{place} AS v{place}" for place in range(len(unique.expressions)))


def _clash(unique: Unique, one: str, other: str) -> str:
    parts = []
    for place, operator in enumerate(unique.operators):
        left, right = f"{one}.v{place}", f"{other}.v{place}"
        alike = f" OR ({left} IS NULL AND {right} IS NULL)" if unique.nulls_alike else ""
        parts.append(f"({left} {operator} {right}{alike})")
    return " AND ".join(parts)


def _conflict(unique: Unique, row: str, other: str, *, comes: bool) -> Conflict:
    where = "also of the branch" if comes else "here"
    return Conflict(
        unique.table,
        row,
        ConflictKind.CONSTRAINT,
        f"the row of the branch and the row {other} {where} cannot both be there: {unique.name} keeps them apart",
        f"change or delete one of the two: {row} on the branch, or {other} {'there' if comes else 'here'}",
        constraint=unique.name,
        other=(unique.table, other),
    )
