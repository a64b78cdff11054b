"""What others do on the branch while a runner's write is on its way there, between its last look and its push."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.support.lanes import JOB, MENTION, PUBLISH, FakeStep, add, claim, read
from tests.support.runners import Runner
from vibey_actions.documents import moves
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document
from vibey_actions.documents.report import What
from vibey_actions.documents.steps.base import Outcome, StepResult, Work, done
from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.git import GitRemote

RUN_OUT = replace(JOB, lease_ms=-1)
"""Every lease of it has run out when it begins."""
LAST = replace(RUN_OUT, attempts=1)


class Killed(BaseException):
    """The process of a runner ends here."""


@dataclass
class Push:
    """What happens once, right before or right after the branch moves, whoever moves it."""

    before: Callable[[], object] | None = None
    after: Callable[[], object] | None = None

    def happen(self, moment: str) -> None:
        event = getattr(self, moment)
        setattr(self, moment, None)
        if event is not None:
            event()


@pytest.fixture
def push(monkeypatch: pytest.MonkeyPatch) -> Push:
    """The pushes of all runners."""
    events, real = Push(), GitRemote.push

    def pushed(
        remote: GitRemote,
        files: Mapping[str, Path],
        parent: str | None,
        *,
        announce: Callable[[str], None] | None = None,
    ) -> str:
        events.happen("before")
        commit = real(remote, files, parent, announce=announce)
        events.happen("after")
        return commit

    monkeypatch.setattr(GitRemote, "push", pushed)
    return events


def killed() -> None:
    raise Killed


def unheard() -> None:
    raise RemoteFailed("no answer")


def taken_over(other: Runner, machine: Machine = RUN_OUT) -> Document:
    """The document as another runner holds it, by taking its lease back and claiming it."""
    other.sync()
    Lane(machine, other.store, {"command": FakeStep()}).sweep()
    standing = claim(other.store, machine, read(other.copy, machine, "job"), "c2")
    assert standing is not None
    return standing


ENDS = {
    "done": done({"output": "slow"}),
    "failed": StepResult(Outcome.FAILED, "slow"),
    "given back": StepResult(Outcome.AGAIN, "slow"),
}


@pytest.mark.parametrize("moment", ["before the merge", "before the push"])
@pytest.mark.parametrize("result", ENDS.values(), ids=ENDS)
def test_a_claim_in_the_window_stands(
    runner: Callable[..., Runner], push: Push, monkeypatch: pytest.MonkeyPatch, moment: str, result: StepResult
) -> None:
    """Whatever came of the work of a lost lease: the claim that another made after the holder's last look at the branch
    stands in both copies, and can be finished."""
    one, other = runner(RUN_OUT), runner(RUN_OUT)
    add(one.store, RUN_OUT, "job", input="x")
    standing: list[Document] = []
    write = one.copy.finish

    def take_over() -> None:
        standing.append(taken_over(other))

    def written(db: str, claimed: Document, finished: Document, *, writer: str) -> Document | None:
        kept = write(db, claimed, finished, writer=writer)
        monkeypatch.undo()
        take_over()
        return kept

    def work(_: Work) -> StepResult:
        if moment == "before the push":
            push.before = take_over
        else:
            monkeypatch.setattr(one.copy, "finish", written)
        return result

    assert [event.what for event in one.tick(work).events] == [What.LOST]
    assert read(one.copy, RUN_OUT, "job") == standing[0]
    finished = {**standing[0], "status": "done", "output": "mine"}
    assert other.store.finish(RUN_OUT.db, standing[0], finished, writer="worker") is not None
    one.sync()
    assert read(one.copy, RUN_OUT, "job")["output"] == "mine"


@pytest.mark.parametrize("finishes", [False, True], ids=["claimed", "brought on"])
def test_a_claim_in_the_window_stands_where_it_keeps_the_status(
    runner: Callable[..., Runner], push: Push, *, finishes: bool
) -> None:
    """The end of a publish-request says by lastClaimId whose it was. It gives way to another's claim, and to a step
    that another has brought it on by, which holds no claim any more."""
    machine = replace(PUBLISH, lease_ms=-1)
    one, other = runner(machine), runner(machine)
    won = claim(one.store, machine, add(one.store, machine, "job"), "c1", "items")
    assert won is not None
    standing: list[Document | None] = []

    def take_over() -> None:
        other.sync()
        claimed = claim(other.store, machine, read(other.copy, machine, "job"), "c2", "items")
        assert claimed is not None
        edge = machine.edge("pending", "items-created")
        assert edge is not None
        created = moves.finished(machine, edge, claimed, {"children": ["1"]}, other.store.now_ms())
        finished = other.store.finish(machine.db, claimed, created, writer="publisher") if finishes else claimed
        standing.append(finished)

    push.before = take_over
    failed = moves.failed(machine, won, "slow", one.store.now_ms(), holder=True)
    assert one.store.finish(machine.db, won, failed, writer="publisher") is None
    assert standing[0] is not None
    assert read(one.copy, machine, "job") == standing[0]


def test_an_end_in_the_window_stands(runner: Callable[..., Runner], push: Push) -> None:
    """Where another took the document over and finished it, the result of the lost lease counts for nothing."""
    one, other = runner(RUN_OUT), runner(RUN_OUT)
    add(one.store, RUN_OUT, "job", input="x")

    def work(_: Work) -> StepResult:
        push.before = other.tick
        return done({"output": "slow"})

    assert [event.what for event in one.tick(work).events] == [What.LOST]
    assert read(one.copy, RUN_OUT, "job")["output"] == "job:2"


def test_a_lease_that_was_only_taken_back_gives_way_to_the_result(runner: Callable[..., Runner], push: Push) -> None:
    """Nobody has claimed the document anew: what came of the work is kept, and it is not done twice."""
    one, other = runner(RUN_OUT), runner(RUN_OUT)
    add(one.store, RUN_OUT, "job", input="x")

    def take_back() -> None:
        other.sync()
        swept = Lane(RUN_OUT, other.store, {"command": FakeStep()}).sweep()
        assert [event.what for event in swept.events] == [What.RELEASED]

    def work(_: Work) -> StepResult:
        push.before = take_back
        return done()

    assert [event.what for event in one.tick(work).events] == [What.DONE]
    assert other.tick().counts() == {}
    assert other.status("job") == "done"


@pytest.mark.parametrize("renews", [True, False], ids=["renewed", "finished"])
def test_a_sweep_gives_way_to_its_holder_in_the_window(
    runner: Callable[..., Runner], push: Push, *, renews: bool
) -> None:
    """A lease that is failed for having run out was renewed or ended just then: what its holder wrote stands."""
    one, other = runner(LAST), runner(LAST)
    won = claim(one.store, LAST, add(one.store, LAST, "job", input="x"), "c1")
    assert won is not None
    other.sync()
    written: list[Document | None] = []
    new = moves.renewed(JOB, won, one.store.now_ms()) if renews else {**won, "status": "done"}

    def write() -> None:
        written.append(one.store.finish(LAST.db, won, new, writer="worker"))

    push.before = write
    swept = Lane(LAST, other.store, {"command": FakeStep()}).sweep()
    assert [event.what for event in swept.events] == [What.LOST]
    assert written[0] is not None
    assert read(other.copy, LAST, "job") == written[0]


def test_a_finish_stays_on_what_others_wrote_under_its_claim(runner: Callable[..., Runner], push: Push) -> None:
    """Where the branch's row moved and the claim still stands, the write is made again on top of that row."""
    one, other = runner(), runner()
    won = claim(one.store, JOB, add(one.store, JOB, "job", input="x"), "c1")
    assert won is not None

    def note() -> None:
        other.sync()
        other.end.run("UPDATE document SET rev = 'noted', doc = doc || '{\"note\": 1}'")
        other.sync()

    push.before = note
    renewed = moves.renewed(JOB, won, one.store.now_ms() + 1000)
    standing = one.store.finish(JOB.db, won, renewed, writer="worker")
    assert standing is not None
    assert (standing["note"], standing["leaseUntil"]) == (1, renewed["leaseUntil"])
    other.sync()
    assert read(other.copy, JOB, "job") == standing


