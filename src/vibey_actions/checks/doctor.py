"""Every check, in the order in which a person would go; one that fails keeps none of the others from running."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from vibey_actions.checks import branch, database, github, local, workflows
from vibey_actions.checks.facts import Facts, NotKnown
from vibey_actions.checks.finding import Finding, Level, problem, unknown
from vibey_actions.errors import VibeyError

Check = Callable[[Facts], Iterator[Finding]]

CHECKS: Final[tuple[tuple[str, Check], ...]] = (
    ("python", local.python),
    ("settings", local.settings),
    ("configuration", local.configuration),
    ("key", local.key),
    ("repository", github.repository),
    ("token", github.token),
    ("branch", branch.branch),
    ("rules", github.rules),
    ("clock", github.clock),
    ("sealed", branch.opens),
    ("size", branch.limits),
    ("database", database.database),
    ("pooler", database.pooler),
    ("tables", database.tables),
    ("migrations", database.migrations),
    ("watermark", database.watermark),
    ("workflows", workflows.workflows),
)


def examine(facts: Facts) -> Iterator[Finding]:
    """What every check finds, as it is found."""
    for name, check in CHECKS:
        try:
            yield from check(facts)
        except NotKnown as missing:
            yield unknown(name, f"not checked: {missing}")
        except VibeyError as error:
            yield problem(name, error.message, error.hint, error.exit_code)


def exit_code(findings: list[Finding]) -> int:
    """0 where nothing stops a sync; 2 where a setting cannot be used, else 1."""
    return max((finding.exit_code for finding in findings if finding.level is Level.PROBLEM), default=0)
