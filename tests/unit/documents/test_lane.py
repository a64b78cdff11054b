"""One tick of a lane over the store in memory: what is due is said first, then swept, claimed, worked and finished."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import pytest

from tests.support.lanes import (
    DAILY,
    JOB,
    MACHINES,
    MENTION,
    NOON,
    PUBLISH,
    FakeStep,
    SetClock,
    add,
    claim,
    read,
)
from vibey_actions.documents import moves
from vibey_actions.documents.lane import Lane, Limits, Unit, spent_today
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document
from vibey_actions.documents.report import Due, TickReport, What
from vibey_actions.documents.steps.base import (
    Decision,
    Hold,
    Invalid,
    Ready,
    StepResult,
    Work,
    again,
    done,
    failed,
    unknown,
)
from vibey_actions.documents.stores.base import Page, Store
from vibey_actions.documents.stores.memory import MemoryStore
from vibey_actions.errors import DocumentDenied, OutcomeUnknown, StoreFailed

STEP = {machine.name: next(edge.step for edge in machine.transitions if edge.step) for machine in MACHINES}


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def store(clock: SetClock) -> MemoryStore:
    return MemoryStore(MACHINES, clock)


def lane(machine: Machine, store: Store, step: FakeStep) -> Lane:
    return Lane(machine, store, {STEP[machine.name] or "": step})


def tick(machine: Machine, store: Store, answer: Callable[[Work], StepResult] = lambda _: done()) -> TickReport:
    return lane(machine, store, FakeStep(answer)).tick()


def events(report: TickReport) -> list[tuple[str, What, str | None, str | None]]:
    return [(event.identifier, event.what, event.source, event.target) for event in report.events]


def put_raw(store: Store, machine: Machine, identifier: str, **fields: object) -> Document:
    """A document as another program may have left it, past the guard."""
    unguarded = MemoryStore((), SetClock())
    assert isinstance(store, MemoryStore)
    unguarded._databases = store._databases
    unguarded._revisions = store._revisions
    unguarded.put(machine.db, identifier, {machine.kind_field: machine.kind, **fields})
    return read(store, machine, identifier)


def test_a_document_is_walked_to_its_end(store: MemoryStore) -> None:
    """Claimed with a fresh claim, a lease and one attempt; finished under the same claim with the owned fields."""
    add(store, JOB, "one", input="x")
    step = FakeStep(lambda work: done({"output": work.key, "stray": 1}))
    report = lane(JOB, store, step).tick()
    assert events(report) == [("one", What.DONE, "pending", "done")]
    (work,) = step.worked
    assert (work.document["status"], work.document["attempts"], work.until_ms) == ("running", 1, NOON + 30_000)
    document = read(store, JOB, "one")
    assert (document["output"], document["claimId"]) == ("one:1", work.document["claimId"])
    assert not {"stray", "leaseUntil"} & document.keys()


def test_what_is_due_is_said_before_anything_is_written(store: MemoryStore) -> None:
    """Ready, held, unusable, expired and standing ones are counted, and nothing has moved by then."""
    add(store, JOB, "held", input="held")
    add(store, JOB, "bad", input="bad")
    add(store, JOB, "good", input="good")
    claim(store, JOB, add(store, JOB, "busy", input="x"), "c")
    put_raw(store, JOB, "late", status="running", attempts=1, claimId="c", leaseUntil=NOON - 1)
    before = store.query(JOB.db)
    decisions: dict[str, Decision] = {"held": Hold("not yet"), "bad": Invalid("empty")}
    step = FakeStep(decision=lambda document: decisions.get(str(document["input"]), Ready()))
    said: list[tuple[Due, Page]] = []
    Lane(JOB, store, {"command": step}, say=lambda due: said.append((due, store.query(JOB.db)))).tick()
    assert said == [(Due("job", ready=1, expired=1, unusable=1, held=1, working=1), before)]


def test_a_tick_says_that_it_ran_with_nothing_due(store: MemoryStore) -> None:
    """Silence would look like a lane that never ran."""
    said: list[Due] = []
    report = Lane(JOB, store, {"command": FakeStep()}, say=said.append).tick()
    assert (said, report.events, said[0].nothing) == ([Due("job")], [], True)


def test_a_second_tick_writes_nothing(store: MemoryStore) -> None:
    """Zero churn: a held document keeps its revision while the reason is the same."""
    add(store, JOB, "one", input="x")
    step = FakeStep(decision=lambda _: Hold("not before Monday"))
    assert events(lane(JOB, store, step).tick()) == [("one", What.HELD, "pending", "pending")]
    before = read(store, JOB, "one")
    assert before["heldReason"] == "not before Monday"
    assert lane(JOB, store, step).tick().events == []
    assert read(store, JOB, "one") == before


def test_a_claim_drops_the_reason_it_was_held_for(store: MemoryStore) -> None:
    """What no longer holds it is no longer said, while it is worked on nor afterwards."""
    add(store, JOB, "one", input="x")
    lane(JOB, store, FakeStep(decision=lambda _: Hold("not yet"))).tick()
    step = FakeStep()
    lane(JOB, store, step).tick()
    assert ["heldReason" in work.document for work in step.worked] == [False]
    assert "heldReason" not in read(store, JOB, "one")


def test_what_rests_is_left_for_a_later_tick(store: MemoryStore) -> None:
    """It is due all the same, takes nobody's place under a cap, and is not written."""
    for name in ("a", "b"):
        add(store, JOB, name, input="x")
    before = read(store, JOB, "a")
    report = lane(JOB, store, FakeStep()).tick(Limits(1, resting=lambda identifier: identifier == "a"))
    assert (report.due.ready, events(report)) == (2, [("b", What.DONE, "pending", "done")])
    assert read(store, JOB, "a") == before
    assert events(tick(JOB, store)) == [("a", What.DONE, "pending", "done")]


