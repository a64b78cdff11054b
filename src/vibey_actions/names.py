"""Names that settings give, checked before anything uses them: repositories, branches, files on the branch, commits.

Source of the rules: docs/settings.md; git-check-ref-format(1) for branches.
"""

from __future__ import annotations

import re
from typing import Final, TypeGuard

from vibey_actions.errors import SettingError
from vibey_actions.text import shown

DEFAULT_BRANCH: Final = "vibey-state"
DEFAULT_PATH: Final = "state.vibey"

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,99}/[A-Za-z0-9._-]{1,100}")
_BRANCH_FORBIDDEN: Final = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LONGEST_BRANCH: Final = 244
"""GitHub and loose refs keep 255 bytes of ``refs/heads/NAME``."""
_LONGEST_PATH: Final = 1000
_LONGEST_PART: Final = 255


def parse_repository(text: str, setting: str = "VIBEY_STATE_REPOSITORY") -> str:
    """``text`` as OWNER/NAME, white space around it ignored.

    Raises SettingError, naming ``setting``, for anything else; it does not repeat the text, which may be a URL with a
    password.
    """
    name = text.strip()
    if not _REPOSITORY.fullmatch(name) or name.split("/")[1] in {".", ".."}:
        raise SettingError(
            f"{setting} has to be OWNER/NAME",
            "write only these two, without a host; a place by URL or path goes into VIBEY_STATE_REMOTE",
        )
    return name


def parse_branch(text: str, setting: str = "VIBEY_STATE_BRANCH") -> str:
    """``text`` as the name of a branch (without refs/heads/). Raises SettingError where git would refuse it."""
    problem = _branch_problem(text)
    if problem:
        raise SettingError(
            f"{setting} is {shown(text, 120) or 'empty'}, which cannot be a branch's name: it {problem}",
            f"use letters, digits, - and /, for example {DEFAULT_BRANCH}",
        )
    return text


def _branch_problem(name: str) -> str:
    parts = name.split("/")
    checks = (
        (not name, "has no character"),
        (len(name.encode("utf-8", "replace")) > _LONGEST_BRANCH, f"is longer than {_LONGEST_BRANCH} bytes"),
        (name in {"@", "HEAD"}, "has a meaning of its own in git"),
        (name.startswith("refs/"), "is a full reference, write it without refs/heads/"),
        (name.startswith("-"), "starts with a dash"),
        (_BRANCH_FORBIDDEN.search(name) is not None, "holds characters that git does not allow"),
        (_SURROGATE.search(name) is not None, "is not UTF-8 text"),
        (name.endswith((".", "/")) or name.startswith("/"), "starts or ends with a slash or ends with a dot"),
        (any(part.startswith(".") or part.endswith(".lock") for part in parts), "has a part that git does not allow"),
    )
    return next((problem for wrong, problem in checks if wrong), "")


def parse_tree_path(text: str, setting: str = "VIBEY_STATE_PATH") -> str:
    """``text`` as a path inside the branch's tree. Raises SettingError where no tree can hold it."""
    unusable = (
        len(text) > _LONGEST_PATH
        or "\\" in text
        or _CONTROL.search(text)
        or _SURROGATE.search(text)
        or any(_bad_part(part) for part in text.split("/"))
    )
    if unusable:
        raise SettingError(
            f"{setting} is {shown(text, 120) or 'empty'}, which is no path of a file on the branch",
            f"write a plain relative path, for example {DEFAULT_PATH}",
        )
    return text


def _bad_part(part: str) -> bool:
    return part in {"", ".", ".."} or part.lower() == ".git" or len(part.encode()) > _LONGEST_PART


def is_commit(text: object) -> TypeGuard[str]:
    """Whether ``text`` is a commit as the watermark records it: 40 or 64 lower-case hex digits."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None
