"""The docs commands over a store in memory: what they write, what they print, how they end."""

from __future__ import annotations

import io
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.support.docs import Place, at
from tests.support.lanes import JOB, MENTION, add, claim, read
from vibey_actions.cli.signals import Stop
from vibey_actions.documents.model import Document
from vibey_actions.documents.steps.base import Ready, StepResult, Work, done, failed, unknown
from vibey_actions.documents.stores.base import Page
from vibey_actions.errors import StoreFailed

HOSTILE = "a\u202e\x1b[31m::error::\n<script>alert(1)</script>"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    return at(tmp_path, monkeypatch, capsys)


def put(place: Place, identifier: str = "j-1", **fields: object) -> None:
    assert place.run("put", json.dumps({"input": "x", **fields}), "--machine", "job", "--id", identifier).code == 0


def test_new_work_is_taken_in_once(place: Place) -> None:
    """The first put makes the document in the first status; the same event again changes nothing and is no error."""
    first = place.run("put", '{"input": "x"}', "--machine", "job", "--id", "j-1")
    assert (first.code, first.out) == (0, "j-1 is pending\n")
    before = read(place.store, JOB, "j-1")
    assert (before["type"], before["attempts"], before["input"]) == ("job", 0, "x")
    again = place.run("put", '{"input": "y"}', "--machine", "job", "--id", "j-1", "--json")
    assert json.loads(again.out) == {"id": "j-1", "new": False, "status": "pending", "rev": before["_rev"]}
    assert read(place.store, JOB, "j-1") == before


def test_new_work_may_be_in_another_first_status(place: Place) -> None:
    """A mention that is skipped from the start is one, with its reason; a status that no document begins in is none."""
    skipped = place.run("put", '{"_id": "m-1", "status": "skipped", "lastError": "no"}', "--machine", "mention-build")
    assert skipped.out == "m-1 is skipped\n"
    refused = place.run("put", '{"_id": "m-2", "status": "built"}', "--machine", "mention-build")
    assert (refused.code, "cannot start as built" in refused.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("{}",), 2, "either --machine or --db"),
        (("{}", "--machine", "job", "--db", "jobs"), 2, "either --machine or --db"),
        (("{}", "--machine", "job", "--as", "x"), 2, "go with --db"),
        (("{}", "--machine", "job"), 1, "has no id"),
        (('{"_id": "a"}', "--machine", "job", "--id", "b"), 1, "another one than --id"),
        (('{"type": "mention"}', "--machine", "job", "--id", "b"), 1, "its type is another one"),
        (("[1]", "--machine", "job", "--id", "b"), 1, "no JSON object"),
        (("{", "--machine", "job", "--id", "b"), 1, "is no document"),
        (("{}", "--machine", "nothing", "--id", "b"), 2, "there is no machine nothing"),
    ],
    ids=["no place", "two places", "a writer of new work", "no id", "two ids", "kind", "a list", "cut", "no machine"],
)
def test_what_cannot_be_put_is_said(place: Place, arguments: tuple[str, ...], code: int, said: str) -> None:
    """Each refusal names what is wrong, and nothing is written."""
    outcome = place.run("put", *arguments)
    assert (outcome.code, said in outcome.err) == (code, True), outcome.err
    assert place.store.query("jobs") == Page(())