def test_bad_input_fails_without_spending(store: MemoryStore) -> None:
    """The reason is on the document; no attempt is counted and the step never runs."""
    add(store, JOB, "one", input="")
    step = FakeStep(decision=lambda _: Invalid("its input is empty"))
    assert events(lane(JOB, store, step).tick()) == [("one", What.FAILED, "pending", "failed")]
    document = read(store, JOB, "one")
    assert (document["lastError"], document["attempts"], step.worked) == ("its input is empty", 0, [])


def test_attempts_run_out(store: MemoryStore) -> None:
    """again is tried as often as the machine says, keyed anew each time, and then it has failed with the reason."""
    add(store, JOB, "one", input="x")
    keys: list[str] = []

    def refuse(work: Work) -> StepResult:
        keys.append(work.key)
        return again("busy\nthere")

    targets = [event.target for _ in range(4) for event in tick(JOB, store, refuse).events]
    assert targets == ["pending", "pending", "failed"]
    assert keys == ["one:1", "one:2", "one:3"]
    assert read(store, JOB, "one")["lastError"] == "busy there"


def test_a_dead_worker_is_swept_up_and_runs_out_too(store: MemoryStore, clock: SetClock) -> None:
    """Attempts count at the claim, so a worker that dies every time ends as failed; nothing moves earlier."""
    add(store, JOB, "one", input="x")
    for attempt in (1, 2, 3):
        claim(store, JOB, read(store, JOB, "one"), f"c{attempt}")
        clock.pass_ms(30_000)
        assert lane(JOB, store, FakeStep()).sweep().events == []
        clock.pass_ms(1)
        report = lane(JOB, store, FakeStep()).sweep()
        assert [event.what for event in report.events] == [What.FAILED if attempt == 3 else What.RELEASED]
    document = read(store, JOB, "one")
    assert document["status"] == "failed"
    assert document["lastError"] == "its worker did not finish, in attempt 3 of 3"


def test_what_the_sweep_took_back_is_worked_in_the_same_tick(store: MemoryStore, clock: SetClock) -> None:
    """Recovery needs one lease and one interval, not two."""
    claim(store, JOB, add(store, JOB, "one", input="x"), "c1")
    clock.pass_ms(30_001)
    assert [event.what for event in tick(JOB, store).events] == [What.RELEASED, What.DONE]


