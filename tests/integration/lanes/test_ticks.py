"""When a tick last ran: from the runs of the workflow over GitHub's API, or why that is not known."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.github_server import GitHubServer, Repository
from tests.support.github_server.runs import Run, runs_of
from vibey_actions.documents.model import time_ms
from vibey_actions.documents.report import Due
from vibey_actions.documents.status import LastTick
from vibey_actions.lanes.ticks import WorkflowRuns

FILE = ".github/workflows/advance-docs.yml"


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        yield server


@pytest.fixture
def repository(github: GitHubServer) -> Repository:
    """A repository with the workflow."""
    found = github.add_repository("example/hub")
    found.commit_files("main", {FILE: b"on: schedule\n"})
    return found


def last(github: GitHubServer, folder: Path, **env: str) -> LastTick:
    given = {"PATH": os.environ["PATH"], "GITHUB_API_URL": github.url, "GH_TOKEN": github.token}
    return WorkflowRuns({**given, "GITHUB_REPOSITORY": "example/hub", **env}, folder).last()


def ran(repository: Repository, at: str, conclusion: str | None, workflow: str = "advance-docs.yml") -> Run:
    status = "completed" if conclusion else "in_progress"
    run = Run(workflow, "schedule", "main", status=status, conclusion=conclusion, created=at)
    runs_of(repository).append(run)
    return run


def test_the_newest_run_that_came_to_an_end_of_its_own(
    github: GitHubServer, repository: Repository, tmp_path: Path
) -> None:
    """One that is running, was cancelled or skipped, or belongs to another workflow, may have walked nothing."""
    ran(repository, "2026-01-01T10:00:00Z", "success")
    newest = ran(repository, "2026-01-01T11:00:00Z", "failure")
    ran(repository, "2026-01-01T12:00:00Z", "cancelled")
    ran(repository, "2026-01-01T13:00:00Z", None)
    ran(repository, "2026-01-01T14:00:00Z", "success", "other.yml")
    found = last(github, tmp_path)
    assert (found.at_ms, found.unknown) == (time_ms("2026-01-01T11:00:00Z"), "")
    assert found.text == f"run {newest.number} ended with failure"


def test_no_run_yet_is_never_and_not_unknown(github: GitHubServer, repository: Repository, tmp_path: Path) -> None:
    """The workflow is there and nothing ran."""
    assert last(github, tmp_path) == LastTick()


def test_what_cannot_be_read_is_not_known_and_why(github: GitHubServer, repository: Repository, tmp_path: Path) -> None:
    """Never "no tick has run": a repository without the workflow, one that is not there, no API, no checkout."""
    github.add_repository("example/other")
    assert "shows no workflow advance-docs.yml" in last(github, tmp_path, GITHUB_REPOSITORY="example/other").unknown
    assert last(github, tmp_path, GITHUB_REPOSITORY="example/none").unknown
    assert last(github, tmp_path, GITHUB_API_URL="http://127.0.0.1:9").unknown
    assert last(github, tmp_path, GITHUB_REPOSITORY="").unknown
    assert last(github, tmp_path, GITHUB_REPOSITORY="../x").unknown


def test_the_run_itself_is_the_record(github: GitHubServer, tmp_path: Path) -> None:
    """Nothing is written for a tick: no request is made."""
    ticks = WorkflowRuns({"GITHUB_API_URL": "http://127.0.0.1:9"}, tmp_path)
    ticks.ended(ticks.began(Due("job", ready=1)), "1 done")
