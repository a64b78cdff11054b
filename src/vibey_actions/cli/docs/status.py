"""``docs status``: how the lanes stand."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vibey_actions.cli import console
from vibey_actions.cli.docs import session
from vibey_actions.cli.docs.session import Machines
from vibey_actions.cli.options import Json
from vibey_actions.errors import FileFailed

if TYPE_CHECKING:
    from vibey_actions.documents.status import Status

_HOUR = 3_600_000
_LONGEST = 24 * 366


def status(
    *,
    machine: Machines = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write it as one self-contained page as well.")
    ] = None,
    stuck_after: Annotated[
        int,
        typer.Option(metavar="HOURS", min=1, max=_LONGEST, help="After how long without a move a document is stuck."),
    ] = 24,
    as_json: Json = False,
) -> None:
    """Say how many documents are in each status, which are stuck, failed or held and why, and when a tick last ran."""
    from vibey_actions.lanes import telling

    with session.working() as service:
        found = service.status(service.setup.chosen(machine or ()), stuck_after * _HOUR)
        if service.setup.is_copy:
            console.note("this is as of this database's last sync; `vibey-actions state sync` brings it level")
    if html is not None:
        from vibey_actions.documents.status_html import page

        _write(html, page(found))
    if as_json:
        console.json_line(telling.status_object(found))
        return
    _counts(found)
    for line in telling.status_lines(found):
        console.out(line)


def _counts(found: Status) -> None:
    from vibey_actions.documents.status import age

    rows = []
    for machine in found.machines:
        for name, count in machine.counts.items():
            oldest = machine.oldest.get(name)
            ended = name in machine.terminals
            waits = age(found.now_ms - oldest[1]) if oldest is not None and not ended else ""
            rows.append([f"{machine.machine} {name}", str(count), waits])
    console.table(["status", "documents", "oldest"], rows)
    console.out()


def _write(path: Path, text: str) -> None:
    """Whole or not at all, so that a page that is looked at is never half a page."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    try:
        aside.write_text(text, "utf-8")
        os.replace(aside, path)  # noqa: PTH105 - what it is
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise FileFailed(
            f"{path} cannot be written: {error.strerror or 'unknown error'}", "name a file in a folder of your own"
        ) from None
