"""Steps that are programs: what they see, how they end, and how long they may take. Each runs a real process."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.support.lanes import DAILY, JOB
from tests.support.walking import Walk, with_settings
from vibey_actions.documents.lane import Unit
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document
from vibey_actions.documents.report import What
from vibey_actions.documents.steps.base import Outcome, StepResult
from vibey_actions.documents.steps.built_in import registry
from vibey_actions.errors import MachineInvalid

START = """\
import json, os, pathlib, signal, subprocess, sys, time
result = pathlib.Path(os.environ['VIBEY_RESULT'])
document = json.loads(pathlib.Path(os.environ['VIBEY_DOCUMENT']).read_text())
"""
SECRETS = {
    "VIBEY_STATE_KEY": "the-key-of-the-state",
    "VIBES_DEVICE_ID": "the-device-certificate",
    "VIBEY_PG_URL": "postgresql://owner:password@db.example/x",
    "GITHUB_TOKEN": "ghs_0123456789abcdefghij",
}
Make = Callable[..., Walk]


@pytest.fixture
def walk(tmp_path: Path) -> Make:
    """A lane whose command is a Python script in the checkout."""

    def make(body: str, machine: Machine = JOB, **settings: object) -> Walk:
        (tmp_path / "work.py").write_text(START + body + "\n")
        environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "WANTED": "wanted-value", **SECRETS}
        command = [sys.executable, "work.py"]
        return Walk(with_settings(machine, command=command, **settings), tmp_path, environment)

    return make


def test_document_in_result_out(walk: Make) -> None:
    """The program reads the claimed document, and only what the transition owns is kept of its result."""
    walker = walk(
        "text = pathlib.Path(os.environ['VIBEY_DOCUMENT']).read_text()\n"
        "result.write_text(json.dumps({'output': text, 'input': 'another', 'attempts': 0, 'stray': 1}))"
    )
    walker.add("job/1", input=12345678901234567890)
    walker.tick()
    document = walker.read("job/1")
    seen = json.loads(str(document["output"]))
    assert (document["status"], document["input"], document["attempts"]) == ("done", 12345678901234567890, 1)
    assert "stray" not in document
    assert (seen["_id"], seen["status"], seen["attempts"]) == ("job/1", "running", 1)
    assert "_rev" not in seen


def test_a_program_sees_what_is_declared_and_nothing_else(walk: Make) -> None:
    """No key, certificate, DSN, token or home; the work's key, the declared variables, the checkout as its folder."""
    walker = walk(
        "home = os.listdir(os.environ['HOME'])\n"
        "result.write_text(json.dumps({'output': {'variables': dict(os.environ), 'cwd': os.getcwd(), 'home': home}}))",
        variables=["WANTED", "NOT_SET"],
    )
    walker.add("job-1", input="x")
    walker.tick()
    output = walker.read("job-1")["output"]
    assert isinstance(output, dict)
    assert set(output["variables"]) - {"LC_CTYPE"} == {
        *("PATH", "LANG", "HOME", "WANTED", "VIBEY_DOCUMENT", "VIBEY_RESULT", "VIBEY_WORK_KEY")
    }
    assert output["variables"]["VIBEY_WORK_KEY"] == "job-1:1"
    assert (output["variables"]["WANTED"], output["home"], output["cwd"]) == ("wanted-value", [], str(walker.root))
    assert not Path(output["variables"]["VIBEY_DOCUMENT"]).parent.exists()


@pytest.mark.parametrize("name", ["VIBES_DEVICE_ID", "VIBEY_STATE_KEY", "VIBEY_PG_URL", "GITHUB_TOKEN", "GH_TOKEN"])
def test_the_lanes_own_secrets_cannot_be_declared(walk: Make, name: str) -> None:
    """A declaration that hands one on is refused by name, before any document."""
    with pytest.raises(MachineInvalid, match=f"with.variables names {name}, which no step gets"):
        walk("", variables=[name]).lane()


ENDS = {
    "again": ("print('busy', file=sys.stderr); sys.exit(75)", What.AGAIN, "pending", "asks for another try: busy"),
    "fails": ("sys.exit('it broke')", What.FAILED, "failed", "the command ended with 1: it broke"),
    "killed": ("os.kill(os.getpid(), signal.SIGKILL)", What.AGAIN, "pending", "ended by signal 9"),
    "no-result": ("", What.FAILED, "failed", "it left no result in the file that VIBEY_RESULT names"),
    "no-json": ("result.write_text('{')", What.FAILED, "failed", "its result is no document"),
    "no-object": ("result.write_text('[1]')", What.FAILED, "failed", "its result is no JSON object"),
    "link": ("os.symlink('/etc/hostname', result)", What.FAILED, "failed", "its result is no file that can be read"),
    "pipe": ("os.mkfifo(result)", What.FAILED, "failed", "its result is no regular file"),
    "large": ("result.write_bytes(b'x' * ((16 << 20) + 1))", What.FAILED, "failed", "its result is larger than 16 MiB"),
}


