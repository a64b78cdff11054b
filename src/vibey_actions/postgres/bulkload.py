"""Tables made ready for a bulk load, as pg_restore has them: secondary indexes and foreign keys come after the rows.

Both are dropped and put back in the transaction of the load, so that nobody ever sees the database without them. Only
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


@dataclass(slots=True)
class Deferred:
    """What was dropped, to be put back by ``restore``."""

    indexes: list[tuple[str, str]]
    foreign_keys: list[_ForeignKey]

    @classmethod
    def drop(cls, connection: psycopg.Connection, tables: Collection[PgTable]) -> Deferred:
        """Drop the foreign keys among ``tables`` and their secondary indexes. The tables have to be locked."""
        deferred = cls(
            [(str(name), str(definition)) for name, definition in _indexes(connection, tables)],
            _foreign_keys(connection, tables),
        )
        with saying("putting off indexes and foreign keys"):
            for key in deferred.foreign_keys:
                connection.execute(f"ALTER TABLE {key.table} DROP CONSTRAINT {identifier(key.name)}".encode())
            for name, _ in deferred.indexes:
                connection.execute(f"DROP INDEX {name}".encode())
        return deferred

    def restore(self, connection: psycopg.Connection) -> None:
        """Build the indexes again, then the foreign keys, each checked over all rows."""
        with saying("choosing where indexes go"):
            connection.execute("SET LOCAL default_tablespace TO ''")
        for name, definition in self.indexes:
            with saying(f"building the index {name}"):
                connection.execute(definition.encode())
        for key in self.foreign_keys:
            with saying(f"checking the foreign key {key.name}"):
                connection.execute(
                    f"ALTER TABLE {key.table} ADD CONSTRAINT {identifier(key.name)} {key.definition}".encode()
                )


def tables_with_insert_triggers(connection: psycopg.Connection, tables: Collection[PgTable]) -> frozenset[str]:
    """Names of the tables where a trigger fires as rows come in; it may rewrite them, or rows of any other table."""
    with saying("looking for triggers"):
        found = {oid for (oid,) in connection.execute(blocks("bulkload")["insert_triggers"], _oids(tables)).fetchall()}
    return frozenset(table.name for table in tables if table.oid in found)


def _indexes(connection: psycopg.Connection, tables: Collection[PgTable]) -> list[tuple[object, ...]]:
    with saying("reading the definitions of indexes"):
        return connection.execute(blocks("bulkload")["droppable_indexes"], _oids(tables)).fetchall()


def _foreign_keys(connection: psycopg.Connection, tables: Collection[PgTable]) -> list[_ForeignKey]:
    with saying("reading the definitions of foreign keys"):
        rows = connection.execute(blocks("bulkload")["foreign_keys"], _oids(tables)).fetchall()
    return [_ForeignKey(*row) for row in rows]


def _oids(tables: Collection[PgTable]) -> dict[str, list[int]]:
    return {"tables": [table.oid for table in tables]}
