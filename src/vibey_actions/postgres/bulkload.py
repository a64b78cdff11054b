"""Tables made ready for a bulk load, as pg_restore has them: keys, indexes and foreign keys come after the rows.

They are dropped and put back in the transaction of the load, so that nobody ever sees the database without them. Only
what its definition restores whole is dropped; everything else stays and is kept up row by row.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import psycopg

from vibey_actions.postgres.connection import saying
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


@dataclass(frozen=True, slots=True)
class _Constraint:
    table: str
    name: str
    definition: str

    def drop(self, connection: psycopg.Connection) -> None:
        connection.execute(f"ALTER TABLE {self.table} DROP CONSTRAINT {identifier(self.name)}".encode())

    def add(self, connection: psycopg.Connection) -> None:
        connection.execute(
            f"ALTER TABLE {self.table} ADD CONSTRAINT {identifier(self.name)} {self.definition}".encode()
        )


@dataclass(slots=True)
class Deferred:
    """What was dropped, to be put back by ``restore``."""

    keys: list[_Constraint]
    indexes: list[tuple[str, str]]
    foreign_keys: list[_Constraint]

    @classmethod
    def drop(cls, connection: psycopg.Connection, tables: Collection[PgTable], *, keep_unique: bool) -> Deferred:
        """Drop the foreign keys among ``tables``, their keys and their secondary indexes. The tables have to be locked.

        With ``keep_unique`` whatever is unique stays: a trigger's ON CONFLICT needs it as rows come in.
        """
        foreign_keys = [_Constraint(key.table, key.name, key.definition) for key in _foreign_keys(connection, tables)]
        with saying("putting off foreign keys"):
            for key in foreign_keys:
                key.drop(connection)
        # Only now does no foreign key hang on a key any more that can be dropped.
        keys = [] if keep_unique else _keys(connection, tables)
        indexes = _indexes(connection, tables, keep_unique=keep_unique)
        with saying("putting off keys and indexes"):
            for key in keys:
                key.drop(connection)
            for name, _ in indexes:
                connection.execute(f"DROP INDEX {name}".encode())
        return cls(keys, indexes, foreign_keys)

    def restore(self, connection: psycopg.Connection) -> None:
        """Build the keys and the indexes again, then the foreign keys, each checked over all rows."""
        with saying("choosing where indexes go"):
            connection.execute("SET LOCAL default_tablespace TO ''")
        for key in self.keys:
            with saying(f"building the key {key.name}"):
                key.add(connection)
        for name, definition in self.indexes:
            with saying(f"building the index {name}"):
                connection.execute(definition.encode())
        for key in self.foreign_keys:
            with saying(f"checking the foreign key {key.name}"):
                key.add(connection)


def tables_with_insert_triggers(connection: psycopg.Connection, tables: Collection[PgTable]) -> frozenset[str]:
    """Names of the tables where a trigger fires as rows come in; it may rewrite them, or rows of any other table."""
    with saying("looking for triggers"):
        found = {oid for (oid,) in connection.execute(blocks("bulkload")["insert_triggers"], _oids(tables)).fetchall()}
    return frozenset(table.name for table in tables if table.oid in found)


def _keys(connection: psycopg.Connection, tables: Collection[PgTable]) -> list[_Constraint]:
    with saying("reading the definitions of keys"):
        rows = connection.execute(blocks("bulkload")["droppable_keys"], _oids(tables)).fetchall()
    return [_Constraint(*row) for row in rows]


def _indexes(
    connection: psycopg.Connection, tables: Collection[PgTable], *, keep_unique: bool
) -> list[tuple[str, str]]:
    with saying("reading the definitions of indexes"):
        parameters = {**_oids(tables), "keep_unique": keep_unique}
        rows = connection.execute(blocks("bulkload")["droppable_indexes"], parameters).fetchall()
    return [(str(name), str(definition)) for name, definition in rows]


def _foreign_keys(connection: psycopg.Connection, tables: Collection[PgTable]) -> list[_ForeignKey]:
    with saying("reading the definitions of foreign keys"):
        rows = connection.execute(blocks("bulkload")["foreign_keys"], _oids(tables)).fetchall()
    return [_ForeignKey(*row) for row in rows]


def _oids(tables: Collection[PgTable]) -> dict[str, list[int]]:
    return {"tables": [table.oid for table in tables]}
