"""Staged changes carried into their tables, in an order that the database's constraints take.

Deleted children go first, then parents come first. Where no order of tables does (rows that move from a parent that
goes to one that comes, references around a circle), the rows of linked tables go in one statement, at whose end
PostgreSQL checks foreign keys. Where rows pass on unique values, `swaps` clears the way. Both are tried only after
PostgreSQL refused the plain order, so that they cost nothing where nobody needs them. A foreign key that would take
what passes from one parent to another for lost (`links.misled`) is put aside, and made again over the written rows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import psycopg

from vibey_actions.errors import VibeyError
from vibey_actions.postgres.connection import own_search_path, saying, translate
from vibey_actions.postgres.constraints import Constraints, Link, read_constraints
from vibey_actions.postgres.expressions import target
from vibey_actions.postgres.finalrows import FinalRows
from vibey_actions.postgres.integrity import broken_links, broken_rows, refuse
from vibey_actions.postgres.links import Stages, misled, moves_away
from vibey_actions.postgres.sql import bound, identifier, identifiers, value
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.strays import Written, strays, written
from vibey_actions.postgres.swaps import HeldError, Untangled, untangle
from vibey_actions.postgres.tables import Catalog
from vibey_actions.text import visible

_LINKS = ("23503", "23001")
_CLASHES = ("23505", "23P01")


@dataclass(frozen=True, slots=True)
class _Plan:
    """``together``: the rows of linked tables go in one statement. ``untangle``: rows pass on unique values.

    ``aside``: the oids of foreign keys that are not there meanwhile.
    """

    together: bool
    untangle: bool = False
    aside: frozenset[int] = frozenset()

    def after(self, state: str | None) -> _Plan | None:
        """What to try once this plan met the error ``state``; None where nothing else is left."""
        if state in _LINKS and not self.together:
            return replace(self, together=True)
        if state in _CLASHES and not self.untangle:
            return replace(self, untangle=True)
        return None


class _RefusedError(Exception):
    """A constraint stands in the way: what was being done, and PostgreSQL's error."""

    def __init__(self, doing: str, error: psycopg.IntegrityError) -> None:
        super().__init__(doing)
        self.doing = doing
        self.error = error

    def said(self) -> VibeyError:
        return translate(self.error, self.doing)


def write(
    connection: psycopg.Connection, catalog: Catalog, stages: Stages, links: Sequence[Link]
) -> dict[str, Written]:
    """Carry the changes over; all constraints are checked when it returns. Returns what else was written, by table.

    Raises Conflicts, naming every pair of rows, where the rows do not keep this database's constraints together,
    RowRefused where values cannot be passed on, DatabaseFailed for what PostgreSQL refuses for another reason.
    """
    looked = False
    aside = frozenset(link.oid for link in misled(connection, stages, links))
    there = [link for link in links if link.oid not in aside]
    plan = _Plan(together=moves_away(connection, stages, there), aside=aside)
    writer = _Writer(connection, catalog, stages, links)
    while True:
        try:
            refused = _tried(connection, catalog, writer, plan)
        except HeldError as held:
            plan = _without_links_to(held, links, plan)
            continue
        if refused is None:
            return writer.strays
        if not looked:
            # Somebody may have written between the look at the rows and the locks.
            refuse(
                broken_links(connection, stages, links, catalog.tables)
                + broken_rows(connection, catalog, stages, catalog.tables, checks=False)
            )
            looked = True
        following = plan.after(refused.error.sqlstate)
        if following is None:
            raise refused.said() from None
        plan = following


def _without_links_to(held: HeldError, links: Sequence[Link], plan: _Plan) -> _Plan:
    """The plan with the foreign keys aside that keep a unique index in its place. Raises what ``held`` says if none."""
    more = {link.oid for link in links if link.parent.name == held.table and link.whole} - plan.aside
    if not more:
        raise held.refusal from None
    return replace(plan, aside=plan.aside | more)


def _tried(connection: psycopg.Connection, catalog: Catalog, writer: _Writer, plan: _Plan) -> _RefusedError | None:
    try:
        with connection.transaction():
            writer.clear(plan)
            before = written(connection, catalog.tables.values())
            with own_search_path(connection):
                writer.carry(plan)
            writer.strays = strays(before, written(connection, catalog.tables.values()), writer.stages)
    except _RefusedError as refused:
        return refused
    return None


@contextmanager
def _doing(doing: str) -> Iterator[None]:
    with saying(doing):
        try:
            yield
        except psycopg.IntegrityError as error:
            raise _RefusedError(doing, error) from None


