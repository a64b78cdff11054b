"""Documents in the sealed state: several runners with a copy each, and the branch that decides between them."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from tests.integration.documents.store_conformance import StoreConformance
from tests.support.ends import Ends
from tests.support.lanes import JOB, MACHINES, NOON, FakeStep, add, claim, read
from tests.support.runners import Runner
from vibey_actions.config import Config
from vibey_actions.documents import moves
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.machine import Retry
from vibey_actions.documents.model import Document
from vibey_actions.documents.report import What
from vibey_actions.documents.steps.base import StepResult, Work, done
from vibey_actions.documents.stores.base import Store
from vibey_actions.documents.stores.postgres import PostgresStore
from vibey_actions.documents.stores.sealed import SealedStore
from vibey_actions.errors import DocumentConflict, RemoteFailed, SettingError, StoreFailed, TableRefused
from vibey_actions.postgres.documents import DocumentTable

QUICK = replace(JOB, lease_ms=1)


class TestSealed(StoreConformance):
    """Every case; the branch stands aside, since it is never asked what a document is."""

    quick = False

    @pytest.fixture
    def store(self, dsn: str) -> Iterator[Store]:
        table = DocumentTable(dsn)
        yield SealedStore(PostgresStore(table, MACHINES), lambda: None)
        table.close()


def test_a_write_is_on_the_branch_when_it_returns(runner: Callable[..., Runner]) -> None:
    """What one runner puts, moves or deletes is what the other reads after its next sync, revision and all."""
    one, other = runner(), runner()
    job = add(one.store, JOB, "job", input="x")
    other.sync()
    assert read(other.copy, JOB, "job") == job
    waiting = other.store.move(JOB.db, job, {**job, "heldReason": "later"}, writer="worker")
    one.sync()
    assert read(one.copy, JOB, "job") == waiting
    one.store.delete(JOB.db, "job")
    other.sync()
    assert other.copy.get(JOB.db, "job") is None


def test_the_claim_that_reaches_the_branch_first_wins(runner: Callable[..., Runner]) -> None:
    """Both copies hold the document unclaimed; the second claim is lost there too, and its copy shows the winner's."""
    one, other = runner(), runner()
    add(one.store, JOB, "job", input="x")
    other.sync()
    won = claim(one.store, JOB, read(one.copy, JOB, "job"), "c1")
    assert won is not None
    assert claim(other.store, JOB, read(other.copy, JOB, "job"), "c2") is None
    assert read(other.copy, JOB, "job") == won


def test_a_document_made_by_a_claim_is_made_once(runner: Callable[..., Runner]) -> None:
    """A unit of work that two runners make at once belongs to the one whose claim reached the branch."""
    one, other = runner(), runner()
    one.sync()
    other.sync()
    unit: Document = {"_id": "unit", "type": "job", "status": "pending", "attempts": 0}
    made = one.store.claim(JOB.db, None, {**unit, "input": "one"}, writer="author")
    assert made is not None
    assert other.store.claim(JOB.db, None, {**unit, "input": "other"}, writer="author") is None
    assert read(other.copy, JOB, "unit") == made


def test_two_runners_work_no_document_twice(runner: Callable[..., Runner]) -> None:
    """Round after round both tick at the same time over the same documents: each is worked once, and all end done."""
    runners = [runner(), runner()]
    worked: list[str] = []
    for number in range(4):
        names = [f"{number}-{each}" for each in range(3)]
        for name in names:
            add(runners[0].copy, JOB, name, input="x")
        runners[0].sync()
        with ThreadPoolExecutor(2) as pool:
            reports = list(pool.map(lambda one: one.tick(), runners))
        assert [report.stopped for report in reports] == ["", ""]
        worked += names
        assert sorted(runners[0].worked + runners[1].worked) == sorted(worked)
    for one in runners:
        one.sync()
    assert {one.status(name) for one in runners for name in worked} == {"done"}


def test_a_claim_that_cannot_reach_the_branch_is_none(runner: Callable[..., Runner], ends: Ends) -> None:
    """Without the branch nothing is worked: the claim fails, the copy is as it was, and later it can be claimed."""
    one = runner()
    job = add(one.store, JOB, "job", input="x")
    away = ends.repository.rename(Path(f"{ends.repository}.away"))
    with pytest.raises(StoreFailed) as caught:
        claim(one.store, JOB, job, "c1")
    assert "branch" in caught.value.message
    assert read(one.copy, JOB, "job") == job
    away.rename(ends.repository)
    assert one.tick().counts() == {"done": 1}


