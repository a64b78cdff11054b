"""The step ``run``: a command that somebody dispatched, with the state's database and nothing else of the state.

It gets the application's DSN of a database of this job's own, runs as another user of the machine, and is ended with
everything it started before `close` exports. Its exit code is the step's.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Final

from vibey_actions.actions import gate, summary
from vibey_actions.actions.environments import command_environment
from vibey_actions.actions.foreign import BEGIN, END, Lines
from vibey_actions.actions.handover import GIT, credentials_in, kept_entries
from vibey_actions.actions.inputs import Inputs, Isolation
from vibey_actions.actions.isolated import Order
from vibey_actions.actions.isolation import Ended, elevation, run_apart
from vibey_actions.actions.record import Phase, Place, Record
from vibey_actions.actions.reserved import check_command
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.secrets import secrets_of_dsn, written_forms
from vibey_actions.errors import DatabaseFailed, GateClosed, StepRefused
from vibey_actions.postgres.connection import parse_dsn
from vibey_actions.postgres.sessions import end_sessions, own_sessions

_NO_WALL: Final = "isolation: process is no wall: the command is this job's own user, and can read what the job can."
_RUNNER_INPUT: Final = "INPUT_"


def run_command(runner: Runner, inputs: Inputs) -> int:
    """Run the step; returns the command's exit code. Raises VibeyError where the command was not run."""
    check_command(inputs.command)
    record = Place.of(runner.temp, runner.env).read()
    decision = gate.ask(runner, inputs, "run")
    if record is None and not decision.opened:
        runner.notice(f"{decision.text} The command was not run.", title="The command was not run")
        return 0
    record = _usable(record)
    if record.phase is Phase.OPENED and not decision.opened:
        raise GateClosed(
            f"the command cannot run ({decision.reason.value}). {decision.text}", "give run the same key as open"
        )
    _check_workspace(runner.workspace)
    return _Running(runner, inputs, record).run()


def _usable(record: Record | None) -> Record:
    """The job's database where a command may have it. Raises StepRefused."""
    if record is None or record.phase is Phase.OPENING:
        raise StepRefused(
            "this job has no state open for the command", "run the step open, without pg-url, before this step"
        )
    if not record.cluster:
        raise StepRefused(
            "the state is open in a declared database (pg-url), and a dispatched command is given only a database that "
            "was made for its job",
            "leave out pg-url from the step open of this job",
        )
    return record


def _check_workspace(workspace: Path) -> None:
    """Raise StepRefused for a workspace whose git could be made to say or do something after the command had it."""
    if not (workspace / GIT).exists():
        raise StepRefused(
            "the workspace is no checkout, so the command could make one that later steps would believe",
            "check the repository out before the step open",
        )
    found = credentials_in(workspace)
    if found is not None:
        raise StepRefused(
            f"{found.relative_to(workspace)} in the workspace holds or names a credential, which the command could use",
            "check the repository out without leaving a token: actions/checkout with persist-credentials: false",
        )


class _Running:
    """One run of the step on a database that is open."""

    def __init__(self, runner: Runner, inputs: Inputs, record: Record) -> None:
        self._runner = runner
        self._inputs = inputs
        self._record = record
        self._user = inputs.isolation is Isolation.USER

    def run(self) -> int:
        elevated = elevation() if self._user else ()
        order = self._order()
        if not self._user:
            self._runner.warning(_NO_WALL, title="No wall around the command")
        self._runner.say(f"running: {self._inputs.command}")
        before = own_sessions(self._record.app_dsn)
        started = time.monotonic()
        ended = self._heard(order, elevated)
        self._end_sessions(before)
        return self._said(ended, time.monotonic() - started)

    def _order(self) -> Order:
        runner, inputs = self._runner, self._inputs
        workspace = runner.workspace.resolve()
        root = runner.env.get("VIBEY_ACTION_ROOT", "")
        tool = Path(root).resolve() if root else None
        temp = runner.temp.resolve()
        return Order(
            command=inputs.command,
            env=self._env(),
            workspace=workspace,
            seconds=60.0 * inputs.timeout_minutes,
            user=self._user,
            listed=os.geteuid() != 0,
            kept=tuple(kept_entries(workspace, tool)),
            hidden=(temp, *([tool] if tool is not None else [])),
            trusted=(temp, *([tool] if tool is not None else []), *_programs()),
        )

    def _env(self) -> dict[str, str]:
        inputs, owner = self._inputs, self._record.dsn
        password = parse_dsn(owner).get("password", "")
        secrets = [*written_forms(inputs.key), inputs.token, inputs.run_token, owner, password, *secrets_of_dsn(owner)]
        found = command_environment(self._runner.env, dsn=self._record.app_dsn, secrets=secrets)
        where = ("GITHUB_EVENT_PATH", "GITHUB_ACTION_PATH", "VIBEY_ACTION_ROOT")
        return {
            name: value for name, value in found.items() if name not in where and not name.startswith(_RUNNER_INPUT)
        }

    def _heard(self, order: Order, elevated: tuple[str, ...]) -> Ended:
        self._runner.say(BEGIN)
        lines = Lines(self._runner.write)
        try:
            with self._runner.commands_off():
                ended = run_apart(order, lines.feed, elevated)
                lines.close()
        finally:
            self._runner.say(END)
        return ended

    def _end_sessions(self, before: set[int]) -> None:
        """End what the command's sessions still do in the database, so that the export has all of it or nothing."""
        try:
            end_sessions(self._record.app_dsn, before)
        except DatabaseFailed as error:
            self._runner.warning(f"sessions of the command could not be ended: {error.message}")

    def _said(self, ended: Ended, seconds: float) -> int:
        runner = self._runner
        if ended.missing:
            runner.say(f"note: the command's user was the only wall around it: {ended.missing}")
        if ended.unreached:
            runner.warning(f"{ended.unreached} entries of the workspace could not be given back to this job's user")
        minutes = self._inputs.timeout_minutes
        how = f"The command ended with exit code {ended.code} after {seconds:.0f} s."
        if ended.how == "deadline":
            how = f"The command was ended after {minutes} minutes (timeout-minutes)."
        lines = [f"Ran {summary.code(self._inputs.command[:2000])}.", summary.plain(how)]
        if ended.code:
            following = "What it changed in the database until then is exported by the step close all the same."
            runner.error(f"{how} {following}", title="The command failed")
            lines.append(following)
        else:
            runner.say(how)
        runner.summary("\n\n".join(lines))
        if ended.left:
            raise StepRefused(
                "a process of the command could not be ended", "end this runner; what the job exports may be incomplete"
            )
        return ended.code


def _programs() -> list[Path]:
    """What the job's later steps are started with: this Python, and the folders it loads from."""
    base = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    return [base, Path(os.__file__).resolve().parent, Path("/bin/sh").resolve()]
