"""Machines, clocks and steps for tests of document lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from vibey_actions.documents import moves
from vibey_actions.documents.declare import built_in
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document
from vibey_actions.documents.steps.base import Decision, Ready, StepResult, Work, done
from vibey_actions.documents.stores.base import Store

NOON = 1_767_268_800_000
"""2026-01-01T12:00:00Z."""
JOB, MENTION, PUBLISH, DAILY = (built_in(name) for name in ("job", "mention-build", "publish-request", "daily"))
MACHINES = (JOB, MENTION, PUBLISH, DAILY)


@dataclass
class SetClock:
    """A clock that stands until it is moved."""

    ms: int = NOON

    def now_ms(self) -> int:
        return self.ms

    def pass_ms(self, ms: int) -> None:
        self.ms += ms


@dataclass
class FakeStep:
    """A step that answers what it is told, and keeps the work it was given."""

    answer: Callable[[Work], StepResult] = lambda _: done()
    decision: Callable[[Document], Decision] = lambda _: Ready()
    worked: list[Work] = field(default_factory=list)

    def decide(self, document: Document, now_ms: int) -> Decision:
        return self.decision(document)

    def run(self, work: Work) -> StepResult:
        self.worked.append(work)
        return self.answer(work)


def add(store: Store, machine: Machine, identifier: str, status: str | None = None, **fields: object) -> Document:
    """A new document of the machine, written by who may, and read back."""
    document = moves.new_document(machine, fields, status, store.now_ms())
    store.put(machine.db, identifier, document, writer=machine.creator(str(document["status"])))
    return read(store, machine, identifier)


def read(store: Store, machine: Machine, identifier: str) -> Document:
    """The document, which is there."""
    document = store.get(machine.db, identifier)
    assert document is not None
    return document


def claim(
    store: Store, machine: Machine, document: Document, claim_id: str, step: str | None = None
) -> Document | None:
    """A worker's claim of ``document`` as it was read."""
    edge = machine.claimable[str(document["status"])]
    new = moves.claimed(machine, edge, document, store.now_ms(), claim=claim_id, step=step)
    return store.claim(machine.db, document, new, writer=machine.lane)
