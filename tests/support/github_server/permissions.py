"""What a workflow's token may do: the rights that its job's ``permissions`` give it, in one repository.

Source: GitHub's REST documentation, "Permissions required for GitHub Apps". What is not listed needs contents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_FREE = re.compile("|/rules/branches/.+|/rulesets.*")
_ACTIONS = re.compile("/actions/.+")


@dataclass(frozen=True)
class JobToken:
    """A token of one job: ``permissions`` maps a scope to ``read`` or ``write``."""

    repository: str
    permissions: Mapping[str, str] = field(default_factory=dict)

    def may(self, method: str, rest: str, *, public: bool) -> bool:
        """Whether a request for ``rest`` (what follows ``/repos/OWNER/NAME``) is allowed."""
        if method == "GET" and (public or _FREE.fullmatch(rest)):
            return True
        level = self.permissions.get("actions" if _ACTIONS.fullmatch(rest) else "contents")
        return level == "write" or (level == "read" and method == "GET")
