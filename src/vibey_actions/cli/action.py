"""``action``: the steps of the GitHub action. Only action.yml calls it; a person has the other commands."""

from __future__ import annotations

import os

import typer


def _run(step: str) -> None:
    from vibey_actions.actions.runner import Runner
    from vibey_actions.actions.step import run_step

    raise typer.Exit(run_step(step, Runner(dict(os.environ))))


def open_() -> None:
    """Give this job a database, and fill it with the state where the gate opens."""
    _run("open")


def close() -> None:
    """Hand on what this job changed, as a sealed export or by a push, and end the job's database."""
    _run("close")


def write_back() -> None:
    """Bring the exports of finished jobs to the branch."""
    _run("write-back")


def run() -> None:
    """Run a command that somebody dispatched, with the state's database and without key, owner's DSN or token."""
    _run("run")


def advance() -> None:
    """Walk the documents of the declared machines one tick."""
    _run("advance")
