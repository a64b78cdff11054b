"""``state key``: where the key is, made or shown."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from vibey_actions.cli import console, session
from vibey_actions.errors import SettingError
from vibey_actions.keys import KeyStore


def key(
    *,
    new: Annotated[
        bool, typer.Option("--new", help="Make the key, once; refused while there is one anywhere.")
    ] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the key alone, for another machine or a secret.")] = False,
) -> None:
    """Say where the key was found, never the key; or make it, or print it."""
    if new and show:
        raise SettingError("--new and --show exclude each other", "make the key first, then show it")
    store = KeyStore(session.settings(), os.environ)
    if show:
        console.out(store.show())
    elif new:
        console.out(f"made a key, kept in {store.new()}")
        console.note("without it nobody opens the state: keep a copy that outlives this machine")
    else:
        console.out(f"the key is in {store.locate()}")
