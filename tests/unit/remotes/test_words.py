"""How remotes write sizes."""

from __future__ import annotations

from vibey_actions.remotes.words import megabytes


def test_sizes() -> None:
    """Sizes are in the megabytes of GitHub's limits."""
    assert megabytes(100_000_000) == "100.0 MB"
