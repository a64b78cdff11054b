"""A state of older migrations brought to this database's, in a scratch database (docs/architecture.md).

The branch cannot migrate itself. Its rows go into an empty database at its own migrations, that is migrated on, and
what it then holds is the state in the newer shape.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import psycopg

from vibey_actions.config import Config
from vibey_actions.errors import DatabaseFailed, MigrationFailed, SchemaMismatch, TableRefused, VibeyError
from vibey_actions.postgres.apply import apply
from vibey_actions.postgres.catalog import existing_schemas, read_catalog
from vibey_actions.postgres.connection import connect, reading, saying
from vibey_actions.postgres.documents import prepare
from vibey_actions.postgres.migrate import migrate
from vibey_actions.postgres.naming import PUBLIC
from vibey_actions.postgres.repeatable import Images, clock_columns, images, turn_over
from vibey_actions.postgres.scratch import scratch_database
from vibey_actions.postgres.snapshot import Snapshot
from vibey_actions.postgres.tables import Catalog
from vibey_actions.postgres.triggers import quiet
from vibey_actions.state.document import DocumentReader, DocumentWriter
from vibey_actions.state.documents import sealed_file
from vibey_actions.state.seal import open_sealed
from vibey_actions.state.transfer import replacement, write_database

Migrator = Callable[[str, Config, Collection[str]], None]
"""Brings the database of a DSN to some migrations of a configuration, in a way of the caller's."""


def has_files(config: Config) -> bool:
    """Whether a database can be made at older migrations: a migrator of the database's own goes to its newest."""
    return config.migrations is not None and config.migrations.directory is not None


@contextmanager
def lift(
    dsn: str,
    config: Config,
    sealed: Path,
    schema: list[str],
    *,
    key: bytes,
    notice: Callable[[str], None],
    migrator: Migrator | None = None,
) -> Iterator[Path]:
    """A sealed file with the state of ``sealed`` at the migrations ``schema``; it is gone after the block.

    ``migrator`` runs the migrations (None: this process does).

    Raises SchemaMismatch, saying what to run, where there is no scratch database or rows do not survive the way.
    """
    migrator = migrator or partial(_migrate_here, notice=notice)
    document = DocumentReader(open_sealed(sealed, key))
    if not has_files(config):
        raise _without_files(document.schema, schema)
    with sealed_file(Path(tempfile.gettempdir()), key) as made:
        write, close, path = made
        try:
            with scratch_database(dsn, notice=notice) as scratch:
                before = _bring(scratch, config, document, schema, migrator)
                _unload(scratch, config, schema, write, close)
                once, unsteady = _look(scratch, config, before)
            with scratch_database(dsn, notice=notice) as scratch:
                again = DocumentReader(open_sealed(sealed, key))
                _bring(scratch, config, again, schema, migrator, turned=True)
                twice, _ = _look(scratch, config, before)
            unsteady += [name for name in once if once[name] != twice[name]]
            if unsteady:
                raise _unsteady(document.schema, schema, unsteady)
        except (DatabaseFailed, MigrationFailed) as error:
            raise _cannot(document.schema, schema, error.message) from error
        yield path


def _bring(
    scratch: str,
    config: Config,
    document: DocumentReader,
    schema: list[str],
    migrator: Migrator,
    *,
    turned: bool = False,
) -> Catalog:
    """Load the document at its migrations and migrate it on; returns the older catalog."""
    migrator(scratch, config, document.schema)
    if config.documents:
        with connect(scratch, purpose="lift") as connection:
            prepare(connection, PUBLIC)
    catalog = _load(scratch, config, document)
    if turned:
        with connect(scratch, purpose="lift") as connection:
            turn_over(connection, catalog)
    migrator(scratch, config, schema)
    return catalog


def _migrate_here(dsn: str, config: Config, upto: Collection[str], *, notice: Callable[[str], None]) -> None:
    migrate(dsn, config, upto=upto, notice=notice)


def _look(scratch: str, config: Config, before: Catalog) -> tuple[Images, list[str]]:
    with saying("comparing what migrations made"), connect(scratch, purpose="lift") as connection:
        catalog = read_catalog(connection, config)
        return images(connection, catalog), clock_columns(connection, before, catalog)


def _load(scratch: str, config: Config, document: DocumentReader) -> Catalog:
    with saying("loading the branch's state into the scratch database"), connect(scratch, purpose="lift") as writing:
        with reading(scratch, purpose="lift") as view:
            catalog = read_catalog(view, _without_tables(view, config), exact_rows=config.profile is None)
            snapshot = Snapshot(view, catalog, document.schema, {})
            tables = catalog.declaration.tables
            document.check_rows(lambda name: tables[name].key if name in tables else None)
            changes, _ = replacement(snapshot.declaration, document, snapshot.view, _unmade)
            agreements = snapshot.agreements(changes)
        try:
            with writing.transaction():
                apply(writing, quiet(snapshot.catalog), changes.pull, agreements)
        finally:
            changes.close()
    return catalog


def _unload(
    scratch: str, config: Config, schema: list[str], write: Callable[[bytes], None], close: Callable[[], None]
) -> None:
    with reading(scratch, purpose="lift") as view:
        snapshot = Snapshot(view, read_catalog(view, config), schema, {})
        writer = DocumentWriter(write, schema, close, snapshot.declaration.serialized, snapshot.declaration.folds)
        write_database(snapshot.declaration, snapshot.view, writer)


def _without_tables(scratch: psycopg.Connection, config: Config) -> Config:
    """At older migrations a declared schema, table or column may not be there yet, and nothing is merged there."""
    return replace(config, profile=None, tables={}, schemas=existing_schemas(scratch, config.schemas))


def _unsteady(theirs: list[str], mine: list[str], where: list[str]) -> VibeyError:
    missing = ", ".join(sorted(set(mine) - set(theirs)))
    return SchemaMismatch(
        f"the migration(s) {missing} give the same rows other values each time they run (in {', '.join(where)}: from "
        "the clock, a random number or a sequence), so every row would look edited",
        "have them fill new columns with constants or from the row itself; or sync every database at the older "
        "migrations, migrate one, remove the branch, run `vibey-actions state forget` and sync there, then fill the "
        "others anew",
    )


def _unmade(name: str) -> TableRefused:
    return TableRefused(
        f"the branch holds the table {name}, which the migrations that it has applied do not make, so its rows cannot "
        "be brought to newer migrations",
        f"have a migration make {name} (CREATE TABLE IF NOT EXISTS where it was made by hand), then begin the branch "
        "anew: sync every database that is not migrated yet, migrate one, remove the branch, run `vibey-actions state "
        "forget` and sync there, then fill the others anew",
    )


def _without_files(theirs: list[str], mine: list[str]) -> VibeyError:
    missing = ", ".join(sorted(set(mine) - set(theirs)))
    return SchemaMismatch(
        f"this database is ahead of the branch by the migration(s) {missing}, and the branch has moved since they last "
        "agreed: its rows cannot be brought to these migrations, which are not plain SQL files that can be applied up "
        "to the branch's",
        "bring another database that is still at the branch's migrations level with it, migrate that one and sync it; "
        "then sync here",
    )


def _cannot(theirs: list[str], mine: list[str], why: str) -> VibeyError:
    missing = ", ".join(sorted(set(mine) - set(theirs)))
    return SchemaMismatch(
        f"this database is ahead of the branch by the migration(s) {missing}, "
        f"and the branch's state cannot be brought to them here: {why}",
        "sync a database that is still at the branch's migrations until both are level, then run `vibey-actions "
        "migrate` there and sync again; or give this role CREATEDB so that a scratch database can be made",
    )
