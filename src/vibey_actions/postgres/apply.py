"""The guarded apply: changes go in as one transaction, or not at all (docs/format.md, "The guarded apply").

``SHARE ROW EXCLUSIVE`` on every table it touches: writers wait, readers only where a constraint has to be put aside
(see `writing`). Every row that is to change must still be what the snapshot read. Rows are written parents first,
deleted children first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest

import psycopg

from vibey_actions.errors import StateMoved
from vibey_actions.postgres.agreement import TableAgreement
from vibey_actions.postgres.chunks import Within, chunk_states, without
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.constraints import Link, read_links
from vibey_actions.postgres.counters import advance_counters, advance_sequences
from vibey_actions.postgres.integrity import broken_links, broken_rows, refuse
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.strays import Written, carry_watched
from vibey_actions.postgres.tables import Catalog
from vibey_actions.postgres.triggers import Silenced, rewritten
from vibey_actions.postgres.writing import write
from vibey_actions.state.bounds import chunk_of
from vibey_actions.state.report import Conflict
from vibey_actions.state.spool import Spool

LOCK_TIMEOUT = "10s"


def apply(
    connection: psycopg.Connection,
    catalog: Catalog,
    changes: Mapping[str, Spool],
    agreements: Mapping[str, TableAgreement],
    *,
    changed_here: Collection[str] = (),
) -> dict[str, TableAgreement]:
    """Write ``changes`` in the caller's transaction.

    ``agreements`` hold changed tables as the snapshot read them; what comes back holds these as they are after the
    changes, with None for a chunk in which anybody else, a trigger too, wrote as well. ``changed_here`` are
    the tables of which this database has changes that the branch lacks: there the rows as they are to be were never
    together anywhere. Raises StateMoved where a row is not what the snapshot
    read or a lock is not to be had, Conflicts where the rows break constraints of this database, RowRefused where a
    trigger rewrote what was written, or wrote more, DatabaseFailed where PostgreSQL refuses.
    """
    lock(connection, catalog, changes)
    stages = _staged(connection, catalog, changes)
    for name, stage in stages.items():
        _guard(connection, stage, changes[name])
    links = read_links(connection, catalog, stages)
    refuse(_broken(connection, catalog, stages, links, changed_here))
    silenced = Silenced.turn_off(connection, [stage.table for stage in stages.values()])
    chunks = {name: _Chunks(stages[name], agreements[name], changes[name]) for name in stages if name in agreements}
    for touched in chunks.values():
        touched.before(connection)

    def carry() -> Mapping[str, Written]:
        beside = write(connection, catalog, stages, links)
        for name, stage in stages.items():
            _check_written(connection, stage, changes[name])
        return beside

    carry_watched(connection, catalog, stages, carry)
    silenced.restore(connection)
    for stage in stages.values():
        advance_sequences(connection, stage)
        advance_counters(connection, stage)
    return {name: touched.after(connection) for name, touched in chunks.items()}


def conflicts(
    connection: psycopg.Connection, catalog: Catalog, changes: Mapping[str, Spool], changed_here: Collection[str]
) -> list[Conflict]:
    """Rows that ``changes`` would have break a constraint of this database. Writes to temporary tables alone."""
    stages = _staged(connection, catalog, changes)
    return _broken(connection, catalog, stages, read_links(connection, catalog, stages), changed_here)


def _staged(connection: psycopg.Connection, catalog: Catalog, changes: Mapping[str, Spool]) -> dict[str, Stage]:
    return {
        name: Stage.make(connection, catalog.tables[name], number, changes[name])
        for number, name in enumerate(sorted(changes))
    }


def _broken(
    connection: psycopg.Connection,
    catalog: Catalog,
    stages: Mapping[str, Stage],
    links: Sequence[Link],
    changed_here: Collection[str],
) -> list[Conflict]:
    found = broken_links(connection, stages, links, changed_here)
    return found + broken_rows(connection, catalog, stages, changed_here)


def lock(connection: psycopg.Connection, catalog: Catalog, changes: Mapping[str, Spool]) -> None:
    """Lock what the changes touch: the tables themselves, those an action of a foreign key reaches, counters."""
    names = set(changes)
    names |= {
        name
        for name, table in catalog.tables.items()
        if any(
            key.references in changes and (key.on_delete in "cnd" or key.on_update in "cnd")
            for key in table.foreign_keys
        )
    }
    tables = [catalog.tables[name].sql for name in sorted(names)]
    counters = sorted({counter.target for name in changes for counter in catalog.tables[name].counters})
    with saying("locking the tables that are to change"):
        connection.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'".encode())
        for table in [*tables, *counters]:
            connection.execute(f"LOCK TABLE {table} IN SHARE ROW EXCLUSIVE MODE".encode())


def _guard(connection: psycopg.Connection, stage: Stage, changes: Spool) -> None:
    unlike = _first_unlike(connection, stage, ((change.key, change.before) for change in changes))
    if unlike is not None:
        raise StateMoved(
            f"table {stage.table.name}, row {unlike.key}: it changed here since it was read", "nothing was written"
        )


@dataclass(frozen=True, slots=True)
class _Unlike:
    """A row that is not as it was expected; None is no row."""

    key: str
    expected: bytes | None
    found: bytes | None


def _first_unlike(
    connection: psycopg.Connection, stage: Stage, expected: Iterator[tuple[bytes, bytes | None]]
) -> _Unlike | None:
    """The first staged row that is not in the table as ``expected``; None where all are."""
    # Closed before anything else is asked of the connection, which the stream of rows occupies.
    with closing(stage.current(connection)) as rows:
        for change, now in zip_longest(expected, rows):
            if change is None:
                return _Unlike("(two rows under one key)", None, now)
            if now != change[1]:
                return _Unlike(change[0].decode("ascii"), change[1], now)
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


def _check_written(connection: psycopg.Connection, stage: Stage, changes: Spool) -> None:
    """What was written must be what was meant: a trigger or a rule may have made something else of it."""
    unlike = _first_unlike(connection, stage, ((change.key, change.after) for change in changes))
    if unlike is not None:
        raise rewritten(connection, stage.table, unlike.key, unlike.expected, unlike.found)
