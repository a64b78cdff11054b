"""What a GitHub repository says of itself and of the one who asks. Nothing here changes anything.

Whether a token may write is shown by no answer of the API for every kind of token. So it is asked with a request that
cannot be carried out: GitHub refuses a reference without a name as invalid (422) to who may make one, and as forbidden
(403, 404) to who may not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

from vibey_actions.errors import VibeyError
from vibey_actions.remotes.answers import items, member
from vibey_actions.remotes.githubwords import explained
from vibey_actions.remotes.http import Answer, Api, Refused, json_body

_LAST_PAGE = re.compile(r'[?&]page=([0-9]+)[^<>]*>; rel="last"')
_MOST = 100


@dataclass(frozen=True, slots=True)
class RepositoryFacts:
    """``skew`` is how many seconds GitHub's clock is ahead of ours, None where it was not told."""

    name: str
    private: bool
    default_branch: str
    size: int
    skew: float | None


@dataclass(frozen=True, slots=True)
class MayWrite:
    """``answer`` None: it cannot be known from ``words``, which are GitHub's own."""

    answer: bool | None
    words: str


@dataclass(frozen=True, slots=True)
class BranchRule:
    """A rule of a ruleset that applies to the branch. ``bypass``: whether who asks may go past it, None: not told."""

    kind: str
    source: str
    bypass: bool | None


class Inspection:
    """Questions about the repository OWNER/NAME, each of them asked through ``api``; ``clock`` is ours."""

    def __init__(self, repository: str, api: Api, clock: Callable[[], float]) -> None:
        self.name = repository
        self._api = api
        self._clock = clock

    @property
    def has_token(self) -> bool:
        return self._api.has_token

    def repository(self) -> RepositoryFacts:
        """What the repository is. Raises RemoteDenied or RemoteFailed where it cannot be read."""
        answer = self._ask("read", "")
        data = answer.data
        return RepositoryFacts(
            member(data, "full_name", str),
            member(data, "private", bool),
            member(data, "default_branch", str),
            member(data, "size", int) * 1024,
            self._skew(answer.headers),
        )

    def _skew(self, headers: Mapping[str, str]) -> float | None:
        try:
            return parsedate_to_datetime(headers.get("Date", "")).timestamp() - self._clock()
        except ValueError:
            return None

    def may_write(self) -> MayWrite:
        """Whether the token may write contents; no reference is made, as none is named."""
        try:
            self._api.send("POST", self._path("git/refs"), json_body({}), again=False)
        except Refused as refused:
            known = {422: True, 401: False, 403: False, 404: False}
            empty = refused.status == 409 and "empty" in refused.words.lower()  # noqa: PLR2004
            return MayWrite(True if empty else known.get(refused.status), f"{refused.status}: {refused.words}")
        return MayWrite(None, "GitHub took a request that cannot be carried out")

    def rules(self, branch: str) -> list[BranchRule]:
        """The active rules of all rulesets for ``branch``, which need not exist."""
        path = f"rules/branches/{quote(branch, safe='')}"
        listed = items(self._ask("read the rules of", path, {"per_page": _MOST}).data)
        bypasses: dict[int, bool | None] = {}
        found = []
        for one in listed:
            ruleset = one.get("ruleset_id")
            if isinstance(ruleset, int) and ruleset not in bypasses:
                bypasses[ruleset] = self._bypass(ruleset)
            source = f"{one.get('ruleset_source_type', 'a')} ruleset {ruleset} of {one.get('ruleset_source', '?')}"
            found.append(BranchRule(member(one, "type", str), source, bypasses.get(ruleset)))
        return found

    def _bypass(self, ruleset: int) -> bool | None:
        try:
            told = self._api.get(self._path(f"rulesets/{ruleset}")).data.get("current_user_can_bypass")
        except Refused:
            return None
        return told in {"always", "exempt"} if isinstance(told, str) else None

    def protection(self, branch: str) -> tuple[bool, list[str] | None]:
        """Whether a classic protection covers ``branch``, and what of it stops a push (None: not told)."""
        try:
            data = self._api.get(self._path(f"branches/{quote(branch, safe='')}")).data
        except Refused as refused:
            if refused.status == 404:  # noqa: PLR2004
                return False, []
            raise self._error("read the branch of", refused) from None
        if not isinstance(data, dict) or not data.get("protected"):
            return False, []
        try:
            told = self._api.get(self._path(f"branches/{quote(branch, safe='')}/protection")).data
        except Refused:
            return True, None
        return True, _stopping(told)

    def commits(self, head: str) -> int:
        """How many commits the branch at ``head`` has."""
        answer = self._ask("list the commits of", "commits", {"sha": head, "per_page": 1})
        last = _LAST_PAGE.search(answer.headers.get("Link", ""))
        return int(last[1]) if last else len(items(answer.data))

    def workflows(self) -> dict[str, str]:
        """By path, the state of each workflow: ``active``, ``disabled_inactivity``, ``disabled_manually``."""
        data = self._ask("list the workflows of", "actions/workflows", {"per_page": _MOST}).data
        listed = items(member(data, "workflows", list))
        return {member(one, "path", str): member(one, "state", str) for one in listed}

    def has_secret(self, name: str) -> bool:
        """Whether the repository has the secret ``name``. Raises RemoteDenied for who may not ask."""
        try:
            self._api.get(self._path(f"actions/secrets/{name}"))
        except Refused as refused:
            if refused.status == 404:  # noqa: PLR2004
                return False
            raise self._error("ask for the names of secrets of", refused) from None
        return True

    def _ask(self, operation: str, path: str, params: Mapping[str, str | int] | None = None) -> Answer:
        try:
            return self._api.get(self._path(path), params)
        except Refused as refused:
            raise self._error(operation, refused) from None

    def _error(self, operation: str, refused: Refused) -> VibeyError:
        return explained(operation, self.name, refused, has_token=self._api.has_token)

    def _path(self, path: str) -> str:
        return f"repos/{self.name}/{path}".rstrip("/")


def _stopping(protection: Any) -> list[str]:
    """The parts of a classic protection that refuse a push."""
    if not isinstance(protection, dict):
        return []
    parts = ("required_pull_request_reviews", "required_status_checks", "restrictions")
    switches = ("lock_branch", "required_signatures")
    found = [part for part in parts if protection.get(part)]
    return found + [
        switch for switch in switches if isinstance(protection.get(switch), dict) and protection[switch].get("enabled")
    ]