def test_an_answer_that_was_lost_leaves_no_claim(runner: Callable[..., Runner]) -> None:
    """The claim arrived at the branch and its runner never heard of it: it does no work, and gives the claim up."""
    one, other = runner(), runner()
    job = add(one.store, JOB, "job", input="x")

    def lost() -> None:
        one.end.sync()
        raise RemoteFailed("no answer")

    with pytest.raises(StoreFailed):
        claim(SealedStore(one.copy, lost), JOB, job, "c1")
    other.sync()
    assert read(other.copy, JOB, "job")["claimId"] == "c1"
    assert other.tick().counts() == {}
    one.sync()
    assert other.tick().counts() == {"done": 1}
    assert one.worked == []


def test_a_result_is_kept_where_the_branch_is_out_of_reach(runner: Callable[..., Runner], ends: Ends) -> None:
    """What work has come to is not thrown away: the copy holds it, the report says so, the next sync carries it."""
    one, other = runner(), runner()
    add(one.store, JOB, "job", input="x")
    away = Path(f"{ends.repository}.away")

    def work(_: Work) -> StepResult:
        ends.repository.rename(away)
        return done({"output": "done"})

    report = one.tick(work)
    assert "not known to have reached the branch" in report.stopped
    away.rename(ends.repository)
    one.sync()
    other.sync()
    assert other.status("job") == "done"


def test_a_finish_of_a_lost_lease_is_refused(runner: Callable[..., Runner]) -> None:
    """While one runner works, its lease ends and another does the document: the first one's result counts for
    nothing, in its own copy as well."""
    one, other = runner(QUICK), runner(QUICK)
    add(one.store, QUICK, "job", input="x")

    def slow(_: Work) -> StepResult:
        time.sleep(0.02)
        assert other.tick().of(What.DONE)
        return done({"output": "slow"})

    assert [event.what for event in one.tick(slow).events] == [What.LOST]
    assert read(one.copy, QUICK, "job") == read(other.copy, QUICK, "job")
    assert read(one.copy, QUICK, "job")["output"] == "job:2"


def test_a_finish_while_another_holds_the_claim_is_refused(runner: Callable[..., Runner]) -> None:
    """The end of a lost lease does not beat the claim that stands, which is seen before anything is written."""
    one, other = runner(QUICK), runner(QUICK)
    add(one.store, QUICK, "job", input="x")
    standing: list[Document | None] = []

    def slow(_: Work) -> StepResult:
        time.sleep(0.02)
        Lane(QUICK, other.store, {"command": FakeStep()}).sweep()
        standing.append(claim(other.store, QUICK, read(other.copy, QUICK, "job"), "c2"))
        return done({"output": "slow"})

    assert [event.what for event in one.tick(slow).events] == [What.LOST]
    assert standing[0] is not None
    assert read(one.copy, QUICK, "job") == standing[0]
    other.sync()
    assert read(other.copy, QUICK, "job") == standing[0]


def test_a_lease_is_left_alone_a_while_longer(runner: Callable[..., Runner]) -> None:
    """Another runner's clock may be minutes off: a lease that has just run out is not taken back yet."""
    one, other = runner(QUICK), runner(QUICK)
    job = add(one.store, QUICK, "job", input="x")
    assert claim(one.store, QUICK, job, "c1") is not None
    other.store = SealedStore(other.copy, other.sync)
    time.sleep(0.01)
    report = other.tick()
    assert (report.due.working, report.counts()) == (1, {})


@pytest.mark.parametrize(
    ("minutes", "retry", "others"),
    [
        (4, Retry.RETRY, {}),
        (10, Retry.RETRY, {"released": 1, "done": 1}),
        (10, Retry.ONCE, {"unknown": 1}),
    ],
    ids=["minutes", "more than minutes", "more than minutes, once"],
)
def test_a_clock_that_is_behind(
    runner: Callable[..., Runner], monkeypatch: pytest.MonkeyPatch, minutes: int, retry: Retry, others: dict[str, int]
) -> None:
    """The lease of a worker whose clock is a little behind is left alone. Further behind it is taken back while the
    worker is at it, and its finish is refused; work that is once is then not done a second time."""
    machine = replace(JOB, retry=retry)
    one, other = runner(machine), runner(machine)
    other.store = SealedStore(other.copy, other.sync)
    add(one.store, machine, "job", input="x")
    right = one.table.now_ms
    monkeypatch.setattr(one.table, "now_ms", lambda: right() - minutes * 60_000)
    reports: list[dict[str, int]] = []

    def work(_: Work) -> StepResult:
        reports.append(other.tick().counts())
        return done({"output": "behind"})

    assert [event.what for event in one.tick(work).events] == [What.LOST if others else What.DONE]
    assert reports == [others]
    other.sync()
    assert read(one.copy, machine, "job") == read(other.copy, machine, "job")
    assert len(other.worked) == others.get("done", 0)
    assert (read(other.copy, machine, "job").get("output") == "behind") == (not others)


