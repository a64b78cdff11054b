"""What a command uses breaks under it at any step: one clear error, both ends whole, and the next run completes it."""

from __future__ import annotations

import errno
import http.client
import os
import signal
import socket
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg
import pytest

from tests.faults.cases import PLANTED, Case, sampled
from tests.support import forked
from tests.support.steps import Steps, watching


def end_backend(connection: psycopg.Connection) -> None:
    """End the server's process of a connection, as an administrator or a restart does."""
    if connection.closed:
        return
    info = connection.info
    with psycopg.connect(info.dsn, password=info.password, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", (info.backend_pid,))


def fill_server(_: object) -> None:
    """What PostgreSQL says when its disk is full."""
    raise psycopg.errors.DiskFull("could not extend file")


def fill_disk(_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def kill_git(process: subprocess.Popen[bytes]) -> None:
    os.kill(process.pid, signal.SIGKILL)


def kill_git_and_helpers(process: subprocess.Popen[bytes]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def reset(connection: http.client.HTTPConnection) -> None:
    with suppress(OSError):
        # Else whoever reads on after the error would wait for an answer to what was never sent.
        connection.sock.shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")


BREAKS: dict[str, tuple[set[str], Callable[[Any], None]]] = {
    "backend-ended": ({"sql"}, end_backend),
    "server-disk-full": ({"sql"}, fill_server),
    "disk-full": ({"file"}, fill_disk),
    "git-killed": ({"git-runs"}, kill_git),
    "git-group-killed": ({"git-runs"}, kill_git_and_helpers),
    "request-lost": ({"http"}, reset),
    "answer-lost": ({"http-sent"}, reset),
}
AT_GIT = {
    "backend-ended": ("first-push", "both-changed", "fill", "import", "forget-table", "export", "migrate", "lift"),
    "server-disk-full": ("first-push", "both-changed", "fill", "import", "migrate", "lift"),
    "disk-full": ("first-push", "both-changed", "fill", "export", "forget-table"),
    "git-killed": ("first-push", "both-changed", "fill", "forget-table"),
    "git-group-killed": ("first-push", "both-changed"),
}
AT_GITHUB = {
    "request-lost": ("first-push", "both-changed", "fill"),
    "answer-lost": ("first-push", "both-changed", "forget-table"),
    "disk-full": ("both-changed",),
}
CASES = [
    (place, scenario, broken)
    for place, breaks in (("git", AT_GIT), ("github", AT_GITHUB))
    for broken, scenarios in breaks.items()
    for scenario in scenarios
]


@pytest.mark.parametrize(("branch", "case", "broken"), CASES, indirect=["branch", "case"])
@pytest.mark.usefixtures("no_waiting")
def test_a_break_at_any_step_is_one_clear_error(case: Case, broken: str, request: pytest.FixtureRequest) -> None:
    """The command succeeds or raises a VibeyError without a secret; nothing is lost; the next run completes it."""
    kinds, action = BREAKS[broken]

    def work(at: int) -> object:
        with watching(Steps(frozenset(kinds), at, action)):
            return case.work()

    steps = [step for step in case.steps if step.split()[0] in kinds]
    assert steps
    for at in sampled(steps, request.node.name):
        case.saved.restore()
        what = f"{broken} at {at}, {steps[at - 1]}"
        ended = forked.run(partial(work, at))
        assert ended.error != "traceback", f"{what}: {ended.message}"
        said = f"{ended.message} {case.machine.said}"
        assert PLANTED not in said
        assert case.machine.env["VIBEY_STATE_KEY"] not in said
        case.machine.settle()
        case.check_whole(what)
        case.check_completed(what)
