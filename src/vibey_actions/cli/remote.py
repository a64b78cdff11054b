"""``remote``: a command run on a GitHub runner with the state open, from here."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Final

import typer

from vibey_actions.cli import console, session, signals
from vibey_actions.cli.options import Json
from vibey_actions.errors import SettingError

if TYPE_CHECKING:
    from vibey_actions.remotes.runs import Job, Run, Runs

WORKFLOW: Final = "vibey-remote.yml"
TAIL: Final = 100
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*\.ya?ml")
_STAMP: Final = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+Z ?")


def run(
    *,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="COMMAND",
            help="The command, behind -- where it has options; several words are quoted for the shell.",
        ),
    ],
    workflow: Annotated[str, typer.Option("--workflow", metavar="FILE", help="The workflow that runs it.")] = WORKFLOW,
    ref: Annotated[
        str, typer.Option("--ref", metavar="REF", help="The branch or tag to run on; the default branch if left out.")
    ] = "",
    repository: Annotated[
        str, typer.Option("--repository", metavar="OWNER/NAME", help="The repository; this checkout's if left out.")
    ] = "",
    minutes: Annotated[
        int, typer.Option("--minutes", metavar="MINUTES", min=1, max=1440, help="How long to follow the run.")
    ] = 120,
    lines: Annotated[
        int, typer.Option("--lines", metavar="LINES", min=0, max=10000, help="How much of the output's end to print.")
    ] = TAIL,
    as_json: Json = False,
) -> None:
    """Run a command on a GitHub runner with the state open, follow it, and print how it ended; 1 where it failed."""
    from vibey_actions.actions.reserved import check_command
    from vibey_actions.remotes.runs import open_runs

    command = words[0] if len(words) == 1 else shlex.join(words)
    check_command(command)
    if not _FILE.fullmatch(workflow):
        raise SettingError("--workflow is no name of a workflow file", f"for example {WORKFLOW}, without its folder")
    runs = open_runs(os.environ, repository, session.working_folder(), console.note)
    started = _dispatched(runs, workflow, ref or runs.default_branch(), command)
    console.err(f"run {started.number}: {started.page}")
    try:
        ended, jobs = runs.follow(started, 60.0 * minutes, console.err)
    except signals.Interrupted:
        console.err(f"the run goes on; cancel it at {started.page}")
        raise
    _say(ended, jobs, _output(runs, jobs)[-lines:] if lines else [], as_json=as_json)
    if ended.conclusion != "success":
        raise typer.Exit(1)


def _dispatched(runs: Runs, workflow: str, ref: str, command: str) -> Run:
    from vibey_actions.remotes.network import AnswerLost
    from vibey_actions.remotes.runs import LISTED_WITHIN

    request = secrets.token_hex(8)
    console.err(f"dispatching {workflow} of {runs.repository} on {ref} as {request}")
    try:
        runs.dispatch(workflow, ref, {"command": command, "request": request})
    except AnswerLost as error:
        console.note(f"{error.message}: looking whether the run was started")
    console.err(f"waiting until GitHub lists the run, for at most {LISTED_WITHIN:.0f} seconds")
    return runs.find(workflow, request)


def _output(runs: Runs, jobs: list[Job]) -> list[str]:
    """What the command printed, out of the log of the job that ran it."""
    for job in jobs:
        if job.conclusion != "skipped" and (found := command_output(runs.log(job))) is not None:
            return found
    return []


def command_output(log: str) -> list[str] | None:
    """The lines between the first beginning and the last end of a command's output; None where none began."""
    from vibey_actions.actions.foreign import BEGIN, END

    lines = [_STAMP.sub("", line) for line in log.splitlines()]
    if BEGIN not in lines:
        return None
    lines = lines[lines.index(BEGIN) + 1 :]
    with suppress(ValueError):
        lines = lines[: len(lines) - 1 - lines[::-1].index(END)]
    # The step's own lines that keep the runner from obeying the others.
    return [line for line in lines if line and not re.match(r"::(stop-commands::)?[0-9a-f]{64}(::)?$", line)]


def _say(run: Run, jobs: list[Job], output: list[str], *, as_json: bool) -> None:
    if as_json:
        found = [{"name": job.name, "conclusion": job.conclusion} for job in jobs]
        console.json_line(
            {"run": run.number, "url": run.page, "conclusion": run.conclusion, "jobs": found, "output": output}
        )
        return
    for line in output:
        console.out(line)
    console.err("")
    for job in jobs:
        console.err(f"{job.name}: {job.conclusion}")
    console.err(f"{run.conclusion}; its summary is at {run.page}")
