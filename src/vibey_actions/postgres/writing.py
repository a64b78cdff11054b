"""Staged changes carried into their tables, in an order that the database's constraints take.

Deleted children go first, then parents come first. Where that order breaks a constraint that holds before and after,
another is tried: rows that come before rows that go, for a child that moves to a new parent; rows taken out and put
back in one statement, for unique values that are swapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import psycopg

from vibey_actions.errors import Conflicts, VibeyError
from vibey_actions.postgres.connection import saying, translate
from vibey_actions.postgres.expressions import target
from vibey_actions.postgres.links import late_columns, release_links
from vibey_actions.postgres.sql import identifier, identifiers
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.tables import Catalog
from vibey_actions.postgres.violations import violations

Stages = Mapping[str, Stage]


class _RefusedError(Exception):
    """A constraint stands in the way: what was being done, and PostgreSQL's error."""

    def __init__(self, doing: str, error: psycopg.IntegrityError) -> None:
        super().__init__(doing)
        self.doing = doing
        self.error = error


def write(connection: psycopg.Connection, catalog: Catalog, stages: Stages) -> None:
    """Carry the changes over; all constraints are checked when it returns.

    Raises Conflicts, naming every pair of rows, where the rows that are to be break a foreign key or a unique index,
    DatabaseFailed for any other constraint.
    """
    first: _RefusedError | None = None
    for way in (_going_first, _coming_first, _replacing):
        try:
            with connection.transaction():
                _put_off(connection)
                way(connection, catalog, stages)
                _check(connection)
        except _RefusedError as refused:
            first = first or refused
        else:
            return
    assert first is not None  # noqa: S101 - the loop ends here only after a refusal
    raise _said(connection, catalog, stages, first) from None


def _said(connection: psycopg.Connection, catalog: Catalog, stages: Stages, refused: _RefusedError) -> VibeyError:
    found = violations(connection, catalog, stages)
    if not found:
        return translate(refused.error, refused.doing)
    return Conflicts(
        f"{len(found)} row(s) would break constraints together with rows of the other end; nothing was written",
        "settle each as its line says, then sync again",
        found,
    )


@contextmanager
def _doing(doing: str) -> Iterator[None]:
    with saying(doing):
        try:
            yield
        except psycopg.IntegrityError as error:
            raise _RefusedError(doing, error) from None


def _put_off(connection: psycopg.Connection) -> None:
    with saying("putting off the constraints that can be"):
        connection.execute("SET CONSTRAINTS ALL DEFERRED")


def _check(connection: psycopg.Connection) -> None:
    with _doing("checking the constraints that were put off"):
        connection.execute("SET CONSTRAINTS ALL IMMEDIATE")


def _going_first(connection: psycopg.Connection, catalog: Catalog, stages: Stages) -> None:
    with _doing("re-pointing rows whose parent is to be deleted"):
        release_links(connection, catalog, stages)
    _delete(connection, catalog, stages)
    for name in _parents_first(catalog, stages):
        _update(connection, stages[name], leave_out=late_columns(catalog, name))
        _insert(connection, stages[name], leave_out=late_columns(catalog, name, itself=False))
    _update_late(connection, catalog, stages)


def _coming_first(connection: psycopg.Connection, catalog: Catalog, stages: Stages) -> None:
    for name in _parents_first(catalog, stages):
        _insert(connection, stages[name], leave_out=late_columns(catalog, name, itself=False))
        _update(connection, stages[name], leave_out=late_columns(catalog, name))
    _update_late(connection, catalog, stages)
    _delete(connection, catalog, stages)


def _replacing(connection: psycopg.Connection, catalog: Catalog, stages: Stages) -> None:
    with _doing("re-pointing rows whose parent is to be deleted"):
        release_links(connection, catalog, stages)
    _delete(connection, catalog, stages)
    for name in _parents_first(catalog, stages):
        if _cascades_from(connection, stages[name]):
            _update(connection, stages[name], leave_out=late_columns(catalog, name))
        else:
            _replace(connection, stages[name])
        _insert(connection, stages[name], leave_out=late_columns(catalog, name, itself=False))
    _update_late(connection, catalog, stages)


