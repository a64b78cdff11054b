"""How long work says what it does, without knowing who listens."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    """Where an operation reports its steps and, within a step, the rows it has done."""

    def step(self, text: str) -> None:
        """A new step begins: ``text`` says what is done now ("reading the database"), once."""
        ...

    def advance(self, done: int, total: int | None) -> None:
        """``done`` rows of the current step are behind us, of ``total`` where that is known."""
        ...


class Silent:
    """A Progress that nobody listens to."""

    def step(self, text: str) -> None:
        """Say nothing."""

    def advance(self, done: int, total: int | None) -> None:
        """Say nothing."""