def test_a_sweep_never_moves_what_was_finished_meanwhile(clock: SetClock) -> None:
    """The sweep read it expired; the worker finished before the sweep wrote: the finish stands."""
    holder: list[Document] = []

    class Late(MemoryStore):
        def move(self, db: str, read: Document | None, new: Document, *, writer: str) -> Document | None:
            if holder:
                claimed = holder.pop()
                assert super().finish(db, claimed, {**claimed, "status": "done"}, writer="worker") is not None
            return super().move(db, read, new, writer=writer)

    store = Late(MACHINES, clock)
    claimed = claim(store, JOB, add(store, JOB, "one", input="x"), "c1")
    assert claimed is not None
    clock.pass_ms(30_001)
    holder.append(claimed)
    report = lane(JOB, store, FakeStep()).sweep()
    assert events(report) == [("one", What.LOST, "running", None)]
    assert read(store, JOB, "one")["status"] == "done"


def test_a_slow_worker_finishes_while_its_claim_stands(store: MemoryStore, clock: SetClock) -> None:
    """After its lease, but before anybody took it back, the result counts; the report says that the lease was short."""
    add(store, JOB, "one", input="x")

    def slow(_: Work) -> StepResult:
        clock.pass_ms(60_000)
        return done({"output": 1})

    report = tick(JOB, store, slow)
    assert events(report) == [("one", What.DONE, "pending", "done")]
    assert "outlived the lease" in report.notes[0]


def test_a_slow_worker_learns_that_its_claim_was_taken_back(store: MemoryStore, clock: SetClock) -> None:
    """Swept and claimed again while it worked: its finish is refused, and its result counts for nothing."""
    add(store, JOB, "one", input="x")

    def slow(work: Work) -> StepResult:
        clock.pass_ms(30_001)
        lane(JOB, store, FakeStep()).sweep()
        assert claim(store, JOB, read(store, JOB, "one"), "other") is not None
        assert not work.renew()
        return done({"output": "late"})

    assert events(tick(JOB, store, slow)) == [("one", What.LOST, "pending", None)]
    document = read(store, JOB, "one")
    assert (document["status"], document["claimId"], "output" in document) == ("running", "other", False)


def test_a_renewed_lease_keeps_the_sweep_away(store: MemoryStore, clock: SetClock) -> None:
    """Work longer than a lease renews it, and nobody takes it back."""
    add(store, JOB, "one", input="x")

    def long(work: Work) -> StepResult:
        for _ in range(3):
            clock.pass_ms(20_000)
            assert work.renew()
            assert lane(JOB, store, FakeStep()).sweep().events == []
        return done()

    report = tick(JOB, store, long)
    assert ([event.what for event in report.events], report.notes) == ([What.DONE], [])


def test_a_lost_claim_steps_aside(store: MemoryStore) -> None:
    """The worker who comes second says so, runs nothing, and goes on to the next document."""
    for identifier in ("a", "b"):
        add(store, JOB, identifier, input=identifier)
    other = FakeStep()

    def look(work: Work) -> StepResult:
        lane(JOB, store, other).tick()
        return done()

    report = tick(JOB, store, look)
    assert [(event.identifier, event.what) for event in report.events] == [("a", What.DONE), ("b", What.LOST)]
    assert [work.document["_id"] for work in other.worked] == ["b"]


def test_a_broken_step_is_its_documents_fault_alone(store: MemoryStore) -> None:
    """A step that raises counts as unknown: tried again where that is allowed, and the next document is worked."""
    add(store, JOB, "a", input="x")
    add(store, JOB, "b", input="x")

    def fragile(work: Work) -> StepResult:
        if work.document["_id"] == "a":
            raise RuntimeError("secret=1")
        return done()

    report = tick(JOB, store, fragile)
    assert [event.what for event in report.events] == [What.AGAIN, What.DONE]
    assert read(store, JOB, "a")["lastError"] == "the step broke off with RuntimeError"


