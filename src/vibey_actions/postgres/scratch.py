"""A temporary database beside the real one, where an older state is lifted to newer migrations."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import psycopg
from psycopg.conninfo import make_conninfo

from vibey_actions.errors import ScratchRefused
from vibey_actions.postgres.connection import connect, connect_plain, describe, parse_dsn, saying
from vibey_actions.postgres.sql import blocks, identifier
from vibey_actions.text import visible

STALE_SECONDS: Final = 24 * 3600
"""The age from which a scratch database that nobody uses is the leftover of a killed run."""
_NAME: Final = re.compile(r"vibey_scratch_(\d{9,12})_[0-9a-f]{12}")
_BUILTIN_SINCE: Final = 170000
_PROVIDERS_SINCE: Final = 150000


@contextmanager
def scratch_database(dsn: str, *, notice: Callable[[str], None] = lambda _: None) -> Iterator[str]:
    """The DSN of an empty database on the server of ``dsn``, with its encoding and locale; dropped at the end.

    Leftovers of killed runs are dropped on the way. Raises ScratchRefused where the role may not create a database or
    the server cannot.
    """
    with connect(dsn, purpose="scratch", notice=notice) as connection:
        _drop_leftovers(connection)
        name = f"vibey_scratch_{_now(connection)}_{secrets.token_hex(6)}"
        _create(connection, name)
    try:
        yield _dsn_of(dsn, name)
    finally:
        _drop(dsn, name, notice)


def _create(connection: psycopg.Connection, name: str) -> None:
    try:
        row = connection.execute(blocks("scratch")["this"]).fetchone()
        facts: Mapping[str, Any] = row[0] if row else {}
        connection.execute(f"CREATE DATABASE {identifier(name)} TEMPLATE template0 {_like(connection, facts)}")
    except psycopg.errors.InsufficientPrivilege:
        raise ScratchRefused(
            f"the role {visible(connection.info.user)} may not create the scratch database that an older state is "
            "lifted in",
            f"grant it the right: ALTER ROLE {identifier(connection.info.user)} CREATEDB",
        ) from None
    except psycopg.Error as error:
        raise ScratchRefused(f"a scratch database cannot be created: {describe(error)}") from None


def _like(connection: psycopg.Connection, facts: Mapping[str, Any]) -> str:
    """Encoding and locale of the database that ``facts`` describes, as options of CREATE DATABASE."""
    version = connection.info.server_version
    options = {"ENCODING": "UTF8", "LC_COLLATE": facts["datcollate"], "LC_CTYPE": facts["datctype"]}
    provider = facts.get("datlocprovider")
    locale = facts.get("datlocale") or facts.get("daticulocale")
    if version >= _PROVIDERS_SINCE and provider == "i":
        options |= {"LOCALE_PROVIDER": "icu", "ICU_LOCALE": locale, "ICU_RULES": facts.get("daticurules")}
    elif version >= _BUILTIN_SINCE and provider == "b":
        options |= {"LOCALE_PROVIDER": "builtin", "BUILTIN_LOCALE": locale}
    elif version >= _PROVIDERS_SINCE:
        options |= {"LOCALE_PROVIDER": "libc"}
    return " ".join(f"{name} {psycopg.sql.quote(value, connection)}" for name, value in options.items() if value)


def _dsn_of(dsn: str, name: str) -> str:
    """``dsn`` for the database ``name``, with the search_path that sessions of the real database start with.

    It may be a setting of the database (ALTER DATABASE ... SET), which a new one does not have.
    """
    with connect_plain(dsn, purpose="scratch") as connection, saying("reading the search_path"):
        row = connection.execute(blocks("scratch")["search_path"]).fetchone()
    path = re.sub(r"([\\\s])", r"\\\1", str(row[0]) if row else "")
    options = f"{parse_dsn(dsn).get('options', '')} -c search_path={path}".strip()
    return make_conninfo(dsn, dbname=name, options=options)


def _now(connection: psycopg.Connection) -> int:
    with saying("reading the server's time"):
        row = connection.execute(blocks("scratch")["now"]).fetchone()
    return int(row[0]) if row else 0


def _drop_leftovers(connection: psycopg.Connection) -> None:
    with saying("looking for leftover scratch databases"):
        now = _now(connection)
        names = [name for (name,) in connection.execute(blocks("scratch")["idle"])]
    for name in names:
        made = _NAME.fullmatch(name)
        if made and now - int(made[1]) > STALE_SECONDS:
            # Another role's, or taken up this moment: not ours to insist on.
            with suppress(psycopg.Error):
                connection.execute(f"DROP DATABASE IF EXISTS {identifier(name)}")


def _drop(dsn: str, name: str, notice: Callable[[str], None]) -> None:
    try:
        with connect_plain(dsn, purpose="scratch") as connection, saying("dropping the scratch database"):
            connection.execute(f"DROP DATABASE IF EXISTS {identifier(name)} WITH (FORCE)")
    except Exception as error:  # noqa: BLE001 - what happened inside the block is the error to show
        why = getattr(error, "message", type(error).__name__)
        notice(f"the scratch database {name} was left behind ({why}); a later run drops it")
