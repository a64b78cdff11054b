"""``docs doctor``: everything a tick needs, checked before it is needed."""

from __future__ import annotations

import os

import typer

from vibey_actions.cli import console, session
from vibey_actions.cli.doctor import finding_object, say_finding, say_sum
from vibey_actions.cli.options import Json


def doctor(*, as_json: Json = False) -> None:
    """Check all that a tick needs, and say what cures each finding. Writes nothing.

    It ends with 1 where a finding stops a tick, with 2 where that is a setting.
    """
    from vibey_actions.checks.doctor import exit_code
    from vibey_actions.checks.lanes import examine

    findings = []
    for finding in examine(os.environ, session.working_folder()):
        findings.append(finding)
        if not as_json:
            say_finding(finding)
    if as_json:
        console.json_line({"findings": [finding_object(finding) for finding in findings]})
    else:
        say_sum(findings, "a tick")
    if code := exit_code(findings):
        raise typer.Exit(code)