def test_a_decision_that_breaks_leaves_the_document(store: MemoryStore) -> None:
    """Nothing is known of the input, so nothing is written; the report names the document."""

    def fragile(_: Document) -> Ready:
        raise KeyError("x")

    before = add(store, JOB, "a", input="x")
    report = lane(JOB, store, FakeStep(decision=fragile)).tick()
    assert (report.events, len(report.notes), read(store, JOB, "a")) == ([], 1, before)


def test_a_machine_without_release_is_claimed_over(store: MemoryStore, clock: SetClock) -> None:
    """mention-build: an expired building document is claimed again in place, twice in all, then build-failed."""
    add(store, MENTION, "m", prompt="x")
    claim(store, MENTION, read(store, MENTION, "m"), "c1")
    clock.pass_ms(45 * 60_000 + 1)
    report = tick(MENTION, store, lambda _: again("codegen is busy"))
    assert events(report) == [("m", What.FAILED, "building", "build-failed")]
    assert read(store, MENTION, "m")["attempts"] == 2


def test_again_where_there_is_no_way_back_ends_the_lease(store: MemoryStore) -> None:
    """mention-build keeps its status; the next tick claims it at once instead of in 45 minutes."""
    add(store, MENTION, "m", prompt="x")
    assert [event.target for event in tick(MENTION, store, lambda _: again("busy")).events] == ["building"]
    assert [event.target for event in tick(MENTION, store).events] == ["built"]


def test_a_claim_in_place_keeps_the_status_and_is_cleared(store: MemoryStore) -> None:
    """publish-request: the claim writes its step; the finish takes claimId, leaseUntil and step off again."""
    add(store, PUBLISH, "p", platform="ig")
    during: list[Document] = []

    def look(work: Work) -> StepResult:
        during.append(work.document)
        return done({"children": ["1", "2"]}, "items-created")

    step = FakeStep(look, decision=lambda _: Ready("items"))
    lane(PUBLISH, store, step).tick()
    assert (during[0]["status"], during[0]["step"], during[0]["attempts"]) == ("pending", "items", 1)
    document = read(store, PUBLISH, "p")
    assert (document["status"], document["children"], document["attempts"]) == ("items-created", ["1", "2"], 1)
    assert not {"claimId", "leaseUntil", "step"} & document.keys()


def test_again_in_place_gives_the_claim_back(store: MemoryStore) -> None:
    """publish-request: a refused connection leaves it in its status for the next tick, once per tick."""
    add(store, PUBLISH, "p", platform="ig")
    step = FakeStep(lambda _: again("refused connection"), decision=lambda _: Ready("publish"))
    assert events(lane(PUBLISH, store, step).tick()) == [("p", What.AGAIN, "pending", "pending")]
    document = read(store, PUBLISH, "p")
    assert (document["lastError"], "claimId" in document, len(step.worked)) == ("refused connection", False, 1)


def test_an_expired_once_step_is_never_taken_over(store: MemoryStore, clock: SetClock) -> None:
    """publish-request at its publish step: the outcome is unknown, so it ends as error and is not posted again."""
    add(store, PUBLISH, "p", platform="ig")
    claim(store, PUBLISH, read(store, PUBLISH, "p"), "c1", "publish")
    clock.pass_ms(600_001)
    step = FakeStep(decision=lambda _: Ready("publish"))
    assert events(lane(PUBLISH, store, step).tick()) == [("p", What.UNKNOWN, "pending", "error")]
    document = read(store, PUBLISH, "p")
    assert (document["outcomeUnknown"], step.worked) == (True, [])
    assert str(document["lastError"]).startswith("outcome unknown")


def test_another_expired_step_is_taken_over(store: MemoryStore, clock: SetClock) -> None:
    """publish-request at its items step: making containers again harms nobody."""
    add(store, PUBLISH, "p", platform="ig")
    claim(store, PUBLISH, read(store, PUBLISH, "p"), "c1", "items")
    clock.pass_ms(600_001)
    step = FakeStep(lambda _: done(status="items-created"), decision=lambda _: Ready("items"))
    assert events(lane(PUBLISH, store, step).tick()) == [("p", What.DONE, "pending", "items-created")]
    assert read(store, PUBLISH, "p")["attempts"] == 2