def test_a_sweep_gives_way_to_a_renewed_lease(runner: Callable[..., Runner]) -> None:
    """The sweep writes only over what is on the branch, not over what this copy thought was there, although what
    it writes is an end."""
    last = replace(QUICK, attempts=1)
    one, other = runner(last), runner(last)
    won = claim(one.store, last, add(one.store, last, "job", input="x"), "c1")
    assert won is not None
    other.sync()
    stale = read(other.copy, last, "job")
    renewed = one.store.finish(last.db, won, moves.renewed(JOB, won, one.store.now_ms()), writer="worker")
    assert renewed is not None
    swept = moves.swept(last, stale, other.store.now_ms() + 1000)
    assert swept is not None
    assert swept["status"] == "failed"
    assert other.store.move(last.db, stale, swept, writer="worker") is None
    assert read(other.copy, last, "job") == renewed


def test_rows_that_both_copies_changed_are_no_conflict(runner: Callable[..., Runner]) -> None:
    """Whatever two copies did to one document unknown to each other, a plain sync settles it by the rule."""
    one, other = runner(), runner()
    for name in ("both claim", "one ends unclaimed", "one ends under a lost claim"):
        add(one.store, JOB, name, input="x")
    other.sync()
    first = {
        name: claim(one.copy, JOB, read(one.copy, JOB, name), "c1")
        for name in ("both claim", "one ends under a lost claim")
    }
    held = moves.held(read(one.copy, JOB, "one ends unclaimed"), "later", NOON)
    assert held is not None
    assert one.copy.move(JOB.db, read(one.copy, JOB, "one ends unclaimed"), held, writer="worker") is not None
    claim(other.copy, JOB, read(other.copy, JOB, "both claim"), "c2")
    for name in ("one ends unclaimed", "one ends under a lost claim"):
        ended = claim(other.copy, JOB, read(other.copy, JOB, name), "c2")
        assert ended is not None
        assert other.copy.finish(JOB.db, ended, {**ended, "status": "done"}, writer="worker") is not None
    one.sync()
    other.sync()
    one.sync()
    for each in (one, other):
        assert {name: read(each.copy, JOB, name) for name in first} == first
        assert each.status("one ends unclaimed") == "done"


def test_a_conditional_write_that_the_branch_overtook_conflicts(runner: Callable[..., Runner]) -> None:
    """A put or delete under a revision is refused with the branch's one; without a revision the last writer wins."""
    one, other = runner(), runner()
    old = one.store.put("notes", "note", {"v": 1})
    other.sync()
    one.store.put("notes", "note", {"v": 2})
    with pytest.raises(DocumentConflict):
        other.store.put("notes", "note", {"v": 3}, if_rev=old)
    with pytest.raises(DocumentConflict):
        other.store.delete("notes", "note", if_rev=old)
    other.store.put("notes", "note", {"v": 4})
    one.sync()
    found = one.copy.get("notes", "note")
    assert found is not None
    assert found["v"] == 4


