"""The record of ticks: that one ran, and what it found due. Never on the documents, and never synced.

In PostgreSQL it is a table; for a vibe the runs of the workflow that ticks are the record, read over GitHub's API.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol

from vibey_actions.documents.model import time_ms
from vibey_actions.documents.report import Due
from vibey_actions.documents.status import LastTick
from vibey_actions.errors import VibeyError
from vibey_actions.names import parse_repository
from vibey_actions.text import shown

WORKFLOW: Final = "advance-docs.yml"
_RUNS: Final = 30
_TICKED: Final = ("success", "failure")


class Ticks(Protocol):
    """What keeps the record. Raises VibeyError where it cannot be kept."""

    def began(self, due: Due) -> int:
        """Keep that a machine's tick began and what it found; returns its number."""
        ...

    def ended(self, number: int, did: str) -> None:
        """Keep what the tick did."""
        ...

    def last(self) -> LastTick:
        """The last tick, as far as that is known: what cannot be read is said there."""
        ...


class TableTicks:
    """The table of ticks beside the documents of the database ``dsn``."""

    def __init__(self, dsn: str, notice: Callable[[str], None] = lambda _: None) -> None:
        from vibey_actions.postgres.ticks import TickTable

        self._table = TickTable(dsn, notice)

    def began(self, due: Due) -> int:
        return self._table.began(due.machine, str(due))

    def ended(self, number: int, did: str) -> None:
        self._table.ended(number, did)

    def last(self) -> LastTick:
        try:
            tick = self._table.last()
        except VibeyError as error:
            return LastTick(unknown=error.message)
        if tick is None:
            return LastTick()
        return LastTick(tick.began_ms, shown(tick.did if tick.did is not None else f"{tick.due}; it did not end"))


class WorkflowRuns:
    """The runs of the workflow ``advance-docs.yml`` in the repository of this run, else of the checkout ``folder``."""

    def __init__(self, env: Mapping[str, str], folder: Path) -> None:
        self._env = env
        self._folder = folder

    def began(self, due: Due) -> int:  # noqa: ARG002
        """Nothing: the run itself is the record."""
        return 0

    def ended(self, number: int, did: str) -> None:
        """Nothing either."""

    def last(self) -> LastTick:
        try:
            return self._last()
        except VibeyError as error:
            return LastTick(unknown=error.message)

    def _last(self) -> LastTick:
        from vibey_actions.remotes.http import Api, Refused
        from vibey_actions.remotes.open import DEFAULT_API, find_token, parse_api_url
        from vibey_actions.remotes.origin import discover_repository

        root = parse_api_url(self._env.get("GITHUB_API_URL", "") or DEFAULT_API)
        own = self._env.get("GITHUB_REPOSITORY", "").strip()
        repository = (
            parse_repository(own, "GITHUB_REPOSITORY") if own else discover_repository(self._folder, root, self._env)
        )
        api = Api(root, find_token(self._env, root), notice=lambda _: None, wait_cap=0)
        try:
            path = f"repos/{repository}/actions/workflows/{WORKFLOW}/runs"
            answer = api.get(path, {"per_page": _RUNS, "status": "completed"}).data
        except Refused as refused:
            missing = refused.status == 404  # noqa: PLR2004
            return LastTick(unknown=f"{repository} shows no workflow {WORKFLOW}" if missing else shown(refused.words))
        return _newest(answer)


def _started(run: Mapping[str, object]) -> object:
    """When this attempt of a run began; an older server says only when the run was made."""
    return run.get("run_started_at") or run.get("created_at")


def _newest(answer: object) -> LastTick:
    """The newest run that came to an end of its own; one that was cancelled or skipped may have walked nothing."""
    listed = answer.get("workflow_runs") if isinstance(answer, dict) else None
    runs = [run for run in listed or () if isinstance(run, dict) and run.get("conclusion") in _TICKED]
    times = [(moment, run) for run in runs if (moment := time_ms(_started(run))) is not None]
    if not times:
        return LastTick()
    moment, run = max(times, key=lambda one: one[0])
    return LastTick(moment, f"run {shown(str(run.get('id')), 20)} ended with {run['conclusion']}")