def test_an_unknown_outcome_of_a_once_step_is_an_end(store: MemoryStore) -> None:
    """After sending, a silent platform: error, said to be unknown, and no second post by itself."""
    add(store, PUBLISH, "p", platform="ig")
    step = FakeStep(lambda _: unknown("no answer"), decision=lambda _: Ready("publish"))
    assert [event.what for event in lane(PUBLISH, store, step).tick().events] == [What.UNKNOWN]
    assert read(store, PUBLISH, "p")["lastError"] == "outcome unknown: no answer"
    assert lane(PUBLISH, store, step).tick().due.nothing


def test_a_failed_step_keeps_what_it_learnt(store: MemoryStore) -> None:
    """failed ends at once, attempts left or not, with the fields that the edge owns."""
    add(store, JOB, "one", input="x")
    assert (
        events(tick(JOB, store, lambda _: failed("no such file", {"output": "partial", "input": "y"})))[0][3]
        == "failed"
    )
    document = read(store, JOB, "one")
    assert (document["lastError"], document["output"], document["input"]) == ("no such file", "partial", "x")


def test_a_finish_that_names_no_status_fails(store: MemoryStore) -> None:
    """Where a claim has several ends and the step names none, or one there is not, nothing is guessed."""
    for identifier, status in (("p", None), ("q", "done-ish")):
        add(store, PUBLISH, identifier, platform="ig")
        step = FakeStep(lambda _, status=status: done(status=status))  # type: ignore[misc]
        assert [event.target for event in lane(PUBLISH, store, step).tick().events] == ["error"]


def test_a_result_that_is_no_json_fails_its_document(store: MemoryStore) -> None:
    """A step's field that cannot be stored is no reason to lose the document or the tick."""
    add(store, JOB, "one", input="x")
    report = tick(JOB, store, lambda _: done({"output": object()}))
    assert [event.what for event in report.events] == [What.FAILED]
    assert read(store, JOB, "one")["status"] == "failed"


def test_held_documents_never_starve_others(store: MemoryStore) -> None:
    """Three a tick are three that are worked: a hundred held ones before them take no place."""
    for number in range(100):
        add(store, PUBLISH, f"a{number:03}", platform="ig", postAt="later")
    for number in range(4):
        add(store, PUBLISH, f"z{number}", platform="ig")
    step = FakeStep(
        lambda _: done(status="done"), decision=lambda d: Hold("not yet") if "postAt" in d else Ready("publish")
    )
    report = lane(PUBLISH, store, step).tick()
    assert [event.identifier for event in report.of(What.DONE)] == ["z0", "z1", "z2"]
    assert (report.cap, report.left) == ("3 a tick", 1)


def test_who_waits_longest_comes_first(store: MemoryStore, clock: SetClock) -> None:
    """A document that keeps being given back goes behind the others, whatever its id."""
    for identifier in ("a", "b", "c"):
        add(store, JOB, identifier, input="x")
    one = Limits(per_tick=1)
    seen = []
    for _ in range(4):
        clock.pass_ms(1)
        seen += lane(JOB, store, FakeStep(lambda _: again("busy"))).tick(one).events
    assert [event.identifier for event in seen] == ["a", "b", "c", "a"]


def test_a_tick_stops_when_its_time_is_up(store: MemoryStore) -> None:
    """What is not begun is left for the next tick, and said."""
    for identifier in ("a", "b"):
        add(store, JOB, identifier, input="x")
    step = FakeStep()
    report = lane(JOB, store, step).tick(Limits(stop=lambda: len(step.worked) == 1))
    assert (report.left, report.cap, len(step.worked)) == (1, "the time of this run", 1)


