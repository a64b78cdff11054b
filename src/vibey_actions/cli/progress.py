"""How long work shows on stderr: bars on a terminal, one plain line a step elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vibey_actions.cli import console
from vibey_actions.text import visible

if TYPE_CHECKING:
    from rich.progress import TaskID

    from vibey_actions.state.progress import Progress


@contextmanager
def shown() -> Iterator[Progress]:
    """A Progress for one command; on leaving, the bars are taken away, so that the result stands alone."""
    if not sys.stderr.isatty():
        yield Lines()
        return
    bars = Bars()
    try:
        yield bars
    finally:
        bars.close()


class Lines:
    """A line when a step begins, for logs and pipes."""

    def step(self, text: str) -> None:
        """Say the step."""
        console.err(f"{text} ...")

    def advance(self, done: int, total: int | None) -> None:
        """Say nothing: a log keeps every line."""


class Bars:
    """One bar for the step at hand, drawn by rich."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[rows]}", markup=False),
            TimeElapsedColumn(),
            console=Console(file=sys.stderr, highlight=False),
            transient=True,
        )
        self._task: TaskID | None = None

    def step(self, text: str) -> None:
        """Replace the bar by one for the new step."""
        self._progress.start()
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._task = self._progress.add_task(visible(text), total=None, rows="")

    def advance(self, done: int, total: int | None) -> None:
        """Move the bar."""
        if self._task is None:
            return
        rows = f"{done:,} rows" if total is None else f"{done:,} of {total:,} rows"
        self._progress.update(self._task, completed=done, total=total, rows=rows)

    def close(self) -> None:
        """Take the bar away and give the terminal back."""
        self._progress.stop()
