"""How far the property tests go: bounded. That every run has the same examples is in tests/conftest.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import settings


def bounded(examples: int = 150) -> Callable[[Any], Any]:
    """Settings for a test with this many examples, derived from the test itself."""
    return settings(settings.get_profile("repository"), max_examples=examples)
