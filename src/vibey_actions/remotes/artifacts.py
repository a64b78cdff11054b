"""The artifacts of a GitHub repository's workflow runs, over the REST API: listed, found, and downloaded bounded.

Source: docs.github.com, "REST API endpoints for GitHub Actions artifacts".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, Final

from vibey_actions.errors import ArtifactGone, ArtifactUnusable, RemoteDenied, VibeyError
from vibey_actions.remotes.answers import member
from vibey_actions.remotes.archives import LARGEST, NOT_OURS, copy, private_file
from vibey_actions.remotes.githubwords import explained
from vibey_actions.remotes.http import Answer, Api, Refused
from vibey_actions.remotes.network import AnswerLost
from vibey_actions.remotes.words import Notice, megabytes, silent

LONGEST_KEPT: Final = timedelta(days=90)
"""No repository keeps an artifact longer."""

_PAGE: Final = 100
_MOST_PAGES: Final = 100
_LOOKS: Final = 4
_LISTINGS: Final = 3


@dataclass(frozen=True, slots=True)
class Artifact:
    """One artifact, as GitHub describes it. ``own`` says that its run's code came from this repository, not a fork."""

    number: int
    name: str
    size: int
    expired: bool
    created: datetime
    run_id: str
    own: bool


class Artifacts:
    """The artifacts of ``repository``, asked of ``api``. ``notice`` gets lines a person should see."""

    def __init__(self, api: Api, repository: str, notice: Notice = silent) -> None:
        self._api = api
        self._notice = notice
        self._repository = repository

    def recent(self, now: datetime | None = None) -> Iterator[Artifact]:
        """Every artifact that may still be kept, newest first, expired ones too, each once; a page when it is due.

        Raises RemoteFailed (RemoteDenied) where they cannot be listed. Of very many the newest are looked through.
        """
        oldest = (now or datetime.now(UTC)) - LONGEST_KEPT
        yield from self._listed("actions/artifacts", {}, oldest)

    def of_run(self, run_id: str) -> list[Artifact]:
        """The artifacts of one run. Raises ArtifactGone where there is no such run."""
        return list(self._listed(f"actions/runs/{run_id}/artifacts", {}, None, missing=f"there is no run {run_id}"))

    def named(self, name: str, *, expected: bool = False) -> list[Artifact]:
        """The artifacts with exactly this name; one that is ``expected`` is looked for some times.

        What was uploaded a moment ago may not be listed yet.
        """
        for attempt in range(1, _LISTINGS + 1):
            found = [one for one in self._listed("actions/artifacts", {"name": name}, None) if one.name == name]
            if found or not expected or attempt == _LISTINGS:
                return found
            self._api.pause(attempt)
        raise AssertionError

    def _listed(
        self, path: str, params: Mapping[str, str | int], oldest: datetime | None, missing: str = ""
    ) -> Iterator[Artifact]:
        self._api.begin()
        seen: set[int] = set()
        for page in count(1):
            answer = self._get(path, {**params, "per_page": _PAGE, "page": page}, missing)
            found = [_artifact(one) for one in member(answer.data, "artifacts", list)]
            for one in found:
                # What is uploaded while pages are asked for moves others to the next page.
                if one.number not in seen:
                    seen.add(one.number)
                    yield one
            if len(found) < _PAGE or (oldest is not None and all(one.created < oldest for one in found)):
                return
            if page == _MOST_PAGES:
                self._notice(
                    f"{self._repository} has more artifacts than are looked through: none older than the newest "
                    f"{_MOST_PAGES * _PAGE} was; an older export is written by naming its run (run-id)"
                )
                return

    def _get(self, path: str, params: Mapping[str, str | int], missing: str) -> Answer:
        try:
            return self._api.get(f"repos/{self._repository}/{path}", params)
        except Refused as refused:
            if refused.status == 404 and missing:  # noqa: PLR2004
                raise ArtifactGone(f"{missing} in {self._repository}", "its address ends in its number") from None
            raise self._refused("list the artifacts of", refused) from None

    def download(self, artifact: Artifact, archive: Path) -> None:
        """Put the artifact's zip archive into the new file ``archive``, mode 0600.

        Raises ArtifactGone where it has expired or was deleted, ArtifactUnusable where it is larger than anything of
        ours, RemoteFailed where it does not come whole.
        """
        if artifact.expired:
            raise _gone(artifact, "has expired")
        if artifact.size > LARGEST:
            raise ArtifactUnusable(
                f"the artifact {artifact.name} has {megabytes(artifact.size)}, more than {megabytes(LARGEST)}",
                NOT_OURS,
            )
        self._api.begin()
        for attempt in range(1, _LOOKS + 1):
            try:
                with private_file(archive) as file:
                    self._stream(artifact, file)
                break
            except AnswerLost:
                if attempt == _LOOKS:
                    raise
                self._api.pause(attempt)

    def _stream(self, artifact: Artifact, file: BinaryIO) -> None:
        path = f"repos/{self._repository}/actions/artifacts/{artifact.number}/zip"
        try:
            with self._api.stream(path, "application/vnd.github+json", artifact.size) as (_, pieces):
                copy(pieces, file, f"the artifact {artifact.name}")
        except Refused as refused:
            if refused.status in {404, 410}:
                raise _gone(artifact, "has expired or was deleted") from None
            raise self._refused("download an artifact of", refused) from None

    def _refused(self, operation: str, refused: Refused) -> VibeyError:
        if refused.status in {403, 404}:
            return RemoteDenied(
                f"cannot {operation} {self._repository}: GitHub answered {refused.status}: {refused.words}",
                "give the job `permissions: actions: read`",
            )
        return explained(operation, self._repository, refused, has_token=self._api.has_token)


def _gone(artifact: Artifact, how: str) -> ArtifactGone:
    return ArtifactGone(
        f"the artifact {artifact.name} of run {artifact.run_id} {how}",
        "what it held was never written to the branch, and its database is gone: run that job again, and give exports "
        "more retention-days",
    )


def _artifact(data: Any) -> Artifact:
    run = member(data, "workflow_run", dict) if isinstance(data, dict) and data.get("workflow_run") else {}
    home, head = run.get("repository_id"), run.get("head_repository_id")
    return Artifact(
        number=member(data, "id", int),
        name=member(data, "name", str),
        size=max(0, member(data, "size_in_bytes", int)),
        expired=member(data, "expired", bool),
        created=_moment(data.get("created_at")),
        run_id=str(run.get("id", "")),
        own=isinstance(home, int) and home == head,
    )


def _moment(text: Any) -> datetime:
    """When an artifact was made; one that does not say is as new as can be, so that it is looked at."""
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
