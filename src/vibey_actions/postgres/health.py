"""What can be asked of a database before anything is synced: who we are in it, what we may do, what is in between.

Everything here only reads.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from datetime import datetime

import psycopg

from vibey_actions.postgres.connection import connect_plain, saying, server_process
from vibey_actions.postgres.sql import blocks
from vibey_actions.postgres.tables import Catalog

_DOING = "asking what this role may do"


@dataclass(frozen=True, slots=True)
class Session:
    """``standby`` and ``read_only``: nothing can be written; ``temporary`` and ``create``: what the role may make."""

    process: int
    standby: bool
    read_only: bool
    clock: datetime
    role: str
    temporary: bool
    create: bool


def session(connection: psycopg.Connection) -> Session:
    """What the session behind ``connection`` is."""
    with saying("asking what this session is"):
        row = connection.execute(blocks("health")["session"]).fetchone()
    assert row is not None  # noqa: S101 - a query without FROM gives one row
    return Session(*row)


@dataclass(frozen=True, slots=True)
class Pooling:
    """``between`` says that a connection pooler answers in the server's place, ``shared`` that it hands one server
    session to several clients in turn, so that no setting or lock of a session lasts.
    """

    between: bool
    shared: bool


def pooling(dsn: str) -> Pooling:
    """What stands between this program and the server, found with two connections at once."""
    with (
        saying("looking for a connection pooler"),
        closing(connect_plain(dsn, purpose="doctor")) as one,
        closing(connect_plain(dsn, purpose="doctor")) as other,
    ):
        # The process id that a login is told is the pooler's own; the one that a query gives is the server's.
        told = one.info.backend_pid
        first, second = server_process(one), server_process(other)
        return Pooling(between=told != first, shared=first == second)


def extensions(connection: psycopg.Connection) -> list[tuple[str, str]]:
    """Name and version of every extension but plpgsql."""
    with saying("listing the extensions"):
        return connection.execute(blocks("health")["extensions"]).fetchall()


@dataclass(frozen=True, slots=True)
class Lacking:
    """What keeps a role from syncing: ``rights`` by table name, tables whose rows policies ``hide``, sequences.

    ``not_owned`` are tables whose triggers are to be turned off, which only an owner may do.
    """

    rights: dict[str, tuple[str, ...]]
    hidden: tuple[str, ...]
    not_owned: tuple[str, ...]
    sequences: tuple[str, ...]


def lacking(connection: psycopg.Connection, catalog: Catalog) -> Lacking:
    """The rights that this role lacks on the tables of ``catalog`` and on the sequences they advance."""
    by_oid = {table.oid: table for table in catalog.tables.values()}
    names = ("USAGE on its schema", "SELECT", "INSERT", "UPDATE", "DELETE")
    rights: dict[str, tuple[str, ...]] = {}
    hidden, not_owned = [], []
    with saying(_DOING):
        for oid, *may, policies, owned in connection.execute(blocks("health")["tables"], {"oids": list(by_oid)}):
            table = by_oid[oid]
            missing = tuple(name for name, right in zip(names, may, strict=True) if not right)
            if missing:
                rights[table.name] = missing
            if policies:
                hidden.append(table.name)
            if table.triggers_off and not owned:
                not_owned.append(table.name)
    return Lacking(
        dict(sorted(rights.items())), tuple(sorted(hidden)), tuple(sorted(not_owned)), _sequences(connection, catalog)
    )


def _sequences(connection: psycopg.Connection, catalog: Catalog) -> tuple[str, ...]:
    used = {one.sequence for table in catalog.tables.values() for one in table.sequences}
    with saying(_DOING):
        found = connection.execute(blocks("health")["sequences"], {"sequences": sorted(used)}).fetchall()
    return tuple(name for (name,) in found)


def own_schema(connection: psycopg.Connection) -> bool | None:
    """Whether this role may use the schema vibey_actions; None where it is not there."""
    with saying(_DOING):
        row = connection.execute(blocks("health")["own_schema"]).fetchone()
    return None if row is None else bool(row[0])


def may_record(connection: psycopg.Connection) -> bool:
    """Whether this role may record a watermark in state_sync, which has to be there."""
    with saying(_DOING):
        return connection.execute(blocks("health")["watermark_rights"]).fetchone() == (True,)


def last_sync(connection: psycopg.Connection, remote: str) -> tuple[datetime, float] | None:
    """When ``remote`` was last synced with, and how many seconds ago; state_sync has to be there."""
    with saying("reading the watermark"):
        row = connection.execute(blocks("health")["synced"], {"remote": remote}).fetchone()
    return None if row is None else (row[0], float(row[1]))
