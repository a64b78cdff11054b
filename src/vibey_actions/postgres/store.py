"""One PostgreSQL database as the cycle sees it: its watermark for one remote, its rows, and how changes go in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg

from vibey_actions.config import Config
from vibey_actions.errors import DatabaseFailed, RowRefused
from vibey_actions.postgres import agreement
from vibey_actions.postgres.agreement import TableAgreement
from vibey_actions.postgres.apply import apply, conflicts
from vibey_actions.postgres.catalog import read_catalog, tables_read_by
from vibey_actions.postgres.connection import reading, saying
from vibey_actions.postgres.fill import can_fill, fill
from vibey_actions.postgres.lift import Migrator, has_files, lift
from vibey_actions.postgres.migrate import applied_versions
from vibey_actions.postgres.snapshot import Snapshot
from vibey_actions.postgres.tables import Catalog
from vibey_actions.postgres.watermark import check_table, forget_base, read_base, record_base, sync_lock
from vibey_actions.state.declaration import Declaration, Rule
from vibey_actions.state.document import DocumentReader
from vibey_actions.state.interfaces import Filled
from vibey_actions.state.lanes import DOCUMENT_TABLE, ReadEndings
from vibey_actions.state.progress import Progress
from vibey_actions.state.report import Conflict
from vibey_actions.state.spool import Spool

LOCK_WAIT = 60.0
"""How long a sync waits for another one of the same database, in seconds."""


@dataclass(slots=True)
class PgStore:
    """See `interfaces.Store`. ``connection`` is the one that writes; a second one reads each view.

    ``migrator`` runs what a lift has to migrate (None: this process does).
    """

    connection: psycopg.Connection
    dsn: str = field(repr=False)
    config: Config
    overrides: Mapping[str, Rule]
    remote: str
    key: bytes = field(repr=False)
    progress: Progress
    notice: Callable[[str], None]
    migrator: Migrator | None = None
    endings: ReadEndings = dict
    """Which statuses end a document of lanes; asked only where their table is here."""
    _catalog: Catalog | None = None
    _keeps_agreements: bool = True
    _schema: list[str] = field(default_factory=list)
    _loaded: dict[str, TableAgreement] = field(default_factory=dict)

    def locked(self) -> AbstractContextManager[None]:
        """Hold off other syncs of this database with this remote."""
        return sync_lock(self.connection, self.remote, LOCK_WAIT, self.notice)

    def forget(self) -> str | None:
        """Drop the base and all that agreed with it; returns the commit."""
        with saying("forgetting the watermark"), self.connection.transaction():
            agreement.forget(self.connection, self.remote)
            return forget_base(self.connection, self.remote)

    def carried(self) -> Mapping[str, TableAgreement]:
        """What the last view found recorded, to be recorded again for a commit that changed nothing of it."""
        return dict(self._loaded)

    def base(self) -> str | None:
        return read_base(self.connection, self.remote).commit

    @contextmanager
    def view(self, base: str | None) -> Iterator[Snapshot]:
        with reading(self.dsn, purpose="sync") as connection:
            self._loaded = agreement.load(connection, self.remote, base, agreement.key_check(self.key))
            self._schema = applied_versions(connection, self.config.migrations)
            self._catalog = self._read_catalog(connection)
            yield Snapshot(connection, self._catalog, self._schema, self._loaded)

    def _read_catalog(self, connection: psycopg.Connection) -> Catalog:
        migrations = self.config.migrations
        query = migrations.versions if migrations else None
        versions = tables_read_by(connection, query, self.config.schemas) if query else frozenset()
        catalog = read_catalog(connection, self.config, version_tables=versions, notice=self.notice)
        declaration: Declaration = catalog.declaration.with_overrides(self.overrides)
        if self.config.documents is not False:
            declaration = declaration.with_documents(self.endings)
        return Catalog(catalog.tables, catalog.parents_first, declaration)

    @property
    def _keeps_documents(self) -> bool:
        table = self.catalog.declaration.tables.get(DOCUMENT_TABLE)
        return table is not None and table.endings is not None

    @property
    def catalog(self) -> Catalog:
        """As the last view read it."""
        assert self._catalog is not None  # noqa: S101 - changes come from a view
        return self._catalog

    def apply(
        self,
        changes: Mapping[str, Spool],
        agreements: Mapping[str, TableAgreement],
        *,
        commit: str | None,
        expected: str | None,
        final: bool,
        changed_here: Collection[str] = (),
    ) -> Mapping[str, TableAgreement]:
        self._prepare()
        with saying("writing the branch's changes"), self.connection.transaction():
            after = apply(self.connection, self.catalog, changes, agreements, changed_here=changed_here)
            merged = {**agreements, **after}
            self._record(merged if final else {}, commit, expected)
        return merged

    def conflicts(self, changes: Mapping[str, Spool], changed_here: Collection[str]) -> Sequence[Conflict]:
        doing = saying("looking whether the branch's changes keep the constraints here")
        try:
            with doing, self.connection.transaction(force_rollback=True):
                return conflicts(self.connection, self.catalog, changes, changed_here)
        except DatabaseFailed as error:
            self.notice(f"whether the changes keep this database's constraints is not known: {error.message}")
            return ()

    def record(self, agreements: Mapping[str, TableAgreement], *, commit: str, expected: str | None) -> None:
        self._prepare()
        with saying("recording the watermark"), self.connection.transaction():
            self._record(agreements, commit, expected)

    def announce(self, commit: str) -> None:
        check_table(self.connection)
        self._prepare()
        if self._keeps_agreements:
            with saying("noting what is on its way to the branch"):
                agreement.announce(self.connection, self.remote, commit)

    def pending(self) -> str | None:
        return agreement.pending(self.connection, self.remote)

    def _prepare(self) -> None:
        """Make the table of agreements where it is missing; a role that may not only has to read more."""
        with saying("preparing the record of what agrees"):
            try:
                agreement.create(self.connection)
            except psycopg.errors.InsufficientPrivilege:
                self.notice(
                    "this role may not create the schema vibey_actions, so every sync reads every row; "
                    "`vibey-actions migrate` as the database's owner makes it"
                )
                self._keeps_agreements = False

    def _record(self, agreements: Mapping[str, TableAgreement], commit: str | None, expected: str | None) -> None:
        if commit is None:
            return
        record_base(self.connection, self.remote, commit, expected=expected)
        carried = [name for name, agreed in agreements.items() if agreed is self._loaded.get(name)]
        made = {name: agreed for name, agreed in agreements.items() if name not in carried}
        if self._keeps_agreements:
            check = agreement.key_check(self.key)
            agreement.record(self.connection, self.remote, commit, check, carried=carried, made=made)

    def can_fill(self) -> bool:
        return can_fill(self.connection, self.catalog)

    def fill(
        self,
        document: DocumentReader,
        *,
        commit: str | None,
        agrees: bool = True,
        finish: Callable[[], None] | None = None,
    ) -> Filled | None:
        self._prepare()
        try:
            with saying("filling the database"), self.connection.transaction():
                rows, agreements = fill(self.connection, self.catalog, document, self._schema, self.progress)
                if finish is not None:
                    finish()
                self._record(agreements if agrees else {}, commit, None)
        except (DatabaseFailed, RowRefused) as refused:
            if self.connection.broken:
                raise
            self.notice(
                f"the empty database does not take all rows in one stream ({refused.message}); writing them in order"
            )
            return None
        return Filled(rows)

    def can_lift(self) -> bool:
        return has_files(self.config)

    @contextmanager
    def lift(self, sealed: Path, schema: list[str]) -> Iterator[Path]:
        config = replace(self.config, documents=True) if self._keeps_documents else self.config
        with lift(self.dsn, config, sealed, schema, key=self.key, notice=self.notice, migrator=self.migrator) as path:
            yield path
