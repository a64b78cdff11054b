"""``state import``: a sealed export into a fresh database."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vibey_actions.cli import console, session
from vibey_actions.cli.options import Json
from vibey_actions.text import counted


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A file that `state export` wrote.")],
    *,
    replace: Annotated[
        bool, typer.Option("--replace", help="Let the rows that migrations wrote give way to the export's.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Fill a database that was never synced from a sealed export, and take over its base."""
    with session.working() as operations:
        done = operations.import_(file, replace=replace)
    if as_json:
        console.json_line({"rows": done.rows, "base": done.base, "tables": dict(sorted(done.tables.items()))})
        return
    for table, rows in sorted(done.tables.items()):
        console.out(f"{table}: {counted(rows, 'row')}")
    base = f"this database's base is now {done.base}" if done.base else "the export had no base"
    console.out(f"imported {counted(done.rows, 'row')}; {base}")
