"""Random schedules of workers, crashes and clocks: one claim, nothing lost, an end within the attempts."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from tests.property.settings import bounded
from tests.support.lanes import JOB, MENTION, NOON, PUBLISH, SetClock, add, read
from vibey_actions.documents.guard import refusal
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document, attempts_of, status_of
from vibey_actions.documents.steps.base import Decision, Ready, StepResult, Work, again, done, failed, unknown
from vibey_actions.documents.stores.memory import MemoryStore

LABELS = {"publish-request": ("items", "publish"), "job": (None,), "mention-build": (None,)}
ENDS = ("done", "again", "failed", "unknown", "dies", "slow", "renews")
MOST_DEPTH = 3


class Died(BaseException):
    """A worker that is killed in the middle of its work: nothing of it is written any more."""


@dataclass
class Watched(MemoryStore):
    """A store that keeps every version of every document, and can be read by workers at any moment."""

    machine: Machine
    clock: SetClock
    history: list[tuple[Document | None, Document]] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__((self.machine,), self.clock)

    def put(self, db: str, identifier: str, document: Document, **more: object) -> str:
        before = self.get(db, identifier)
        revision = super().put(db, identifier, document, **more)  # type: ignore[arg-type]
        after = self.get(db, identifier)
        assert after is not None
        if before != after:
            self.history.append((before, after))
        return revision


@dataclass
class World:
    """Workers that nest: while one works, another may tick, so that every interleaving of claims comes about."""

    machine: Machine
    store: Watched
    plan: st.DataObject
    depth: int = 0
    effects: Counter[str] = field(default_factory=Counter)
    accepted: Counter[str] = field(default_factory=Counter)

    def decide(self, document: Document, now_ms: int) -> Decision:
        return Ready(self.plan.draw(st.sampled_from(LABELS[self.machine.name]), "label"))

    def run(self, work: Work) -> StepResult:
        self.effects[work.key] += 1
        held = read(self.store, self.machine, str(work.document["_id"]))
        assert held["claimId"] == work.document["claimId"]
        end = self.plan.draw(st.sampled_from(ENDS), "end")
        self.store.clock.pass_ms(self.plan.draw(st.integers(0, 2 * self.machine.lease_ms), "time"))
        if end == "renews" and work.renew():
            self.store.clock.pass_ms(self.machine.lease_ms)
        if self.depth < MOST_DEPTH and self.plan.draw(st.booleans(), "another worker meanwhile"):
            self.tick()
        if end == "dies":
            raise Died
        results = {"again": again("later"), "failed": failed("no"), "unknown": unknown("silence")}
        edges = self.machine.finish_edges(str(work.document["status"]))
        target = self.plan.draw(st.sampled_from([edge.target for edge in edges]), "target")
        return results.get(end, done(status=target))

    def tick(self) -> None:
        self.depth += 1
        try:
            lane = Lane(self.machine, self.store, {edge.step or "": self for edge in self.machine.transitions})
            lane.tick()
        except Died:
            pass
        finally:
            self.depth -= 1


@given(st.data(), st.sampled_from([JOB, MENTION, PUBLISH]), st.integers(1, 4))
@bounded(150)
def test_every_document_ends_within_its_attempts(plan: st.DataObject, machine: Machine, count: int) -> None:
    """Whatever workers do and whenever they die: every key is worked once, and every document ends or can go on."""
    clock = SetClock()
    store = Watched(machine, clock)
    world = World(machine, store, plan)
    for number in range(count):
        add(store, machine, f"d{number}")
    ends = machine.terminals | {"built"}
    for _ in range(machine.attempts * len(machine.statuses) * count):
        documents = [read(store, machine, f"d{number}") for number in range(count)]
        if all(status_of(document) in ends for document in documents):
            break
        world.tick()
        clock.pass_ms(machine.lease_ms + 1)
    documents = [read(store, machine, f"d{number}") for number in range(count)]
    assert {status_of(document) for document in documents} <= ends
    assert all((attempts_of(document) or 0) <= machine.attempts for document in documents)
    assert max(world.effects.values()) == 1
    check_history(machine, store.history)


def check_history(machine: Machine, history: list[tuple[Document | None, Document]]) -> None:
    """Every version follows from the one before it by a transition, under one claim from claim to end."""
    claims = [after["claimId"] for before, after in history if after.get("claimId") not in (None, *claimed_by(before))]
    assert len(claims) == len(set(claims))
    for before, after in history:
        if before is None:
            continue
        ended = machine.claimed(before) and status_of(after) != status_of(before)
        by_holder = after.get("claimId", after.get("lastClaimId")) == before.get("claimId")
        swept = status_of(after) in (machine.failed, *machine.waiting) and "lastError" in after
        assert not ended or by_holder or swept


def claimed_by(document: Document | None) -> tuple[object, ...]:
    return () if document is None else (document.get("claimId"),)


@dataclass
class Skewed(MemoryStore):
    """One worker's view of a store whose workers have a clock each."""

    shared: MemoryStore
    skew: int

    grace_ms = 120_000

    def __post_init__(self) -> None:
        super().__init__((PUBLISH,), self)
        self._databases, self._revisions, self._lock = (
            self.shared._databases,
            self.shared._revisions,
            self.shared._lock,
        )

    def now_ms(self) -> int:
        return self.shared.now_ms() + self.skew


