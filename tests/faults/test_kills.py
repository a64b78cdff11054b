"""A process that is killed at any step of any command: both ends stay whole, and the next sync completes the work."""

from __future__ import annotations

import os
import signal
from functools import partial

import pytest

from tests.faults.cases import EVERYWHERE, Case, sampled
from tests.support import forked
from tests.support.steps import Steps, watching


@pytest.mark.parametrize(("branch", "case"), EVERYWHERE, indirect=True)
def test_a_kill_at_any_step_loses_nothing(case: Case, request: pytest.FixtureRequest) -> None:
    """Killed before each effect, both ends are the old or the new state, and the next run completes the work."""

    def killed(at: int) -> object:
        with watching(Steps(at=at, action=lambda _: os.kill(os.getpid(), signal.SIGKILL))):
            return case.work()

    for at in sampled(case.steps, request.node.name):
        case.saved.restore()
        what = f"killed at {at}, {case.steps[at - 1]}"
        ended = forked.run(partial(killed, at))
        assert ended.killed or ended.ok, f"{what}: {ended.message}"
        case.machine.settle()
        case.check_whole(what)
        case.check_completed(what)
