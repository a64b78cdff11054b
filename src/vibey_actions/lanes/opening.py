"""A store, its record of ticks and the steps' surroundings, opened as the setup says and closed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from vibey_actions.config import Config, load_config
from vibey_actions.documents.status import Survey
from vibey_actions.documents.steps.base import Registry
from vibey_actions.documents.stores.base import Store
from vibey_actions.errors import SettingError
from vibey_actions.lanes.setup import Kind, Setup
from vibey_actions.lanes.survey import TableSurvey
from vibey_actions.lanes.ticks import TableTicks, Ticks, WorkflowRuns
from vibey_actions.lanes.unseen import hide
from vibey_actions.settings import Settings

if TYPE_CHECKING:
    from vibey_actions.documents.client import VibesClient
    from vibey_actions.documents.stores.postgres import PostgresStore


_SYNCED: Final = "public"
"""The schema whose table of documents is a part of the state."""


@dataclass(frozen=True)
class Opened:
    """Where documents are, where ticks are recorded, and which steps there are."""

    store: Store
    ticks: Ticks
    steps: Registry = field(default_factory=Registry)
    changes: Callable[[], int | None] | None = None
    """A number that grows when documents are written, where the store can tell."""
    survey: Survey | None = None
    """Counts of documents, where the store has them without reading each."""


@contextmanager
def opened(setup: Setup, env: Mapping[str, str], notice: Callable[[str], None]) -> Iterator[Opened]:
    """The store that ``setup`` names. From here on no step can look into this process.

    Raises SettingError, StoreFailed, DatabaseFailed.
    """
    hide()
    if setup.kind is Kind.VIBES:
        yield _vibes(setup, env)
        return
    with _table(setup, env, notice) as place:
        yield place


@contextmanager
def _table(setup: Setup, env: Mapping[str, str], notice: Callable[[str], None]) -> Iterator[Opened]:
    from vibey_actions.documents.stores.postgres import PostgresStore
    from vibey_actions.postgres.changes import Changes
    from vibey_actions.postgres.documents import DocumentTable, schema_for

    settings = Settings.from_env(env, setup.root)
    config = load_config(settings.root, settings.config_file)
    dsn, schema = settings.require_dsn(), schema_for(config)
    _check(setup, config, dsn, synced=schema == _SYNCED)
    with closing(DocumentTable(dsn, schema, notice)) as table, closing(Changes(dsn, schema)) as changes:
        copy = PostgresStore(table, setup.machines)
        store = _sealed(copy, settings, config, env, notice) if setup.kind is Kind.SEALED else copy
        client = vibes_client(setup, env) if setup.vibe else None
        steps = registry(setup, env, store, client)
        yield Opened(store, TableTicks(dsn, notice), steps, changes.count, TableSurvey(dsn, schema))


def _sealed(
    copy: PostgresStore, settings: Settings, config: Config, env: Mapping[str, str], notice: Callable[[str], None]
) -> Store:
    from vibey_actions.documents.stores.sealed import SealedStore
    from vibey_actions.operations import Operations
    from vibey_actions.state.progress import Silent

    engine = Operations(settings, config, env, Silent(), notice)
    return SealedStore(copy, engine.sync)


def _check(setup: Setup, config: Config, dsn: str, *, synced: bool) -> None:
    """Documents that are synced are claimed over the branch, and no others are. Raises SettingError."""
    if setup.kind is Kind.SEALED and not config.documents:
        raise SettingError(
            "documents are declared to be in the sealed state, and the configuration does not make them a part of it",
            "write documents = true into [state] of .github/vibey-state.toml and run `vibey-actions migrate`, or write "
            "store: {kind: postgres} into .github/vibey-docs.yml",
        )
    if setup.kind is Kind.POSTGRES and synced and (config.documents or _is_synced(dsn)):
        raise SettingError(
            "the documents of this database are synced, so a claim that is made here alone says nothing to others",
            "write store: {kind: sealed} into .github/vibey-docs.yml, or documents = false into [state] of "
            ".github/vibey-state.toml to keep documents out of the state",
        )


def _is_synced(dsn: str) -> bool:
    from vibey_actions.postgres.connection import connect
    from vibey_actions.postgres.watermark import is_synced

    with closing(connect(dsn, purpose="documents")) as connection:
        return is_synced(connection)


def _vibes(setup: Setup, env: Mapping[str, str]) -> Opened:
    from vibey_actions.documents.stores.vibes import SETTLE, VibesStore

    client = vibes_client(setup, env)
    settle = setup.settle if setup.settle is not None else SETTLE
    store = VibesStore(client, setup.machines, settle=settle)
    return Opened(store, WorkflowRuns(env, setup.root), registry(setup, env, store, client))


def vibes_client(setup: Setup, env: Mapping[str, str]) -> VibesClient:
    """The client of the vibe that ``setup`` names. Raises SettingError where it is not installed."""
    from vibey_actions.documents.client import VibesClient, find_client

    return VibesClient(find_client(setup.client, env), setup.vibe, env, setup.api_url)


def registry(setup: Setup, env: Mapping[str, str], store: Store, client: VibesClient | None = None) -> Registry:
    """The steps that machines may name."""
    from vibey_actions.documents.steps import built_in
    from vibey_actions.documents.steps.surroundings import Surroundings

    return built_in.registry(Surroundings(env, setup.root, store, client))
