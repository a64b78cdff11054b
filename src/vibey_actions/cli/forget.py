"""``state forget`` and ``state forget-table``: what is given up on purpose."""

from __future__ import annotations

from typing import Annotated

import typer

from vibey_actions.cli import console, report, session


def forget() -> None:
    """Forget the commit this database last agreed with; the next sync merges both ends as a first one would."""
    with session.working() as operations:
        commit = operations.forget()
    if commit is None:
        console.out("nothing to forget: no commit is recorded")
    else:
        console.out(f"forgot {commit}: the next sync merges both ends as a first one would")


def forget_table(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A table that the branch holds.")],
) -> None:
    """Take a table that this database no longer syncs off the branch, with all its rows."""
    with session.working() as operations:
        result = operations.forget_table(name)
    report.notes(result)
    report.done(result)