@pytest.mark.parametrize("decision", [Hold("not yet"), Invalid("it is empty")], ids=["held", "unusable"])
def test_a_flood_that_needs_no_work_comes_after_the_work(store: MemoryStore, decision: Hold | Invalid) -> None:
    """Writing down why a hundred documents wait, or fail, keeps nobody's work back, and all of it is written."""
    for number in range(100):
        add(store, JOB, f"a{number:03}", input="")
    add(store, JOB, "z", input="x")
    report = lane(JOB, store, FakeStep(decision=lambda d: Ready() if d["input"] else decision)).tick()
    places = [event.identifier for event in report.events]
    assert 0 < places.index("z") <= 20
    assert sorted(places) == [*(f"a{number:03}" for number in range(100)), "z"]


@pytest.mark.parametrize("decision", [Hold("not yet"), Invalid("it is empty")], ids=["held", "unusable"])
def test_a_tick_that_is_stopped_begins_nothing_more(
    store: MemoryStore, clock: SetClock, decision: Hold | Invalid
) -> None:
    """Neither the sweep nor what needs no work goes on after a signal, or beyond the time of a run."""
    for identifier in ("a", "b"):
        assert claim(store, JOB, add(store, JOB, identifier, input="x"), f"c{identifier}") is not None
        add(store, JOB, f"w{identifier}", input="")
    clock.pass_ms(JOB.lease_ms + 1)
    worker = lane(JOB, store, FakeStep(decision=lambda _: decision))
    assert worker.tick(Limits(stop=lambda: True)).events == []
    asked: list[int] = []
    report = worker.tick(Limits(stop=lambda: asked.append(1) or len(asked) > 3))  # type: ignore[func-returns-value]
    assert [event.identifier for event in report.events] == ["a", "b", "wa"]
    assert report.cap == "the time of this run"


def capped(clock: SetClock, cap: int) -> tuple[Machine, MemoryStore]:
    machine = replace(JOB, per_day=cap)
    return machine, MemoryStore((machine,), clock)


def test_the_cap_of_a_day_is_counted_on_the_documents(clock: SetClock) -> None:
    """Failing attempts count, other ticks count, and the next day begins anew."""
    machine, store = capped(clock, 3)
    for identifier in ("a", "b"):
        add(store, machine, identifier, input="x")
    for _ in range(3):
        tick(machine, store, lambda _: again("busy"))
    assert spent_today(machine, store) == 3
    report = tick(machine, store)
    assert (report.events, report.cap, report.left) == ([], "3 a day", 2)
    clock.pass_ms(24 * 3_600_000)
    assert len(tick(machine, store).of(What.DONE)) == 2


def test_an_operators_retry_does_not_reset_the_cap(clock: SetClock) -> None:
    """What was spent today stays on the document, so retrying cannot spend more than the cap."""
    machine, store = capped(clock, 1)
    add(store, machine, "a", input="x")
    tick(machine, store, lambda _: failed("no"))
    again_, writer = moves.retried(machine, read(store, machine, "a"), clock.now_ms())
    store.put(machine.db, "a", again_, writer=writer)
    assert tick(machine, store).cap == "1 a day"


@pytest.mark.parametrize("begun", [NOON, NOON + 12 * 3_600_000 - 1], ids=["noon", "midnight"])
def test_two_workers_at_the_cap_do_not_go_beyond_it(clock: SetClock, begun: int) -> None:
    """Both looked before either claimed: the second counts again under its claim and gives it back unspent, although
    the day may have ended meanwhile."""
    clock.ms = begun
    machine, store = capped(clock, 1)
    for identifier in ("a", "b"):
        add(store, machine, identifier, input="x")

    class Racing(MemoryStore):
        def claim(self, db: str, read: Document | None, claimed: Document, *, writer: str) -> Document | None:
            other = store.get(db, "b")
            assert other is not None
            edge = machine.claimable["pending"]
            assert store.move(db, other, moves.claimed(machine, edge, other, begun, claim="rival"), writer=writer)
            won = super().claim(db, read, claimed, writer=writer)
            clock.pass_ms(1)
            return won

    racing = Racing((machine,), clock)
    racing._databases, racing._revisions = store._databases, store._revisions
    step = FakeStep()
    report = lane(machine, racing, step).tick()
    assert (events(report)[0], step.worked) == (("a", What.OVER_BUDGET, "pending", "pending"), [])
    assert report.cap == ("1 a day" if begun == NOON else "")


