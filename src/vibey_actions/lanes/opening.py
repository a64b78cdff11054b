"""A store, its record of ticks and the steps' surroundings, opened as the setup says and closed again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vibey_actions.documents.steps.base import Registry
from vibey_actions.documents.stores.base import Store
from vibey_actions.lanes.setup import Kind, Setup
from vibey_actions.lanes.ticks import TableTicks, Ticks, WorkflowRuns

if TYPE_CHECKING:
    from vibey_actions.documents.client import VibesClient


@dataclass(frozen=True)
class Opened:
    """Where documents are, where ticks are recorded, and which steps there are."""

    store: Store
    ticks: Ticks
    steps: Registry = field(default_factory=Registry)


@contextmanager
def opened(setup: Setup, env: Mapping[str, str], notice: Callable[[str], None]) -> Iterator[Opened]:
    """The store that ``setup`` names. Raises SettingError, StoreFailed, DatabaseFailed."""
    if setup.kind is Kind.VIBES:
        yield _vibes(setup, env)
        return
    with _table(setup, env, notice) as place:
        yield place


@contextmanager
def _table(setup: Setup, env: Mapping[str, str], notice: Callable[[str], None]) -> Iterator[Opened]:
    from vibey_actions.config import load_config
    from vibey_actions.documents.stores.postgres import PostgresStore
    from vibey_actions.postgres.documents import DocumentTable, schema_for
    from vibey_actions.settings import Settings

    settings = Settings.from_env(env, setup.root)
    config = load_config(settings.root, settings.config_file)
    dsn = settings.require_dsn()
    with closing(DocumentTable(dsn, schema_for(config), notice)) as table:
        store = PostgresStore(table, setup.machines)
        yield Opened(store, TableTicks(dsn, notice), registry(setup, env, store))


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
