"""Every command's work, put together from settings: database, branch, key, and the core between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path

from vibey_actions.config import Config, TableConfig
from vibey_actions.errors import ImportRefused, RemoteFailed, SettingError, TableRefused, Unreadable
from vibey_actions.keys import KeyStore
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.lift import Migrator
from vibey_actions.postgres.migrate import migrate
from vibey_actions.postgres.store import PgStore
from vibey_actions.remotes.base import Remote
from vibey_actions.remotes.cache import default_cache_folder
from vibey_actions.remotes.open import remote_of
from vibey_actions.remotes.standing import StandingRemote
from vibey_actions.settings import Settings
from vibey_actions.state.checked import CheckedFiles
from vibey_actions.state.cycle import LARGE_FILL, Cycle, Options, check_schema
from vibey_actions.state.declaration import Declaration
from vibey_actions.state.document import DocumentReader, Serialized
from vibey_actions.state.documents import Documents, put_in_place, sealed_file
from vibey_actions.state.export import EXPORT_FORMAT, ExportReader, export_writer
from vibey_actions.state.exported import ExportStore
from vibey_actions.state.identity import Folds
from vibey_actions.state.interfaces import Store, View
from vibey_actions.state.lanes import Endings, Kind
from vibey_actions.state.profiles import profile
from vibey_actions.state.progress import Progress
from vibey_actions.state.report import Counts, Report, SyncState
from vibey_actions.state.seal import open_sealed
from vibey_actions.state.shapes import read_shapes, write_shapes
from vibey_actions.state.transfer import copy_document, replacement, write_database

__all__ = ["ExportSummary", "ImportSummary", "MigrateSummary", "Operations", "ShowSummary"]


@dataclass(frozen=True, slots=True)
class ExportSummary:
    """What ``state export`` wrote: rows per table, and the base and remote that stand in the file."""

    path: Path
    rows: int
    base: str | None
    remote: str
    tables: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ImportSummary:
    """What ``state import`` brought in, and the base that is recorded now."""

    rows: int
    base: str | None
    tables: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class ShowSummary:
    """What a sealed state holds; ``rows`` only where one table's rows were asked for."""

    format: str
    schema: list[str]
    tables: Mapping[str, int]
    rows: Iterator[bytes] | None


@dataclass(frozen=True, slots=True)
class MigrateSummary:
    """The migrations that were applied now, and all that are applied."""

    applied: list[str]
    versions: list[str]


