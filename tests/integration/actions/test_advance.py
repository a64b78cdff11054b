"""The step advance as a job runs it: documents in the sealed state or in a database, and not configured yet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.jobs import Done, Job

DOCS = ".github/vibey-docs.yml"
MACHINES = "machines:\n  job:\n    with: {command: [./work.sh]}\n"
CONFIG = '[state]\ndocuments = true\n[migrations]\ndirectory = "db"\n'
SEALED = "store: {kind: sealed}\n" + MACHINES
WORK = """#!/bin/sh
case "$(cat "$VIBEY_DOCUMENT")" in *broken*) echo 'it is <b>broken</b> | ::error::x' >&2; exit 1 ;; esac
printf '{"output": "%s"}' "$VIBEY_WORK_KEY" > "$VIBEY_RESULT"
"""
PROGRAM = [sys.executable, "-m", "vibey_actions"]


def job(folder: Path, docs: str = SEALED, work: str = WORK, config: str = CONFIG) -> Job:
    """A job whose checkout declares machines and has their command."""
    made = Job.make(folder, config=config)
    (made.workspace / "work.sh").write_text(work)
    (made.workspace / "work.sh").chmod(0o755)
    made.commit({DOCS: docs})
    return made


@dataclass
class Laptop:
    """A machine whose database shares the job's branch and key."""

    job: Job
    dsn: str

    def __post_init__(self) -> None:
        self.run("migrate")

    def get(self, identifier: str) -> Any:
        """A document, once this machine is level with the branch."""
        self.run("state", "sync")
        return json.loads(self.run("docs", "get", identifier))

    def put(self, identifier: str, text: str = "x") -> None:
        """Take a job in, onto the branch."""
        self.run("docs", "put", json.dumps({"input": text}), "--machine", "job", "--id", identifier)

    def run(self, *arguments: str) -> str:
        """What `vibey-actions ARGUMENTS` prints."""
        own = {"VIBEY_STATE_KEY": self.job.key, "VIBEY_STATE_PG_URL": self.dsn}
        given = {name: value for name, value in self.job.environment({}).items() if not name.startswith("GITHUB_")}
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.job.workspace,
            env={**given, **own},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


def ticked(done: Done) -> tuple[str, str, str]:
    return done.outputs["ticked"], done.outputs["moved"], done.outputs["stuck"]


@pytest.mark.parametrize(
    ("docs", "said"),
    [(None, "There is no .github/vibey-docs.yml"), ("store: {kind: sealed}\n", "names no machine"),
     (MACHINES, "No database is set"), ("store: {vibe: maker/hub}\n" + MACHINES, "VIBES_DEVICE_ID is not set")],
    ids=["no file", "no machine", "no database", "no credential"],
)  # fmt: skip
def test_until_it_is_configured_it_says_what_is_missing(tmp_path: Path, docs: str | None, said: str) -> None:
    """Green, one notice, the same in the summary, and nothing was started."""
    made = Job.make(tmp_path)
    if docs is not None:
        made.commit({DOCS: docs})
    done = made.step("advance")
    assert (done.code, ticked(done)) == (0, ("false", "0", "0"))
    assert said in done.log
    assert "::notice" in done.log
    assert "Not configured yet" in done.summary
    assert not made.place.exists()


def test_documents_in_the_state_are_walked_on_the_branch(tmp_path: Path, database: Callable[[], str]) -> None:
    """What a laptop puts, a job walks: claims and ends are on the branch, and the job's database is gone afterwards."""
    made = job(tmp_path)
    laptop = Laptop(made, database())
    laptop.put("j-1")
    laptop.put("j-2", "broken")
    done = made.step("advance")
    assert (done.code, ticked(done)) == (0, ("true", "2", "1")), done.log
    assert done.log.index("job: 2 ready") < done.log.index("j-1: pending -> done")
    assert laptop.get("j-1")["output"] == "j-1:1"
    failed = laptop.get("j-2")
    assert (failed["status"], "ended with 1" in failed["lastError"]) == ("failed", True)
    assert not made.place.exists()
    assert done.variables == {}
    again = made.step("advance")
    assert ticked(again) == ("true", "0", "1")
    assert "Nothing was due; nothing was written." in again.summary


def test_the_summary_says_what_moved_and_what_to_run_and_escapes_it(
    tmp_path: Path, database: Callable[[], str]
) -> None:
    """Nothing that a document or a command says is markup or a command of the runner."""
    made = job(tmp_path)
    Laptop(made, database()).put("<img src=x>|`j`", "broken")
    done = made.step("advance")
    assert "What needs a person (1)" in done.summary
    assert "vibey-actions docs retry --machine job" in done.summary
    assert "<img" not in done.summary
    assert "<b>" not in done.summary
    assert not [line for line in done.log.splitlines() if line.startswith("::error")]


@pytest.mark.parametrize(
    ("payload", "inputs", "reason"),
    [({"repository": {"private": True}}, {"key": ""}, "no-key"), ({"repository": {"private": False}}, {}, "public")],
    ids=["no key", "public"],
)
def test_a_closed_gate_walks_nothing(
    tmp_path: Path, payload: dict[str, object], inputs: dict[str, str], reason: str
) -> None:
    """The state of a run that may not open it stays closed: green, with the gate's reason."""
    made = job(tmp_path)
    made.payload = payload
    done = made.step("advance", **inputs)
    assert (done.code, done.outputs["reason"], done.outputs["ticked"]) == (0, reason, "false")
    assert "Gate: **closed**" in done.summary
    assert not made.place.exists()


