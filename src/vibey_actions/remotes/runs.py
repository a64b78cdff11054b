"""Workflow runs of a GitHub repository: one is dispatched, found again, followed to its end, and its log read.

Source: docs.github.com, "REST API endpoints for workflow runs". A dispatch answers nothing, so what is dispatched
carries a random text that the workflow puts into the run's title.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from vibey_actions.errors import RemoteDenied, RemoteFailed, RunUnfinished, SettingError, VibeyError
from vibey_actions.names import parse_repository
from vibey_actions.remotes.answers import items, member
from vibey_actions.remotes.githubwords import explained
from vibey_actions.remotes.http import Answer, Api, Refused, json_body
from vibey_actions.remotes.network import AnswerLost
from vibey_actions.remotes.open import DEFAULT_API, find_token, parse_api_url
from vibey_actions.remotes.origin import discover_repository
from vibey_actions.remotes.words import Notice

LISTED_WITHIN: Final = 120.0
"""Seconds within which GitHub lists a run that was dispatched; it usually takes a few."""
LARGEST_TAIL: Final = 1 << 20

_WAIT_CAP: Final = 300.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 10.0
_PAGE: Final = 100
_LARGE_LOG: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class Job:
    """One job of a run: ``conclusion`` is empty until it has ended."""

    number: int
    name: str
    status: str
    conclusion: str


@dataclass(frozen=True, slots=True)
class Run:
    """One run: ``page`` is its address for a person, ``conclusion`` empty until it has ended."""

    number: int
    title: str
    status: str
    conclusion: str
    page: str

    @property
    def ended(self) -> bool:
        return self.status == "completed"


def open_runs(env: Mapping[str, str], repository: str, folder: Path, notice: Notice) -> Runs:
    """The runs of ``repository``, or of the one that the checkout at ``folder`` is of. Raises SettingError."""
    api_url = parse_api_url(env.get("GITHUB_API_URL", "") or DEFAULT_API)
    name = parse_repository(repository, "--repository") if repository else _of_checkout(folder, api_url, env)
    return Runs(Api(api_url, find_token(env, api_url), notice=notice, wait_cap=_WAIT_CAP), name)


def _of_checkout(folder: Path, api_url: str, env: Mapping[str, str]) -> str:
    """The workflow is the checkout's: the settings say where the state is, which may be another repository."""
    try:
        return discover_repository(folder, api_url, env)
    except SettingError as error:
        raise SettingError(error.message, "name the repository with the workflow: --repository OWNER/NAME") from error


