"""What a lane finds when it reads its documents: which are ready, held, unusable, being worked on, or expired."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from vibey_actions.documents import moves
from vibey_actions.documents.machine import Machine, Transition
from vibey_actions.documents.model import (
    CREATED,
    UPDATED,
    Document,
    attempts_of,
    copied,
    expired,
    id_of,
    status_of,
    time_ms,
)
from vibey_actions.documents.report import Due
from vibey_actions.documents.steps.base import Decision, Hold, Invalid, Ready, Step
from vibey_actions.documents.stores.base import Store
from vibey_actions.text import shown

MOST_CANDIDATES: Final = 10_000
"""Ready documents kept in mind in one tick, those that wait longest; more are for the next."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A document that does not exist yet, due to be claimed by being made, or made as it is in ``status``."""

    document: Document
    status: str


@dataclass(frozen=True, slots=True)
class Candidate:
    """A document to work on: the claim that takes it, and what its step calls the work."""

    document: Document
    edge: Transition
    step: str | None = None
    note: str = ""
    new: bool = False

    @property
    def order(self) -> tuple[int, str]:
        """Who waits longest comes first; new units before all, because their day ends."""
        moment = None if self.new else time_ms(self.document.get(UPDATED)) or time_ms(self.document.get(CREATED))
        return (moment or 0, id_of(self.document))


@dataclass(slots=True)
class Found:
    """The documents of a machine, told apart."""

    expired: list[Document] = field(default_factory=list)
    unusable: list[tuple[Document, str]] = field(default_factory=list)
    holds: list[tuple[Document, str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    working: int = 0
    ready_count: int = 0
    _ready: list[Candidate] = field(default_factory=list)

    def add(self, candidate: Candidate) -> None:
        """Count a ready document, and keep it in mind where it is among those that wait longest."""
        self.ready_count += 1
        self._ready.append(candidate)
        if len(self._ready) > 2 * MOST_CANDIDATES:
            self._ready = self.ready()

    def ready(self) -> list[Candidate]:
        """The ready documents, those that wait longest first."""
        return heapq.nsmallest(MOST_CANDIDATES, self._ready, key=lambda candidate: candidate.order)

    def due(self, machine: Machine) -> Due:
        """How many there are of each."""
        counts = (self.ready_count, len(self.expired), len(self.unusable), len(self.holds), self.working)
        return Due(machine.name, *counts)


class Finder:
    """Tells the documents of a machine apart. ``steps`` decide, from the document alone."""

    def __init__(self, machine: Machine, store: Store, steps: Mapping[str, Step]) -> None:
        self._machine = machine
        self._store = store
        self._steps = steps

    def read(self, units: Sequence[Unit] = ()) -> Found:
        """Every document that a lane may have to act on. Raises StoreFailed."""
        found, now = Found(), self._store.now_ms()
        for document in self._store.active(self._machine):
            if self._live(document, now):
                found.working += 1
            elif self._machine.claimed(document) and moves.swept(self._machine, document, now) is not None:
                found.expired.append(document)
            else:
                self.sort(document, now, found)
        for unit in units:
            edge = self._machine.edge(None, unit.status)
            if edge is not None and edge.claim:
                found.add(Candidate(unit.document, edge, new=True))
        return found

    def sort(self, document: Document, now: int, found: Found) -> None:
        """Put a document that nobody works on where it belongs."""
        edge = self._machine.claimable.get(status_of(document) or "")
        if edge is None:
            return
        decision = self._attempts_left(document) or self._decide(edge, document, now)
        match decision:
            case Ready(step, note):
                found.add(Candidate(document, edge, step, note))
            case Hold(reason):
                found.holds.append((document, reason))
            case Invalid(reason):
                found.unusable.append((document, reason))
            case None:
                found.notes.append(f"{shown(id_of(document), 120)}: its step broke off before anything was done")

    def _live(self, document: Document, now: int) -> bool:
        patience = now - self._store.grace_ms
        return self._machine.claimed(document) and not expired(document, self._machine.lease_ms, patience)

    def _attempts_left(self, document: Document) -> Invalid | None:
        attempts = attempts_of(document)
        if attempts is None:
            return Invalid("its attempts are no count")
        used = attempts >= self._machine.attempts
        return Invalid(f"its {self._machine.attempts} attempts are used up") if used else None

    def _decide(self, edge: Transition, document: Document, now: int) -> Decision | None:
        try:
            return self._steps[edge.step or ""].decide(copied(document), now)
        except Exception:  # noqa: BLE001 - a step is a plug-in: its fault is this document's, not the tick's
            return None