@pytest.mark.parametrize("claims", [True, False], ids=["claimed anew", "left alone"])
def test_a_runner_that_was_killed_before_its_push(runner: Callable[..., Runner], push: Push, *, claims: bool) -> None:
    """Its result stays in its copy: the next sync of that takes it to the branch, and leaves another's claim alone."""
    one, other = runner(RUN_OUT), runner(RUN_OUT)
    add(one.store, RUN_OUT, "job", input="x")

    def work(_: Work) -> StepResult:
        push.before = killed
        return done({"output": "slow"})

    with pytest.raises(Killed):
        one.tick(work)
    assert one.status("job") == "done"
    standing = taken_over(other) if claims else None
    one.sync()
    other.sync()
    assert read(one.copy, RUN_OUT, "job") == (standing or read(other.copy, RUN_OUT, "job"))
    assert other.status("job") == ("running" if claims else "done")


def test_a_runner_that_was_killed_after_its_push(runner: Callable[..., Runner], push: Push) -> None:
    """Its end did happen: what others make of that, here an operator's retry, is not undone by its copy."""
    one, other = runner(RUN_OUT), runner(RUN_OUT)
    add(one.store, RUN_OUT, "job", input="x")

    def work(_: Work) -> StepResult:
        push.after = killed
        return StepResult(Outcome.FAILED, "no")

    with pytest.raises(Killed):
        one.tick(work)
    other.sync()
    failed = read(other.copy, RUN_OUT, "job")
    assert failed["status"] == "failed"
    again, writer = moves.retried(RUN_OUT, failed, other.store.now_ms())
    retried = other.store.move(RUN_OUT.db, failed, again, writer=writer)
    assert retried is not None
    one.sync()
    assert read(one.copy, RUN_OUT, "job") == retried


