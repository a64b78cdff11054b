"""Runners of document lanes in the sealed state: a copy of the database each, and one branch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.support.ends import End
from tests.support.lanes import JOB, FakeStep, read
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.report import TickReport
from vibey_actions.documents.steps.base import StepResult, Work, done
from vibey_actions.documents.stores.postgres import PostgresStore
from vibey_actions.documents.stores.sealed import SealedStore
from vibey_actions.postgres.documents import DocumentTable


class Impatient(SealedStore):
    """Takes a lease that has run out at its word."""

    grace_ms = 0


@dataclass
class Runner:
    """One runner: a copy of the database, and what its steps worked on."""

    end: End
    table: DocumentTable
    machine: Machine = JOB

    def __post_init__(self) -> None:
        self.worked: list[str] = []
        self.copy = PostgresStore(self.table, (self.machine,))
        self.store: SealedStore = Impatient(self.copy, self.sync)

    def sync(self) -> None:
        self.end.sync()

    def tick(self, answer: Callable[[Work], StepResult] | None = None) -> TickReport:
        """One tick of its lane, whose step says what it worked on."""

        def work(work: Work) -> StepResult:
            self.worked.append(str(work.document["_id"]))
            return answer(work) if answer is not None else done({"output": work.key})

        return Lane(self.machine, self.store, {"command": FakeStep(work)}).tick()

    def status(self, identifier: str) -> object:
        return read(self.copy, self.machine, identifier)["status"]
