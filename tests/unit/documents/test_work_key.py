"""The key of an attempt's effects: no two attempts of a document share one, an operator's retries counted in."""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.lanes import JOB, NOON, PUBLISH, FakeStep, SetClock, add, read
from vibey_actions.documents import moves
from vibey_actions.documents.guard import refusal
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import MAX_SAFE, Document, work_key
from vibey_actions.documents.steps.base import StepResult, Work, again, done, failed
from vibey_actions.documents.stores.memory import MemoryStore


def worked(machine: Machine, store: MemoryStore, *answers: StepResult) -> list[str]:
    """The keys that a document's attempts had, one tick for each answer."""
    keys = []
    for answer in answers:
        step = FakeStep(partial(_same, answer))
        Lane(machine, store, {"command": step, "publish-request": step}).tick()
        keys += [work.key for work in step.worked]
    return keys


def _same(answer: StepResult, _: Work) -> StepResult:
    return answer


def sent_back(machine: Machine, store: MemoryStore, identifier: str) -> Document:
    """The document after an operator's retry."""
    document, writer = moves.retried(machine, read(store, machine, identifier), store.now_ms(), again=True)
    store.put(machine.db, identifier, document, writer=writer)
    return read(store, machine, identifier)


@pytest.mark.parametrize("machine", [JOB, PUBLISH], ids=lambda machine: machine.name)
def test_no_key_comes_twice(machine: Machine) -> None:
    """A receiver that remembers keys takes an operator's retry for what it is: another delivery, not an old one."""
    store = MemoryStore([machine], SetClock(NOON))
    add(store, machine, "one", input="x", platform="there")
    keys = worked(machine, store, again("busy"), failed("no"))
    assert sent_back(machine, store, "one")["earlierAttempts"] == 2
    keys += worked(machine, store, again("busy"), failed("no"))
    document = sent_back(machine, store, "one")
    assert (document["attempts"], document["earlierAttempts"]) == (0, 4)
    keys += worked(machine, store, done(status="done"))
    assert keys == [f"one:{number}" for number in range(1, 6)]


def test_a_document_that_was_never_claimed_counts_nothing() -> None:
    """It failed before any attempt: its retry writes no count, and its first attempt is the first."""
    store = MemoryStore([JOB], SetClock(NOON))
    add(store, JOB, "one", input="x", attempts=0)
    store.put(JOB.db, "one", moves.failed(JOB, read(store, JOB, "one"), "no input", NOON), writer=JOB.lane)
    assert "earlierAttempts" not in sent_back(JOB, store, "one")
    assert worked(JOB, store, done()) == ["one:1"]


@pytest.mark.parametrize(
    ("earlier", "key"),
    [(3, "a:5"), (0, "a:2"), (-1, "a:2"), ("3", "a:2"), (1.5, "a:2"), (True, "a:2"), (MAX_SAFE, f"a:{MAX_SAFE}")],
)
def test_what_is_no_count_counts_nothing(earlier: object, key: str) -> None:
    """A field that cannot be read is none."""
    assert work_key({"_id": "a", "attempts": 2, "earlierAttempts": earlier}) == key


@pytest.mark.parametrize("written", [0, 1, 3, "2", None])
def test_only_the_true_count_is_written(written: object) -> None:
    """A retry adds the attempts to the earlier ones; any other count is refused, and so is a change elsewhere."""
    old: Document = {"_id": "a", "type": "job", "status": "failed", "attempts": 2}
    new: Document = {**old, "status": "pending", "attempts": 0}
    assert refusal(JOB, old, {**new, "earlierAttempts": 2}, "operator", NOON) is None
    assert refusal(JOB, old, new, "operator", NOON) is None
    assert refusal(JOB, old, {**new, "earlierAttempts": written}, "operator", NOON)
    waiting = {**new, "earlierAttempts": 5}
    claim = {**waiting, "status": "running", "attempts": 1, "claimId": "c", "leaseUntil": NOON}
    assert refusal(JOB, waiting, claim, "worker", NOON) is None
    assert refusal(JOB, waiting, {**claim, "earlierAttempts": written}, "worker", NOON)
