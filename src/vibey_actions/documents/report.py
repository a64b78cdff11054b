"""What a tick found, did and left, for people and for machines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum


class What(str, Enum):
    """What became of one document in a tick."""

    DONE = "done"
    MADE = "made"
    """A new document was written without any work: a day that was missed."""
    AGAIN = "again"
    """Given back for another attempt."""
    FAILED = "failed"
    UNKNOWN = "unknown"
    """Failed, and nobody knows whether it took effect."""
    RELEASED = "released"
    """The sweep took back a lease that ran out."""
    HELD = "held"
    """It waits for a reason of its own, newly written."""
    LOST = "lost"
    """Another worker has it, or moved it first. No error."""
    OVER_BUDGET = "over-budget"
    """Claimed and given back at once, because other workers had reached the cap of the day."""
    REFUSED = "refused"
    """The guard or the store refused a write of the lane."""


@dataclass(frozen=True, slots=True)
class Event:
    """One document's part in a tick. ``target`` is its status afterwards, as far as it is known."""

    identifier: str
    what: What
    source: str | None
    target: str | None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Due:
    """What a tick found before it did anything."""

    machine: str
    ready: int = 0
    """Documents with work to do now, taken over ones and new ones included."""
    expired: int = 0
    """Claims that ran out."""
    unusable: int = 0
    """Waiting documents that will fail without any work: bad input, attempts used up."""
    held: int = 0
    working: int = 0
    """Claims that stand."""

    def __str__(self) -> str:
        return (
            f"{self.machine}: {self.ready} ready, {self.expired} with a lease that ran out, {self.unusable} unusable, "
            f"{self.held} held, {self.working} being worked on"
        )

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to do but to wait."""
        return self.ready + self.expired + self.unusable == 0


@dataclass(slots=True)
class TickReport:
    """One tick of one machine."""

    due: Due
    events: list[Event] = field(default_factory=list)
    left: int = 0
    """Ready documents that a cap left for the next tick."""
    cap: str = ""
    """Which cap ended the tick; empty where none did."""
    stopped: str = ""
    """Why the tick ended early, where the store failed; what it had claimed by then comes back with its lease."""
    notes: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """How many documents each thing happened to."""
        return dict(Counter(event.what.value for event in self.events))

    def of(self, *what: What) -> Sequence[Event]:
        """The events of these kinds, in order."""
        return [event for event in self.events if event.what in what]
