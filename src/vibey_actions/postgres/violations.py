"""Which rows would break a constraint together, found on the rows as they are to be (spec: any conflict is named).

A merge that is clean row by row can still leave a child without its parent or two rows with one unique value. This
looks for all of them at once, after PostgreSQL has refused the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import psycopg

from vibey_actions.postgres.expressions import key_text, target
from vibey_actions.postgres.sql import blocks, identifier
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.tables import Catalog, ForeignKey
from vibey_actions.state.report import Conflict, ConflictKind

_KEY, _STAGED = identifier("vibey key"), identifier("vibey staged")


def violations(connection: psycopg.Connection, catalog: Catalog, stages: Mapping[str, Stage]) -> list[Conflict]:
    """Rows of the branch that lack their parent here, and pairs of rows with one unique value; nothing is written.

    What cannot be asked for (an index over a generated column) is left out.
    """
    found: list[Conflict] = []
    for name in sorted(stages):
        for key in stages[name].table.foreign_keys:
            if key.references in catalog.tables and not any(
                stages[name].table.column(column).generated for column in key.columns
            ):
                found += _without_parent(connection, catalog, stages, key)
        for index, query in _unique_indexes(connection, stages[name]):
            found += [_pair(name, index, *keys) for keys in _asked(connection, query)]
    return found


def _asked(connection: psycopg.Connection, query: str) -> list[tuple[str, str]]:
    try:
        with connection.transaction():
            return [(str(one), str(other)) for one, other in connection.execute(query.encode()).fetchall()]
    except psycopg.Error:
        return []


def _without_parent(
    connection: psycopg.Connection, catalog: Catalog, stages: Mapping[str, Stage], key: ForeignKey
) -> list[Conflict]:
    child, parent, staged = stages[key.table], catalog.tables[key.references], stages.get(key.references)
    pairs = [(child.value(c, "s"), r) for c, r in zip(key.columns, key.referenced_columns, strict=True)]
    here = " AND ".join(f"p.{identifier(referenced)} = {value}" for value, referenced in pairs)
    gone = f" AND NOT {staged.holds('p')}" if staged else ""
    query = (
        f"SELECT s.k, s.k FROM {child.name} s WHERE s.op <> 'd'"
        f" AND {' AND '.join(f'{value} IS NOT NULL' for value, _ in pairs)}"
        f" AND NOT EXISTS (SELECT FROM {target(parent)} p WHERE {here}{gone})"
    )
    if staged is not None:
        coming = " AND ".join(f"{staged.value(referenced, 'o')} = {value}" for value, referenced in pairs)
        query += f" AND NOT EXISTS (SELECT FROM {staged.name} o WHERE o.op <> 'd' AND {coming})"
    return [
        Conflict(
            key.table,
            row,
            ConflictKind.CONSTRAINT,
            f"the row came from the branch, but the row of {key.references} that it references is gone here "
            f"(foreign key {key.name})",
            f"bring the row of {key.references} back here, or delete or re-point this row on the branch",
            constraint=key.name,
        )
        for row, _ in _asked(connection, query + " ORDER BY s.n")
    ]


def _unique_indexes(connection: psycopg.Connection, stage: Stage) -> Iterator[tuple[str, str]]:
    """Every unique index, each with the query for pairs of rows that it would refuse.

    The primary key's is one of them where the merge may take equal keys for two.
    """
    table = stage.table
    names = [column.name for column in table.carried]
    columns = ", ".join(f"r.{identifier(name)}" for name in names)
    values = ", ".join(f"{stage.value(name, 's')} AS {identifier(name)}" for name in names)
    merged = (
        f"SELECT {key_text(table, 'r')} AS {_KEY}, false AS {_STAGED}, {columns} FROM {target(table)} r"
        f" WHERE NOT {stage.holds('r')}"
        f" UNION ALL SELECT s.k, true, {values} FROM {stage.name} s WHERE s.op <> 'd'"
    )
    for name, expressions, predicate, nulls_alike in connection.execute(
        blocks("violations")["unique_indexes"], {"table": table.oid, "keys": not stage.tells_keys_apart}
    ).fetchall():
        parts = ", ".join(f"({expression}) AS {identifier(f'e{n}')}" for n, expression in enumerate(expressions))
        rows = f"SELECT {_KEY}, {_STAGED}, {parts} FROM merged WHERE {predicate or 'true'}"
        equal = "IS NOT DISTINCT FROM" if nulls_alike else "="
        same = " AND ".join(f"a.e{n} {equal} b.e{n}" for n in range(len(expressions)))
        query = (
            f"WITH merged AS ({merged}), indexed AS ({rows}) SELECT a.{_KEY}, b.{_KEY} FROM indexed a JOIN indexed b"
            f" ON a.{_STAGED} AND (NOT b.{_STAGED} OR b.{_KEY} > a.{_KEY}) AND {same} ORDER BY 1, 2"
        )
        yield name, query


def _pair(table: str, index: str, row: str, other: str) -> Conflict:
    return Conflict(
        table,
        row,
        ConflictKind.CONSTRAINT,
        f"the row of the branch and the row {other} would be alike in what {index} keeps unique",
        f"change or delete one of the two: {row} on the branch, or {other} here",
        constraint=index,
    )
