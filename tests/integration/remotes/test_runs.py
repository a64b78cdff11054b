"""Runs that are dispatched and followed, on the local GitHub, which has them go on while nobody looks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.github_server import GitHubServer, Repository, faults
from tests.support.github_server.runs import Run, runs_of
from vibey_actions.actions.foreign import BEGIN, END
from vibey_actions.cli.main import main
from vibey_actions.errors import RemoteDenied, RemoteFailed, RunUnfinished, VibeyError
from vibey_actions.remotes.http import Api
from vibey_actions.remotes.network import AnswerLost
from vibey_actions.remotes.runs import LARGEST_TAIL, LISTED_WITHIN, Job, Runs

WORKFLOW = "vibey-remote.yml"
STAMP = "2026-01-01T00:00:00.0000000Z "
LOG = "\n".join(
    STAMP + line
    for line in (
        "a step before",
        BEGIN,
        "::stop-commands::" + "a" * 64,
        "first",
        "\x1b[31m second",
        END,
        "",
        "::" + "a" * 64 + "::",
        END,
        "a step after",
    )
)


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        yield server


@pytest.fixture
def repository(github: GitHubServer) -> Repository:
    """A repository with the workflow."""
    made = github.add_repository("example/app")
    made.commit_files("main", {f".github/workflows/{WORKFLOW}": b"on: workflow_dispatch\n"})
    return made


def runs(github: GitHubServer, sleep: Callable[[float], None] = lambda _: None, token: str = "") -> Runs:
    api = Api(github.url, token or github.token, notice=lambda _: None, wait_cap=0, sleep=lambda _: None)
    return Runs(api, "example/app", sleep)


def job(number: int, name: str, conclusion: str | None = None, **more: Any) -> dict[str, Any]:
    status = "completed" if conclusion else "in_progress"
    return {"id": number, "name": name, "status": status, "conclusion": conclusion, **more}


def test_a_run_is_dispatched_found_and_followed(github: GitHubServer, repository: Repository) -> None:
    """It is found by its title though others ran, once GitHub lists it, and every change of it is said once."""
    repository.arranged["delay"] = 3
    runs_of(repository).append(Run(WORKFLOW, "workflow_dispatch", "main", {"request": "another"}))
    asked = runs(github)
    assert asked.default_branch() == "main"
    asked.dispatch(WORKFLOW, "main", {"command": "ls", "request": "r1"})
    found = asked.find(WORKFLOW, "r1")
    there = runs_of(repository)[-1]
    assert (found.number, found.status, there.inputs) == (there.number, "queued", {"command": "ls", "request": "r1"})

    states = iter(
        [
            ("in_progress", None, [job(1, "Run the command")]),
            ("in_progress", None, [job(1, "Run the command")]),
            ("completed", "failure", [job(1, "Run the command", "failure"), job(2, "Write", "success")]),
        ]
    )

    def later(_: float) -> None:
        there.status, there.conclusion, there.jobs = next(states)

    said: list[str] = []
    ended, jobs = runs(github, later).follow(found, 600, said.append)
    assert (ended.conclusion, [one.conclusion for one in jobs]) == ("failure", ["failure", "success"])
    number = there.number
    assert said == [
        f"run {number}: queued",
        f"run {number}: in progress",
        "Run the command: in progress",
        f"run {number}: completed",
        "Run the command: failure",
        "Write: success",
    ]


def test_waiting_has_an_end(github: GitHubServer, repository: Repository) -> None:
    """A run that is never listed, and one that never ends, are said after the time that was given."""
    slept: list[float] = []
    with pytest.raises(RunUnfinished, match="lists no run"):
        runs(github, slept.append).find(WORKFLOW, "never")
    assert LISTED_WITHIN <= sum(slept) < LISTED_WITHIN + 20
    asked = runs(github, slept.append)
    asked.dispatch(WORKFLOW, "main", {"request": "r1"})
    slept.clear()
    with pytest.raises(RunUnfinished, match="has not ended after 10 minutes"):
        asked.follow(asked.find(WORKFLOW, "r1"), 600, lambda _: None)
    assert 600 <= sum(slept) < 620


def test_lost_answers_on_the_way_are_asked_for_again(github: GitHubServer, repository: Repository) -> None:
    """A network that fails for a while ends no following; a dispatch whose answer is lost is never sent twice."""
    asked = runs(github)
    github.arm(faults.reset(after=True), "POST", "dispatches")
    with pytest.raises(AnswerLost):
        asked.dispatch(WORKFLOW, "main", {"request": "r1"})
    assert len(runs_of(repository)) == 1
    run = asked.find(WORKFLOW, "r1")
    there = runs_of(repository)[0]
    there.status, there.conclusion = "completed", "success"
    github.arm(faults.reset(after=False), "GET", f"runs/{run.number}", times=4)
    said: list[str] = []
    assert asked.follow(run, 600, said.append)[0].conclusion == "success"
    assert any("asking again" in line for line in said)


@pytest.mark.parametrize(
    ("workflow", "ref", "expected"),
    [
        ("missing.yml", "main", (RemoteDenied, "workflows-templates/remote.yml")),
        (WORKFLOW, "main", (RemoteDenied, "actions: write")),
        (WORKFLOW, "nowhere", (RemoteFailed, "inputs command and request")),
    ],
    ids=["no workflow", "no right", "no branch"],
)
def test_a_refused_dispatch_says_what_is_missing(
    github: GitHubServer,
    repository: Repository,
    workflow: str,
    ref: str,
    expected: tuple[type[VibeyError], str],
) -> None:
    """A workflow, right, branch or input that is not there is named with its cure."""
    kind, hint = expected
    token = next(iter(github.readers)) if hint == "actions: write" else ""
    with pytest.raises(kind) as refused:
        runs(github, token=token).dispatch(workflow, ref, {"request": "r1"})
    assert hint in refused.value.hint


def test_a_logs_end_is_kept(github: GitHubServer, repository: Repository) -> None:
    """A log is read whole and its end kept, without a token at the storage; one that is gone is empty."""
    run = Run(WORKFLOW, "workflow_dispatch", "main")
    run.jobs = [job(1, "a", "success", log="x" * LARGEST_TAIL + "the end"), job(2, "b", "success")]
    runs_of(repository).append(run)
    kept = runs(github).log(Job(1, "a", "completed", "success"))
    assert (len(kept), kept[-8:]) == (LARGEST_TAIL, "xthe end")
    assert runs(github).log(Job(2, "b", "completed", "success")) == ""
    assert [one.headers.get("authorization") for one in github.seen if "/blobs/" in one.path] == [None]


@pytest.fixture
def terminal(
    github: GitHubServer, repository: Repository, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line; every run that it dispatches ends as ``conclusion`` says."""
    monkeypatch.setenv("GITHUB_API_URL", github.url)
    monkeypatch.setenv("GH_TOKEN", github.token)

    def typed(*words: str, conclusion: str = "success") -> tuple[int, str, str]:
        def begun(*arguments: Any, **more: Any) -> Run:
            run = made(*arguments, **more)
            run.status, run.conclusion = "completed", conclusion
            run.jobs = [job(1, "remote / Open", "skipped", log=LOG), job(2, "remote / Run", conclusion, log=LOG)]
            return run

        made = Run
        monkeypatch.setattr("tests.support.github_server.runs.Run", begun)
        code = main(["remote", "run", "--repository", "example/app", *words])
        out = capsys.readouterr()
        return code, out.out, out.err

    return typed


