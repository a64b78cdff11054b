"""The store in PostgreSQL keeps the interface of all stores."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.integration.documents.store_conformance import StoreConformance
from tests.support.lanes import MACHINES
from vibey_actions.documents.stores.base import Store
from vibey_actions.documents.stores.postgres import PostgresStore
from vibey_actions.postgres.documents import DocumentTable


@pytest.fixture
def opened(dsn: str) -> Iterator[Callable[..., PostgresStore]]:
    """A factory of stores on one database, closed at the end."""
    tables: list[DocumentTable] = []

    def make(schema: str = "public") -> PostgresStore:
        tables.append(DocumentTable(dsn, schema))
        return PostgresStore(tables[-1], MACHINES)

    yield make
    for table in tables:
        table.close()


class TestPostgres(StoreConformance):
    """Every case, in PostgreSQL."""

    @pytest.fixture
    def store(self, opened: Callable[..., PostgresStore]) -> Store:
        return opened()
