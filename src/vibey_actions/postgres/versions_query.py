"""The ``versions`` query of [migrations]: SQL of the user's, run so that it can change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from vibey_actions.errors import SchemaMismatch, SettingError
from vibey_actions.postgres.connection import describe


@contextmanager
def in_user_settings(connection: psycopg.Connection) -> Iterator[None]:
    """Inside, names resolve as in the user's own sessions and nothing can be written; undone at the end.

    Also within a transaction of the caller's. Raises SchemaMismatch where a table of the query is missing,
    SettingError for any other failure of it.
    """
    try:
        with connection.transaction(force_rollback=True):
            connection.execute("SET LOCAL search_path TO DEFAULT; SET LOCAL transaction_read_only TO on")
            yield
    except (psycopg.errors.UndefinedTable, psycopg.errors.InvalidSchemaName) as error:
        raise SchemaMismatch(
            f"the versions query reads a table that is not there: {describe(error)}",
            "run `vibey-actions migrate`, or correct versions in [migrations] of .github/vibey-state.toml",
        ) from None
    except psycopg.Error as error:
        raise unusable(f"failed: {describe(error)}") from None


def unusable(why: str) -> SettingError:
    """The error for a versions query that cannot be used."""
    return SettingError(
        f"the versions query {why}",
        'versions in [migrations] takes one SELECT of one column, such as "SELECT version FROM schema_migration"',
    )
