"""The guarded apply: changes go in as one transaction, or not at all (spec: the guarded apply).

``SHARE ROW EXCLUSIVE`` on every table it touches: writers wait, readers never. Every row that is to change must still
be what the snapshot read. Rows are written parents first, deleted children first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from itertools import zip_longest

import psycopg

from vibey_actions.errors import RowRefused, StateMoved
from vibey_actions.postgres.agreement import TableAgreement
from vibey_actions.postgres.chunks import Within, chunk_states, without
from vibey_actions.postgres.connection import own_search_path, saying
from vibey_actions.postgres.counters import advance_counters, advance_sequences
from vibey_actions.postgres.links import refuse_orphans
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.tables import Catalog, PgTable
from vibey_actions.postgres.writing import write
from vibey_actions.state.bounds import chunk_of
from vibey_actions.state.spool import Spool

LOCK_TIMEOUT = "10s"


def apply(
    connection: psycopg.Connection,
    catalog: Catalog,
    changes: Mapping[str, Spool],
    agreements: Mapping[str, TableAgreement],
) -> dict[str, TableAgreement]:
    """Write ``changes`` in the caller's transaction.

    ``agreements`` hold changed tables as the snapshot read them; what comes back holds these as they are after the
    changes, with None for a chunk in which anybody else, a trigger too, wrote as well. Raises StateMoved where a row is
    not what the snapshot read or a lock is not to be had, Conflicts where the rows of both ends break a foreign key or
    a unique index, RowRefused where a trigger rewrote what was written, DatabaseFailed where PostgreSQL refuses.
    """
    lock(connection, catalog, changes)
    stages = {
        name: Stage.make(connection, catalog.tables[name], number, changes[name])
        for number, name in enumerate(sorted(changes))
    }
    for name, stage in stages.items():
        _guard(connection, stage, changes[name])
    chunks = {name: _Chunks(stages[name], agreements[name], changes[name]) for name in stages if name in agreements}
    for touched in chunks.values():
        touched.before(connection)
    _write(connection, catalog, stages)
    for name, stage in stages.items():
        _check_written(connection, stage, changes[name])
    return {name: touched.after(connection) for name, touched in chunks.items()}


def lock(connection: psycopg.Connection, catalog: Catalog, changes: Mapping[str, Spool]) -> None:
    """Lock what the changes touch: the tables themselves, those whose rows a deletion reaches, counters."""
    names = set(changes)
    names |= {
        name
        for name, table in catalog.tables.items()
        if any(key.references in changes and key.on_delete in "cnd" for key in table.foreign_keys)
    }
    tables = [catalog.tables[name].sql for name in sorted(names)]
    counters = sorted({counter.target for name in changes for counter in catalog.tables[name].counters})
    with saying("locking the tables that are to change"):
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'".encode())
        for table in [*tables, *counters]:
            connection.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE".encode())


def _guard(connection: psycopg.Connection, stage: Stage, changes: Spool) -> None:
    key = _first_unlike(connection, stage, ((change.key, change.before) for change in changes))
    if key is not None:
        raise StateMoved(
            f"table {stage.table.name}, row {key}: it changed here since it was read", "nothing was written"
        )


def _first_unlike(
    connection: psycopg.Connection, stage: Stage, expected: Iterator[tuple[bytes, bytes | None]]
) -> str | None:
    """The key of the first staged row that is not in the table as ``expected``; None where all are."""
    # Closed before anything else is asked of the connection, which the stream of rows occupies.
    with closing(stage.current(connection)) as rows:
        for change, now in zip_longest(expected, rows):
            if change is None:
                return "(two rows under one key)"
            if now != change[1]:
                return change[0].decode("ascii")
    return None


class _Chunks:
    """The chunks of a table that the changes fall into, before and after."""

    def __init__(self, stage: Stage, agreed: TableAgreement, changes: Spool) -> None:
        self._stage = stage
        self._agreed = agreed
        self._touched = sorted({chunk_of(agreed.bounds, change.key) for change in changes})
        everything = len(self._touched) == len(agreed.states)
        self._within = None if everything else Within(agreed.bounds, self._touched)
        self._expected: dict[int, bytes] = {}

    def _states(self, connection: psycopg.Connection, *, staged: bool) -> list[bytes]:
        rows = self._stage.holds("r") if staged else "true"
        agreed = self._agreed
        return chunk_states(connection, self._stage.table, agreed.salt, agreed.bounds, self._within, rows=rows)

    def before(self, connection: psycopg.Connection) -> None:
        states, staged = (self._states(connection, staged=staged) for staged in (False, True))
        self._expected = {
            chunk: without(states[chunk], staged[chunk])
            for chunk in self._touched
            if states[chunk] == self._agreed.states[chunk]
        }

    def after(self, connection: psycopg.Connection) -> TableAgreement:
        states: list[bytes | None] = list(self._agreed.states)
        now, staged = (self._states(connection, staged=staged) for staged in (False, True))
        for chunk in self._touched:
            rest = without(now[chunk], staged[chunk])
            states[chunk] = now[chunk] if self._expected.get(chunk) == rest else None
        return TableAgreement(self._agreed.shape, self._agreed.salt, self._agreed.bounds, states)


def _write(connection: psycopg.Connection, catalog: Catalog, stages: Mapping[str, Stage]) -> None:
    refuse_orphans(connection, catalog, stages)
    with own_search_path(connection):
        write(connection, catalog, stages)
    for stage in stages.values():
        advance_sequences(connection, stage)
        advance_counters(connection, stage)


def _check_written(connection: psycopg.Connection, stage: Stage, changes: Spool) -> None:
    """What was written must be what was meant: a trigger or a rule may have made something else of it."""
    key = _first_unlike(connection, stage, ((change.key, change.after) for change in changes))
    if key is not None:
        raise _rewritten(connection, stage.table, key)


def _rewritten(connection: psycopg.Connection, table: PgTable, key: str) -> RowRefused:
    with saying(f"looking for triggers on {table.name}"):
        triggers = connection.execute(
            "SELECT tgname FROM pg_trigger WHERE tgrelid = %s AND NOT tgisinternal AND tgenabled <> 'D' ORDER BY 1",
            (table.oid,),
        ).fetchall()
    names = ", ".join(name for (name,) in triggers)
    cause = f"its trigger(s) {names} rewrite rows" if names else "the database made something else of what was written"
    return RowRefused(
        f"table {table.name}, row {key}: the row is not what was written to it; {cause}",
        "a row that is rewritten on every sync never comes to rest: have the trigger leave rows alone that "
        "application_name 'vibey-actions sync' writes, or exclude the table; nothing was written",
    )
