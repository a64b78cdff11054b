"""The docs commands inside a run of GitHub Actions, whose runner takes lines for commands; and a watch that retries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.docs import Outcome, Place, at
from tests.support.lanes import JOB, add, read
from vibey_actions.cli.docs import ticks
from vibey_actions.cli.signals import Stop
from vibey_actions.documents.steps.base import StepResult, Work, again, done, failed
from vibey_actions.lanes.service import Service

IDS = (
    "::error::boom",
    "  ::stop-commands::x",
    "a ##[error]b",
    "\t::add-mask::c",
    "\x1b[2K::warning::d",
    "x\n::debug::e",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Place:
    return at(tmp_path, monkeypatch, capsys)


def commands(outcome: Outcome) -> list[str]:
    """The lines that the runner would take for a command of its own."""
    lines = [*outcome.out.splitlines(), *outcome.err.splitlines()]
    return [line for line in lines if line.strip().startswith("::") or "##[" in line]


@pytest.mark.parametrize("identifier", IDS)
def test_no_text_of_a_document_is_a_command_of_the_runner(
    place: Place, monkeypatch: pytest.MonkeyPatch, identifier: str
) -> None:
    """Ids, reasons and fields, on both streams, as lines and as JSON; JSON holds what it held."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    place.step.answer = lambda _: failed(identifier)
    given = json.dumps({"input": identifier, identifier: "##[group]x"})
    said = [
        place.run("put", given, "--machine", "job", "--id", identifier),
        place.run("put", given, "--machine", "job", "--id", identifier),
        place.run("advance", "--machine", "job"),
        place.run("status"),
        place.run("status", "--json"),
        place.run("query", "--db", "jobs"),
        place.run("query", "--db", "jobs", "--json"),
        place.run("get", "--db", "jobs", "--", identifier),
        place.run("retry", "--", identifier),
        place.run("retry", "--json", "--", identifier),
        place.run("advance", "--machine", "job", "--json"),
        place.run("del", "--db", "jobs", "--", identifier),
        place.run("get", "--db", "jobs", "--", identifier),
    ]
    assert [commands(one) for one in said] == [[]] * len(said)
    assert [one.code for one in said] == [0] * 9 + [1, 0, 0, 1]
    document = json.loads(said[7].out)
    assert (document["_id"], document["input"], document[identifier]) == (identifier, identifier, "##[group]x")
    assert json.loads(said[4].out)["machines"][0]["failed"][0]["id"] == identifier


def test_outside_a_run_texts_are_as_they_are(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal obeys no such line, so none is changed."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert place.run("put", '{"input": 1}', "--machine", "job", "--id", "::a").out == "::a is pending\n"


def waits(monkeypatch: pytest.MonkeyPatch, *between: Callable[[], object]) -> None:
    """Let each of ``between`` happen in the place of a pause of the watch; after the last the watch is stopped."""
    left = list(between)

    def wait(_service: Service, _seconds: float, sleep: Callable[[float], None], _stopped: object) -> None:
        if left:
            left.pop(0)()
        else:
            stop: Stop = sleep.__self__  # type: ignore[attr-defined]
            stop.asked = True

    monkeypatch.setattr(Service, "wait", wait)


def test_a_watch_lets_what_it_gave_back_rest(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its return is a change that wakes the watch: other work is done at once, its next attempt keeps the pace."""
    now = 100.0
    monkeypatch.setattr(ticks, "monotonic", lambda: now)
    worked: list[str] = []

    def answer(work: Work) -> StepResult:
        worked.append(work.key)
        return again("slowly") if work.key.startswith("busy") else done()

    def pass_time(seconds: float) -> None:
        nonlocal now
        now += seconds

    def something_new() -> None:
        pass_time(1)
        add(place.store, JOB, "new", input="x")

    place.step.answer = answer
    add(place.store, JOB, "busy", input="x")
    waits(monkeypatch, something_new, lambda: pass_time(8), lambda: pass_time(1), lambda: pass_time(1))
    assert place.run("watch", "--every", "10", "--machine", "job").code == 0
    assert worked == ["busy:1", "new:1", "busy:2"]
    assert read(place.store, JOB, "busy")["attempts"] == 2