class Runs:
    """The runs of ``repository``, asked of ``api``."""

    def __init__(self, api: Api, repository: str, sleep: Callable[[float], None] = time.sleep) -> None:
        self.repository = repository
        self._api = api
        self._sleep = sleep

    def default_branch(self) -> str:
        """The branch that is meant where none is named."""
        return str(member(self._get("", "read").data, "default_branch", str))

    def dispatch(self, workflow: str, ref: str, inputs: Mapping[str, str]) -> None:
        """Start the workflow file ``workflow`` on ``ref``.

        Raises RemoteDenied or RemoteFailed where GitHub refuses, AnswerLost where it may have started.
        """
        self._api.begin()
        path = self._path(f"actions/workflows/{quote(workflow, safe='')}/dispatches")
        try:
            self._api.send("POST", path, json_body({"ref": ref, "inputs": dict(inputs)}), again=False)
        except Refused as refused:
            raise self._not_dispatched(workflow, ref, refused) from None

    def _not_dispatched(self, workflow: str, ref: str, refused: Refused) -> VibeyError:
        said = f"{workflow} of {self.repository} cannot be dispatched on {ref}: GitHub answered {refused.status}"
        if refused.status in {403, 404}:
            return RemoteDenied(
                f"{said}: {refused.words}",
                f"the default branch needs .github/workflows/{workflow} (copy it from workflows-templates/remote.yml), "
                "and the token `actions: write`",
            )
        if refused.status == 422:  # noqa: PLR2004
            return RemoteFailed(
                f"{said}: {refused.words}", "the workflow has to be dispatched with the inputs command and request"
            )
        return explained("dispatch a run of", self.repository, refused, has_token=self._api.has_token)

    def find(self, workflow: str, request: str) -> Run:
        """The dispatched run whose title holds ``request``. Raises RunUnfinished where GitHub does not list it."""
        path = f"actions/workflows/{quote(workflow, safe='')}/runs"
        waited, pause = 0.0, _FIRST_PAUSE
        while True:
            data = self._get(path, "list the runs of", {"event": "workflow_dispatch", "per_page": _PAGE}).data
            found = [_run(one) for one in items(member(data, "workflow_runs", list))]
            for run in found:
                if request in run.title:
                    return run
            if waited >= LISTED_WITHIN:
                raise RunUnfinished(
                    f"GitHub lists no run of {workflow} whose title holds {request} after {waited:.0f} seconds",
                    "look at the repository's Actions page before you dispatch it again; its run-name has to hold "
                    "${{ inputs.request }}",
                )
            self._sleep(pause)
            waited += pause
            pause = min(2 * pause, _LONGEST_PAUSE)

    def follow(self, run: Run, seconds: float, say: Callable[[str], None]) -> tuple[Run, list[Job]]:
        """Wait until ``run`` has ended, saying every change; the run as it ended, and its jobs.

        Raises RunUnfinished where it has not after ``seconds``. An answer that is lost on the way is asked for again.
        """
        waited, pause = 0.0, _FIRST_PAUSE
        said: dict[str, str] = {}
        while True:
            run, jobs = self._look(run, say)
            for what, state in ((f"run {run.number}", run.status), *((one.name, _state(one)) for one in jobs)):
                if said.get(what) != state:
                    said[what] = state
                    say(f"{what}: {state.replace('_', ' ')}")
            if run.ended:
                return run, jobs
            if waited >= seconds:
                raise RunUnfinished(
                    f"run {run.number} has not ended after {waited / 60:.0f} minutes", f"see {run.page}"
                )
            self._sleep(pause)
            waited += pause
            pause = min(1.5 * pause, _LONGEST_PAUSE)

    def _look(self, run: Run, say: Callable[[str], None]) -> tuple[Run, list[Job]]:
        try:
            found = _run(self._get(f"actions/runs/{run.number}", "read a run of").data)
            data = self._get(f"actions/runs/{run.number}/jobs", "read the jobs of a run of", {"per_page": _PAGE}).data
        except AnswerLost as error:
            say(f"note: {error.message}; asking again")
            return run, []
        return found, [_job(one) for one in items(member(data, "jobs", list))]

    def log(self, job: Job) -> str:
        """The end of a job's log; nothing where it is not there (any more)."""
        kept = bytearray()
        try:
            with self._api.stream(self._path(f"actions/jobs/{job.number}/logs"), "text/plain", _LARGE_LOG) as (
                _,
                pieces,
            ):
                for piece in pieces:
                    kept += piece
                    del kept[:-LARGEST_TAIL]
        except (Refused, RemoteFailed):
            return ""
        return kept.decode("utf-8", "replace").removeprefix("\ufeff")

    def _get(self, path: str, operation: str, params: Mapping[str, str | int] | None = None) -> Answer:
        self._api.begin()
        try:
            return self._api.get(self._path(path), params)
        except Refused as refused:
            raise explained(operation, self.repository, refused, has_token=self._api.has_token) from None

    def _path(self, path: str) -> str:
        return f"repos/{self.repository}/{path}".rstrip("/")


def _state(job: Job) -> str:
    return job.conclusion or job.status


def _run(data: Any) -> Run:
    number, status = member(data, "id", int), member(data, "status", str)
    title, page = data.get("display_title"), data.get("html_url")
    return Run(number, str(title or ""), status, str(data.get("conclusion") or ""), str(page or ""))


def _job(data: Any) -> Job:
    name, status = member(data, "name", str), member(data, "status", str)
    return Job(member(data, "id", int), name, status, str(data.get("conclusion") or ""))
