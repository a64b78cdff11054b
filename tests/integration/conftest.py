"""Databases that share a sealed branch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.ends import Ends


@pytest.fixture
def ends(tmp_path: Path, database: Callable[[], str]) -> Ends:
    """A factory of databases that sync with one branch of a bare git repository."""
    return Ends(tmp_path, database)
