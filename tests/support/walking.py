"""Real steps on the store in memory: a machine with settings, walked tick by tick by a clock that stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support.lanes import MACHINES, SetClock, add, read
from vibey_actions.documents.client import VibesClient
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document
from vibey_actions.documents.report import TickReport
from vibey_actions.documents.steps.base import Work
from vibey_actions.documents.steps.built_in import registry
from vibey_actions.documents.steps.surroundings import Surroundings
from vibey_actions.documents.stores.memory import MemoryStore


@dataclass
class Walk:
    """One machine in its surroundings. ``pauses`` are the seconds that steps slept, by a clock that passes with it."""

    machine: Machine
    root: Path
    environment: Mapping[str, str]
    client: VibesClient | None = None
    clock: SetClock = field(default_factory=SetClock)
    pauses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        others = [machine for machine in MACHINES if machine.name != self.machine.name]
        self.store = MemoryStore((self.machine, *others), self.clock)

    @property
    def surroundings(self) -> Surroundings:
        return Surroundings(
            self.environment, self.root, self.store, self.client, self._sleep, lambda: self.clock.ms / 1000
        )

    def lane(self) -> Lane:
        return Lane(self.machine, self.store, registry(self.surroundings).steps(self.machine))

    def tick(self) -> TickReport:
        return self.lane().tick()

    def add(self, identifier: str, status: str | None = None, **fields: object) -> Document:
        return add(self.store, self.machine, identifier, status, **fields)

    def read(self, identifier: str) -> Document:
        return read(self.store, self.machine, identifier)

    def work(self, identifier: str, **claim: object) -> Work:
        """A claim on the document as a step sees it; every renewal succeeds."""
        until = self.clock.ms + self.machine.lease_ms
        document = {**self.read(identifier), "attempts": 1, "claimId": "c", "leaseUntil": until, **claim}
        return Work(self.machine, document, f"{identifier}:1", until, self.clock.now_ms, lambda: True)

    def _sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.clock.pass_ms(int(seconds * 1000))


def with_settings(machine: Machine, **settings: object) -> Machine:
    """The machine as it is declared with these settings."""
    return replace(machine, settings=settings)
