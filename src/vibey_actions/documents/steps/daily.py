"""The step of a unit of a day: the adopter's command, run for the unit that was claimed by being made.

Which units there are, and when they are due, is in ``documents/daily.py``.
"""

from __future__ import annotations

from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document, text_of
from vibey_actions.documents.steps.base import Decision, Invalid, Ready, StepResult, Work
from vibey_actions.documents.steps.command import Program, concluded
from vibey_actions.documents.steps.surroundings import Surroundings, settings_of

_SETTINGS = ("command", "variables", "deadline")


class DailyStep:
    """One program for the units of every schedule; the document's ``name``, ``person`` and ``date`` say which."""

    def __init__(self, program: Program) -> None:
        self._program = program

    @classmethod
    def make(cls, machine: Machine, surroundings: Surroundings) -> DailyStep:
        """The step as the machine declares it under ``with``. Raises MachineInvalid."""
        part = settings_of(machine)
        part.known(_SETTINGS)
        return cls(Program.read(part, surroundings))

    def decide(self, document: Document, now_ms: int) -> Decision:  # noqa: ARG002
        for name in ("name", "date"):
            if text_of(document, name) is None:
                return Invalid(f"its {name} is empty, so it is no unit of a day")
        return Ready()

    def run(self, work: Work) -> StepResult:
        return concluded(self._program.run(work), once=True)