def test_a_job_that_has_the_state_open_keeps_it(tmp_path: Path, database: Callable[[], str]) -> None:
    """Between open and close the step walks what the job itself took in, and leaves the database to the job."""
    made = job(tmp_path)
    opened = made.step("open")
    env = {**made.environment({}), "VIBEY_STATE_PG_URL": opened.variables["VIBEY_STATE_PG_URL"]}
    env |= {"VIBEY_STATE_KEY": made.key}
    put = [*PROGRAM, "docs", "put", '{"input": "x"}', "--machine", "job", "--id", "j-1"]
    subprocess.run(put, cwd=made.workspace, env=env, check=True, capture_output=True)
    done = made.step("advance")
    assert ticked(done) == ("true", "1", "0")
    with psycopg.connect(opened.variables["VIBEY_STATE_PG_URL"]) as connection:
        assert connection.execute("SELECT doc ->> 'status' FROM document").fetchall() == [("done",)]
    made.step("close", push="true")
    assert Laptop(made, database()).get("j-1")["status"] == "done"


def test_documents_of_a_database_of_ones_own(tmp_path: Path, database: Callable[[], str]) -> None:
    """Without the sealed state no gate is asked: the database is the one that the step is given."""
    made, dsn = job(tmp_path, MACHINES, config=""), database()
    env = {**made.environment({}), "VIBEY_STATE_PG_URL": dsn}
    put = [*PROGRAM, "docs", "put", '{"input": "x"}', "--machine", "job", "--id", "j-1"]
    subprocess.run(put, cwd=made.workspace, env=env, check=True, capture_output=True)
    done = made.step("advance", **{"pg-url": dsn, "key": ""})
    assert (done.code, ticked(done)) == (0, ("true", "1", "0")), done.log
    assert "Gate:" not in done.summary


def test_only_the_machines_that_are_named_and_no_more_than_the_limit(
    tmp_path: Path, database: Callable[[], str]
) -> None:
    """Both inputs reach the tick, and what was left is said."""
    made, dsn = job(tmp_path, MACHINES + "  daily:\n    with: {command: [./work.sh]}\n", config=""), database()
    env = {**made.environment({}), "VIBEY_STATE_PG_URL": dsn}
    for number in range(3):
        put = [*PROGRAM, "docs", "put", '{"input": "x"}', "--machine", "job", "--id", f"j-{number}"]
        subprocess.run(put, cwd=made.workspace, env=env, check=True, capture_output=True)
    done = made.step("advance", **{"pg-url": dsn, "machine": "job", "limit": "2"})
    assert ticked(done) == ("true", "2", "0")
    assert "daily" not in done.log
    assert "1 left for the next tick" in done.summary


def test_no_step_of_a_document_sees_the_key_or_a_token(tmp_path: Path, database: Callable[[], str]) -> None:
    """A command gets what it declares; the key, the token and the databases are not to be had by declaring them."""
    work = WORK + 'env > "$VIBEY_RESULT.env"; cp "$VIBEY_RESULT.env" "$(dirname "$0")/seen"\n'
    made = job(tmp_path, SEALED, work)
    Laptop(made, database()).put("j-1")
    made.env["MY_TOKEN"] = "harmless"
    done = made.step("advance", token="ghs_abcdefghijklmnop")
    assert ticked(done) == ("true", "1", "0"), done.log
    seen = (made.workspace / "seen").read_text()
    assert made.key not in seen
    assert "ghs_" not in seen
    assert "MY_TOKEN" not in seen
    assert "PG_URL" not in seen
    made.commit({DOCS: SEALED.replace("]}", "], variables: [VIBEY_STATE_KEY]}")})
    refused = made.step("advance")
    assert (refused.code, "which no step gets" in refused.log) == (2, True)
    assert not made.place.exists()


@pytest.mark.parametrize(("name", "why"), [("VIBEY_STATE_KEY", "no step gets"), ("PATH", "is set already")])
def test_variables_given_to_machines_change_nothing_else(tmp_path: Path, name: str, why: str) -> None:
    """The input variables neither replaces a variable of the job nor brings one that is the lane's own."""
    made = job(tmp_path, MACHINES, config="")
    done = made.step("advance", variables=f"MY_TOKEN=a-token-of-mine\n{name}=/evil/folder")
    assert done.code == 2
    assert f"the input variables names {name}, which {why}" in done.log
    assert "::add-mask::a-token-of-mine" in done.log
    assert "/evil/folder" not in done.everything


def test_a_store_that_fails_is_an_error_with_what_was_walked(tmp_path: Path) -> None:
    """A database that is away ends the step with 1, one annotation and a hint."""
    made = job(tmp_path, MACHINES, config="")
    done = made.step("advance", **{"pg-url": "postgresql://nobody:hunter22@127.0.0.1:1/x"})
    assert done.code == 1
    assert "::error" in done.log
    assert "hunter22" not in done.everything
