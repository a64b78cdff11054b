"""Roles without any right, to sync a database as somebody else than its superuser."""

from __future__ import annotations

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.ends import End


def sync_as_new_role(end: End) -> str:
    """Make a role that may log in and nothing else, and have the end synced as it; returns its name."""
    parameters = conninfo_to_dict(end.dsn)
    role = f"role_{parameters['dbname']}"
    with psycopg.connect(end.dsn, autocommit=True) as connection:
        password = psycopg.sql.quote(str(parameters.get("password", "none")), connection)
    end.run(f'CREATE ROLE "{role}" LOGIN PASSWORD {password}')
    end.env["VIBEY_STATE_PG_URL"] = make_conninfo(end.dsn, user=role)
    return role


def forget_role(end: End, role: str) -> None:
    """Take the role back, with all that belongs to it."""
    end.run(f'REASSIGN OWNED BY "{role}" TO CURRENT_USER', f'DROP OWNED BY "{role}"', f'DROP ROLE "{role}"')