def test_a_document_is_read_from_stdin(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash is stdin, numbers in it stay exact."""
    text = b'{"input": 12345678901234567890.5}'
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    assert place.run("put", "-", "--machine", "job", "--id", "j-1").code == 0
    assert '"input":12345678901234567890.5' in place.run("get", "j-1").out.replace(" ", "")


def test_a_raw_put_asks_the_guard_and_the_revision(place: Place) -> None:
    """What no machine knows is free; a document of a machine moves by its writer's transition, from what was read."""
    assert place.run("put", '{"_id": "n-1", "text": "free"}', "--db", "jobs").out.startswith("written, revision ")
    put(place)
    moved = {**read(place.store, JOB, "j-1"), "status": "done"}
    assert "there is no transition pending -> done" in place.run("put", json.dumps(moved), "--db", "jobs").err
    stale = place.run("put", '{"_id": "n-1", "text": "free"}', "--db", "jobs", "--if-rev", "99", "--json")
    assert (stale.code, json.loads(stale.out)["error"]["code"]) == (1, "document-conflict")
    absent = place.run("put", '{"_id": "n-2"}', "--db", "jobs", "--if-rev", "")
    assert absent.code == 0
    failing = {**read(place.store, JOB, "j-1"), "status": "failed", "lastError": "by hand"}
    assert place.run("put", json.dumps(failing), "--db", "jobs", "--as", "worker").code == 0


def test_get_finds_the_document_in_any_declared_database(place: Place) -> None:
    """One line of canonical JSON; an id that two databases have is asked about, one that none has is an error."""
    add(place.store, MENTION, "m-1", prompt="a café", odd=HOSTILE)
    outcome = place.run("get", "m-1")
    assert json.loads(outcome.out) == read(place.store, MENTION, "m-1")
    assert outcome.out.isascii()
    assert outcome.out.count("\n") == 1
    put(place, "m-1")
    assert "more than one database" in place.run("get", "m-1").err
    assert json.loads(place.run("get", "m-1", "--machine", "job").out)["input"] == "x"
    missing = place.run("get", HOSTILE)
    assert (missing.code, "there is no document" in missing.err, "\x1b" in missing.err) == (1, True, False)


def test_query_selects_and_pages(place: Place) -> None:
    """All documents by id, a selection of them, or one page with the place where the next begins."""
    for number in range(5):
        put(place, f"j-{number}", n=number)
    lines = place.run("query", "--machine", "job").out.splitlines()
    assert [json.loads(line)["_id"] for line in lines] == [f"j-{number}" for number in range(5)]
    between = place.run("query", "n", "--machine", "job", "--range", "[1, 2]").out.splitlines()
    assert [json.loads(line)["n"] for line in between] == [1, 2]
    assert len(place.run("query", "n", "--db", "jobs", "--keys", "[0, 4]").out.splitlines()) == 2
    assert len(place.run("query", "_id", "--db", "jobs", "--prefix", '"j-"').out.splitlines()) == 5
    page = json.loads(place.run("query", "--machine", "job", "--limit", "2", "--json").out)
    assert ([one["_id"] for one in page["documents"]], page["next"]) == (["j-0", "j-1"], "j-1")
    rest = place.run("query", "--machine", "job", "--limit", "9", "--after", "j-3")
    assert (len(rest.out.splitlines()), rest.err) == (1, "")
    assert "--after j-1" in place.run("query", "--machine", "job", "--limit", "2").err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("n",), "more than one database"),
        (("n", "--db", "jobs", "--key", "done"), "--key is no JSON value"),
        (("n", "--db", "jobs", "--keys", "1"), "--keys is no list"),
        (("n", "--db", "jobs", "--range", "[1]"), "--range is no list of two"),
        (("n", "--db", "jobs", "--machine", "job"), "exclude each other"),
    ],
    ids=["no place", "bare text", "no list", "a half range", "two places"],
)
def test_a_query_that_cannot_be_is_said(place: Place, arguments: tuple[str, ...], said: str) -> None:
    """Each refusal names the option, as a setting that cannot be used."""
    outcome = place.run("query", *arguments)
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err


def test_delete_takes_one_document(place: Place) -> None:
    """The document is gone, and a second time there is nothing to delete."""
    put(place)
    assert place.run("del", "j-1").out == "deleted j-1 from jobs\n"
    assert place.store.get("jobs", "j-1") is None
    assert place.run("del", "j-1").code == 1


