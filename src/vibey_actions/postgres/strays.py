"""Rows of synced tables that were written beside what was meant: by a trigger, a rule, an action of a foreign key.

PostgreSQL counts what a transaction writes, table by table. Where that is more or less than the staged changes, every
row that was not staged has to be what it was; else whoever wrote is named, and the apply is taken back. Nobody pays for
the comparison whose tables come out as counted.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

import psycopg

from vibey_actions.errors import RowRefused
from vibey_actions.postgres.chunks import chunk_states
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.links import Stages
from vibey_actions.postgres.sql import blocks
from vibey_actions.postgres.tables import Catalog, PgTable
from vibey_actions.postgres.triggers import FIRING, section_of, triggers_of
from vibey_actions.text import visible

_MOST_NAMED = 5


@dataclass(frozen=True, slots=True)
class Written:
    """How many rows were inserted, updated and deleted. ``files`` is others after the table was truncated."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    files: str = ""


def written(connection: psycopg.Connection, tables: Iterable[PgTable]) -> dict[str, Written]:
    """What this transaction did to each table so far, what it took back to a savepoint included."""
    of_oid = {table.oid: table.name for table in tables}
    with saying("counting the rows that were written"):
        rows = connection.execute(blocks("strays")["written"], {"oids": list(of_oid)}).fetchall()
    return {of_oid[oid]: Written(int(i), int(u), int(d), files) for oid, i, u, d, files in rows}


def strays(before: Mapping[str, Written], after: Mapping[str, Written], stages: Stages) -> dict[str, Written]:
    """By table, what was written between the two counts beside the staged changes; tables without such are left out."""
    found = {}
    for name, now in after.items():
        then = before[name]
        meant = stages[name].counts if name in stages else Counter[str]()
        beside = Written(
            now.inserted - then.inserted - meant["i"],
            now.updated - then.updated - meant["u"],
            now.deleted - then.deleted - meant["d"],
            now.files if now.files != then.files else "",
        )
        if beside != Written():
            found[name] = beside
    return found


def carry_watched(
    connection: psycopg.Connection, catalog: Catalog, stages: Stages, carry: Callable[[], Mapping[str, Written]]
) -> None:
    """Call ``carry``, which writes the staged changes and returns its ``strays``, until it is known what they did.

    Raises RowRefused where a row that was not staged is not what it was.
    """
    found = _blind(connection, catalog, stages)
    if not found:
        with connection.transaction() as attempt:
            found = carry()
            if found:
                raise psycopg.Rollback(attempt)
        if not found:
            return
    rests = {name: _Rest.of(connection, catalog.tables[name], stages) for name in sorted(found)}
    for name, beside in {**found, **carry()}.items():
        if name not in rests or rests[name].is_other(connection):
            raise _strayed(connection, catalog.tables[name], beside, stages)


def _blind(connection: psycopg.Connection, catalog: Catalog, stages: Stages) -> Mapping[str, Written]:
    """Every table, where nothing is counted on this server and somebody may write beside us."""
    with saying("looking whether the server counts what is written"):
        if connection.execute("SELECT current_setting('track_counts')").fetchone() == ("on",):
            return {}
    return dict.fromkeys(catalog.tables, Written()) if _writers(connection, stages) else {}


@dataclass(frozen=True, slots=True)
class _Rest:
    """The rows of a table that are not staged, as they were; nobody else writes to it until the transaction ends."""

    table: PgTable
    rows: str
    salt: bytes
    state: bytes

    @classmethod
    def of(cls, connection: psycopg.Connection, table: PgTable, stages: Stages) -> _Rest:
        with saying(f"locking {table.name}"):
            connection.execute(f"LOCK TABLE {table.sql} IN SHARE ROW EXCLUSIVE MODE".encode())
        rows = f"NOT {stages[table.name].holds('r')}" if table.name in stages else "true"
        salt = os.urandom(16)
        return cls(table, rows, salt, chunk_states(connection, table, salt, (), rows=rows)[0])

    def is_other(self, connection: psycopg.Connection) -> bool:
        return chunk_states(connection, self.table, self.salt, (), rows=self.rows) != [self.state]


def _writers(connection: psycopg.Connection, stages: Stages) -> list[tuple[PgTable, str]]:
    """What fires on the staged tables: the table, and ``trigger NAME`` or ``rule NAME``."""
    tables = {stage.table.oid: stage.table for stage in stages.values()}
    with saying("reading the rules of the tables that are to change"):
        rules = connection.execute(blocks("strays")["rules"], {"oids": list(tables)}).fetchall()
    triggers = triggers_of(connection, tables.values())
    found = {(trigger.root, f"trigger {trigger.name}"): None for trigger in triggers if trigger.fires in FIRING}
    found |= {(oid, f"rule {name}"): None for oid, name in rules}
    return [(tables[oid], what) for oid, what in found]


def _strayed(connection: psycopg.Connection, table: PgTable, beside: Written, stages: Stages) -> RowRefused:
    writers = _writers(connection, stages)
    named = [f"the {visible(what)} of {of.name}" for of, what in writers[:_MOST_NAMED]]
    more = f" or {len(writers) - _MOST_NAMED} more" if len(writers) > _MOST_NAMED else ""
    who = ", ".join(named) + more or "an action of a foreign key, or a trigger of a table that is not synced,"
    return RowRefused(
        f"table {table.name}: {_what(beside)} while the branch's changes were applied, and not by them; "
        f"{who} may have done that",
        f"{_cure(table, [of for of, what in writers if what.startswith('trigger ')])}; nothing was written",
    )


def _what(beside: Written) -> str:
    if beside.files:
        return "it was truncated"
    counts = {"inserted": beside.inserted, "updated": beside.updated, "deleted": beside.deleted}
    parts = [f"{abs(count)} {'more' if count > 0 else 'less'} {did}" for did, count in counts.items() if count]
    return f"rows were written ({', '.join(parts)} than meant)" if parts else "rows were written"


def _cure(table: PgTable, with_triggers: Collection[PgTable]) -> str:
    names = sorted({section_of(of) for of in with_triggers if not of.triggers_off})
    aside = f"exclude {table.name}: what others make of it again at every end is nothing to sync"
    if not names:
        return f"have that leave rows alone that application_name 'vibey-actions sync' writes, or {aside}"
    sections = ", ".join(f'[tables.{name}] triggers = "off"' for name in names)
    return f"what fires at one end arrives from there: declare {sections} in .github/vibey-state.toml, or {aside}"
