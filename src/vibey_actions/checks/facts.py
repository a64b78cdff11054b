"""What several checks need, each found out once: settings, key, branch, database."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from vibey_actions.config import Config, load_config
from vibey_actions.errors import VibeyError
from vibey_actions.keys import FoundKey, KeyStore
from vibey_actions.remotes.base import Remote
from vibey_actions.remotes.open import open_inspection, remote_of
from vibey_actions.settings import Settings
from vibey_actions.state.document import DocumentReader
from vibey_actions.state.documents import reopen
from vibey_actions.state.seal import open_sealed

if TYPE_CHECKING:
    import psycopg

    from vibey_actions.postgres.health import Pooling
    from vibey_actions.postgres.tables import Catalog
    from vibey_actions.remotes.inspection import Inspection, RepositoryFacts

CLOCK_TOLERANCE: Final = 60.0
"""Seconds by which clocks may differ before it is said."""

T = TypeVar("T")


class NotKnown(Exception):
    """Something that a check needs is not known, and the check that looks for it has said why."""


class Once(Generic[T]):
    """A fact: found at its first use. The first who asks in vain gets the error, all others NotKnown."""

    def __init__(self, what: str, find: Callable[[], T]) -> None:
        self._what = what
        self._find = find
        self._found: list[T] = []
        self._failed = False

    def __call__(self) -> T:
        if self._failed:
            raise NotKnown(self._what)
        if not self._found:
            try:
                self._found.append(self._find())
            except (VibeyError, NotKnown):
                self._failed = True
                raise
        return self._found[0]


@dataclass(frozen=True, slots=True)
class Head:
    """The branch's head: where its sealed file is on this machine, how large, and the migrations it is at."""

    commit: str
    size: int
    schema: list[str] = field(default_factory=list)


class Facts:
    """The facts about one environment. Close it, for the database's sake: use it in a ``with`` block."""

    def __init__(self, env: Mapping[str, str], cwd: Path, clock: Callable[[], float] = time.time) -> None:
        self.env = env
        self.clock = clock
        self._stack = ExitStack()
        self.settings = Once("the settings cannot be used", lambda: Settings.from_env(env, cwd))
        self.config = Once("the configuration cannot be used", self._config)
        self.key = Once("there is no key to use", self._key)
        self.remote = Once("the place of the branch is not known", self._remote)
        self.inspection = Once("the repository is not known", self._inspection)
        self.repository = Once("the repository cannot be read", self._repository)
        self.head = Once("the branch cannot be read", self._head)
        self.sealed = Once("the sealed file cannot be had", self._sealed)
        self.opened = Once("the sealed file does not open", self._opened)
        self.pooling = Once("the database cannot be reached", self._pooling)
        self.database = Once("the database cannot be used", self._database)
        self.versions = Once("the database's migrations are not known", self._versions)
        self.catalog = Once("the tables cannot be synced as they are", self._catalog)

    def __enter__(self) -> Facts:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def on_github(self) -> bool:
        """Whether the branch is kept over GitHub's API."""
        return self.settings().remote is None

    def _config(self) -> Config:
        settings = self.settings()
        return load_config(settings.root, settings.config_file)

    def _key(self) -> FoundKey:
        store = KeyStore(self.settings(), self.env)
        store.load()
        found = store.find()
        assert found is not None  # noqa: S101 - load raises where there is none
        return found

    def _remote(self) -> Remote:
        if self.on_github:
            self.inspection()  # what is wrong with the repository's name has been said there
        return remote_of(self.settings(), self.env)

    def _inspection(self) -> Inspection:
        settings = self.settings()
        return open_inspection(
            env=self.env, repository=settings.repository or "", folder=settings.cwd, clock=self.clock
        )

    def _repository(self) -> RepositoryFacts:
        return self.inspection().repository()

    def _head(self) -> str | None:
        if self.on_github:
            self.repository()
        return self.remote().head()

    def _sealed(self) -> Head | None:
        commit = self.head()
        return None if commit is None else Head(commit, self.remote().fetch(commit).stat().st_size)

    def _opened(self) -> Head | None:
        """The head, its sealed file authenticated with the key."""
        sealed = self.sealed()
        if sealed is None:
            return None
        key, remote = self.key().key, self.remote()

        def read(path: Path) -> DocumentReader:
            # Its first line comes only after the whole file has been authenticated.
            return DocumentReader(open_sealed(path, key))

        document = reopen(lambda: remote.fetch(sealed.commit), lambda: remote.discard(sealed.commit), read)
        return Head(sealed.commit, sealed.size, document.schema)

    def _pooling(self) -> Pooling:
        from vibey_actions.postgres.health import pooling

        return pooling(self.settings().require_dsn())

    def _database(self) -> psycopg.Connection:
        from vibey_actions.postgres.connection import connect

        connection = connect(self.settings().require_dsn(), purpose="doctor")
        self._stack.callback(connection.close)
        return connection

    def _versions(self) -> list[str]:
        from vibey_actions.postgres.migrate import applied_versions

        return applied_versions(self.database(), self.config().migrations)

    def _catalog(self) -> Catalog:
        from vibey_actions.postgres.catalog import read_catalog, tables_read_by

        connection, config = self.database(), self.config()
        query = config.migrations.versions if config.migrations else None
        versions = tables_read_by(connection, query, config.schemas) if query else frozenset()
        return read_catalog(connection, config, version_tables=versions)
