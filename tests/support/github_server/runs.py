"""Workflow runs: dispatched, listed, followed and cancelled. What happens in them is for the test to say.

A dispatch makes a queued run, which is listed after ``delay`` listings: on GitHub, too, it is not there at once. Tests
find runs in ``runs_of(repository)`` and change their ``status``, ``conclusion`` and ``jobs``; a job's ``log`` is
handed out as such. A run's title is its workflow and the input ``request``, as with ``run-name``.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tests.support.github_server.api import Call, route
from tests.support.github_server.replies import Refusal, Reply, as_json, not_found
from tests.support.github_server.repository import Repository

MOST_INPUTS = 25
_numbers = itertools.count(5001)


@dataclass
class Run:
    """One run of a workflow; ``jobs`` are objects as GitHub describes them. Hidden while ``delay`` is left."""

    workflow: str
    event: str
    branch: str
    inputs: dict[str, str] = field(default_factory=dict)
    status: str = "queued"
    conclusion: str | None = None
    jobs: list[dict[str, Any]] = field(default_factory=list)
    delay: int = 0
    attempt: int = 1
    number: int = field(default_factory=lambda: next(_numbers))
    created: str = field(default_factory=lambda: datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))


def runs_of(repository: Repository) -> list[Run]:
    """The repository's runs, oldest first."""
    found: list[Run] = repository.arranged.setdefault("runs", [])
    return found


@route("POST", r"/actions/workflows/(?P<workflow>[^/]+)/dispatches")
def dispatch(call: Call) -> Reply:
    """204 as ever; with ``return_run_details`` 200 and the run."""
    workflow = _workflow(call)
    (ref,) = call.need("ref")
    inputs = call.data.get("inputs", {})
    if call.repository.ref(ref.removeprefix("refs/heads/")) is None:
        raise Refusal(422, f"No ref found for: {ref}")
    if len(inputs) > MOST_INPUTS:
        raise Refusal(422, "you may only define up to 25 `inputs` for a `workflow_dispatch` event")
    unexpected = sorted(set(inputs) - call.repository.arranged.get("inputs", {}).get(workflow, set(inputs)))
    if unexpected:
        raise Refusal(422, f"Unexpected inputs provided: {unexpected}")
    delay = call.repository.arranged.get("delay", 0)
    run = Run(workflow, "workflow_dispatch", ref.removeprefix("refs/heads/"), dict(inputs), delay=delay)
    runs_of(call.repository).append(run)
    if not call.data.get("return_run_details"):
        return Reply(204)
    return as_json({"workflow_run_id": run.number, "run_url": _url(call, run), "html_url": _page(call, run)})


@route("GET", r"/actions/workflows/(?P<workflow>[^/]+)/runs")
def of_workflow(call: Call) -> Reply:
    workflow = _workflow(call)
    return _listing(call, [run for run in runs_of(call.repository) if run.workflow == workflow])


@route("GET", "/actions/runs")
def all_runs(call: Call) -> Reply:
    return _listing(call, runs_of(call.repository))


@route("GET", r"/actions/runs/(?P<run>\d+)")
def one_run(call: Call) -> Reply:
    return as_json(_described(call, _run(call)))


@route("GET", r"/actions/runs/(?P<run>\d+)/jobs")
def jobs(call: Call) -> Reply:
    found = _run(call).jobs
    return as_json({"total_count": len(found), "jobs": found})


@route("GET", r"/actions/jobs/(?P<job>\d+)/logs")
def logs(call: Call) -> Reply:
    """A redirect to the storage, where no token may come along; 404 for a job that has no log (any more)."""
    for run in runs_of(call.repository):
        for job in run.jobs:
            if job["id"] == int(call.part("job")) and "log" in job:
                archive = str(job["log"]).encode()
                # Nobody's artifact, so it is in no listing.
                stored = call.artifacts.put(run.number, f"log-{time.time_ns()}", {}, repository="", archive=archive)
                return Reply(
                    302, b"", {"Location": f"{call.blobs}/blobs/{stored.facts['id']}/{call.artifacts.secret(stored)}"}
                )
    raise not_found()


@route("POST", r"/actions/runs/(?P<run>\d+)/cancel")
def cancel(call: Call) -> Reply:
    run = _run(call)
    if run.status == "completed":
        raise Refusal(409, "Cannot cancel a workflow run that is completed.")
    run.status, run.conclusion = "completed", "cancelled"
    return as_json({}, 202)


def _workflow(call: Call) -> str:
    """The workflow that a path names, which the default branch has to hold."""
    name = call.part("workflow")
    head = call.repository.ref(call.repository.default_branch)
    if not head or not call.repository.kind(f"{head}:.github/workflows/{name}"):
        raise not_found()
    return name


def _run(call: Call) -> Run:
    for run in runs_of(call.repository):
        if run.number == int(call.part("run")):
            return run
    raise not_found()


def _listing(call: Call, found: list[Run]) -> Reply:
    for run in found:
        run.delay = max(0, run.delay - 1)
    shown = [run for run in reversed(found) if not run.delay]
    shown = [run for run in shown if call.query.get("event", run.event) == run.event]
    shown = [run for run in shown if call.query.get("branch", run.branch) == run.branch]
    size, page = int(call.query.get("per_page", 30)), int(call.query.get("page", 1))
    described = [_described(call, run) for run in shown[(page - 1) * size : page * size]]
    return as_json({"total_count": len(shown), "workflow_runs": described})


def _described(call: Call, run: Run) -> dict[str, Any]:
    return {
        "id": run.number,
        "name": run.workflow,
        "display_title": f"{run.workflow} {run.inputs.get('request', '')}",
        "path": f".github/workflows/{run.workflow}",
        "event": run.event,
        "status": run.status,
        "conclusion": run.conclusion,
        "run_attempt": run.attempt,
        "head_branch": run.branch,
        "created_at": run.created,
        "url": _url(call, run),
        "html_url": _page(call, run),
    }


def _url(call: Call, run: Run) -> str:
    return f"{call.url.split('/actions/')[0]}/actions/runs/{run.number}"


def _page(call: Call, run: Run) -> str:
    return f"https://github.example/{call.repository.name}/actions/runs/{run.number}"