@pytest.mark.parametrize("end", ENDS)
def test_how_a_program_ends(walk: Make, end: str) -> None:
    """0 with a valid result finishes, 75 tries again, anything else fails; killed from outside, it is tried again."""
    body, what, status, reason = ENDS[end]
    walker = walk(body)
    walker.add("job-1", input="x")
    assert [event.what for event in walker.tick().events] == [what]
    document = walker.read("job-1")
    assert document["status"] == status
    assert reason in str(document["lastError"])


def test_a_result_names_the_finish_where_there_are_several(walk: Make) -> None:
    """``status`` in the result chooses among the claim's finishes, and null drops a field."""
    edge = next(edge for edge in JOB.transitions if edge.target == "done")
    partly = replace(
        JOB,
        statuses=(*JOB.statuses, "partly"),
        terminals=JOB.terminals | {"partly"},
        transitions=(*JOB.transitions, replace(edge, target="partly")),
    )
    walker = walk("result.write_text(json.dumps({'status': 'partly', 'output': None}))", partly)
    walker.add("job-1", input="x", output="old")
    walker.tick()
    document = walker.read("job-1")
    assert (document["status"], "output" in document) == ("partly", False)


@pytest.mark.parametrize("value", [None, "", "  ", [], {}])
def test_an_empty_input_spends_nothing(walk: Make, value: object) -> None:
    """The document fails with the reason, unclaimed; the program never runs."""
    walker = walk("pathlib.Path('ran').touch()")
    walker.add("job-1", input=value)
    walker.tick()
    document = walker.read("job-1")
    assert (document["status"], document["attempts"]) == ("failed", 0)
    assert document["lastError"] == "its input is empty, so there is nothing to work on"
    assert not (walker.root / "ran").exists()


def test_the_last_lines_are_masked_and_bounded(walk: Make) -> None:
    """Of a long output the end is kept, on one line, without secrets, their lines, or what a terminal obeys."""
    walker = walk(
        "print('x' * 100_000, file=sys.stderr)\n"
        f"print('key {SECRETS['VIBEY_STATE_KEY']} at postgres://me:pw1234@h/d', file=sys.stderr)\n"
        "print('\\x1b[31mred', os.environ['WANTED'], 'eyJhbGciOiJIUzI1NiJ9.e30.abc', file=sys.stderr)\n"
        "sys.exit(3)",
        variables=["WANTED"],
    )
    walker.add("job-1", input="x")
    walker.tick()
    said = str(walker.read("job-1")["lastError"])
    assert said.endswith(r"| key *** at postgres://***@h/d | \x1b[31mred *** ***")
    assert len(said) <= 500
    assert said.startswith("the command ended with 3: ")


def test_a_program_is_killed_with_its_children_at_its_deadline(walk: Make) -> None:
    """Nothing of its process group lives on, what it said is kept, and within the attempts it is tried again."""
    walker = walk(
        "child = subprocess.Popen(['sleep', '600'])\n"
        "pathlib.Path('part').write_text(str(child.pid))\n"
        "pathlib.Path('part').replace('child')\n"
        "print('so far', flush=True)\n"
        "time.sleep(600)",
        deadline="1s",
    )
    walker.add("job-1", input="x")
    assert [event.what for event in walker.tick().events] == [What.AGAIN]
    document = walker.read("job-1")
    assert str(document["lastError"]).startswith("the command was stopped: it did not end within 1 seconds")
    noted = walker.root / "child"
    assert not noted.exists() or _gone(int(noted.read_text()))


