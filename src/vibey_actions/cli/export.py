"""``state export``: this database, sealed, in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vibey_actions.cli import console, session
from vibey_actions.cli.options import Json
from vibey_actions.text import counted


def export(
    *,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the sealed export goes.")],
    as_json: Json = False,
) -> None:
    """Write every row of this database to a sealed file, with the commit it last agreed with."""
    with session.working() as operations:
        done = operations.export(out)
    if as_json:
        tables = dict(sorted(done.tables.items()))
        value = {"path": str(done.path), "rows": done.rows, "base": done.base, "remote": done.remote, "tables": tables}
        console.json_line(value)
        return
    for table, rows in sorted(done.tables.items()):
        console.out(f"{table}: {counted(rows, 'row')}")
    base = f"based on {done.base}" if done.base else "never synced"
    console.out(f"exported {counted(done.rows, 'row')} of {done.remote}, {base}, to {done.path}")
