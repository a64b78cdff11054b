"""``state status``: what a sync would do."""

from __future__ import annotations

import typer

from vibey_actions.cli import console, report, session
from vibey_actions.cli.options import Json


def status(*, as_json: Json = False) -> None:
    """Say what a sync would pull and push, and every conflict; ends with 1 where there is one. Writes nothing."""
    with session.working() as operations:
        result = operations.status()
    report.notes(result)
    if as_json:
        console.json_line(report.as_object(result))
    else:
        report.would(result)
    if result.conflicts:
        raise typer.Exit(1)
