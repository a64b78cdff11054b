"""How far the property tests go: bounded, and the same examples on every run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings


def bounded(examples: int = 150) -> Callable[[Any], Any]:
    """Settings for a test with this many examples, derived from the test itself."""
    return settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