def test_a_put_goes_on_until_it_stands(runner: Callable[..., Runner], monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that the branch overtook between two syncs is made again on top of what came."""
    one, other = runner(), runner()
    one.store.put("notes", "note", {"v": 1})
    syncs: list[int] = []

    def overtaken() -> None:
        syncs.append(1)
        if len(syncs) == 2:
            one.store.put("notes", "note", {"v": 2})
        other.end.sync()

    SealedStore(other.copy, overtaken).put("notes", "note", {"v": 3})
    one.sync()
    found = one.copy.get("notes", "note")
    assert found is not None
    assert (found["v"], len(syncs) > 2) == (3, True)


def test_a_database_gets_the_table_by_migrating(ends: Ends, runner: Callable[..., Runner]) -> None:
    """A fresh database that shall hold the branch is told what to set; with that set, migrate makes the table."""
    one = runner()
    add(one.store, JOB, "job", input="x")
    plain = ends.make()
    error = plain.refused(TableRefused)
    assert "documents = true" in error.hint
    declared = ends.make(config=Config(documents=True))
    declared.sync()
    assert declared.value("SELECT doc ->> 'status' FROM document") == "pending"


def test_a_rule_of_the_environment_is_refused(runner: Callable[..., Runner]) -> None:
    """VIBEY_STATE_CONFLICTS cannot give the table another rule: a claim would be lost, or won twice."""
    one = runner()
    add(one.store, JOB, "job", input="x")
    one.end.env["VIBEY_STATE_CONFLICTS"] = "document=mine"
    one.end.refused(SettingError)


def test_a_table_of_the_adopter_s_keeps_its_own_rule(ends: Ends) -> None:
    """With documents = false a table of the same shape is like any other: a row that both ends changed conflicts."""
    one, other = ends.pair(
        "CREATE TABLE document (db text, id text, rev text, doc jsonb, deleted boolean, changed_at timestamptz,"
        " PRIMARY KEY (db, id))",
        config=Config(documents=False),
    )
    one.run("INSERT INTO document VALUES ('jobs', '1', 'a', '{\"type\":\"job\",\"status\":\"pending\"}', false, now())")
    one.sync()
    other.sync()
    one.run("UPDATE document SET rev = 'b'")
    other.run("UPDATE document SET rev = 'c'")
    one.sync()
    assert other.operations.status().conflicts


def test_machines_of_the_checkout_say_what_an_end_is(ends: Ends, runner: Callable[..., Runner]) -> None:
    """An end that only .github/vibey-docs.yml declares beats another status too."""
    one, other = runner(), runner()
    text = (
        "machines:\n  print:\n    type: print\n    db: prints\n    lane: printer\n    writers: {printer: handle}\n"
        "    lease: 1m\n    attempts: 1\n    statuses: [waiting, printing, printed, spoilt]\n"
        "    terminals: [printed, spoilt]\n    failed: spoilt\n    transitions:\n"
        "      new -> waiting: {writer: printer}\n"
        "      waiting -> printing: {writer: printer, act: claim, step: command}\n"
        "      printing -> printed: {writer: printer, act: finish}\n"
        "      printing -> spoilt: {writer: printer, act: fail}\n"
        "      waiting -> spoilt: {writer: printer, act: fail}\n"
        "      printing -> waiting: {writer: printer, act: release}\n"
    )
    for each in (one, other):
        home = Path(each.end.env["HOME"])
        (home / ".github").mkdir()
        (home / ".github" / "vibey-docs.yml").write_text(text, "utf-8")
    write = "INSERT INTO document (db, id, rev, doc) VALUES ('prints', 'page', '{}',"
    write += " jsonb_build_object('type', 'print', 'status', '{}'))"
    write += " ON CONFLICT (db, id) DO UPDATE SET rev = excluded.rev, doc = excluded.doc"
    one.end.run(write.format("a", "waiting"))
    one.sync()
    other.sync()
    one.end.run(write.format("b", "printing"))
    other.end.run(write.format("c", "printed"))
    one.sync()
    other.sync()
    assert other.end.value("SELECT doc ->> 'status' FROM document") == "printed"


def test_documents_survive_a_lift(ends: Ends, tmp_path: Path) -> None:
    """A branch with documents that is behind by a migration is lifted with them."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "0001_t.sql").write_text("CREATE TABLE t (id int PRIMARY KEY);", "utf-8")
    newer = shutil.copytree(folder, tmp_path / "newer")
    one = ends.make(migrations=folder)
    tables = [DocumentTable(one.dsn)]
    PostgresStore(tables[0]).put("notes", "old", {"v": 1})
    one.sync()
    (newer / "0002_t.sql").write_text("ALTER TABLE t ADD COLUMN v int NOT NULL DEFAULT 0;", "utf-8")
    other = ends.make(migrations=newer)
    tables.append(DocumentTable(other.dsn))
    PostgresStore(tables[1]).put("notes", "new", {"v": 2})
    other.sync()
    for table in tables:
        table.close()
    assert other.value("SELECT string_agg(id, ' ' ORDER BY id) FROM document") == "new old"
