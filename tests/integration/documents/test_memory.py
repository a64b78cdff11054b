"""The store in memory keeps the interface of all stores."""

from __future__ import annotations

import pytest

from tests.integration.documents.store_conformance import StoreConformance
from tests.support.lanes import MACHINES
from vibey_actions.documents.stores.base import Store
from vibey_actions.documents.stores.memory import MemoryStore


class TestMemory(StoreConformance):
    """Every case, in memory."""

    @pytest.fixture
    def store(self) -> Store:
        return MemoryStore(MACHINES)