@dataclass(slots=True)
class _Writer:
    """Carries the staged rows over once, as a plan says: ``clear``, then ``carry``."""

    connection: psycopg.Connection
    catalog: Catalog
    stages: Stages
    links: Sequence[Link]
    constraints: Constraints | None = None
    there: Sequence[Link] = ()
    aside: Sequence[Link] = ()
    strays: dict[str, Written] = field(default_factory=dict)
    untangled: dict[str, Untangled] = field(default_factory=dict)
    given: dict[str, list[str]] = field(default_factory=dict)

    def clear(self, plan: _Plan) -> None:
        """Put foreign keys aside, and read what keeps rows apart: whether that can give way may depend on them."""
        self.there = [link for link in self.links if link.oid not in plan.aside]
        self.aside = [link for link in self.links if link.oid in plan.aside]
        for link in self.aside:
            with saying(f"putting aside the foreign key {visible(link.name)} of {link.child.name}"):
                self.connection.execute(link.removal.encode())
        if plan.untangle:
            self.constraints = read_constraints(self.connection, self.catalog, self.stages)

    def carry(self, plan: _Plan) -> None:
        """Write every staged row and check every constraint. Raises _RefusedError."""
        self.untangled = {}
        self._put_off()
        groups = self._groups() if plan.together else []
        self.given = {name: self._give(stage) for name, stage in self.stages.items()}
        if plan.untangle:
            for name, stage in self.stages.items():
                in_order = not (any(name in group for group in groups) or self._needs_itself(stage))
                self.untangled[name] = self._untangle(stage, in_order=in_order)
        self._write(groups)
        self._check()
        for name, untangled in self.untangled.items():
            with _doing(f"checking what rows of {name} swapped"):
                untangled.restore(self.connection)
        for link in self.aside:
            with _doing(f"checking the foreign key {visible(link.name)} of {link.child.name}"):
                self.connection.execute(link.restoration.encode())
        for name, columns in self.given.items():
            self._set_identity(self.stages[name], columns, "ALWAYS")

    def _put_off(self) -> None:
        with saying("putting off the constraints that can be"):
            self.connection.execute("SET CONSTRAINTS ALL DEFERRED")

    def _check(self) -> None:
        with _doing("checking the constraints that were put off"):
            self.connection.execute("SET CONSTRAINTS ALL IMMEDIATE")

    def _write(self, groups: Sequence[Collection[str]]) -> None:
        order = [name for name in self.catalog.parents_first if name in self.stages]
        linked = {name for group in groups for name in group}
        alone = [name for name in order if name not in linked]
        for name in reversed(alone):
            if "d" in self.stages[name].operations:
                self._run(f"deleting rows of {name}", _delete(self.stages[name]))
        for group in groups:
            self._at_once([self.stages[name] for name in order if name in group], "dui")
        for name in alone:
            stage = self.stages[name]
            if self._needs_itself(stage):
                self._at_once([stage], "ui")
                continue
            if "u" in stage.operations:
                self._update(stage)
            if "i" in stage.operations:
                self._run(f"inserting rows into {name}", _insert(stage))

    def _needs_itself(self, stage: Stage) -> bool:
        """Whether rows that change may reference rows that come, so that both go in one statement."""
        name = stage.table.name
        aside = {link.name for link in self.aside if link.child.name == name}
        return {"u", "i"} <= stage.operations and any(
            key.references == name and key.name not in aside for key in stage.table.foreign_keys
        )

    def _update(self, stage: Stage) -> None:
        doing, statement = f"updating rows of {stage.table.name}", _update(stage, self.given[stage.table.name])
        untangled = self.untangled.get(stage.table.name)
        if not statement:
            return
        if untangled is None or not untangled.levels:
            self._run(doing, statement)
            return
        for level in untangled.levels:
            self._run(doing, f"{statement} AND s.n = ANY({value('numbers')})", {"numbers": level})
        ordered = [number for level in untangled.levels for number in level]
        self._run(doing, f"{statement} AND s.n <> ALL({value('numbers')})", {"numbers": ordered})

    def _at_once(self, stages: Sequence[Stage], operations: str) -> None:
        """Delete, update and insert in one statement: each table in this order, foreign keys checked at the end."""
        parts: list[str] = []
        for number, stage in enumerate(stages):
            before: list[str] = []
            for operation in operations:
                statement = self._statement(stage, operation, before) if operation in stage.operations else ""
                if statement:
                    name = f"{operation}{number}"
                    parts.append(f"{name} AS ({statement} RETURNING 1)")
                    before.append(name)
        if parts:
            names = ", ".join(stage.table.name for stage in stages)
            self._run(f"writing linked rows of {names}", f"WITH {', '.join(parts)} SELECT 1")

    def _statement(self, stage: Stage, operation: str, before: Sequence[str]) -> str:
        if operation == "d":
            return _delete(stage)
        after = "".join(f" AND (SELECT count(*) FROM {name}) >= 0" for name in before)
        if operation == "i":
            return _insert(stage, after)
        statement = _update(stage, self.given[stage.table.name])
        return statement and statement + after

    def _run(self, doing: str, statement: str, parameters: Mapping[str, Any] | None = None) -> None:
        with _doing(doing):
            if parameters:
                self.connection.execute(bound(statement), parameters)
            else:
                self.connection.execute(statement.encode())

    def _groups(self) -> list[set[str]]:
        """Staged tables that foreign keys link, however far around, and those that other tables reference.

        A table of the latter of which no row goes while others come can as well be written by itself.
        """
        groups: list[set[str]] = []
        for link in self.there:
            pair = {link.child.name, link.parent.name} & self.stages.keys()
            if link.parent.name in pair:
                joined = [group for group in groups if group & pair]
                groups = [group for group in groups if not group & pair] + [pair.union(*joined)]
        return [group for group in groups if len(group) > 1 or any(len(self.stages[n].operations) > 1 for n in group)]

    def _untangle(self, stage: Stage, *, in_order: bool) -> Untangled:
        assert self.constraints is not None  # noqa: S101 - a plan that untangles comes after they were read
        name = stage.table.name
        if "u" not in stage.operations:
            return Untangled()
        rows = FinalRows(stage, self.constraints.generated.get(name, ()))
        referenced = {frozenset(link.parent.columns) for link in self.there if link.parent.name == name}
        return untangle(self.connection, rows, self.constraints.unique.get(name, ()), referenced, in_order=in_order)

    def _give(self, stage: Stage) -> list[str]:
        """Identity columns that take no value in an update, and get another one: made to take it for the time."""
        table = stage.table
        columns = [c.name for c in table.carried if c.identity == "a" and c.name not in table.table.key]
        if not columns or "u" not in stage.operations:
            return []
        changed = " OR ".join(f"r.{identifier(c)} <> {stage.value(c, 's')}" for c in columns)
        query = (
            f"SELECT EXISTS (SELECT FROM {target(table)} r JOIN {stage.name} s ON s.op = 'u'"
            f" AND {stage.match('r', 's')} AND ({changed}))"
        )
        with saying(f"looking for changed identities in {table.name}"):
            if self.connection.execute(query.encode()).fetchone() != (True,):
                return []
        self._set_identity(stage, columns, "BY DEFAULT")
        return columns

    def _set_identity(self, stage: Stage, columns: Sequence[str], kind: str) -> None:
        for column in columns:
            with saying(f"letting rows of {stage.table.name} have the identities that they have on the branch"):
                self.connection.execute(
                    f"ALTER TABLE {stage.table.sql} ALTER COLUMN {identifier(column)} SET GENERATED {kind}".encode()
                )


def _delete(stage: Stage) -> str:
    return f"DELETE FROM {target(stage.table)} r USING {stage.name} s WHERE s.op = 'd' AND {stage.match('r', 's')}"


def _update(stage: Stage, given: Collection[str]) -> str:
    """The statement; nothing where the table has no column to set."""
    key = stage.table.table.key
    # A folded key may have another text and be the same.
    columns = [
        c.name for c in stage.table.carried if (c.name not in key or c.fold) and (c.identity != "a" or c.name in given)
    ]
    if not columns:
        return ""
    values = ", ".join(f"{identifier(name)} = {stage.value(name, 's')}" for name in columns)
    return (
        f"UPDATE {target(stage.table)} r SET {values} FROM {stage.name} s WHERE s.op = 'u' AND {stage.match('r', 's')}"
    )


def _insert(stage: Stage, after: str = "") -> str:
    names = [column.name for column in stage.table.carried]
    values = ", ".join(stage.value(name, "s") for name in names)
    return (
        f"INSERT INTO {stage.table.sql} ({identifiers(names)}) OVERRIDING SYSTEM VALUE"
        f" SELECT {values} FROM {stage.name} s WHERE s.op = 'i'{after} ORDER BY s.n"
    )
