"""A connection whose output never depends on the server's settings, and its errors in words that leak nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Final
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from vibey_actions.errors import DatabaseFailed, SettingError, StateMoved, VibeyError
from vibey_actions.postgres.sql import blocks
from vibey_actions.text import visible

OLDEST_MAJOR: Final = 14
NEWEST_MAJOR: Final = 18
_CONNECT_TIMEOUT: Final = 10

_PINNED: Final = (
    # what PostgreSQL prints (docs/format.md, "Row")
    ("timezone", "UTC", 14),
    ("extra_float_digits", "1", 14),
    ("intervalstyle", "postgres", 14),
    ("datestyle", "ISO, MDY", 14),
    ("bytea_output", "hex", 14),
    ("lc_monetary", "C", 14),
    ("search_path", "pg_catalog", 14),
    ("row_security", "off", 14),
    ("xmlbinary", "base64", 14),
    ("xmloption", "content", 14),
    ("quote_all_identifiers", "off", 14),
    # how it reads what we send
    ("standard_conforming_strings", "on", 14),
    ("array_nulls", "on", 14),
    ("transform_null_equals", "off", 14),
    # how long and how it works
    ("default_transaction_isolation", "read committed", 14),
    ("default_transaction_deferrable", "off", 14),
    ("jit", "off", 14),
    ("statement_timeout", "0", 14),
    ("lock_timeout", "0", 14),
    ("idle_in_transaction_session_timeout", "0", 14),
    ("idle_session_timeout", "0", 14),
    ("transaction_timeout", "0", 17),
)

_MOVED: Final = {
    "40P01": "it was in a deadlock with another session",
    "55P03": "another session holds a lock on what it needs",
    "40001": "another session changed the same rows",
}
_SECRET: Final = re.compile("password|secret")
_FUNCTION: Final = re.compile(r"PL/pgSQL function (\S+?)\(")
# SQLSTATE classes whose primary message names objects and never quotes the content of a row.
_SAFE_CLASSES: Final = frozenset({"08", "0A", "25", "26", "28", "2B", "3D", "3F", "42", "53", "54", "55", "57", "58"})
_OPTION: Final = re.compile(r"\b(?:invalid (?:\w+ value|port number)|bad value for)\b")
"""How libpq says that an option of the DSN cannot be used: before it asks any server."""
_HOST_ADVICE: Final = "check that PostgreSQL runs there and takes connections, and the host and port of the DSN"
_JOB_ADVICE: Final = (
    "check that PostgreSQL runs and where: a job that runs in a container reaches a service by its label "
    "(host=postgres port=5432), a job on the virtual machine by its mapped port (host=localhost "
    "port=${{ job.services.postgres.ports[5432] }})"
)


def connect(dsn: str, *, purpose: str, notice: Callable[[str], None] | None = None) -> psycopg.Connection:
    """A connection in autocommit mode with every setting pinned that changes what is read or written.

    ``purpose`` follows the program's name in application_name. Raises SettingError for a DSN that cannot be read and
    DatabaseFailed where the server cannot be reached, is older than 14, does not store UTF8 or lends its sessions
    to several clients; a server newer than 18 is used and said through ``notice``.
    """
    connection = connect_plain(dsn, purpose=purpose)
    try:
        _check_server(connection, notice)
        _check_session(connection, dsn, purpose)
        with saying("preparing the connection"):
            connection.execute(_pinning(server_version(connection)))
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def reading(dsn: str, *, purpose: str) -> Iterator[psycopg.Connection]:
    """A connection in one REPEATABLE READ, READ ONLY view of the database, closed at the end of the block.

    Raises what ``connect`` does, and DatabaseFailed for any error of PostgreSQL inside.
    """
    # Closed without ending the transaction: a COPY that an error left half read holds the connection's lock, and
    # psycopg would wait for it for ever.
    with saying("reading the database"), closing(connect(dsn, purpose=purpose)) as connection:
        with saying("beginning to read the database"):
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield connection


def connect_plain(dsn: str, *, purpose: str) -> psycopg.Connection:
    """A connection in autocommit mode with the database's own settings, for SQL that is not ours."""
    parameters = parse_dsn(dsn)
    if "connect_timeout" not in parameters and not os.environ.get("PGCONNECT_TIMEOUT"):
        parameters["connect_timeout"] = str(_CONNECT_TIMEOUT)
    parameters["application_name"] = f"vibey-actions {purpose}"
    parameters["client_encoding"] = "UTF8"
    try:
        return psycopg.connect(make_conninfo(**parameters), autocommit=True)
    except psycopg.Error as error:
        raise _unreachable(dsn, error) from None


def server_version(connection: psycopg.Connection) -> int:
    """The server's version as a number: 150018 for 15.18."""
    return connection.info.server_version


