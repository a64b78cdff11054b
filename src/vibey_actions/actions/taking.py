"""One export on its way to the branch: downloaded, proven to be what its name says, and merged.

Where plain SQL files make the database it goes through one: fresh, at the export's migrations, given the export, and
synced, so that every constraint is checked. Elsewhere it is merged without one.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Final

from vibey_actions.actions import cluster
from vibey_actions.actions.exports import Export
from vibey_actions.actions.gate import Decision
from vibey_actions.actions.inputs import Inputs
from vibey_actions.actions.migrating import migrate_apart
from vibey_actions.actions.record import EXPORT_FILE, SHAPES_FILE, Place
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.work import note, operations
from vibey_actions.config import Config
from vibey_actions.errors import ArtifactUnusable, SchemaMismatch
from vibey_actions.operations import Operations
from vibey_actions.postgres import roles
from vibey_actions.postgres.server import Server
from vibey_actions.remotes.archives import take_out
from vibey_actions.remotes.artifacts import Artifacts
from vibey_actions.state.report import Report
from vibey_actions.state.shapes import sha256_of

_SETTINGS: Final = {"shared_buffers": "128MB", "max_wal_size": "2GB"}


@dataclass
class Taking:
    """Takes exports up, one after the other. Use as a context manager: it ends the server that it may have started."""

    runner: Runner
    inputs: Inputs
    decision: Decision
    place: Place
    artifacts: Artifacts
    _stack: ExitStack = field(default_factory=ExitStack)
    _made: int = 0

    def __enter__(self) -> Taking:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def take_up(self, export: Export, folder: Path) -> Report:
        """Bring ``export`` to the branch; its files go into the empty ``folder``. Raises VibeyError, nothing written.

        The report says whether something was pushed, or at which commit the branch held all of it before.
        """
        shapes = self._fetch(export, folder)
        file = folder / EXPORT_FILE
        if self._has_files:
            return self._through_database(file)
        if not shapes:
            raise ArtifactUnusable(
                f"the artifact {export.name} holds no {SHAPES_FILE}, without which it cannot be merged",
                "import it by hand into a database at its migrations, and sync that",
            )
        return self._without_database(file, folder / SHAPES_FILE)

    @property
    def _config(self) -> Config:
        return self.decision.config

    @property
    def _has_files(self) -> bool:
        return self._config.migrations is not None and self._config.migrations.directory is not None

    def _fetch(self, export: Export, folder: Path) -> bool:
        """Have the export in ``folder``, and whether its shapes are there too. Its content is what its name says."""
        archive = folder / f"{export.name}.zip"
        self.artifacts.download(export.artifact, archive)
        found = take_out(archive, {name: folder / name for name in (EXPORT_FILE, SHAPES_FILE)})
        archive.unlink()
        if EXPORT_FILE not in found:
            raise ArtifactUnusable(f"the artifact {export.name} holds no {EXPORT_FILE}", "nothing of it was used")
        if (digest := sha256_of(folder / EXPORT_FILE)) != export.sha256:
            raise ArtifactUnusable(
                f"the artifact {export.name} holds another file, of SHA-256 {digest}", "nothing of it was used"
            )
        return SHAPES_FILE in found

    def _engine(self, dsn: str) -> Operations:
        engine = operations(self.runner, self.inputs, self.decision, self.place, dsn)
        return replace(engine, migrator=self._migrate)

    def _without_database(self, file: Path, shapes: Path) -> Report:
        try:
            return self._engine("").merge_export(file, shapes)
        except SchemaMismatch as error:
            raise SchemaMismatch(
                f"the export does not fit the branch's migrations: {error.message}",
                "import it by hand into a database at its migrations, migrate that, and sync it; or discard the export",
            ) from None

    def _through_database(self, file: Path) -> Report:
        look = self._engine("")
        own = look.schema_of(file)
        both = sorted({*own, *look.schema_of_branch()})
        dsn = self._database()
        engine = self._engine(dsn)
        self.runner.say("migrating a fresh database ...")
        self._migrate(dsn, self._config, own)
        engine.import_(file, replace=True)
        if both != own:
            self._migrate(dsn, self._config, both)
        return engine.sync(once=True)

    def _migrate(self, dsn: str, config: Config, upto: Collection[str]) -> None:
        migrate_apart(dsn, config, upto, env=self.runner.env, notice=note(self.runner))

    def _database(self) -> str:
        """An empty database of its own for one export; the DSN is its owner's, who is no superuser."""
        owner = self._owner
        self._made += 1
        name = f"{roles.DATABASE}_{self._made}"
        roles.add_database(self._server.dsn(), name)
        return roles.in_database(owner, name)

    @cached_property
    def _server(self) -> Server:
        self.runner.say("starting a PostgreSQL ...")
        server = Server(binaries=cluster.programs(self.runner), durable=False, settings=_SETTINGS)
        return self._stack.enter_context(server)

    @cached_property
    def _owner(self) -> str:
        passwords = roles.new_password(), roles.new_password()
        self.runner.mask(*passwords)
        owner, _ = roles.furnish(self._server.dsn(), *passwords)
        return owner
