"""``state show``: what a sealed state holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vibey_actions.cli import console, session
from vibey_actions.cli.options import Json
from vibey_actions.errors import SettingError

if TYPE_CHECKING:
    from vibey_actions.operations import ShowSummary


def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="A sealed state or export; left out: the branch's.")
    ] = None,
    *,
    at: Annotated[str | None, typer.Option(metavar="COMMIT", help="The branch's state at this commit.")] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME", help="This table's rows, one canonical JSON a line.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a sealed state and print the rows per table, or one table's rows."""
    if file is not None and at is not None:
        raise SettingError("FILE and --at exclude each other", "give the one that is meant")
    with session.working() as operations:
        found = operations.show(file, at, table)
    if table is None:
        _tables(found, as_json=as_json)
    elif as_json:
        _rows_object(found, table)
    else:
        for row in found.rows or ():
            console.raw(row + b"\n")


def _tables(found: ShowSummary, *, as_json: bool) -> None:
    tables = dict(sorted(found.tables.items()))
    if as_json:
        console.json_line({"format": found.format, "schema": found.schema, "tables": tables})
        return
    console.out(f"format {found.format}")
    console.out(f"migrations: {', '.join(found.schema) or 'none recorded'}")
    if tables:
        console.table(["table", "rows"], [[name, str(count)] for name, count in tables.items()])
    else:
        console.out("no rows")


def _rows_object(found: ShowSummary, table: str) -> None:
    """One object whose rows are written as they are read: a table may be larger than memory."""
    rows = found.rows or iter(())
    # Before the object begins, so that a state that does not open, or has no such table, leaves none half written.
    first = next(rows, None)
    head = json.dumps({"format": found.format, "schema": found.schema, "table": table})
    console.raw(head[:-1].encode("ascii") + b', "rows": [' + (first or b""))
    for row in rows:
        console.raw(b", " + row)
    console.raw(b"]}\n")
