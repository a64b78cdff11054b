"""Tables made ready for a bulk load, as pg_restore has them: keys, indexes and foreign keys come after the rows.

They are dropped and put back in the transaction of the load, so that nobody ever sees the database without them. Only
what its definition restores whole is dropped; everything else stays and is kept up row by row. Whether the database
comes out of that as it was is tried out while it is empty.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import psycopg

from vibey_actions.postgres.connection import own_search_path, saying
from vibey_actions.postgres.constraints import index_definition
from vibey_actions.postgres.sql import blocks, identifier
from vibey_actions.postgres.tables import PgTable


@dataclass(frozen=True, slots=True)
class _ForeignKey:
    table: str
    name: str
    definition: str
    whole: bool


def can_load_in_any_order(connection: psycopg.Connection, tables: Collection[PgTable]) -> bool:
    """Whether rows can come in any order of tables: every foreign key among them can be put off to the end."""
    sql = blocks("bulkload")
    with saying("looking how the database can be filled"):
        obstacles = connection.execute(sql["obstacles"], _oids(tables)).fetchone()
        return obstacles == (0,) and all(key.whole for key in _foreign_keys(connection, tables))


def comes_back_whole(connection: psycopg.Connection, tables: Collection[PgTable]) -> bool:
    """Drop and restore as for a load, and look whether all is as it was.

    Raises DatabaseFailed for what PostgreSQL refuses. For a transaction that is taken back; the tables are locked.
    """
    before = _shape(connection, tables)
    keep_unique = bool(tables_with_insert_triggers(connection, tables))
    deferred = Deferred.drop(connection, tables, keep_unique=keep_unique)
    with own_search_path(connection):
        deferred.restore(connection)
    return _shape(connection, tables) == before


@dataclass(frozen=True, slots=True)
class PutOff:
    """A key, an index or a foreign key: what it is called, and the commands that take it away and make it again."""

    name: str
    removal: str
    restoration: str


@dataclass(slots=True)
class Deferred:
    """What was dropped, to be put back by ``restore``, each in the order it was made in; ``indexes`` are keys too."""

    indexes: list[PutOff]
    foreign_keys: list[PutOff]

    @classmethod
    def drop(cls, connection: psycopg.Connection, tables: Collection[PgTable], *, keep_unique: bool) -> Deferred:
        """Drop the foreign keys among ``tables``, their keys and their secondary indexes. The tables have to be locked.

        With ``keep_unique`` whatever is unique stays: a trigger's ON CONFLICT needs it as rows come in.
        """
        foreign_keys = [_constraint(key.table, key.name, key.definition) for key in _foreign_keys(connection, tables)]
        _remove(connection, "putting off foreign keys", foreign_keys)
        # Only now does no foreign key hang on a key any more that can be dropped.
        indexes = _indexes(connection, tables, keep_unique=keep_unique)
        _remove(connection, "putting off keys and indexes", indexes)
        return cls(indexes, foreign_keys)

    def restore(self, connection: psycopg.Connection) -> None:
        """Build the keys and the indexes again, then the foreign keys, each checked over all rows.

        In the database's own search_path. No event of a trigger may be pending: it keeps a table as it is.
        """
        with saying("choosing where indexes go"):
            connection.execute("SET LOCAL default_tablespace TO ''")
        for index in self.indexes:
            with saying(f"building the index {index.name}"):
                connection.execute(index.restoration.encode())
        for key in self.foreign_keys:
            with saying(f"checking the foreign key {key.name}"):
                connection.execute(key.restoration.encode())


def tables_with_insert_triggers(connection: psycopg.Connection, tables: Collection[PgTable]) -> frozenset[str]:
    """Names of the tables where a trigger fires as rows come in; it may rewrite them, or rows of any other table."""
    with saying("looking for triggers"):
        found = {oid for (oid,) in connection.execute(blocks("bulkload")["insert_triggers"], _oids(tables)).fetchall()}
    return frozenset(table.name for table in tables if table.oid in found)


def _constraint(table: str, name: str, definition: str) -> PutOff:
    alter = f"ALTER TABLE {table}"
    return PutOff(
        name,
        f"{alter} DROP CONSTRAINT {identifier(name)}",
        f"{alter} ADD CONSTRAINT {identifier(name)} {definition}",
    )


def _remove(connection: psycopg.Connection, doing: str, found: Collection[PutOff]) -> None:
    with saying(doing):
        for one in found:
            connection.execute(one.removal.encode())


def _indexes(connection: psycopg.Connection, tables: Collection[PgTable], *, keep_unique: bool) -> list[PutOff]:
    with saying("reading the definitions of keys and indexes"):
        parameters = {**_oids(tables), "keep_unique": keep_unique}
        rows = connection.execute(blocks("bulkload")["droppable"], parameters).fetchall()
        plain = {oid for oid, _, table, _, _ in rows if table is None}
        with own_search_path(connection):
            definitions = {oid: index_definition(connection, oid) for oid in plain}
    return [
        PutOff(name, f"DROP INDEX {name}", definitions[oid])
        if table is None
        else _constraint(table, constraint, definition)
        for oid, name, table, constraint, definition in rows
    ]


def _foreign_keys(connection: psycopg.Connection, tables: Collection[PgTable]) -> list[_ForeignKey]:
    with saying("reading the definitions of foreign keys"):
        rows = connection.execute(blocks("bulkload")["foreign_keys"], _oids(tables)).fetchall()
    return [_ForeignKey(*row) for row in rows]


def _shape(connection: psycopg.Connection, tables: Collection[PgTable]) -> list[tuple[str]]:
    with saying("reading what is set on the tables"):
        return connection.execute(blocks("bulkload")["shape"], _oids(tables)).fetchall()


def _oids(tables: Collection[PgTable]) -> dict[str, list[int]]:
    return {"tables": [table.oid for table in tables]}