def test_delete_leaves_what_somebody_wrote_meanwhile(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A document that moved between the look and the deletion stays."""
    put(place)
    get = place.store.get

    def get_then_move(db: str, identifier: str) -> Document | None:
        found = get(db, identifier)
        assert found is not None
        claim(place.store, JOB, found, "claim-1")
        return found

    monkeypatch.setattr(place.store, "get", get_then_move)
    outcome = place.run("del", "j-1", "--machine", "job", "--json")
    monkeypatch.undo()
    assert (outcome.code, json.loads(outcome.out)["error"]["code"]) == (1, "document-conflict")
    assert read(place.store, JOB, "j-1")["status"] == "running"


def test_the_work_of_a_day_is_made_by_its_schedule(place: Place) -> None:
    """A tick makes today's unit once its hour has come, and works it; a second tick of that day makes none."""
    place.declare("machines: {daily: {}}")
    schedule = '{"kind": "daily-schedule", "name": "digest", "hour": 8, "timeZone": "Europe/Berlin"}'
    broken = '{"kind": "daily-schedule", "name": "broken", "hour": 8, "timeZone": "Mars/Base"}'
    place.run("put", schedule, "--db", "daily", "--id", "s-1")
    place.run("put", broken, "--db", "daily", "--id", "s-2")
    outcome = place.run("advance")
    assert "digest:2026-01-01: new -> done (done)" in outcome.out
    assert "note: s-2 is skipped: its timeZone is unknown here" in outcome.out
    place.run("advance")
    assert [work.key for work in place.step.worked] == ["digest:2026-01-01:1"]


def test_what_a_cap_left_is_said(place: Place) -> None:
    """Nobody takes a short tick for a whole one."""
    put(place, "j-1")
    put(place, "j-2")
    assert "  1 left for the next tick: 1 a tick" in place.run("advance", "--machine", "job", "--limit", "1").out


def test_advance_says_what_is_due_then_what_it_did(place: Place) -> None:
    """The first line of each machine is what was due; each document's way follows; the tick is kept."""

    def answer(work: Work) -> StepResult:
        return failed(HOSTILE) if work.document["_id"] == "j-2" else done({"output": "y"})

    place.step.answer = answer
    put(place, "j-1")
    put(place, "j-2")
    outcome = place.run("advance")
    lines = outcome.out.splitlines()
    assert outcome.code == 0
    assert "job: 2 ready" in lines[0]
    assert "mention-build: 0 ready" in lines[1]
    assert lines[2] == "  j-1: pending -> done (done)"
    assert lines[3].startswith("  j-2: pending -> failed (failed): a")
    assert "\x1b" not in outcome.out
    assert [due.machine for due in place.ticks.dues] == ["job", "mention-build"]
    assert place.ticks.done == {1: "job: 1 done, 1 failed", 2: "mention-build: nothing to do"}


def test_advance_as_json(place: Place) -> None:
    """One object: per machine what was due, each document's part, what was left and why."""
    for number in range(3):
        put(place, f"j-{number}")
    walked = json.loads(place.run("advance", "--machine", "job", "--limit", "2", "--json").out)["machines"]
    assert [one["machine"] for one in walked] == ["job"]
    assert walked[0]["due"] == {"ready": 3, "expired": 0, "unusable": 0, "held": 0, "working": 0}
    assert walked[0]["events"][0] == {"id": "j-0", "what": "done", "from": "pending", "to": "done", "reason": ""}
    assert (walked[0]["left"], walked[0]["cap"], walked[0]["counts"]) == (1, "2 a tick", {"done": 2})


def test_a_machine_that_cannot_be_read_keeps_no_other_from_its_tick(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The failed machine is said and makes the command fail; the others are walked all the same."""
    put(place)
    active = place.store.active

    def broken(machine: object) -> object:
        if machine == place.setup.machine("mention-build"):
            raise StoreFailed("the vibe is away", "wait")
        return active(machine)  # type: ignore[arg-type]

    monkeypatch.setattr(place.store, "active", broken)
    outcome = place.run("advance")
    assert (outcome.code, "error: the vibe is away" in outcome.err) == (1, True)
    assert read(place.store, JOB, "j-1")["status"] == "done"
    told = json.loads(place.run("advance", "--json").out)["machines"]
    assert told[1]["error"]["code"] == "store"


def test_a_sweep_takes_back_and_works_on_nothing(place: Place) -> None:
    """A lease that ran out is released; no step runs, and what waits goes on waiting."""
    put(place, "j-1")
    put(place, "j-2")
    assert claim(place.store, JOB, read(place.store, JOB, "j-1"), "claim-1") is not None
    place.clock.pass_ms(JOB.lease_ms + 1)
    outcome = place.run("sweep", "--machine", "job")
    assert "1 ready, 1 with a lease that ran out" in outcome.out
    assert "j-1: running -> pending (released)" in outcome.out
    assert place.step.worked == []
    assert read(place.store, JOB, "j-2")["status"] == "pending"


def test_retry_sends_a_failed_document_back(place: Place) -> None:
    """A failed document begins anew; one whose outcome is unknown needs --again; one that is done is refused."""
    place.step.answer = lambda _: failed("broken")
    put(place)
    place.run("advance", "--machine", "job")
    assert place.run("retry", "j-1").out == "j-1 is pending again; the next tick takes it\n"
    document = read(place.store, JOB, "j-1")
    assert (document["attempts"], document["previousError"]) == (0, "broken")
    place.step.answer = lambda _: done()
    place.run("advance", "--machine", "job")
    refused = place.run("retry", "j-1", "--json")
    assert (refused.code, json.loads(refused.out)["error"]["code"]) == (1, "document-denied")


def test_retry_after_an_unknown_outcome_needs_again(place: Place) -> None:
    """Nothing is done a second time unless somebody says so."""
    place.declare("machines:\n  publish-request: {}\n")
    publish = place.setup.machine("publish-request")
    place.step.decision = lambda _: Ready("publish")
    place.step.answer = lambda _: unknown("the connection was lost")
    add(place.store, publish, "p-1", platform="webhook")
    place.run("advance")
    assert read(place.store, publish, "p-1")["outcomeUnknown"] is True
    assert "--again" in place.run("retry", "p-1").err
    assert place.run("retry", "p-1", "--again").code == 0


def test_status_says_what_needs_a_person(place: Place) -> None:
    """Counts per status, then each document that is stuck, failed or held, why, and the command to run."""
    put(place, "j-failed")
    place.step.answer = lambda _: failed("its input is broken")
    place.run("advance", "--machine", "job")
    put(place, "j-lost")
    assert claim(place.store, JOB, read(place.store, JOB, "j-lost"), "claim-1") is not None
    place.clock.pass_ms(JOB.lease_ms + 60_000)
    outcome = place.run("status")
    assert "job failed" in outcome.out
    assert "  j-failed (job, failed since 1 min): its input is broken" in outcome.out
    assert "      vibey-actions docs retry --machine job j-failed" in outcome.out
    assert "its lease has run out, and no tick has taken it back yet" in outcome.out
    assert "The last tick ran 1 min ago" in outcome.out
    told = json.loads(place.run("status", "--json").out)
    job = told["machines"][0]
    assert (job["counts"]["failed"], job["totals"]["stuck"], job["failed"][0]["id"]) == (1, 1, "j-failed")
    assert told["last_tick"]["at"] == "2026-01-01T12:00:00.000Z"


def test_status_without_a_tick(place: Place) -> None:
    """A lane that never ran says so."""
    assert place.run("status").out.rstrip().endswith("No tick has run yet.")


def test_the_page_is_written_whole(place: Place, tmp_path: Path) -> None:
    """The page is there with its mode and nothing beside it; a folder that is not there is an error."""
    file = tmp_path / "page" / "lanes.html"
    file.parent.mkdir()
    assert place.run("status", "--html", str(file)).code == 0
    assert file.read_text("utf-8").startswith("<!doctype html>")
    assert list(file.parent.iterdir()) == [file]
    refused = place.run("status", "--html", str(tmp_path / "nowhere" / "x.html"))
    assert (refused.code, "cannot be written" in refused.err) == (1, True)


def test_a_machine_is_drawn_as_lines_and_as_mermaid(place: Place) -> None:
    """What the declaration changes shows in the drawing."""
    assert "at most 2 attempts" in place.run("machine", "job").out
    assert place.run("machine", "job", "--mermaid").out.startswith("stateDiagram-v2\n")
    assert json.loads(place.run("machine", "job", "--json").out)["machine"] == "job"
    assert "there are" in place.run("machine", HOSTILE).err


def test_access_js_is_printed_for_a_handle(place: Place) -> None:
    """One function with the handle in it; a public grant only where it is asked for."""
    printed = place.run("access-js", "mention-build", "--handle", "maker").out
    assert "mentionBuildAccess" in printed
    assert '"maker"' in printed
    assert "public" not in printed.replace("publish", "")
    assert "public" in place.run("access-js", "mention-build", "--handle", "maker", "--public").out
    assert place.run("access-js", "mention-build", "--handle", "a b").code == 2


def test_without_a_declaration_a_tick_says_what_to_do(place: Place, tmp_path: Path) -> None:
    """No file: nothing is walked by guess; a machine that is named is built in."""
    (tmp_path / ".github" / "vibey-docs.yml").unlink()
    outcome = place.run("advance")
    assert (outcome.code, "--machine" in outcome.err) == (2, True)
    assert place.run("advance", "--machine", "job").code == 0


def test_watch_ticks_until_it_is_told_to_stop(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tick, a pause, a tick, until a signal comes; what was taken in meanwhile is walked."""
    pauses: list[float] = []

    def wait(self: Stop, seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 1:
            add(place.store, JOB, "j-2", input="x")
        if len(pauses) == 2:
            self.asked = True

    monkeypatch.setattr(Stop, "wait", wait)
    put(place, "j-1")
    outcome = place.run("watch", "--every", "7", "--machine", "job")
    assert (outcome.code, pauses) == (0, [7, 7])
    assert read(place.store, JOB, "j-2")["status"] == "done"