def test_a_deadline_as_long_as_the_lease_renews_it(walk: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """The claim is moved on while the program runs, so that nobody takes it over."""
    short = replace(JOB, lease_ms=1000)
    walker = walk("time.sleep(1.2); result.write_text(json.dumps({'output': 1}))", short, deadline="30s")
    walker.add("job-1", input="x")
    written: list[object] = []
    put = walker.store.put

    def noted(db: str, identifier: str, document: Document, **named: Any) -> str:
        written.append(document["status"])
        return put(db, identifier, document, **named)

    monkeypatch.setattr(walker.store, "put", noted)
    walker.tick()
    assert (written[0], written[-1]) == ("running", "done")
    assert written.count("running") >= 2
    assert walker.read("job-1")["output"] == 1


def test_a_program_whose_claim_is_lost_is_stopped(walk: Make) -> None:
    """No renewal, no work: it is killed long before its deadline, and what it did is unknown."""
    walker = walk("time.sleep(600)", replace(JOB, lease_ms=1000), deadline="10m")
    walker.add("job-1", input="x")
    step = registry(walker.surroundings).steps(walker.machine)["command"]
    result = step.run(replace(walker.work("job-1"), renew=lambda: False))
    assert (result.outcome, result.reason) == (Outcome.UNKNOWN, "the command was stopped: its claim was lost")


def test_a_lease_that_is_over_runs_nothing(walk: Make) -> None:
    """A worker that was asleep since its claim does not begin."""
    walker = walk("pathlib.Path('ran').touch()")
    walker.add("job-1", input="x")
    work = walker.work("job-1")
    walker.clock.pass_ms(29_000)
    result = registry(walker.surroundings).steps(walker.machine)["command"].run(work)
    assert result == StepResult(Outcome.AGAIN, "the lease left no time for its command")
    assert not (walker.root / "ran").exists()


def test_endless_output_ends_the_program(walk: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is killed as soon as it has written more than is read, however long its deadline is."""
    monkeypatch.setattr("vibey_actions.documents.program.MOST_OUTPUT", 1 << 20)
    walker = walk("print('x' * 3_000_000, flush=True); time.sleep(600); pathlib.Path('went-on').touch()")
    walker.add("job-1", input="x")
    walker.tick()
    assert not (walker.root / "went-on").exists()
    assert "wrote more than 1 MiB" in str(walker.read("job-1")["lastError"])


def test_a_unit_of_a_day_runs_its_command(walk: Make) -> None:
    """The unit is claimed by being made, and its name and date reach the program; once made, it is not made again."""
    walker = walk("result.write_text(json.dumps({'output': [document['name'], document['date']]}))", DAILY)
    unit = Unit({"_id": "digest:2026-01-01", "name": "digest", "date": "2026-01-01"}, "claimed")
    walker.lane().tick(units=(unit,))
    document = walker.read("digest:2026-01-01")
    assert (document["status"], document["output"]) == ("done", ["digest", "2026-01-01"])
    walker.lane().tick(units=(unit,))
    assert walker.read("digest:2026-01-01") == document


@pytest.mark.parametrize(("body", "unknown"), [("sys.exit(1)", False), ("os.kill(os.getpid(), 9)", True), ("", True)])
def test_a_unit_that_fails_is_not_repeated(walk: Make, body: str, unknown: object) -> None:
    """Whatever became of it; where nobody knows what it did, the document says so."""
    walker = walk(f"with open('runs', 'a') as runs: runs.write('x')\n{body}", DAILY)
    unit = Unit({"_id": "digest:2026-01-01", "name": "digest", "date": "2026-01-01"}, "claimed")
    for _ in range(3):
        walker.lane().tick(units=(unit,))
        walker.clock.pass_ms(3_600_000)
    document = walker.read("digest:2026-01-01")
    assert (document["status"], document.get("outcomeUnknown", False)) == ("failed", unknown)
    assert (walker.root / "runs").read_text() == "x"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "with.command is missing"),
        ({"command": "python3 work.py"}, "with.command is a text, not a list"),
        ({"command": ["work", 1]}, "with.command is no list of texts"),
        ({"command": ["./not-there"]}, "there is no program ./not-there"),
        ({"command": ["true"], "comand": 1}, "with.comand is no key here"),
        ({"command": ["true"], "deadline": "soon"}, "with.deadline is no length of time"),
    ],
)
def test_a_command_that_cannot_work_is_found_when_the_lane_starts(
    tmp_path: Path, settings: dict[str, object], words: str
) -> None:
    """Before a document pays for it, naming the setting."""
    walker = Walk(with_settings(JOB, **settings), tmp_path, {"PATH": os.environ["PATH"]})
    with pytest.raises(MachineInvalid, match=words.replace(".", r"\.")):
        walker.lane()


def test_a_program_that_may_not_be_executed_is_told_apart(tmp_path: Path) -> None:
    """A file that is there is not said to be missing; the hint is the command that mends it."""
    (tmp_path / "work.sh").write_text("#!/bin/sh\n")
    walker = Walk(with_settings(JOB, command=["./work.sh"]), tmp_path, {"PATH": os.environ["PATH"]})
    with pytest.raises(MachineInvalid, match="may not be executed") as caught:
        walker.lane()
    assert "chmod +x ./work.sh" in caught.value.hint


def _gone(pid: int) -> bool:
    """Whether a process ends; one that was killed may still wait to be collected."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False
