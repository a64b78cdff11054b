"""What remotes say while they work."""

from __future__ import annotations

from collections.abc import Callable

Notice = Callable[[str], None]
"""Takes one line that a person should see while work goes on."""


def silent(_line: str) -> None:
    """The Notice of a caller that shows nothing."""


def megabytes(size: int) -> str:
    """A number of bytes as people read it in limits: ``41.9 MB``."""
    return f"{size / 1_000_000:.1f} MB"