def test_a_finish_whose_answer_was_lost_did_happen(runner: Callable[..., Runner], push: Push) -> None:
    """The branch took the result and the answer never came: the branch is looked at again, and the tick goes on."""
    one, other = runner(), runner()
    add(one.store, JOB, "job", input="x")

    def work(_: Work) -> StepResult:
        push.after = unheard
        return done()

    report = one.tick(work)
    assert ([event.what for event in report.events], report.stopped) == ([What.DONE], "")
    other.sync()
    assert other.status("job") == "done"


def test_a_finish_that_others_went_on_from_did_happen(runner: Callable[..., Runner], push: Push) -> None:
    """The answer to a finish was lost, and the next writer has moved the document on by the time of the next look."""
    one, other = runner(MENTION), runner(MENTION)
    won = claim(one.store, MENTION, add(one.store, MENTION, "job", prompt="x"), "c1", "build")
    assert won is not None

    def reply() -> None:
        other.sync()
        built = read(other.copy, MENTION, "job")
        assert other.store.move(MENTION.db, built, {**built, "status": "replied"}, writer="vibe") is not None
        unheard()

    push.after = reply
    standing = one.store.finish(MENTION.db, won, {**won, "status": "built"}, writer="builder")
    assert standing is not None
    assert standing["status"] == "built"
    assert one.status("job") == "replied"


def test_a_retry_that_was_taken_back_leaves_a_claim_alone(runner: Callable[..., Runner], push: Push) -> None:
    """An operator's retry reached the branch and was taken for lost: the failed document that its copy then holds does
    not beat the worker who has claimed it since."""
    one, other = runner(), runner()
    won = claim(one.store, JOB, add(one.store, JOB, "job", input="x"), "c1")
    assert won is not None
    failed = one.store.finish(JOB.db, won, moves.failed(JOB, won, "no", 0, holder=True), writer="worker")
    assert failed is not None
    claims: list[Document | None] = []

    def take() -> None:
        other.sync()
        claims.append(claim(other.store, JOB, read(other.copy, JOB, "job"), "c2"))
        unheard()

    push.after = take
    again, writer = moves.retried(JOB, failed, one.store.now_ms())
    with pytest.raises(Exception, match="not known to have reached"):
        one.store.move(JOB.db, failed, again, writer=writer)
    assert one.status("job") == "failed"
    one.sync()
    other.sync()
    assert claims[0] is not None
    assert read(one.copy, JOB, "job") == read(other.copy, JOB, "job") == claims[0]


@pytest.mark.parametrize("failed", [True, False], ids=["failed", "done"])
def test_an_operator_s_retry_in_the_window(runner: Callable[..., Runner], push: Push, *, failed: bool) -> None:
    """A lease ran out, the document failed for it, and an operator sent it back: that the first worker then failed as
    well does not undo the retry, and that it succeeded is kept, since nobody has begun anew."""
    one, other = runner(LAST), runner(LAST)
    won = claim(one.store, LAST, add(one.store, LAST, "job", input="x"), "c1")
    assert won is not None
    retries: list[Document | None] = []

    def retry() -> None:
        other.sync()
        Lane(LAST, other.store, {"command": FakeStep()}).sweep()
        again, writer = moves.retried(LAST, read(other.copy, LAST, "job"), other.store.now_ms())
        retries.append(other.store.move(LAST.db, read(other.copy, LAST, "job"), again, writer=writer))

    push.before = retry
    late = moves.failed(LAST, won, "late", one.store.now_ms(), holder=True)
    ended = late if failed else {**won, "status": "done"}
    standing = one.store.finish(LAST.db, won, ended, writer="worker")
    assert retries[0] is not None
    assert (standing is None) == failed
    other.sync()
    assert read(one.copy, LAST, "job") == read(other.copy, LAST, "job") == (retries[0] if failed else standing)


def test_an_end_is_written_onto_what_the_branch_holds(runner: Callable[..., Runner]) -> None:
    """What others wrote under its claim while it worked is looked at first, and so kept: an end would else beat it."""
    one, other = runner(), runner()
    won = claim(one.store, JOB, add(one.store, JOB, "job", input="x"), "c1")
    assert won is not None
    other.sync()
    other.end.run("UPDATE document SET rev = 'noted', doc = doc || '{\"note\": 1}'")
    other.sync()
    standing = one.store.finish(JOB.db, won, {**won, "status": "done"}, writer="worker")
    assert standing is not None
    assert (standing["note"], standing["status"]) == (1, "done")
    other.sync()
    assert read(other.copy, JOB, "job") == standing