def parse_dsn(dsn: str) -> dict[str, str]:
    """The parameters of a DSN in either form (URI, or key=value pairs).

    Raises SettingError without quoting any of it: what cannot be read may be a piece of a password.
    """
    try:
        parameters = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    except psycopg.Error:
        raise _unusable_dsn("it is neither a PostgreSQL URI nor key=value pairs") from None
    is_uri = dsn.lstrip().startswith(("postgresql://", "postgres://"))
    misread = [name for name in ("host", "user", "dbname") if is_uri and "@" in parameters.get(name, "")]
    if misread and "%40" not in dsn:
        raise _unusable_dsn("it holds more than one @")
    if not all(port.strip().isdigit() for port in parameters.get("port", "0").split(",") if port):
        raise _unusable_dsn("its port is not a number")
    return parameters


def redact(dsn: str) -> str:
    """``dsn`` as key=value pairs without any password, fit to be shown."""
    try:
        parameters = parse_dsn(dsn)
    except SettingError:
        return "(a DSN that cannot be read)"
    return visible(make_conninfo(**{name: value for name, value in parameters.items() if not _SECRET.search(name)}))


def mask(text: str, dsn: str) -> str:
    """``text`` with the DSN and every secret of it, plain or percent-encoded, replaced by ``***``."""
    text = text.replace(dsn, redact(dsn)) if dsn else text
    try:
        secrets = [value for name, value in parse_dsn(dsn).items() if _SECRET.search(name) and value]
    except SettingError:
        return text
    forms = {form for value in secrets for form in (value, quote(value, safe=""), quote(value))}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text


def as_uri(dsn: str) -> str:
    """``dsn`` as a URI, which is the form that programs other than PostgreSQL's own expect."""
    if dsn.strip().startswith(("postgresql://", "postgres://")):
        return dsn.strip()
    parameters = parse_dsn(dsn)
    user, password = (quote(parameters.pop(name, ""), safe="") for name in ("user", "password"))
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    database = quote(parameters.pop("dbname", ""), safe="")
    place = ""
    host = parameters.get("host", "")
    if host and "," not in host and not host.startswith(("/", "@")):
        port = parameters.pop("port", "")
        place = (f"[{host}]" if ":" in host else quote(host, safe="")) + (f":{port}" if port else "")
        del parameters["host"]
    rest = "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())
    return f"postgresql://{login}{place}/{database}" + (f"?{rest}" if rest else "")


@contextmanager
def saying(doing: str) -> Iterator[None]:
    """Turn any psycopg error inside into one that says what was being done; see ``translate``."""
    try:
        yield
    except psycopg.Error as error:
        # The chain would carry DETAIL, which holds the values of rows, into every traceback.
        raise translate(error, doing) from None


@contextmanager
def own_search_path(connection: psycopg.Connection) -> Iterator[None]:
    """Inside, names in the database's own functions mean what they mean to its other sessions.

    For statements that fire triggers or build indexes; in a transaction of the caller's.
    """
    connection.execute("SET LOCAL search_path TO DEFAULT")
    yield
    connection.execute("SET LOCAL search_path TO pg_catalog")


def translate(error: psycopg.Error, doing: str) -> VibeyError:
    """The error to show for ``error``, met while ``doing`` ("reading the rows of job").

    A deadlock, lock timeout or serialization failure is StateMoved; all else DatabaseFailed. DETAIL and CONTEXT are
    never shown, nor the message where it may quote a value.
    """
    state = error.sqlstate
    if state is None:
        return _lost(error, doing)
    if state in _MOVED:
        return StateMoved(f"{doing} had to stop: {_MOVED[state]}", "run it again")
    if state == "42501":
        return _not_allowed(error, doing)
    return DatabaseFailed(f"{doing} failed: {describe(error)}", _hint(state))


def _pinning(version: int) -> str:
    return "; ".join(f"SET {name} TO '{value}'" for name, value, since in _PINNED if version >= since * 10000)


def _check_server(connection: psycopg.Connection, notice: Callable[[str], None] | None) -> None:
    version = server_version(connection)
    major = version // 10000
    if major < OLDEST_MAJOR:
        raise DatabaseFailed(
            f"PostgreSQL {major} is too old: {OLDEST_MAJOR} to {NEWEST_MAJOR} are supported",
            f"upgrade the server to PostgreSQL {OLDEST_MAJOR} or newer",
        )
    if major > NEWEST_MAJOR and notice is not None:
        notice(f"PostgreSQL {major} is newer than {NEWEST_MAJOR}, the newest this version was tested with")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise DatabaseFailed(
            f"the database {visible(connection.info.dbname)} stores text as {encoding}, not UTF8",
            "move it into a database made with ENCODING 'UTF8'",
        )


