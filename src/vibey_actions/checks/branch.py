"""The branch: its head, whether the key opens it, its size against the limits, how it grows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vibey_actions.checks.facts import Facts
from vibey_actions.checks.finding import Finding, note, ok, problem, unknown
from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.github import LARGEST_BLOB, RISKY_BLOB
from vibey_actions.remotes.words import megabytes
from vibey_actions.text import counted

LARGE_BRANCH: Final = 1_000_000_000
"""What GitHub advises a whole repository to stay under."""
_SMALL: Final = 100_000
_SMALLER: Final = "exclude tables that need not be kept, or use a git remote without that limit (VIBEY_STATE_REMOTE)"


def branch(facts: Facts) -> Iterator[Finding]:
    """Whether there is a branch, and which commit is its head."""
    head, name = facts.head(), facts.remote().name
    if head is None:
        yield ok("branch", f"there is no {name} yet; the first `vibey-actions state sync` makes it")
    else:
        yield ok("branch", f"{name} is at {head}")


def opens(facts: Facts) -> Iterator[Finding]:
    """Whether the key that was found opens what the branch holds."""
    if facts.head() is None:
        return
    head = facts.opened()
    if head is not None:
        yield ok("sealed", "the key opens what the branch holds")


def limits(facts: Facts) -> Iterator[Finding]:
    """The sealed file against what GitHub takes, and what the branch has grown to."""
    head = facts.sealed()
    if head is None:
        return
    text = f"the sealed file is {_size(head.size)}"
    if not facts.on_github:
        yield ok("size", text)
        return
    limit = f"{megabytes(LARGEST_BLOB)} is the most that GitHub takes"
    if head.size > LARGEST_BLOB:
        yield problem("size", f"{text}, {limit}", _SMALLER)
    elif head.size > RISKY_BLOB:
        yield note("size", f"{text}: above {megabytes(RISKY_BLOB)} GitHub is reported to fail, and {limit}", _SMALLER)
    else:
        yield ok("size", f"{text}; {limit}")
    yield _growth(facts, head.commit, head.size)


def _size(size: int) -> str:
    return megabytes(size) if size >= _SMALL else f"{size} bytes"


def _growth(facts: Facts, commit: str, size: int) -> Finding:
    try:
        commits = facts.inspection().commits(commit)
    except RemoteFailed as error:
        return unknown("growth", f"how many commits the branch has is not known: {error.message}", error.hint)
    grown = commits * size
    text = f"{counted(commits, 'commit')} of about that size: {_size(grown)} on the branch"
    if grown <= LARGE_BRANCH:
        return ok("growth", text)
    return note(
        "growth",
        f"{text}, and GitHub advises repositories to stay under {megabytes(LARGE_BRANCH)}",
        "sync less often; or, when every machine is in sync, delete the branch, run `vibey-actions state forget` on "
        "each and sync anew, which drops the history",
    )
