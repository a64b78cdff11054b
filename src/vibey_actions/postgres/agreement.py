"""What this database agreed on with a branch, kept beside the watermark in the schema vibey_actions.

An agreement is only ever a reason to read less: where it is missing, stale or made under another key, everything is
read and compared. It holds for exactly one commit; the watermark says which.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import psycopg

from vibey_actions.postgres.chunks import texts
from vibey_actions.postgres.connection import saying, server_version
from vibey_actions.postgres.sql import blocks
from vibey_actions.postgres.tables import PgTable

_VERSION = "3"


@dataclass(frozen=True, slots=True)
class TableAgreement:
    """One table's chunks as they agreed; a state of None is a chunk to read again."""

    shape: str
    salt: bytes
    bounds: Sequence[bytes]
    states: Sequence[bytes | None]


def key_check(key: bytes) -> bytes:
    """Tells whether an agreement was made under ``key``, and nothing of the key."""
    return hmac.digest(key, b"vibey-actions agreement", hashlib.sha256)[:16]


def shape_of(connection: psycopg.Connection, table: PgTable, schema: Sequence[str]) -> str:
    """Changes whenever the document of unchanged rows might: columns, their types, migrations, the server's version."""
    parts = [_VERSION, str(server_version(connection)), *table.table.key, "", *schema, ""]
    parts += [f"{column.name} {column.type} {column.serialized}" for column in table.carried]
    parts += [f"{column} {fold.value}" for column, fold in table.table.folds]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def load(connection: psycopg.Connection, remote: str, base: str | None, check: bytes) -> dict[str, TableAgreement]:
    """The agreements with ``remote`` at the commit ``base``; none where none can be used."""
    sql = blocks("agreement")
    with saying("reading what the last sync agreed on"):
        row = connection.execute(sql["table_exists"]).fetchone()
        if base is None or row is None or not row[0]:
            return {}
        rows = connection.execute(sql["load"], {"remote": remote, "base": base, "key_check": check}).fetchall()
    return {
        name: TableAgreement(shape, bytes(salt), [bound.encode() for bound in bounds], states)
        for name, shape, salt, bounds, states in rows
        if len(states) == len(bounds) + 1
    }


def create(connection: psycopg.Connection) -> None:
    """Make the table where it is missing. Needs CREATE on the database the first time."""
    sql = blocks("agreement")
    row = connection.execute(sql["table_exists"]).fetchone()
    if row is None or not row[0]:
        connection.execute(sql["create"])


def record(
    connection: psycopg.Connection,
    remote: str,
    commit: str,
    check: bytes,
    *,
    carried: Collection[str],
    made: Mapping[str, TableAgreement],
) -> None:
    """Have the tables in ``carried`` agree with ``commit`` as they were, those in ``made`` as given.

    In the caller's transaction, together with the watermark.
    """
    sql = blocks("agreement")
    connection.execute(sql["arrived"], {"remote": remote})
    connection.execute(sql["carry"], {"remote": remote, "commit": commit, "tables": sorted(carried)})
    for name, agreed in sorted(made.items()):
        connection.execute(
            sql["put"],
            {
                "remote": remote,
                "table": name,
                "commit": commit,
                "shape": agreed.shape,
                "key_check": check,
                "salt": agreed.salt,
                "bounds": texts(agreed.bounds),
                "states": list(agreed.states),
            },
        )


def announce(connection: psycopg.Connection, remote: str, commit: str) -> None:
    """Note that ``commit``, which holds what this database held when it was read, is on its way to the branch."""
    connection.execute(blocks("agreement")["announce"], {"remote": remote, "commit": commit})


def pending(connection: psycopg.Connection, remote: str) -> str | None:
    """The commit that was announced and is not known to have arrived."""
    sql = blocks("agreement")
    with saying("reading what was on its way to the branch"):
        exists = connection.execute(sql["table_exists"]).fetchone()
        if exists is None or not exists[0]:
            return None
        row = connection.execute(sql["pending"], {"remote": remote}).fetchone()
    return row[0] if row is not None else None


def forget(connection: psycopg.Connection, remote: str) -> None:
    """Drop every agreement with ``remote``."""
    sql = blocks("agreement")
    row = connection.execute(sql["table_exists"]).fetchone()
    if row is not None and row[0]:
        connection.execute(sql["forget"], {"remote": remote})