def server_process(connection: psycopg.Connection) -> int:
    """The server's process behind ``connection`` at this moment."""
    # A simple query: a pooler that shares sessions may not keep prepared statements apart.
    row = connection.execute(blocks("connection")["process"], prepare=False).fetchone()
    assert row is not None  # noqa: S101 - a query without FROM gives one row
    return int(row[0])


def _check_session(connection: psycopg.Connection, dsn: str, purpose: str) -> None:
    """Refuse a pooler that hands one session to several clients: what is pinned would reach another's statements."""
    with saying("looking for a connection pooler"):
        # The process that a login is told is a pooler's own; the one that a query gives is the server's.
        if connection.info.backend_pid == server_process(connection):
            return
        with closing(connect_plain(dsn, purpose=purpose)) as other:
            shared = server_process(connection) == server_process(other)
    if shared:
        raise DatabaseFailed(
            "a connection pooler (such as PgBouncer in transaction mode) gives one session of the server to several "
            "clients in turn: neither locks nor settings of a sync would last",
            "name the server itself in the connection string, or a pool in session mode",
        )


def _unusable_dsn(why: str) -> SettingError:
    return SettingError(
        f"the database's DSN cannot be used: {why}",
        "write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE and percent-encode / : @ # ? % in the password "
        "(@ is %40)",
    )


def _unreachable(dsn: str, error: psycopg.Error) -> DatabaseFailed | SettingError:
    reason = visible(mask(" ".join(str(error).split()), dsn))
    if option := _OPTION.search(reason):
        return SettingError(
            f"the database's DSN cannot be used: {reason[option.start() :]}",
            "correct the option, or leave it out; no server was asked",
        )
    hint = _JOB_ADVICE if os.environ.get("GITHUB_ACTIONS") == "true" else _HOST_ADVICE
    if any(word in reason for word in ("authentication", "role ", "database ", "pg_hba", "password")):
        hint = "check user, password and database of the DSN"
    elif "FATAL" in reason:
        hint = "the server is there, but takes no connection now: run it again"
    return DatabaseFailed(f"cannot connect to PostgreSQL ({redact(dsn)}): {reason}", hint)


def _lost(error: psycopg.Error, doing: str) -> DatabaseFailed:
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
        reason = visible(" ".join(str(error).split()))
        return DatabaseFailed(f"{doing} failed: the connection to PostgreSQL was lost ({reason})", "run it again")
    return DatabaseFailed(f"{doing} failed: the PostgreSQL driver refused it ({type(error).__name__})")


def _not_allowed(error: psycopg.Error, doing: str) -> DatabaseFailed:
    message = visible(error.diag.message_primary or "permission denied")
    if "row-level security" in message or "row security" in message:
        hint = (
            "connect as the table's owner or a role with BYPASSRLS: a policy would hide rows, which reads as deletion"
        )
    elif "must be owner" in message:
        hint = "set VIBEY_STATE_PG_URL to the owner of the object"
    elif "temporary" in message:
        hint = "changes are prepared in temporary tables: GRANT TEMPORARY ON DATABASE ... TO the role"
    elif "sequence" in message:
        hint = "the role needs SELECT and UPDATE on it, so that the next number is past those that came"
    elif "database" in message:
        hint = "the role needs the right CREATEDB, or CREATE on the database"
    elif "schema" in message:
        hint = "the role needs USAGE and CREATE on the schema; set VIBEY_STATE_PG_URL to the database's owner"
    else:
        hint = (
            "the role needs SELECT, INSERT, UPDATE and DELETE on it; set VIBEY_STATE_PG_URL to the owner of the tables"
        )
    return DatabaseFailed(f"{doing} failed: {message}", hint)


def describe(error: psycopg.Error) -> str:
    """What the server says of ``error``, without anything that may quote the content of a row."""
    state = error.sqlstate
    if state is None:
        lost = isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError))
        return "the connection to PostgreSQL was lost" if lost else f"the driver refused it ({type(error).__name__})"
    diag = error.diag
    if state[:2] in _SAFE_CLASSES and diag.message_primary:
        return visible(diag.message_primary)
    parts = [f"{type(error).__name__}, SQLSTATE {state}"]
    parts += [
        f"{kind} {visible(name)}"
        for kind, name in (
            ("constraint", diag.constraint_name),
            ("table", diag.table_name),
            ("column", diag.column_name),
            ("type", diag.datatype_name),
            ("function", _raised_by(diag.context)),
        )
        if name
    ]
    return ", ".join(parts)


def _raised_by(context: str | None) -> str | None:
    match = _FUNCTION.search(context or "")
    return match[1] if match else None


def _hint(state: str) -> str:
    if state == "25006":
        return "the server or this role is read-only: connect to the primary, as a role that may write"
    if state in {"53100", "53200"}:
        return "make room on the server and run it again"
    if state.startswith("57P"):
        return "the server is starting or stopping: run it again"
    return ""
