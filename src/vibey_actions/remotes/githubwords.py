"""What a refusal of GitHub means and what mends it. Each answer that people meet has its own message here."""

from __future__ import annotations

from vibey_actions.errors import RemoteDenied, RemoteFailed, TooLarge, VibeyError
from vibey_actions.remotes.http import Refused

_RULES = ("gh013", "rule violation", "protected ref", "protected branch", "ruleset")


def is_permanent(refused: Refused) -> bool:
    """Whether a rule on the branch refused the move: reading the branch again will not change that."""
    lower = refused.words.lower()
    return any(rule in lower for rule in _RULES)


def is_lost_race(refused: Refused) -> bool:
    """Whether the server itself said that the reference is there already."""
    return "already exists" in refused.words.lower()


def explained(operation: str, repository: str, refused: Refused, *, has_token: bool, new_name: str = "") -> VibeyError:
    """The error for ``refused``, which met ``operation`` (``read``, ``upload the state to``) on ``repository``.

    ``new_name`` is where a redirect leads.
    """
    words, lower, status = refused.words or "no reason given", refused.words.lower(), refused.status
    said = f"cannot {operation} {repository}: GitHub answered {status}: {words}"
    if status in {301, 302, 307, 308}:
        renamed = f"cannot {operation} {repository}: it has been renamed or moved"
        return RemoteFailed(
            f"{renamed} to {new_name}" if new_name else renamed,
            f"set VIBEY_STATE_REPOSITORY to {new_name or 'its new name'}",
        )
    if status == 401:  # noqa: PLR2004
        return RemoteDenied(
            f"cannot {operation} {repository}: the token is wrong or has expired (401: {words})",
            "nothing is lost: set GH_TOKEN (or GITHUB_TOKEN) to a valid token and run again",
        )
    if status == 409 and "empty" in lower:  # noqa: PLR2004
        return RemoteFailed(
            f"the repository {repository} is empty, and GitHub takes no state branch before a first commit",
            "make a first commit on its default branch (a README does), then run again",
        )
    if is_permanent(refused):
        return RemoteDenied(
            f"{said} (a branch protection or ruleset)", "exclude the state branch from the rule, then run again"
        )
    if status == 413 or "too large" in lower or "too_large" in lower:  # noqa: PLR2004
        return TooLarge(said, "exclude tables that need not be kept, or use a git remote (VIBEY_STATE_REMOTE)")
    return _no_access(said, operation, repository, refused, has_token=has_token)


def _no_access(said: str, operation: str, repository: str, refused: Refused, *, has_token: bool) -> VibeyError:
    lower = refused.words.lower()
    if refused.status == 403:  # noqa: PLR2004
        if "resource not accessible" in lower or "must have" in lower or "permission" in lower:
            return RemoteDenied(
                said, "the token may not do this: give the job `permissions: contents: write` (forks never have it)"
            )
        return RemoteDenied(said, "check what the token may do in this repository")
    if refused.status == 404:  # noqa: PLR2004
        return RemoteDenied(
            f"cannot {operation} {repository}: it is not there, or "
            f"{'the token may not see or write it' if has_token else 'it needs a token'} (404: {refused.words})",
            "check VIBEY_STATE_REPOSITORY, and that the token has `contents` access to it"
            if has_token
            else "check VIBEY_STATE_REPOSITORY, or set GH_TOKEN",
        )
    if refused.status in {409, 422}:
        return RemoteDenied(said, "GitHub refuses this for good: see its reason")
    return RemoteFailed(said, "run again")