def test_a_unit_is_claimed_by_being_made(store: MemoryStore) -> None:
    """daily: the document of the day comes into being under its claim, with its first attempt counted."""
    unit: Document = {"_id": "digest:2026-01-01", "name": "digest", "date": "2026-01-01"}
    step = FakeStep(lambda work: done({"output": work.key}))
    report = lane(DAILY, store, step).tick(units=[Unit(unit, "claimed")])
    assert events(report) == [("digest:2026-01-01", What.DONE, None, "done")]
    assert read(store, DAILY, "digest:2026-01-01")["output"] == "digest:2026-01-01:1"


def test_a_unit_that_somebody_made_is_lost(store: MemoryStore) -> None:
    """A double start has one effect: the second finds the day claimed."""
    unit = Unit({"_id": "digest:2026-01-01"}, "claimed")
    step = FakeStep()
    for _ in range(2):
        report = lane(DAILY, store, step).tick(units=[unit])
    assert ([event.what for event in report.events], len(step.worked)) == ([What.LOST], 1)


def test_a_missed_day_is_made_as_it_is(store: MemoryStore) -> None:
    """Nobody works on it; the ledger has it."""
    report = lane(DAILY, store, FakeStep()).tick(units=[Unit({"_id": "d:2025-12-31"}, "missed")])
    assert events(report) == [("d:2025-12-31", What.MADE, None, "missed")]


def test_a_day_whose_worker_died_is_failed_and_not_repeated(store: MemoryStore, clock: SetClock) -> None:
    """daily is a once machine: a gap is better than a double."""

    def dies(_: Work) -> StepResult:
        raise KeyboardInterrupt

    unit = Unit({"_id": "d:2026-01-01"}, "claimed")
    with pytest.raises(KeyboardInterrupt):
        lane(DAILY, store, FakeStep(dies)).tick(units=[unit])
    clock.pass_ms(30 * 60_000 + 1)
    step = FakeStep()
    report = lane(DAILY, store, step).tick()
    assert (events(report), step.worked) == ([("d:2026-01-01", What.UNKNOWN, "claimed", "failed")], [])