def _parents_first(catalog: Catalog, stages: Stages) -> list[str]:
    return [name for name in catalog.parents_first if name in stages]


def _delete(connection: psycopg.Connection, catalog: Catalog, stages: Stages) -> None:
    for name in reversed(_parents_first(catalog, stages)):
        stage = stages[name]
        with _doing(f"deleting rows of {name}"):
            connection.execute(
                f"DELETE FROM {target(stage.table)} r USING {stage.name} s"
                f" WHERE s.op = 'd' AND {stage.match('r', 's')}".encode()
            )


def _update_late(connection: psycopg.Connection, catalog: Catalog, stages: Stages) -> None:
    """References to the table itself, or around a cycle, once every row is in."""
    for name in _parents_first(catalog, stages):
        around = late_columns(catalog, name, itself=False)
        if around:
            _set(connection, stages[name], around, "s.op <> 'd'")
        own = late_columns(catalog, name) - around
        if own:
            _set(connection, stages[name], own, "s.op = 'u'")


def _update(connection: psycopg.Connection, stage: Stage, *, leave_out: frozenset[str]) -> None:
    key = stage.table.table.key
    # A folded key may have another text and be the same.
    columns = {c.name for c in stage.table.carried if (c.name not in key or c.fold) and c.identity != "a"}
    if columns - leave_out:
        _set(connection, stage, columns - leave_out, "s.op = 'u'")


def _set(connection: psycopg.Connection, stage: Stage, columns: frozenset[str] | set[str], where: str) -> None:
    values = ", ".join(f"{identifier(name)} = {stage.value(name, 's')}" for name in sorted(columns))
    with _doing(f"updating rows of {stage.table.name}"):
        connection.execute(
            f"UPDATE {target(stage.table)} r SET {values} FROM {stage.name} s"
            f" WHERE {where} AND {stage.match('r', 's')}".encode()
        )


def _insert(connection: psycopg.Connection, stage: Stage, *, leave_out: frozenset[str]) -> None:
    names = [column.name for column in stage.table.carried if column.name not in leave_out]
    values = ", ".join(stage.value(name, "s") for name in names)
    with _doing(f"inserting rows into {stage.table.name}"):
        connection.execute(
            f"INSERT INTO {stage.table.sql} ({identifiers(names)}) OVERRIDING SYSTEM VALUE"
            f" SELECT {values} FROM {stage.name} s WHERE s.op = 'i' ORDER BY s.n".encode()
        )


def _replace(connection: psycopg.Connection, stage: Stage) -> None:
    """Take the rows out and put them back within one statement: unique values are free by then, and references that
    take no action on delete are checked at its end."""
    names = [column.name for column in stage.table.carried]
    values = ", ".join(stage.value(name, "s") for name in names)
    with _doing(f"replacing rows of {stage.table.name}"):
        connection.execute(
            f"WITH gone AS (DELETE FROM {target(stage.table)} r USING {stage.name} s"
            f" WHERE s.op = 'u' AND {stage.match('r', 's')} RETURNING 1)"
            f" INSERT INTO {stage.table.sql} ({identifiers(names)}) OVERRIDING SYSTEM VALUE"
            f" SELECT {values} FROM {stage.name} s WHERE s.op = 'u' AND (SELECT count(*) FROM gone) > 0"
            " ORDER BY s.n".encode()
        )


def _cascades_from(connection: psycopg.Connection, stage: Stage) -> bool:
    """Whether a deletion, even one that is made good at once, does something to rows of another table."""
    query = "SELECT EXISTS (SELECT FROM pg_constraint WHERE contype = 'f' AND confrelid = %s AND confdeltype <> 'a')"
    with saying(f"reading what references {stage.table.name}"):
        return connection.execute(query, (stage.table.oid,)).fetchone() != (False,)
