"""Whether the rows as they are to be keep the database's constraints: every violation at once, before the first write.

A merge that is clean row by row can still leave a child without its parent or two rows with one unique value (issue
"Any database", merging). Where only the branch changed, its rows kept these constraints together at the other end: then
only what that end cannot know is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial

import psycopg

from vibey_actions.errors import Conflicts
from vibey_actions.postgres.clashes import MOST_NAMED, clashing_pairs
from vibey_actions.postgres.connection import own_search_path, saying
from vibey_actions.postgres.constraints import Constraints, Link, read_constraints
from vibey_actions.postgres.finalrows import FinalRows
from vibey_actions.postgres.links import Stages, lacking_parents, losing_parents
from vibey_actions.postgres.tables import Catalog
from vibey_actions.state.declaration import Rule
from vibey_actions.state.report import Conflict, ConflictKind


def broken_links(
    connection: psycopg.Connection, stages: Stages, links: Sequence[Link], changed_here: Collection[str]
) -> list[Conflict]:
    """Rows whose foreign key would point at nothing.

    A row here that references what the branch deleted is looked for always; a row of the branch that references what is
    gone here, only where the parents are not synced, or rows of either table changed here too.
    """
    found: list[Conflict] = []
    for link in links:
        if link.parent.table is None or {link.child.name, link.parent.name} & set(changed_here):
            found += _asked(connection, partial(lacking_parents, connection, stages, link))
        # What hangs on a table that is not synced does what it declares; only a refusal is foreseen.
        if link.child.table is not None or not link.acts:
            found += losing_parents(connection, stages, link)
    return found


def broken_rows(
    connection: psycopg.Connection,
    catalog: Catalog,
    stages: Stages,
    changed_here: Collection[str],
    *,
    checks: bool = True,
) -> list[Conflict]:
    """Rows that would clash with others, and (``checks``) rows that break a check constraint.

    Looked for in tables of which rows changed here too; the rows of any other table were together on the branch.
    """
    coming = {name: stage for name, stage in stages.items() if name in changed_here and stage.operations - {"d"}}
    if not coming:
        return []
    constraints = read_constraints(connection, catalog, coming)
    found: list[Conflict] = []
    with own_search_path(connection):
        for name, stage in coming.items():
            rows = FinalRows(stage, constraints.generated.get(name, ()))
            # The rows of one end keep apart by themselves; those that were put together from both may not.
            mixed = catalog.declaration.tables[name].rule is Rule.COLUMNS or not stage.tells_keys_apart
            for unique in constraints.unique.get(name, ()):
                if unique.is_key and stage.tells_keys_apart:
                    continue
                found += _asked(connection, partial(clashing_pairs, connection, rows, unique, among_coming=mixed))
            if checks:
                found += _failing(connection, rows, constraints)
    return found


def refuse(found: Sequence[Conflict]) -> None:
    """Raise Conflicts with ``found`` unless that is nothing."""
    if found:
        raise Conflicts(
            f"{len(found)} row(s) would break constraints of this database together with rows of the other end; "
            "nothing was written",
            "settle each as its line says, then sync again",
            found,
        )


def _failing(connection: psycopg.Connection, rows: FinalRows, constraints: Constraints) -> list[Conflict]:
    name = rows.table.name
    found: list[Conflict] = []
    for constraint, condition in constraints.checks.get(name, ()):
        query = (
            f"SELECT {rows.own}.{rows.key} FROM {rows.coming()} CROSS JOIN LATERAL (SELECT ({condition}) AS ok)"
            f" AS {rows.beside('v')} WHERE NOT {rows.beside('v')}.ok ORDER BY 1 LIMIT {MOST_NAMED}"
        )
        found += _asked(connection, partial(_check_failures, connection, query, name, constraint))
    return found


def _check_failures(connection: psycopg.Connection, query: str, table: str, constraint: str) -> list[Conflict]:
    return [
        Conflict(
            table,
            key,
            ConflictKind.CONSTRAINT,
            f"the row as it is to be breaks the check constraint {constraint}",
            "change the row at one of the ends so that what both say of it holds together",
            constraint=constraint,
        )
        for (key,) in connection.execute(query.encode()).fetchall()
    ]


def _asked(connection: psycopg.Connection, ask: Callable[[], Iterable[Conflict]]) -> list[Conflict]:
    """What ``ask`` finds. What cannot be asked for (a row's own type, a table that this role may not read) is left to
    PostgreSQL, which has the last word in any case."""
    with saying("looking for rows that would break a constraint"):
        try:
            with connection.transaction():
                return list(ask())
        except psycopg.ProgrammingError:
            return []
