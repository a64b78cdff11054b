"""Runners that share a sealed branch."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.ends import Ends
from tests.support.lanes import JOB
from tests.support.runners import Runner
from vibey_actions.documents.machine import Machine
from vibey_actions.postgres.documents import DocumentTable


@pytest.fixture
def runner(ends: Ends) -> Iterator[Callable[..., Runner]]:
    """A factory of runners that share one branch."""
    made: list[Runner] = []

    def make(machine: Machine = JOB) -> Runner:
        end = ends.make(settings={"VIBEY_STATE_ATTEMPTS": "50"})
        made.append(Runner(end, DocumentTable(end.dsn), machine))
        return made[-1]

    yield make
    for one in made:
        one.table.close()
