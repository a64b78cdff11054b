"""Reading GitHub's JSON: every member is there and of its kind, or the answer is refused by name."""

from __future__ import annotations

from typing import Any

from vibey_actions.errors import RemoteFailed
from vibey_actions.names import is_commit
from vibey_actions.text import shown


def member(data: Any, name: str, kind: type) -> Any:
    """``data[name]``, which has to be of ``kind``. Raises RemoteFailed where GitHub answered something else."""
    value = data.get(name) if isinstance(data, dict) else None
    if not isinstance(value, kind):
        raise RemoteFailed(f"GitHub's answer has no {name} of the expected form", "check GITHUB_API_URL")
    return value


def items(data: Any) -> list[Any]:
    """``data`` as a list. Raises RemoteFailed where it is none."""
    if not isinstance(data, list):
        raise RemoteFailed("GitHub answered no list where one is expected", "check GITHUB_API_URL")
    return data


def object_name(name: str) -> str:
    """``name`` as the name of a git object. Raises RemoteFailed where it is none."""
    if not is_commit(name):
        raise RemoteFailed(f"GitHub names an object {shown(name, 80)!r}, which is no name of one", "run again")
    return name


def wrong_answer(what: str) -> RemoteFailed:
    """The error for an answer that is not about what was asked."""
    return RemoteFailed(f"GitHub answered something else than {what}; nothing was moved", "run again")
