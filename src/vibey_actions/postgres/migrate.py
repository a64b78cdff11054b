"""Bring a database to its current schema, and say which migrations it has applied.

Source: docs/settings.md, "The configuration file". ``[migrations]`` names a directory of plain SQL files, one
transaction each together with its record, or a command. Both ways our own two tables and schema are made where they
are missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from vibey_actions.config import Config, Migrations
from vibey_actions.errors import MigrationFailed
from vibey_actions.postgres.connection import connect, connect_plain, describe, saying
from vibey_actions.postgres.documents import prepare
from vibey_actions.postgres.locks import advisory_lock
from vibey_actions.postgres.migration_files import MigrationFile, check_runnable, read_migrations
from vibey_actions.postgres.migrator import run_migrator
from vibey_actions.postgres.naming import PUBLIC
from vibey_actions.postgres.script import line_of
from vibey_actions.postgres.sql import blocks
from vibey_actions.postgres.versions_query import in_user_settings, unusable
from vibey_actions.text import visible

WAIT_SECONDS: Final = 600.0
"""How long a migration waits for another one of the same database."""
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_SYNC_COLUMNS: Final = ["remote", "base_commit", "synced_at"]
_NOT_IN_TRANSACTION: Final = "25001"


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a run applied, in order (empty for a command: it does not say), and all that is applied now."""

    applied: tuple[str, ...]
    versions: tuple[str, ...]


def migrate(
    dsn: str,
    config: Config,
    *,
    upto: Collection[str] | None = None,
    environment: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    notice: Callable[[str], None] = lambda _: None,
    wait_seconds: float = WAIT_SECONDS,
) -> Migrated:
    """Apply what the database at ``dsn`` lacks; with ``upto`` only those versions, all of which must be there.

    ``environment`` (os.environ where None) and ``cwd`` are for a command. Raises MigrationFailed, having kept
    everything before the migration that failed and nothing of it; Busy where another migration runs on.
    """
    migrations = config.migrations or Migrations()
    files = [] if migrations.directory is None else read_migrations(migrations.directory)
    with (
        saying("migrating the database"),
        connect(dsn, purpose="migrate", notice=notice) as connection,
        advisory_lock(connection, "migrate", "another migration of this database", wait_seconds, notice),
    ):
        applied: tuple[str, ...] = ()
        if migrations.command is not None:
            _refuse_upto(upto)
            variables = os.environ if environment is None else environment
            run_migrator(migrations.command, dsn, environment=variables, names=migrations.env, cwd=cwd, notice=notice)
        else:
            _make_missing(connection, ("schema_migration",))
            applied = _apply_files(connection, dsn, files, upto, notice)
        # Last, so that migrations which make these tables themselves find them missing.
        _make_missing(connection, ("schema_migration", "state_sync"))
        if config.documents:
            prepare(connection, PUBLIC, notice)
        return Migrated(applied, tuple(applied_versions(connection, config.migrations)))


def applied_versions(connection: psycopg.Connection, migrations: Migrations | None) -> list[str]:
    """The versions this database has applied, sorted by code point: the ``schema`` of a document.

    From the ``versions`` query where one is declared, else from schema_migration, else none. Safe inside a
    transaction of the caller's, which it leaves as it was. Raises SettingError where the query gives anything but
    one column of text, MigrationFailed where schema_migration has no column version.
    """
    if migrations is not None and migrations.versions is not None:
        return _queried_versions(connection, migrations.versions)
    with saying("reading schema_migration"):
        columns = _own_tables(connection).get("schema_migration")
        if columns is None:
            return []
        _require_version(columns)
        return sorted(version for (version,) in connection.execute(blocks("migrate")["versions"]))


def _queried_versions(connection: psycopg.Connection, query: str) -> list[str]:
    with in_user_settings(connection):
        result = connection.execute(query, prepare=True).pgresult
    if result is None or result.nfields != 1:
        raise unusable(f"gives {result.nfields if result else 0} columns instead of one")
    values = [result.get_value(row, 0) for row in range(result.ntuples)]
    if None in values:
        raise unusable("gives a NULL")
    return sorted({value.decode("utf-8") for value in values if value is not None})


def _refuse_upto(upto: Collection[str] | None) -> None:
    if upto is not None:
        raise MigrationFailed(
            "a migrator of the database's own (command in [migrations]) goes to its newest version and cannot stop "
            "at the branch's",
            "sync from a machine whose database is at the branch's migrations, or let every machine migrate first",
        )


def _apply_files(
    connection: psycopg.Connection,
    dsn: str,
    files: Sequence[MigrationFile],
    upto: Collection[str] | None,
    notice: Callable[[str], None],
) -> tuple[str, ...]:
    recorded = _recorded(connection)
    _check_recorded(files, recorded, notice)
    pending = [file for file in _wanted(files, upto) if file.version not in recorded]
    for file in pending:
        check_runnable(file)
    if not pending:
        return ()
    with_checksum = "checksum" in _own_tables(connection)["schema_migration"]
    with connect_plain(dsn, purpose="migrate") as runner:
        runner.prepare_threshold = None
        for file in pending:
            _apply(runner, file, with_checksum=with_checksum)
    return tuple(file.version for file in pending)


