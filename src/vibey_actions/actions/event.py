"""What started this run, as far as the runner says it: the event's payload and the GITHUB_* variables.

Source: docs.github.com, "Events that trigger workflows" and "Variables reference". Nothing here is asked of GitHub.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from vibey_actions.errors import SettingError
from vibey_actions.names import parse_repository
from vibey_actions.text import shown

FOREIGN_CODE: Final = frozenset({"pull_request_target", "workflow_run", "issue_comment"})
"""Events that run with the repository's secrets although somebody outside may have caused them."""
UNSAID: Final = frozenset({"schedule"})
"""Events whose payload is not to be trusted about the repository."""

_LARGEST_PAYLOAD: Final = 32 << 20
_VISIBILITIES: Final = {"private": True, "internal": True, "public": False}
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Event:
    """One run's cause and identity.

    ``private`` is None where the payload does not say; an internal repository is not a public one.
    ``head_repository`` is where a pull request's code comes from, else ``repository``.
    """

    name: str
    repository: str
    sha: str
    ref: str = ""
    run_id: str = ""
    attempt: str = "1"
    job: str = ""
    private: bool | None = None
    head_repository: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Event:
        """The event of the run that ``env`` describes. Raises SettingError outside of one."""
        name, sha = env.get("GITHUB_EVENT_NAME", ""), env.get("GITHUB_SHA", "")
        if not name or not _COMMIT.fullmatch(sha):
            raise SettingError(
                f"GITHUB_EVENT_NAME is {shown(name, 40) or 'empty'} and GITHUB_SHA {shown(sha, 80) or 'empty'}: "
                "this is no step of a GitHub Actions run",
                "on your own machine use `vibey-actions state sync`",
            )
        repository = parse_repository(env.get("GITHUB_REPOSITORY", ""), "GITHUB_REPOSITORY")
        payload = _payload(env.get("GITHUB_EVENT_PATH", ""))
        return cls(
            name=name,
            repository=repository,
            sha=sha,
            ref=env.get("GITHUB_REF", ""),
            run_id=_number(env.get("GITHUB_RUN_ID", "")),
            attempt=_number(env.get("GITHUB_RUN_ATTEMPT", "")) or "1",
            job=env.get("GITHUB_JOB", ""),
            private=None if name in UNSAID else _private(payload, repository),
            head_repository=_head_repository(payload) or repository,
            payload=payload,
        )


def _payload(path: str) -> Mapping[str, Any]:
    """The event's payload, empty where there is none that can be read: then nothing is known of it."""
    try:
        with Path(path).open("rb") as file:
            data = json.loads(file.read(_LARGEST_PAYLOAD))
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}


def _private(payload: Mapping[str, Any], repository: str) -> bool | None:
    said = payload.get("repository")
    if not isinstance(said, dict) or str(said.get("full_name") or repository).lower() != repository.lower():
        return None
    return told_private(said)


def told_private(repository: Mapping[str, Any]) -> bool | None:
    """Whether what GitHub says of a repository makes it one that not everybody reads; None where it does not say.

    Two words that contradict each other say nothing.
    """
    private = repository.get("private")
    said = {private} if isinstance(private, bool) else set()
    said |= {_VISIBILITIES[word] for word in (repository.get("visibility"),) if word in _VISIBILITIES}
    return said.pop() if len(said) == 1 else None


def _head_repository(payload: Mapping[str, Any]) -> str:
    value: Any = payload
    for member in ("pull_request", "head", "repo", "full_name"):
        value = value.get(member) if isinstance(value, dict) else None
    return value if isinstance(value, str) else ""


def _number(text: str) -> str:
    return text if re.fullmatch(r"[0-9]{1,20}", text) else ""
