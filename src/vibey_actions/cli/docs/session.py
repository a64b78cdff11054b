"""What a docs command starts from: the declaration and the store of this environment. And what they share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from vibey_actions.cli import console, session

if TYPE_CHECKING:
    from vibey_actions.lanes.service import Service
    from vibey_actions.lanes.setup import Setup

Machine = Annotated[str | None, typer.Option("--machine", metavar="MACHINE", help="The machine of the document.")]
Db = Annotated[str | None, typer.Option("--db", metavar="DB", help="The database the document is in.")]
Machines = Annotated[
    list[str] | None,
    typer.Option("--machine", metavar="MACHINE", help="Only this machine; may be given again. Left out: all declared."),
]


def setup() -> Setup:
    """What this environment and checkout declare. Raises MachineInvalid, SettingError."""
    from vibey_actions.lanes.setup import read_setup

    return read_setup(os.environ, session.working_folder())


@contextmanager
def working() -> Iterator[Service]:
    """The work of one command over the store that is declared."""
    from vibey_actions.lanes.opening import opened
    from vibey_actions.lanes.service import Service

    found = setup()
    with opened(found, os.environ, console.note) as place:
        yield Service(found, place)