def _wanted(files: Sequence[MigrationFile], upto: Collection[str] | None) -> Sequence[MigrationFile]:
    if upto is None:
        return files
    missing = sorted(set(upto) - {file.version for file in files})
    if missing:
        raise MigrationFailed(
            f"no file for the migration{'s' if len(missing) > 1 else ''} {', '.join(map(visible, missing))}",
            "bring the migrations directory to the commit that has them",
        )
    return [file for file in files if file.version in upto]


def _apply(runner: psycopg.Connection, file: MigrationFile, *, with_checksum: bool) -> None:
    name = visible(file.version)
    try:
        # What the file before set for its session (pg_dump's scripts do) must not reach this one.
        runner.execute("DISCARD ALL")
        with runner.transaction():
            before = _transaction(runner)
            # DISCARD and BEGIN are separate messages: the whole file is one, so nothing comes between its statements.
            runner.execute(file.sql.encode())
            if runner.info.transaction_status != psycopg.pq.TransactionStatus.INTRANS or _transaction(runner) != before:
                raise MigrationFailed(
                    f"migration {name} ended the transaction it runs in: part of it may be applied, unrecorded",
                    "take transaction control out of it, and undo by hand what it has done",
                )
            runner.execute("RESET SESSION AUTHORIZATION; RESET ROLE")
            _record(runner, file, with_checksum=with_checksum)
    except psycopg.Error as error:
        raise _failed(file, error) from None


def _failed(file: MigrationFile, error: psycopg.Error) -> MigrationFailed:
    place = error.diag.statement_position
    where = f" at line {line_of(file.sql, int(place))}" if place and place.isdigit() else ""
    hint = "correct the file and run it again; nothing of this file was applied"
    if error.sqlstate == _NOT_IN_TRANSACTION:
        hint = (
            "a migration runs in one transaction with its record: use the form that can (CREATE INDEX without "
            "CONCURRENTLY), or run this one by hand and record it in schema_migration; nothing of the file was applied"
        )
    return MigrationFailed(f"migration {visible(file.version)} failed{where}: {describe(error)}", hint)


def _record(runner: psycopg.Connection, file: MigrationFile, *, with_checksum: bool) -> None:
    block = "record_with_checksum" if with_checksum else "record"
    runner.execute(blocks("migrate")[block], {"version": file.version, "checksum": file.checksum})


def _transaction(runner: psycopg.Connection) -> object:
    return runner.execute(blocks("migrate")["transaction"]).fetchone()


def _recorded(connection: psycopg.Connection) -> dict[str, str | None]:
    """The applied versions, each with its checksum where one is recorded."""
    with saying("reading schema_migration"):
        columns = _own_tables(connection)["schema_migration"]
        _require_version(columns)
        if "checksum" in columns:
            return dict(connection.execute(blocks("migrate")["versions_with_checksums"]).fetchall())
        return {version: None for (version,) in connection.execute(blocks("migrate")["versions"])}


def _check_recorded(
    files: Sequence[MigrationFile], recorded: Mapping[str, str | None], notice: Callable[[str], None]
) -> None:
    by_version = {file.version: file for file in files}
    gone = sorted(recorded.keys() - by_version.keys()) if files else []
    if gone:
        notice(f"applied, but without a file in the migrations directory: {', '.join(map(visible, gone))}")
    changed = []
    for version, checksum in sorted(recorded.items()):
        if checksum is None or version not in by_version:
            continue
        if not _SHA256.fullmatch(checksum):
            notice(f"the checksum recorded for {visible(version)} is not SHA-256 and was not compared")
        elif checksum != by_version[version].checksum:
            changed.append(visible(version))
    if changed:
        raise MigrationFailed(
            f"changed after {'they were' if len(changed) > 1 else 'it was'} applied: {', '.join(changed)}",
            "restore the file as it was applied, and put the change into a new migration",
        )


def _own_tables(connection: psycopg.Connection) -> dict[str, list[str]]:
    return dict(connection.execute(blocks("migrate")["tables"]).fetchall())


def _require_version(columns: Collection[str]) -> None:
    if "version" not in columns:
        raise MigrationFailed(
            "the table schema_migration has no column version, so it is not the record of these migrations",
            "rename it, or declare versions in [migrations] of .github/vibey-state.toml",
        )


def _make_missing(connection: psycopg.Connection, tables: tuple[str, ...]) -> None:
    """Make our schema and those of ``tables`` that are missing; what is there is never changed."""
    with saying("preparing schema_migration and state_sync"), connection.transaction():
        found = _own_tables(connection)
        if connection.execute(blocks("migrate")["schema_exists"]).fetchone() != (True,):
            connection.execute(blocks("migrate")["create_schema"])
        for name in tables:
            if name not in found:
                connection.execute(blocks("migrate")[f"create_{name}"])
    columns = found.get("state_sync", _SYNC_COLUMNS)
    if sorted(columns) != sorted(_SYNC_COLUMNS):
        raise MigrationFailed(
            f"the table state_sync has the columns {', '.join(map(visible, columns))} instead of "
            f"{', '.join(_SYNC_COLUMNS)}",
            "rename that table: this name is the watermark's",
        )
