"""Answers of GitHub that are lost, refused, wrong or late, met by whole syncs; and how few requests those make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.cases import CHANGES_HERE, CHANGES_THERE, PLANTED, ROWS, Case, sampled
from tests.support.github_server import GitHubServer, faults
from tests.support.github_server.faults import Fault
from tests.support.github_server.replies import Reply, as_json
from tests.support.machines import Branch, Machine
from vibey_actions.errors import VibeyError

Machines = Callable[..., Machine]

ENDPOINTS = [
    ("GET", "matching-refs"),
    ("GET", "/git/commits/"),
    ("GET", "/git/trees/"),
    ("GET", "/git/blobs/"),
    ("GET", "/compare/"),
    ("GET", "/commits$"),
    ("GET", "/app$"),
    ("POST", "/git/blobs"),
    ("POST", "/git/trees"),
    ("POST", "/git/commits"),
    ("PATCH", "/git/refs"),
    ("POST", "/git/refs"),
]
FAULTS: dict[str, Callable[[], Fault]] = {
    "500": lambda: faults.server_error(500),
    "502 after the effect": lambda: faults.server_error(502, after=True),
    "reset": faults.reset,
    "reset after the effect": lambda: faults.reset(after=True),
    "cut": lambda: faults.cut(7),
    "secondary limit": lambda: faults.secondary_limit(1),
    "429": lambda: faults.secondary_limit(1, status=429),
    "primary limit": lambda: faults.primary_limit(1),
    "401": faults.unauthorized,
    "403": faults.not_permitted,
    "404": lambda: faults.refuse(404, "Not Found"),
    "409": lambda: faults.refuse(409, "Git Repository is empty."),
    "422": lambda: faults.refuse(422, "Validation Failed"),
    "422 after the effect": lambda: faults.refuse(422, "Update is not a fast forward", after=True),
    "empty object": lambda: faults.answer(as_json({})),
    "empty list": lambda: faults.answer(as_json([])),
    "null": lambda: faults.answer(as_json(None)),
    "no JSON": lambda: faults.answer(Reply(200, b"<html>proxy</html>", {"Content-Type": "text/html"})),
    "nothing": lambda: faults.answer(Reply(204, b"")),
}
MATRIX = [(method, path, name, times) for times in (1, 1000) for method, path in ENDPOINTS for name in FAULTS]


def failing(case: Case, server: GitHubServer, fault: tuple[str, str, str, int]) -> str:
    """Run the scenario with a fault armed; returns what it said where it failed."""
    method, path, name, times = fault
    server.arm(FAULTS[name](), method, path, times=times)
    try:
        case.work()
    except VibeyError as error:
        return f"{error.message} {error.hint}"
    finally:
        server.faults.armed.clear()
        server.remaining = 5000
    return ""


@pytest.mark.parametrize(
    ("branch", "case"),
    [("github-here", "both-changed"), ("github-here", "first-push"), ("github-here", "pull-only")],
    indirect=True,
)
@pytest.mark.usefixtures("no_waiting")
def test_an_answer_that_goes_wrong_loses_nothing(
    case: Case, github_here: GitHubServer, request: pytest.FixtureRequest
) -> None:
    """Every endpoint meets every fault, once and for ever: the outcome is right or a clear error, then it completes."""
    matrix = [fault for fault in MATRIX if asked(case, github_here, fault[0], fault[1])]
    assert len(matrix) > len(FAULTS)
    for number in sampled([str(fault) for fault in matrix], request.node.name):
        fault = matrix[number - 1]
        case.saved.restore()
        said = failing(case, github_here, fault)
        assert not any(secret in said for secret in (PLANTED, github_here.token, case.machine.env["VIBEY_STATE_KEY"]))
        case.check_whole(str(fault))
        case.check_completed(str(fault))


def asked(case: Case, server: GitHubServer, method: str, path: str) -> int:
    """How often the scenario asks an endpoint when all goes well."""
    counts: dict[tuple[str, str], int] = case.__dict__.setdefault("counts", {})
    if not counts:
        case.saved.restore()
        server.forget()
        case.work()
        counts |= {endpoint: server.count(*endpoint) for endpoint in ENDPOINTS}
    return counts[method, path]


@pytest.mark.parametrize("branch", ["github-here"], indirect=True)
def test_syncs_ask_no_more_than_they_must(machines: Machines, branch: Branch, github_here: GitHubServer) -> None:
    """No-op 1 request; push from a known head 1 + 4; pull of a new head 1 + 6: does it continue
    the base, is it an old state put back, is this the default branch; then commit, tree and sealed file.

    What this machine pushed or downloaded is not downloaded again.
    """
    first, second = machines(branch, "a", rows=ROWS), machines(branch, "b")
    first.sync()
    second.sync()
    assert requests(github_here, first.sync) == ["GET matching-refs"]
    first.execute(CHANGES_HERE)
    pushing = requests(github_here, first.sync)
    assert pushing == ["GET matching-refs", "POST blobs", "POST trees", "POST commits", "PATCH refs"]
    assert requests(github_here, second.sync) == [
        "GET matching-refs",
        "GET compare",
        "GET commits",
        "GET repository",
        "GET commits",
        "GET trees",
        "GET blobs",
    ]
    second.execute(CHANGES_THERE)
    assert requests(github_here, second.sync) == pushing
    assert "GET blobs" not in requests(github_here, second.operations.status)
    shown = requests(github_here, lambda: second.operations.show(None, None, None))
    assert shown == ["GET matching-refs"]


def requests(server: GitHubServer, work: Callable[[], Any]) -> list[str]:
    """The requests that ``work`` makes, each by method and endpoint."""
    server.forget()
    work()
    return [f"{one.method} {endpoint_of(one.path)}" for one in server.seen]


def endpoint_of(path: str) -> str:
    parts = path.split("/")[4:]
    return parts[1] if parts[:1] == ["git"] else parts[0] if parts else "repository"