@given(st.data(), st.lists(st.integers(-60_000, 60_000), min_size=2, max_size=4))
@bounded(100)
def test_clocks_apart_by_a_minute_do_no_work_twice(plan: st.DataObject, skews: list[int]) -> None:
    """Workers with clocks of their own: none takes over a claim before its holder's lease is over by every clock."""
    clock = SetClock()
    shared = MemoryStore((PUBLISH,), clock)
    stores = [Skewed(shared, skew) for skew in skews]
    add(stores[0], PUBLISH, "p")
    active: list[str] = []

    class Step:
        def decide(self, document: Document, now_ms: int) -> Decision:
            return Ready("items")

        def run(self, work: Work) -> StepResult:
            assert active == []
            active.append(work.key)
            for _ in range(3):
                clock.pass_ms(plan.draw(st.integers(0, PUBLISH.lease_ms // 3), "time"))
                other = plan.draw(st.sampled_from(stores), "worker")
                Lane(PUBLISH, other, {"publish-request": self}).tick()
            active.pop()
            return done(status="done")

    Lane(PUBLISH, plan.draw(st.sampled_from(stores), "first"), {"publish-request": Step()}).tick()
    assert read(shared, PUBLISH, "p")["status"] == "done"


STATUSES = st.sampled_from([*PUBLISH.statuses, "other", None])
FIELDS: st.SearchStrategy[object] = st.sampled_from(
    ["a", "b", "", None, 0, 1, 2, NOON - 1, NOON + 1, "2026-01-01T12:00:00Z", True, [], {}]
)
NAMES = ("attempts", "claimId", "lastClaimId", "leaseUntil", "step", "updatedAt", "lastError")
DOCUMENTS = st.fixed_dictionaries(
    {"kind": st.just("publish-request"), "status": STATUSES}, optional=dict.fromkeys(NAMES, FIELDS)
)


@given(st.none() | DOCUMENTS, DOCUMENTS, st.sampled_from(["publisher", "operator", "author", "nobody", None]))
@bounded(400)
def test_the_guard_answers_for_any_two_documents(old: Document | None, new: Document, writer: str | None) -> None:
    """Whatever stands in the fields, it answers; and what it lets never leaves a terminal status but by an operator."""
    reason = refusal(PUBLISH, old, new, writer, NOON)
    if reason is None and old is not None and status_of(old) in PUBLISH.terminals and old != new:
        assert writer == "operator"
