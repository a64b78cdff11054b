"""The two roles of a job's database: the owner of everything in it, and the application that works with the rows.

Source: docs/action.md, "The job's database". Neither is a superuser or may reach the server's files and
programs; the application has the rows of ordinary tables, and nothing of the sync's own records.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from vibey_actions.errors import DatabaseFailed, VibeyError
from vibey_actions.postgres.connection import as_uri, connect, saying
from vibey_actions.postgres.sql import blocks, identifier

DATABASE: Final = "vibey"
OWNER: Final = "vibey_owner"
APPLICATION: Final = "vibey_app"
_ROWS: Final = "SELECT, INSERT, UPDATE, DELETE"
_RIGHTS: Final = {"r": _ROWS, "p": _ROWS, "v": "SELECT", "m": "SELECT", "S": "USAGE"}
_MIGRATIONS: Final = ("public", "schema_migration")
_WATERMARK: Final = ("public", "state_sync")
_NO_RIGHTS: Final = "LOGIN NOSUPERUSER NOCREATEROLE NOREPLICATION NOBYPASSRLS"
_VALID_DAYS: Final = 7
"""Longer than any job; a role that a killed job left in a declared database lets nobody in after that."""


def new_password() -> str:
    """A random password that needs no quoting anywhere."""
    return secrets.token_urlsafe(24)


def furnish(superuser: str, owner_password: str, app_password: str) -> tuple[str, str]:
    """Make the roles and the database in a new cluster of ours; returns the owner's and the application's DSN.

    ``superuser`` is the DSN of the cluster's superuser; both DSNs are URIs. Raises DatabaseFailed.
    """
    with saying("making the job's database"), connect(superuser, purpose="set-up") as connection:
        # CREATEDB: an older branch is lifted to newer migrations in a scratch database.
        for role, password, more in ((OWNER, owner_password, "CREATEDB"), (APPLICATION, app_password, "NOCREATEDB")):
            connection.execute(f"CREATE ROLE {role} {_NO_RIGHTS} {more} PASSWORD '{password}'".encode())
        connection.execute(b"REVOKE ALL ON DATABASE postgres, template1 FROM PUBLIC")
    inside = add_database(superuser, DATABASE)
    with saying("making the job's database"), connect(superuser, purpose="set-up") as connection:
        connection.execute(f"GRANT CONNECT, TEMPORARY ON DATABASE {DATABASE} TO {APPLICATION}".encode())
    login = [(OWNER, owner_password), (APPLICATION, app_password)]
    # Said, because not every driver tries without TLS where nothing is said.
    inside = make_conninfo(inside, sslmode="disable")
    owner, app = (as_uri(make_conninfo(inside, user=role, password=password)) for role, password in login)
    return owner, app


def add_database(superuser: str, name: str) -> str:
    """Make an empty database of the owner's in a cluster of ours; returns the superuser's DSN of it."""
    database = identifier(name)
    with saying("making the job's database"), connect(superuser, purpose="set-up") as connection:
        connection.execute(f"CREATE DATABASE {database} OWNER {OWNER} TEMPLATE template0 ENCODING 'UTF8'".encode())
        connection.execute(f"REVOKE ALL ON DATABASE {database} FROM PUBLIC".encode())
    inside = make_conninfo(superuser, dbname=name)
    with saying("making the job's database"), connect(inside, purpose="set-up") as connection:
        connection.execute(f"ALTER SCHEMA public OWNER TO {OWNER}".encode())
        connection.execute(b"REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    return inside


def in_database(dsn: str, name: str) -> str:
    """``dsn`` for the database ``name`` of the same server, a URI."""
    return as_uri(make_conninfo(dsn, dbname=name))


def grant(owner: str, role: str, schemas: Sequence[str]) -> None:
    """Give ``role`` its rights in the database of the DSN ``owner``: on what there is now, after the migrations."""
    with saying("granting the application role its rights"), connect(owner, purpose="set-up") as connection:
        for statement in _grants(connection, role, schemas):
            connection.execute(statement.encode())


def _grants(connection: psycopg.Connection, role: str, schemas: Sequence[str]) -> Iterator[str]:
    names = {"names": list(dict.fromkeys((*schemas, "public")))}
    to = f"TO {identifier(role)}"
    for (schema,) in connection.execute(blocks("roles")["schemas"], names).fetchall():
        yield f"GRANT USAGE ON SCHEMA {identifier(schema)} {to}"
    for schema, name, kind in connection.execute(blocks("roles")["relations"], names).fetchall():
        rights = "SELECT" if (schema, name) == _MIGRATIONS else _RIGHTS[kind]
        if (schema, name) != _WATERMARK:
            what = "SEQUENCE" if kind == "S" else "TABLE"
            yield f"GRANT {rights} ON {what} {identifier(schema)}.{identifier(name)} {to}"


def make_application(owner: str, role: str, password: str) -> str | None:
    """Make ``role`` in a declared database where the DSN ``owner`` may make roles; returns its DSN, a URI.

    None where it may not, or where the role's login does not work (a pooler, another kind of authentication).
    """
    with connect(owner, purpose="set-up") as connection:
        with saying("looking whether an application role can be made"):
            if connection.execute(blocks("roles")["may_make_roles"]).fetchone() != (True,):
                return None
        try:
            connection.execute(
                f"CREATE ROLE {identifier(role)} {_NO_RIGHTS} NOCREATEDB PASSWORD '{password}'"
                f" VALID UNTIL '{_expiry(connection)}'".encode()
            )
        except psycopg.Error:
            return None
    found = as_uri(make_conninfo(owner, user=role, password=password))
    try:
        connect(found, purpose="set-up").close()
    except VibeyError:
        drop_application(owner, role, notice=lambda _: None)
        return None
    return found


def _expiry(connection: psycopg.Connection) -> str:
    row = connection.execute(f"SELECT (now() + interval '{_VALID_DAYS} days')::text".encode()).fetchone()
    return str(row[0]) if row else "infinity"


def new_role() -> str:
    """A name for an application role in a database that other jobs may use at the same time."""
    return f"{APPLICATION}_{secrets.token_hex(6)}"


def drop_application(owner: str, role: str, *, notice: Callable[[str], None]) -> None:
    """Drop a role that ``make_application`` made; where that fails it is said, and lets nobody in after some days."""
    if not role.startswith(f"{APPLICATION}_"):
        return
    name = identifier(role)
    try:
        with saying(f"dropping the role {role}"), connect(owner, purpose="set-up") as connection:
            with suppress(psycopg.Error):
                # From PostgreSQL 16 on, making a role is not yet having its rights.
                connection.execute(f"GRANT {name} TO CURRENT_USER".encode())
            connection.execute(f"DROP OWNED BY {name}".encode())
            connection.execute(f"DROP ROLE {name}".encode())
    except DatabaseFailed as error:
        notice(f"{error.message}; its password expires by itself")
