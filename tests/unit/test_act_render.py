"""The copy of a workflow that act runs: what is bridged, and the rights of its tokens."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.act import render
from tests.support.github_server.permissions import JobToken

WORKFLOW = """\
on:
  push:
permissions: {}
concurrency: { group: write, queue: max, cancel-in-progress: false }
jobs:
  work:
    runs-on: ubuntu-24.04
    permissions: { contents: write }
    steps:
      - uses: actions/checkout@v7
        with: { repository: "${{ job.workflow_repository }}", ref: "${{ job.workflow_sha }}", path: .vibey-actions }
      - uses: ./.vibey-actions
        with: { step: write-back }
      - run: git push
        env: { GH_TOKEN: "${{ github.token }}" }
  call:
    uses: ./.github/workflows/state-write.yml
"""


def test_a_workflow_is_bridged_and_nothing_else() -> None:
    """The queue is left out, our own action and workflow are named by repository, a job has a token of its own."""
    made = render.load(render.workflow(WORKFLOW, None))
    assert made["on"] == {"push": None}
    assert made["concurrency"] == {"group": "write", "cancel-in-progress": False}
    assert made["jobs"]["work"]["steps"] == [
        {"uses": "OWNER/vibey-actions@self", "with": {"step": "write-back"}},
        {"run": "git push", "env": {"GH_TOKEN": "${{ format('{0}-{1}', github.token, github.job) }}"}},
    ]
    assert made["jobs"]["call"]["uses"] == "OWNER/vibey-actions/.github/workflows/state-write.yml@self"


def test_a_seed_is_the_first_step(tmp_path: Path) -> None:
    """What is installed already lies in RUNNER_TEMP before the job's own steps."""
    made = render.load(render.workflow(WORKFLOW, tmp_path))
    assert str(tmp_path) in made["jobs"]["work"]["steps"][0]["run"]


@pytest.mark.parametrize(
    ("top", "job", "expected"),
    [
        ({"permissions": {}}, {}, {}),
        ({"permissions": {}}, {"permissions": {"contents": "write", "actions": "none"}}, {"contents": "write"}),
        ({}, {}, {"contents": "read"}),
        ({"permissions": {"contents": "read"}}, {"permissions": {}}, {}),
    ],
    ids=["nothing", "a job's own", "the default", "a job with less"],
)
def test_permissions_are_read_as_github_reads_them(
    top: dict[str, object], job: dict[str, object], expected: dict[str, str]
) -> None:
    """A job's permissions replace the workflow's; what is not named is none."""
    assert render.permissions(top, job) == expected


def test_a_callee_cannot_have_more_than_its_caller() -> None:
    """Rights that the caller lacks are found before the run, as GitHub finds them."""
    assert render.exceeds({"contents": "write", "actions": "read"}, {"contents": "read", "actions": "read"}) == [
        "contents"
    ]
    assert render.exceeds({"contents": "read"}, {"contents": "write"}) == []


@pytest.mark.parametrize(
    ("permissions", "method", "path", "public", "expected"),
    [
        ({}, "GET", "", False, True),
        ({}, "GET", "/git/ref/heads/x", False, False),
        ({}, "GET", "/git/ref/heads/x", True, True),
        ({"contents": "read"}, "GET", "/contents/x", False, True),
        ({"contents": "read"}, "POST", "/git/blobs", True, False),
        ({"contents": "write"}, "POST", "/git/blobs", False, True),
        ({"contents": "write"}, "GET", "/actions/artifacts", False, False),
        ({"actions": "read"}, "GET", "/actions/artifacts", False, True),
        ({"actions": "read"}, "POST", "/actions/workflows/x/dispatches", False, False),
    ],
)
def test_a_jobs_token_may_what_its_permissions_say(
    permissions: dict[str, str], method: str, path: str, *, public: bool, expected: bool
) -> None:
    """The local GitHub refuses what the real one would refuse this job."""
    assert JobToken("example/app", permissions).may(method, path, public=public) is expected
