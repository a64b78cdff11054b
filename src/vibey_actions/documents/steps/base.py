"""What a lane asks of a step, and what a step answers.

A step decides first, from the document alone and without spending anything, whether there is work; then the document is
claimed; then the step runs. It never writes the document: the lane takes over the fields that the transition owns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol, TypeAlias

from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document
from vibey_actions.errors import MachineInvalid
from vibey_actions.text import shown

DROP: Final = None
"""A result field with this value is removed from the document."""


@dataclass(frozen=True, slots=True)
class Ready:
    """There is work. ``step`` goes onto the claim, for machines whose steps have names; ``note`` is said in the report
    (a ``postAt`` that cannot be read)."""

    step: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Hold:
    """Not yet, and why: written as ``heldReason`` when it changes."""

    reason: str


@dataclass(frozen=True, slots=True)
class Invalid:
    """The document's input is empty or cannot be used: it fails with the reason, and nothing is spent."""

    reason: str


Decision: TypeAlias = Ready | Hold | Invalid


class Outcome(str, Enum):
    """How a run of a step ended."""

    DONE = "done"
    AGAIN = "again"
    """It did not take effect, provably or by nature repeatable; tried again within the attempts."""
    FAILED = "failed"
    """It failed for good."""
    UNKNOWN = "unknown"
    """It may have taken effect. A ``once`` step is never repeated; another is tried again."""


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a step answers: made by ``done``, ``again``, ``failed`` or ``unknown``."""

    outcome: Outcome
    reason: str = ""
    fields: Mapping[str, object] = field(default_factory=dict)
    status: str | None = None
    """Which finish, where the claim's status has more than one."""


def done(fields: Mapping[str, object] | None = None, status: str | None = None) -> StepResult:
    """It took effect; ``fields`` that the transition owns are taken over."""
    return StepResult(Outcome.DONE, fields=fields or {}, status=status)


def again(reason: str) -> StepResult:
    """It did not take effect and may be tried again."""
    return StepResult(Outcome.AGAIN, reason)


def failed(reason: str, fields: Mapping[str, object] | None = None) -> StepResult:
    """It failed, and trying again would not help; ``fields`` as for ``done``."""
    return StepResult(Outcome.FAILED, reason, fields or {})


def unknown(reason: str) -> StepResult:
    """Nobody knows whether it took effect."""
    return StepResult(Outcome.UNKNOWN, reason)


@dataclass(frozen=True, slots=True)
class Work:
    """A claimed document and the time there is for it."""

    machine: Machine
    document: Document
    """As claimed: a copy of the step's own."""
    key: str
    """``id:attempt``: what the step's effects are keyed by, since work can run twice."""
    until_ms: int
    """When the lease ends, by the deciding clock."""
    now_ms: Callable[[], int]
    """The deciding clock."""
    renew: Callable[[], bool]
    """Move the lease to one whole lease from now; False once the claim is lost: then stop, nothing will count."""


class Step(Protocol):
    """One kind of work."""

    def decide(self, document: Document, now_ms: int) -> Decision:
        """Whether there is work, from the document alone. Nothing is spent, nothing is written, nothing is asked."""
        ...

    def run(self, work: Work) -> StepResult:
        """Do the work. What it raises counts as ``unknown`` with the error's message as the reason."""
        ...


Factory: TypeAlias = Callable[[Machine], Step]
"""Makes a machine's step from what the machine declares (``machine.settings``). Raises MachineInvalid."""


class Registry:
    """Which step is meant by a name in a declaration."""

    def __init__(self, factories: Mapping[str, Factory] | None = None) -> None:
        self._factories: dict[str, Factory] = dict(factories or {})

    def register(self, name: str, factory: Factory) -> None:
        """``name`` in a declaration means what ``factory`` makes."""
        self._factories[name] = factory

    def steps(self, machine: Machine) -> dict[str, Step]:
        """A step for every name that the machine's claims use. Raises MachineInvalid for one that is not there."""
        names = {edge.step for edge in machine.transitions if edge.step is not None}
        return {name: self._factory(machine, name)(machine) for name in sorted(names)}

    def _factory(self, machine: Machine, name: str) -> Factory:
        factory = self._factories.get(name)
        if factory is None:
            raise MachineInvalid(
                f"the machine {machine.name} uses the step {shown(name, 80)}, which there is not",
                f"the steps are {', '.join(sorted(self._factories)) or 'none'}",
            )
        return factory