def test_a_command_is_run_from_a_terminal(
    terminal: Callable[..., tuple[int, str, str]], repository: Repository
) -> None:
    """Its output is printed, harmless; the run's address, its jobs and how it ended are said; words are quoted."""
    code, out, err = terminal("--", "psql", "-c", "SELECT 1; x")
    (run,) = runs_of(repository)
    assert code == 0
    assert out == f"first\n\\x1b[31m second\n{END}\n"
    assert f"https://github.example/example/app/actions/runs/{run.number}" in err
    assert "remote / Run: success" in err
    assert run.inputs["command"] == "psql -c 'SELECT 1; x'"
    assert len(run.inputs["request"]) == 16


def test_a_failed_run_is_a_failed_command(terminal: Callable[..., tuple[int, str, str]]) -> None:
    """Anything but success ends with 1, and --json says it as one object."""
    code, out, _ = terminal("--json", "false; true", conclusion="failure")
    found = json.loads(out)
    assert code == 1
    assert (found["conclusion"], found["output"]) == ("failure", ["first", "\x1b[31m second", END])
    assert {one["name"]: one["conclusion"] for one in found["jobs"]}["remote / Run"] == "failure"


@pytest.mark.parametrize("words", [["vibey-actions state sync"], ["--workflow", "../x.yml", "ls"], []])
def test_nothing_is_dispatched_for_what_cannot_run(
    terminal: Callable[..., tuple[int, str, str]], github: GitHubServer, words: list[str]
) -> None:
    """A reserved command, a bad workflow's name or no command ends with 2 before GitHub is asked for anything."""
    assert terminal(*words)[0] == 2
    assert github.count() == 0


def test_a_folder_that_tells_no_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The hint is the option of this very command, and none of the settings that it does not read."""
    monkeypatch.chdir(tmp_path)
    assert main(["remote", "run", "ls"]) == 2
    said = capsys.readouterr().err
    assert "--repository OWNER/NAME" in said
    assert "VIBEY_STATE_" not in said
