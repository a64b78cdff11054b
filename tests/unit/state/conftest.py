"""Fixtures of the core's tests."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import IO, Any

import pytest

from vibey_actions.state import scanner


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many bytes the scanner looks at to begin with."""
    return lambda size: monkeypatch.setattr(scanner, "WINDOW", size)


@pytest.fixture
def temporary_files(monkeypatch: pytest.MonkeyPatch) -> list[IO[bytes]]:
    """Every temporary file that is made."""
    made: list[IO[bytes]] = []
    real: Callable[..., IO[bytes]] = tempfile.TemporaryFile

    def noted(*args: Any, **options: Any) -> IO[bytes]:
        made.append(real(*args, **options))
        return made[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", noted)
    return made
