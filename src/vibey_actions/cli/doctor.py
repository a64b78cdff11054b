"""``doctor``: everything a sync needs, checked before it is needed."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

import typer

from vibey_actions.cli import console, session
from vibey_actions.cli.options import Json
from vibey_actions.text import counted

if TYPE_CHECKING:
    from vibey_actions.checks.finding import Finding


def doctor(*, as_json: Json = False) -> None:
    """Check all that a sync needs, and say what cures each finding. Writes nothing.

    It ends with 1 where a finding stops a sync, with 2 where that is a setting.
    """
    from vibey_actions.checks.doctor import examine
    from vibey_actions.checks.facts import Facts

    with Facts(os.environ, session.working_folder()) as facts:
        say_findings(examine(facts), "a sync", as_json=as_json)


def say_findings(found: Iterable[Finding], what: str, *, as_json: bool) -> None:
    """Each finding as it is found, and whether any stops ``what``. Raises typer.Exit where one does."""
    from vibey_actions.checks.doctor import exit_code

    findings = []
    for finding in found:
        findings.append(finding)
        if not as_json:
            _say_finding(finding)
    if as_json:
        console.json_line({"findings": [_as_object(finding) for finding in findings]})
    else:
        _say_sum(findings, what)
    if code := exit_code(findings):
        raise typer.Exit(code)


def _say_finding(finding: Finding) -> None:
    """One finding, and what cures it."""
    console.out(f"{finding.level.value:8} {finding.check}: {finding.text}")
    if finding.cure:
        console.out(f"{'':8} -> {finding.cure}")


def _say_sum(findings: list[Finding], what: str) -> None:
    """How many findings stop ``what``, and how many checks could not be made."""
    counts = {
        level: sum(finding.level.value == level for finding in findings) for level in ("problem", "unknown", "note")
    }
    console.out()
    if counts["problem"]:
        console.out(f"{counted(counts['problem'], 'finding')} {'stops' if counts['problem'] == 1 else 'stop'} {what}")
    else:
        console.out(f"nothing that was checked stops {what}")
    if counts["unknown"]:
        console.out(f"{counted(counts['unknown'], 'check')} could not be made")


def _as_object(finding: Finding) -> dict[str, str]:
    """A finding as ``--json`` gives it."""
    return {"check": finding.check, "level": finding.level.value, "text": finding.text, "cure": finding.cure}
