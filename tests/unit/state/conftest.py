"""Fixtures of the core's tests."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vibey_actions.state import scanner


@pytest.fixture
def window(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets how many bytes the scanner looks at to begin with."""
    return lambda size: monkeypatch.setattr(scanner, "WINDOW", size)
