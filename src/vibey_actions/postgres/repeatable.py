"""Whether migrations make the same of the same rows each time and everywhere (field case: old rows and new defaults).

A column filled from the clock, a random number or a sequence has other values in every database that the migration
ran in, so that every row would look edited. It shows when the rows go the same way twice, lying in another order.
"""

from __future__ import annotations

import psycopg

from vibey_actions.postgres.chunks import chunk_states
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.expressions import target
from vibey_actions.postgres.sql import blocks, identifier
from vibey_actions.postgres.tables import Catalog

Images = dict[str, bytes]
"""By table, what changes whenever any of its rows does."""


def images(connection: psycopg.Connection, catalog: Catalog) -> Images:
    """The image of every table."""
    return {name: chunk_states(connection, table, b"", [])[0] for name, table in catalog.tables.items()}


def turn_over(connection: psycopg.Connection, catalog: Catalog) -> None:
    """Have the rows of every table lie in the reverse order of their keys; partitions are left alone."""
    for table in catalog.tables.values():
        if table.partitioned:
            continue
        keys = ", ".join(f"{identifier(name)} DESC" for name in table.table.key)
        with saying(f"turning the rows of {table.name} over"):
            connection.execute(f"CREATE INDEX vibey_turned ON {target(table)} ({keys})".encode())
            connection.execute(f"CLUSTER {table.sql} USING vibey_turned".encode())
            connection.execute(f"DROP INDEX {identifier(table.schema)}.vibey_turned".encode())


def clock_columns(connection: psycopg.Connection, before: Catalog, after: Catalog) -> list[str]:
    """Columns, as ``table.column``, that are new and filled by a default whose value depends on when it is asked for.

    The day, say, which is the same in both runs.
    """
    found: list[str] = []
    for name, table in after.tables.items():
        old = before.tables.get(name)
        if old is None:
            continue
        with saying(f"reading the defaults of {name}"):
            rows = connection.execute(blocks("repeatable")["unsteady_defaults"], {"table": table.oid}).fetchall()
            for (column,) in rows:
                filled = f"SELECT EXISTS (SELECT FROM {target(table)} WHERE {identifier(column)} IS NOT NULL)"
                is_new = all(column != c.name for c in old.columns)
                if is_new and connection.execute(filled.encode()).fetchone() == (True,):
                    found.append(f"{name}.{column}")
    return found
