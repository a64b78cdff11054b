"""The step ``advance``: one tick of the lanes that ``.github/vibey-docs.yml`` declares.

Where the documents are in the sealed state, the gate is asked, and the state is open for as long as the tick lasts: in
the database that this job has already, else in one that is made here and ended here. Until a repository is configured
the step says what is missing, and is green.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from vibey_actions.actions import declared, gate, ticking
from vibey_actions.actions.client import with_client
from vibey_actions.actions.close import close_state
from vibey_actions.actions.environments import command_environment, state_environment
from vibey_actions.actions.event import Event
from vibey_actions.actions.gate import Decision
from vibey_actions.actions.inputs import Inputs
from vibey_actions.actions.open import open_state
from vibey_actions.actions.record import Phase, Place, Record
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.secrets import secrets_of_dsn
from vibey_actions.actions.work import note
from vibey_actions.documents.lane import Limits
from vibey_actions.documents.steps.surroundings import is_withheld
from vibey_actions.errors import SettingError, StepRefused, VibeyError
from vibey_actions.lanes.opening import opened
from vibey_actions.lanes.service import Service, Walked
from vibey_actions.lanes.setup import Kind, Setup, read_setup

DEVICE: Final = "VIBES_DEVICE_ID"
_DSN_NAMES: Final = ("VIBEY_STATE_PG_URL", "VIBEY_PG_URL")


def advance(runner: Runner, inputs: Inputs) -> int:
    """Run the step; returns its exit code. Raises VibeyError where nothing could be walked."""
    for name in ("ticked", "moved", "stuck"):
        runner.output(name, "false" if name == "ticked" else "0")
    runner = _with_variables(runner, inputs)
    event = Event.from_env(runner.env)
    declared.check_work_tree(event, runner.workspace)
    setup = read_setup(runner.env, runner.workspace)
    record = Place.of(runner.temp, runner.env).read()
    missing = _missing(setup, inputs, record, runner.env)
    if missing:
        runner.notice(f"{missing} No document was walked.", title="Document lanes are not configured")
        runner.summary(ticking.not_configured(missing))
        return 0
    tick = _Tick(runner, inputs, with_client(setup, runner) if setup.vibe else setup)
    if setup.kind is not Kind.SEALED:
        return tick.run(_environment(runner, inputs, record, setup))
    decision = gate.ask(runner, inputs, "advance")
    if not decision.opened:
        runner.notice(f"{decision.text} No document was walked.", title="The state was not opened")
        return 0
    with _open(runner, inputs) as place:
        return tick.run(_sealed_environment(runner, inputs, decision, place))


def _with_variables(runner: Runner, inputs: Inputs) -> Runner:
    """The runner with what the input ``variables`` gives to machines. Raises SettingError for what is not theirs."""
    runner.mask(*inputs.variables.values())
    for name in inputs.variables:
        if is_withheld(name) or name in runner.env:
            why = "no step gets" if is_withheld(name) else "is set already"
            raise SettingError(
                f"the input variables names {name}, which {why}",
                "give it another name there and in .github/vibey-docs.yml",
            )
    return replace(runner, env={**runner.env, **inputs.variables})


def _missing(setup: Setup, inputs: Inputs, record: Record | None, env: Mapping[str, str]) -> str:
    """What the repository still lacks, in a sentence; empty where it is configured."""
    if not setup.configured and not inputs.machine:
        return (
            ".github/vibey-docs.yml names no machine."
            if setup.declared.present
            else "There is no .github/vibey-docs.yml that declares machines."
        )
    if setup.kind is Kind.VIBES and not env.get(DEVICE, "").strip():
        return f"The documents are in a vibe, and the secret {DEVICE} is not set. Runs for forks are given no secrets."
    if setup.kind is Kind.POSTGRES and not _dsn(inputs, record, env):
        return "No database is set: give the step pg-url, or declare store: {kind: sealed} or {vibe: HANDLE/SLUG}."
    return ""


def _dsn(inputs: Inputs, record: Record | None, env: Mapping[str, str]) -> str:
    """The database of documents that are not in the state: declared, else this job's own, else the environment's."""
    given = (env.get(name, "").strip() for name in _DSN_NAMES)
    return inputs.pg_url or (record.dsn if record is not None else "") or next(filter(None, given), "")


def _environment(runner: Runner, inputs: Inputs, record: Record | None, setup: Setup) -> dict[str, str]:
    dsn = _dsn(inputs, record, runner.env) if setup.kind is Kind.POSTGRES else ""
    runner.mask(*secrets_of_dsn(dsn))
    env = command_environment(runner.env, dsn="", secrets=[inputs.key.strip()])
    token = inputs.run_token or inputs.token
    given = {"VIBEY_STATE_PG_URL": dsn, "GH_TOKEN": token}
    return env | {name: value for name, value in given.items() if value}


def _sealed_environment(runner: Runner, inputs: Inputs, decision: Decision, place: Place) -> dict[str, str]:
    """The job's variables, which steps may name theirs from, and over them what the state's commands go by."""
    record = place.read()
    if record is None or record.phase is not Phase.OPENED:
        raise StepRefused(
            "this job's database does not hold the state, so its documents cannot be walked",
            "run advance before open, or after an open that has the key",
        )
    state = state_environment(
        runner.env,
        key=inputs.key.strip(),
        token=inputs.token,
        repository=decision.event.repository,
        dsn=record.dsn,
        cache=str(place.cache),
    )
    return command_environment(runner.env, dsn="", secrets=[inputs.key.strip(), inputs.token]) | state


@contextmanager
def _open(runner: Runner, inputs: Inputs) -> Iterator[Place]:
    """The state in this job's database; where there is none yet, one for the length of the block.

    What is walked is on the branch claim by claim; what did not get there is pushed at the end, or left as an export.
    """
    place = Place.of(runner.temp, runner.env)
    if place.read() is not None:
        yield place
        return
    open_state(_without(runner, "GITHUB_ENV", "GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY"), inputs)
    try:
        yield place
    finally:
        close_state(_without(runner, "GITHUB_ENV"), replace(inputs, push=True))


def _without(runner: Runner, *files: str) -> Runner:
    """The runner for a step within this one, whose results are nothing to the job."""
    return replace(runner, env={name: value for name, value in runner.env.items() if name not in files})


@dataclass(frozen=True)
class _Tick:
    """One tick and what is said of it."""

    runner: Runner
    inputs: Inputs
    setup: Setup

    def run(self, env: Mapping[str, str]) -> int:
        names = tuple(filter(None, (name.strip() for name in self.inputs.machine.split(","))))
        machines = self.setup.chosen(names)
        ends = time.monotonic() + 60 * self.inputs.timeout_minutes
        with opened(self.setup, env, note(self.runner)) as place:
            service = Service(self.setup, place)
            limits = Limits(self.inputs.limit, lambda: time.monotonic() > ends)
            walked = service.advance(machines, limits, lambda due: self.runner.say(str(due)))
            self._say(walked)
            self._stand(service, walked)
        return 1 if any(one.failed for one in walked) else 0

    def _say(self, walked: list[Walked]) -> None:
        for line in ticking.log_lines(walked):
            self.runner.say(line)
        self.runner.output("ticked", "true")
        self.runner.output("moved", str(ticking.moved(walked)))
        for one in walked:
            if one.failed:
                self.runner.error(*ticking.failure(one))

    def _stand(self, service: Service, walked: list[Walked]) -> None:
        """What needs a person now; where that cannot be read, what was done is said all the same."""
        machines = [self.setup.machine(one.machine) for one in walked if one.report is not None]
        try:
            status = service.status(machines) if machines else None
        except VibeyError as error:
            self.runner.warning(error.message, title="How the documents stand is not known")
            status = None
        if status is not None:
            self.runner.output("stuck", str(ticking.needing_a_person(status)))
        self.runner.summary(ticking.summary_of(self.setup.place, walked, status))