@dataclass(frozen=True)
class Operations:
    """The commands' work for one set of settings. Nothing is asked of anybody before a method is called.

    ``migrator`` runs what has to be migrated on the way of a sync (None: this process does).
    """

    settings: Settings
    config: Config
    env: Mapping[str, str] = field(repr=False)
    progress: Progress
    notice: Callable[[str], None]
    migrator: Migrator | None = None

    @cached_property
    def _key(self) -> bytes:
        return KeyStore(self.settings, self.env).load()

    @cached_property
    def _remote(self) -> Remote:
        return remote_of(self.settings, self.env, notice=self.notice)

    @property
    def remote(self) -> str:
        """The name of the branch's place, as reports have it. Nobody is asked for it."""
        return self._remote.name

    @cached_property
    def _documents(self) -> Documents:
        folder = default_cache_folder(self.env)
        return Documents(folder / "drafts", CheckedFiles(folder / "checked"), self._key)

    @contextmanager
    def _store(self) -> Iterator[PgStore]:
        dsn, key, remote = self.settings.require_dsn(), self._key, self._remote.name
        with connect(dsn, purpose="sync", notice=self.notice) as connection:
            ways = (self.settings.conflicts, remote, key, self.progress, self.notice, self.migrator, self._endings)
            yield PgStore(connection, dsn, self.config, *ways)

    def _endings(self) -> Endings:
        """The ends of documents, as the machines of this checkout say."""
        from vibey_actions.documents.declare import load

        named = self.env.get("VIBEY_DOCS_CONFIG", "").strip()
        machines = load(self.settings.root, self.settings.cwd / named if named else None).machines.values()
        return {Kind(each.db, each.kind_field, each.kind): each.terminals for each in machines}

    def _cycle(self, store: Store, options: Options, remote: Remote | None = None) -> Cycle:
        remote = remote or self._remote
        return Cycle(store, remote, self._documents, self.settings.path, options, self.progress, self.notice)

    def sync(
        self,
        *,
        push: bool = True,
        max_deletes: int | None = None,
        accept_rollback: bool = False,
        once: bool = False,
    ) -> Report:
        """Bring database and branch level; with ``push`` false only this database.

        ``once`` is for a database made of an export (see ``Options``).
        """
        options = Options(push, self.settings.attempts, max_deletes, accept_rollback, once)
        with self._store() as store, store.locked():
            return self._cycle(store, options).sync()

    def status(self) -> Report:
        """What a sync would do; conflicts are in the report."""
        with self._store() as store:
            return self._cycle(store, Options(accept_rollback=True)).status()

    def changes(self) -> Report:
        """What this database holds beyond the commit it last agreed with, whatever the branch's head is now."""
        with self._store() as store:
            return self._cycle(store, Options(), StandingRemote(self._remote, store.base())).status()

    def counts(self) -> dict[str, int]:
        """How many rows each synced table has."""
        with self._store() as store, store.view(None) as view:
            return view.counts()

    def export(self, out: Path, *, shapes: Path | None = None) -> ExportSummary:
        """Write the database's state, sealed, to ``out``, replacing what is there only once it is complete.

        ``shapes`` is where to write what ``merge_export`` needs besides (None: nowhere).
        """
        self.progress.step("exporting the database")
        folder = out.absolute().parent
        if not folder.is_dir():
            raise SettingError(f"the folder of {out} does not exist", "make it, or name another file")
        with self._store() as store:
            base = store.base()
            with store.view(None) as view, sealed_file(folder, self._key) as (write, close, path):
                writer = export_writer(
                    write,
                    base=base,
                    remote=store.remote,
                    schema=view.schema,
                    end=close,
                    serialized=view.declaration.serialized,
                    folds=view.declaration.folds,
                )
                tables = write_database(view.declaration, view.view, writer)
                put_in_place(path, out)
                if shapes is not None:
                    write_shapes(shapes, out, view.declaration.tables, self._key)
        return ExportSummary(out, sum(tables.values()), base, store.remote, tables)

    def import_(self, file: Path, *, replace: bool = False) -> ImportSummary:
        """Make the database's rows those of the export ``file`` and record its base."""
        if not file.is_file():
            raise ImportRefused(f"there is no file {file}", "name the export that `state export` wrote")
        self.progress.step("importing the export")
        with self._store() as store, store.locked():
            if (recorded := store.base()) is not None:
                raise ImportRefused(
                    f"this database has agreed with {store.remote} at {recorded} before",
                    "an export goes into a new database; to start over here: `vibey-actions state forget`",
                )
            return self._import(store, file, replace=replace)

    def _import(self, store: PgStore, file: Path, *, replace: bool) -> ImportSummary:
        with store.view(None) as view:
            export = self._read_export(file, view, store.remote)
            empty = view.is_empty()
        if not empty and not replace:
            raise ImportRefused(
                "this database holds rows, which the import would replace",
                "import into an empty database, or add --replace when these rows are to give way",
            )
        if empty and file.stat().st_size >= LARGE_FILL and store.can_fill():
            filled = store.fill(export.document, commit=export.base, agrees=False, finish=export.finish)
            if filled is not None:
                return ImportSummary(sum(filled.rows.values()), export.base, filled.rows)
            export = self._read_export(file, view, store.remote)
        with store.view(None) as view:
            changes, tables = replacement(view.declaration, export.document, view.view)
            export.finish()
            agreements = view.agreements(changes)
        try:
            store.apply(changes.pull, agreements, commit=export.base, expected=None, final=False)
        finally:
            changes.close()
        return ImportSummary(sum(tables.values()), export.base, tables)

    def _read_export(self, file: Path, view: View, remote: str) -> ExportReader:
        tables = view.declaration.tables
        export = ExportReader(
            open_sealed(file, self._key), key_of=lambda name: tables[name].key if name in tables else None
        )
        if export.remote != remote:
            raise ImportRefused(f"the export belongs to {export.remote}, not to {remote}", "import it where it belongs")
        check_schema(view.schema, export.document.schema, "the export")
        if export.document.schema != view.schema:
            raise ImportRefused(
                "the export was made at older migrations than this database has",
                "import it into a database at the same migrations, sync that, then migrate it",
            )
        return export

    def merge_export(self, file: Path, shapes: Path) -> Report:
        """Merge the export ``file`` into the branch without a database; ``shapes`` was written beside it.

        Constraints are not checked: the next sync of a database does. Nothing is written where a commit since the
        export's base held all of it (``Report.held_at``). Raises what a sync raises, and as ``import_`` does.
        """
        self.progress.step("merging the export")
        declared = profile(self.config.profile).tables if self.config.profile is not None else {}
        tables = {
            name: self.config.tables.get(name, TableConfig()).ruling(table, declared.get(name))
            for name, table in read_shapes(shapes, file, self._key).items()
            if name not in self.config.exclude
        }
        declaration = Declaration(tables).with_overrides(self.settings.conflicts)
        if self.config.documents is not False:
            declaration = declaration.with_documents(self._endings)
        store = ExportStore(file, declaration, self._remote.name, self._key)
        store.check()
        return self._cycle(store, Options(attempts=self.settings.attempts, once=True)).sync()

    def schema_of(self, file: Path) -> list[str]:
        """The migrations that the export ``file`` was made at. Raises Unreadable, WrongKey."""
        return ExportReader(open_sealed(file, self._key)).document.schema

    def schema_of_branch(self) -> list[str]:
        """The migrations that the branch is at; none where there is no branch yet."""
        head = self._remote.head()
        if head is None:
            return []
        return DocumentReader(open_sealed(self._remote.fetch(head), self._key)).schema

    def show(self, file: Path | None, at: str | None, table: str | None) -> ShowSummary:
        """What a sealed file, or the branch (at a commit), holds."""
        path = file or self._fetched(at)
        if not path.is_file():
            raise SettingError(f"there is no file {path}", "name a sealed state or export")
        form, document = self._open_any(path)
        if table is not None:
            return ShowSummary(form, document.schema, {}, _rows_of(document, table))
        tables = {name: sum(len(batch) for batch in batches) for name, batches in document.tables()}
        return ShowSummary(form, document.schema, tables, None)

    def _fetched(self, at: str | None) -> Path:
        commit = at or self._remote.head()
        if commit is None:
            raise RemoteFailed(f"there is no branch {self._remote.name} yet", "the first `state sync` makes it")
        return self._remote.fetch(commit)

    def _open_any(self, path: Path) -> tuple[str, DocumentReader]:
        chunks = open_sealed(path, self._key)
        first = next(chunks, b"")
        whole = chain([first], chunks)
        if first.startswith(b'{"base":'):
            return EXPORT_FORMAT, ExportReader(whole, key_of=lambda _: None).document
        document = DocumentReader(whole, key_of=lambda _: None)
        return document.format, document

    def forget(self) -> str | None:
        """Drop the recorded base, so that the next sync merges as a first one; returns the commit."""
        with self._store() as store, store.locked():
            return store.forget()

    def forget_table(self, name: str) -> Report:
        """Take a table that this database does not sync off the branch."""
        with self._store() as store, store.locked():
            base, head = store.base(), self._remote.head()
            if head is None:
                raise RemoteFailed(f"there is no branch {store.remote}", "nothing is to be forgotten")
            with store.view(base) as view:
                if name in view.declaration.tables:
                    raise TableRefused(
                        f"this database syncs the table {name}, so the next sync would bring it back",
                        f'exclude it on every machine first: [state] exclude = ["{name}"]',
                    )
            return self._without_table(store, name, base, head)

    def _without_table(self, store: PgStore, name: str, base: str | None, head: str) -> Report:
        document = DocumentReader(open_sealed(self._remote.fetch(head), self._key), key_of=lambda _: None)
        with self._documents.draft(document.schema, *_without(document, name)) as (writer, draft):
            rows = copy_document(document, writer, name)
            if not rows:
                return Report(SyncState.IN_SYNC, store.remote, head, None, notes=[f"{name} is not on the branch"])
            commit = self._remote.push({self.settings.path: draft}, head)
        if base == head:
            store.record(store.carried(), commit=commit, expected=head)
        counts = {name: Counts(deleted=rows)}
        return Report(SyncState.IN_SYNC, store.remote, commit, None, push=counts, pushed=True)

    def migrate(self) -> MigrateSummary:
        """Apply the migrations that are missing, and make the tables that keep the sync's own records."""
        done = migrate(
            self.settings.require_dsn(),
            self.config,
            environment=self.env,
            cwd=self.settings.root,
            notice=self.notice,
        )
        return MigrateSummary(list(done.applied), list(done.versions))


def _without(document: DocumentReader, table: str) -> tuple[Serialized, Folds]:
    """What the document says of its tables' columns and keys, but for ``table``."""
    serialized = {name: columns for name, columns in document.serialized.items() if name != table}
    return serialized, {name: columns for name, columns in document.folds.items() if name != table}


def _rows_of(document: DocumentReader, table: str) -> Iterator[bytes]:
    found = False
    for name, batches in document.tables():
        if name == table:
            found = True
            for batch in batches:
                yield from batch.rows
    if not found:
        raise Unreadable(f"the state holds no table {table}", "`vibey-actions state show` lists its tables")
