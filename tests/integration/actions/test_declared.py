"""The declaration as the run's commit has it, from git's objects or GitHub, and work trees that are another commit."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.support.github_server import GitHubServer, faults
from tests.support.jobs import CONFIG, Job, git
from vibey_actions.actions import gate
from vibey_actions.actions.gate import Decision
from vibey_actions.actions.inputs import Inputs
from vibey_actions.actions.runner import Runner
from vibey_actions.errors import RemoteFailed, SettingError
from vibey_actions.remotes.http import Api

PUBLIC = "[state]\npublic = true\n"


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository("example/app").private = False
        yield server


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job of a public repository that declares nothing, whose event says nothing of the repository."""
    made = Job(tmp_path / "job", tmp_path / "state.git")
    made.payload = {}
    return made


def ask(job: Job, github: GitHubServer | None = None) -> Decision:
    """The gate's decision in this job."""
    if github is not None:
        job.env["GITHUB_API_URL"] = github.url
    env = job.environment({})
    log: list[str] = []
    token = github.token if github is not None else ""
    return gate.ask(Runner(env, log.append), Inputs(key=job.key, token=token), "open")


def publish(job: Job, github: GitHubServer) -> None:
    """Have GitHub hold the workspace's commits."""
    repository = github.repositories["example/app"]
    git(job.workspace, "push", "-q", str(repository.path), f"HEAD:refs/heads/run-{job.sha}")


@pytest.mark.parametrize(("private", "reason"), [(True, "private"), (False, "public")])
def test_a_silent_event_is_asked_of_github(job: Job, github: GitHubServer, *, private: bool, reason: str) -> None:
    """What the payload leaves out, the API says."""
    github.repositories["example/app"].private = private
    assert ask(job, github).reason.value == reason


@pytest.mark.parametrize("status", [403, 404, 401])
def test_an_answer_that_cannot_be_got_counts_as_public(job: Job, github: GitHubServer, status: int) -> None:
    """Refused or unknown: the gate stays closed without a declaration, and opens with one."""
    github.repositories["example/app"].private = True
    github.arm(faults.refuse(status, "no"), "GET", times=20)
    assert ask(job, github).reason.value == "unknown"
    job.commit({CONFIG: PUBLIC})
    assert ask(job, github).reason.value == "declared"


def test_nobody_to_ask_counts_as_public(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a connection nothing is private."""

    def lost(*_: object) -> NoReturn:
        raise RemoteFailed("the connection was lost")

    monkeypatch.setattr(Api, "get", lost)
    assert ask(job).reason.value == "unknown"


def test_the_work_tree_declares_nothing(job: Job) -> None:
    """A file that a step wrote, staged or named in VIBEY_STATE_CONFIG opens nothing: only the run's commit counts."""
    job.payload = {"repository": {"private": False}}
    (job.workspace / ".github").mkdir()
    (job.workspace / CONFIG).write_text(PUBLIC)
    git(job.workspace, "add", "-A")
    job.env["VIBEY_STATE_CONFIG"] = str(job.workspace / CONFIG)
    assert ask(job).reason.value == "public"
    job.commit({})
    assert ask(job).reason.value == "declared"
    job.commit({CONFIG: "[state]\npublic = false\n"})
    (job.workspace / CONFIG).write_text(PUBLIC)
    assert ask(job).reason.value == "public"


def test_a_replaced_object_declares_nothing(job: Job) -> None:
    """git's replacements, which a step could make, do not change what the run's commit declares."""
    job.payload = {"repository": {"private": False}}
    job.commit({CONFIG: "[state]\npublic = false\n"})
    old = git(job.workspace, "rev-parse", f"HEAD:{CONFIG}")
    (job.folder / "public").write_text(PUBLIC)
    git(job.workspace, "replace", old, git(job.workspace, "hash-object", "-w", str(job.folder / "public")))
    assert ask(job).reason.value == "public"


@pytest.mark.parametrize("checkout", [True, False], ids=["of another commit", "none"])
def test_a_commit_that_is_not_here_is_read_from_github(job: Job, github: GitHubServer, *, checkout: bool) -> None:
    """Without the commit in the workspace the file comes over the API, and so does the news that there is none."""
    job.commit({CONFIG: PUBLIC})
    publish(job, github)
    with_file = job.sha
    (job.workspace / CONFIG).unlink()
    job.commit({})
    publish(job, github)
    subprocess.run(["rm", "-rf", str(job.workspace / ".git")], check=True)
    if checkout:
        git(job.workspace, "init", "-q")
    assert ask(job, github).reason.value == "public"
    job.sha = with_file
    assert ask(job, github).reason.value == "declared"


def test_what_cannot_be_read_is_an_error_and_no_default(job: Job, github: GitHubServer) -> None:
    """A commit that neither the workspace nor the token sees is refused with the cure, not taken for a bare one."""
    job.sha = "0" * 40
    with pytest.raises(RemoteFailed, match="cannot be read") as caught:
        ask(job, github)
    assert "contents: read" in caught.value.hint


def test_a_link_declares_nothing(job: Job) -> None:
    """A declaration that is a symbolic link is refused by name."""
    (job.workspace / ".github").mkdir()
    (job.workspace / "elsewhere").write_text(PUBLIC)
    (job.workspace / CONFIG).symlink_to("../elsewhere")
    job.commit({})
    with pytest.raises(SettingError, match="is no plain file"):
        ask(job)


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run", "issue_comment"])
def test_foreign_code_is_refused_before_it_runs(job: Job, event: str) -> None:
    """Where outsiders cause runs that have secrets, a work tree at another commit is refused, the run's own is not."""
    job.event_name = event
    job.payload = {"repository": {"private": True}}
    assert ask(job).opened
    run = job.sha
    foreign = job.commit({"db/0001.sql": "SELECT 1;"})
    job.sha = run
    with pytest.raises(SettingError, match=f"at {foreign} instead of {run}"):
        ask(job)
    job.event_name = "push"
    assert ask(job).opened
    job.event_name = event
    (job.workspace / ".git" / "HEAD").write_text("ref: refs/heads/nowhere\n")
    with pytest.raises(SettingError, match="no commit that can be read"):
        ask(job)


def test_a_workspace_of_another_user_is_read(job: Job) -> None:
    """A container job sees a workspace of another user: git's objects are read all the same."""
    job.payload = {"repository": {"private": False}}
    job.commit({CONFIG: PUBLIC})
    try:
        subprocess.run(["chown", "-R", "12345", str(job.workspace)], check=True, capture_output=True)
    except subprocess.CalledProcessError:
        pytest.skip("only root can give files away")
    assert ask(job).reason.value == "declared"