ODD: Mapping[str, tuple[Document, str]] = {
    "no lease and no time": ({"status": "running", "attempts": 1, "claimId": "c"}, "pending"),
    "an old updatedAt": ({"status": "running", "attempts": 1, "updatedAt": "2026-01-01T11:00:00Z"}, "pending"),
    "a new updatedAt": ({"status": "running", "attempts": 1, "updatedAt": "2026-01-01T12:00:00Z"}, "running"),
    "a lease in seconds": ({"status": "running", "attempts": 1, "leaseUntil": NOON // 1000}, "pending"),
    "a lease in microseconds": ({"status": "running", "attempts": 1, "leaseUntil": NOON * 1000}, "pending"),
    "a lease as text": ({"status": "running", "attempts": 1, "leaseUntil": str(NOON + 9)}, "pending"),
    "attempts that are no count": ({"status": "pending", "attempts": "many"}, "failed"),
    "attempts below zero": ({"status": "pending", "attempts": -9}, "failed"),
    "attempts used up while waiting": ({"status": "pending", "attempts": 3}, "failed"),
    "no attempts": ({"status": "pending"}, "pending"),
    "working with odd attempts": ({"status": "running", "attempts": None, "leaseUntil": 1}, "pending"),
    "a status of nobody": ({"status": "limbo", "attempts": 0}, "limbo"),
}


@pytest.mark.parametrize(("fields", "status"), ODD.values(), ids=ODD.keys())
def test_nothing_that_another_program_wrote_is_stuck(store: MemoryStore, fields: Document, status: str) -> None:
    """A document that lacks what a claim writes, or has it in another form, comes back or ends; none is early."""
    put_raw(store, JOB, "one", **fields)
    lane(JOB, store, FakeStep(decision=lambda _: Hold("only swept"))).tick()
    assert read(store, JOB, "one")["status"] == status


def test_a_store_whose_workers_have_clocks_of_their_own_is_given_grace(clock: SetClock) -> None:
    """A worker whose clock is fast does not take over what another still works on."""

    class Patient(MemoryStore):
        grace_ms = 60_000

    store = Patient(MACHINES, clock)
    claim(store, JOB, add(store, JOB, "one", input="x"), "c1")
    clock.pass_ms(30_000 + 60_000)
    assert lane(JOB, store, FakeStep()).sweep().events == []
    clock.pass_ms(1)
    assert [event.what for event in lane(JOB, store, FakeStep()).sweep().events] == [What.RELEASED]


def test_a_failed_read_writes_nothing(clock: SetClock) -> None:
    """Not knowing is not nothing there: the tick ends with the store's error."""

    class Broken(MemoryStore):
        def query(self, *args: object, **more: object) -> Page:
            raise StoreFailed("the store is away")

    with pytest.raises(StoreFailed):
        lane(JOB, Broken(MACHINES, clock), FakeStep()).tick()


def test_a_store_that_goes_away_ends_the_tick_with_what_it_did(clock: SetClock) -> None:
    """The report keeps what was done and says why it stopped; the claim comes back with its lease."""

    class Going(MemoryStore):
        def finish(self, *args: object, **more: object) -> None:
            raise StoreFailed("the store is away")

    store = Going(MACHINES, clock)
    for identifier in ("a", "b"):
        add(store, JOB, identifier, input="x")
    step = FakeStep()
    report = lane(JOB, store, step).tick()
    assert (report.stopped, len(step.worked)) == ("the store is away", 1)
    assert [(event.identifier, event.what) for event in report.events] == [("a", What.REFUSED)]


@pytest.mark.parametrize("error", [DocumentDenied("no"), OutcomeUnknown("no answer")], ids=["denied", "unknown"])
def test_a_claim_that_is_refused_runs_nothing(clock: SetClock, error: Exception) -> None:
    """Denied by the store, or without an answer: whoever may have the document, this worker does not work on it."""

    class Refusing(MemoryStore):
        def claim(self, *args: object, **more: object) -> None:
            raise error

    store = Refusing(MACHINES, clock)
    add(store, JOB, "a", input="x")
    step = FakeStep()
    report = lane(JOB, store, step).tick()
    assert ([event.what for event in report.events], step.worked) == ([What.REFUSED], [])


def test_an_operator_sends_a_failed_document_back(store: MemoryStore) -> None:
    """attempts 0, what the steps wrote dropped, lastError kept as previousError; it is worked again."""
    add(store, JOB, "one", input="x")
    tick(JOB, store, lambda _: failed("no disk", {"output": "half"}))
    back, writer = moves.retried(JOB, read(store, JOB, "one"), NOON)
    store.put(JOB.db, "one", back, writer=writer)
    document = read(store, JOB, "one")
    assert (document["status"], document["attempts"], document["previousError"]) == ("pending", 0, "no disk")
    assert not {"output", "lastError", "claimId", "leaseUntil"} & document.keys()
    assert [event.what for event in tick(JOB, store).events] == [What.DONE]


def test_an_unknown_outcome_is_retried_only_on_purpose(store: MemoryStore) -> None:
    """Doing it again may do it twice: the operator has to say so."""
    add(store, PUBLISH, "p", platform="ig")
    step = FakeStep(lambda _: unknown("no answer"), decision=lambda _: Ready("publish"))
    lane(PUBLISH, store, step).tick()
    document = read(store, PUBLISH, "p")
    with pytest.raises(DocumentDenied, match="unknown"):
        moves.retried(PUBLISH, document, NOON)
    back, writer = moves.retried(PUBLISH, document, NOON, again=True)
    store.put(PUBLISH.db, "p", back, writer=writer)
    assert read(store, PUBLISH, "p")["status"] == "pending"


def test_what_has_not_failed_is_not_retried(store: MemoryStore) -> None:
    """A waiting document, and one that was skipped, have no such edge."""
    with pytest.raises(DocumentDenied, match="does not retry"):
        moves.retried(MENTION, add(store, MENTION, "m", "skipped"), NOON)
