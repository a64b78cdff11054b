"""What ``docs doctor`` looks at: declaration, store, steps, the record of ticks, the workflow. Only reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from vibey_actions.checks.finding import Finding, note, ok, problem, unknown
from vibey_actions.checks.workflows import FOLDER, SCHEDULE, nobodys, workflow_files
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.status import Sort, age
from vibey_actions.errors import VibeyError
from vibey_actions.lanes.opening import Opened, opened, vibes_client
from vibey_actions.lanes.service import Service
from vibey_actions.lanes.setup import Kind, Setup, read_setup
from vibey_actions.text import shown

_TICKS: Final = re.compile(r"^[^#\n]*(?:step:\s*[\"']?advance|advance-docs(?:-read)?\.yml@|docs advance)", re.M)
_OLD_TICK_MS: Final = 24 * 60 * 60 * 1000


class NotKnown(Exception):
    """A check rests on something that an earlier one found missing."""


@dataclass
class Facts:
    """What the checks share, asked for once."""

    env: Mapping[str, str]
    cwd: Path
    stack: ExitStack

    @cached_property
    def setup(self) -> Setup:
        return read_setup(self.env, self.cwd)

    @cached_property
    def machines(self) -> tuple[Machine, ...]:
        return self.setup.chosen()

    @cached_property
    def opened(self) -> Opened:
        return self.stack.enter_context(opened(self.setup, self.env, lambda _: None))

    def sure(self, name: str) -> None:
        """Go on where ``name`` is known. Raises NotKnown where it failed: its own check has said why."""
        try:
            getattr(self, name)
        except VibeyError:
            raise NotKnown(f"the {_NAMES[name]} cannot be used") from None


_NAMES: Final = {"setup": "declaration", "machines": "declaration", "opened": "store"}


def examine(env: Mapping[str, str], cwd: Path) -> Iterator[Finding]:
    """What every check finds, as it is found; one that fails keeps none of the others from running."""
    with ExitStack() as stack:
        facts = Facts(env, cwd, stack)
        for name, check in CHECKS:
            try:
                yield from check(facts)
            except NotKnown as missing:
                yield unknown(name, f"not checked: {missing}")
            except VibeyError as error:
                yield problem(name, error.message, error.hint, error.exit_code)


def _declaration(facts: Facts) -> Iterator[Finding]:
    names = ", ".join(machine.name for machine in facts.machines)
    yield ok("machines", f"{shown(str(facts.setup.file))} names {names}")


def _client(facts: Facts) -> Iterator[Finding]:
    facts.sure("setup")
    if facts.setup.kind is not Kind.VIBES:
        return
    client = vibes_client(facts.setup, facts.env)
    yield ok("client", f"the client of {facts.setup.place} is {shown(' '.join(client.command))}")
    if not facts.env.get("VIBES_DEVICE_ID", "").strip():
        yield note(
            "client",
            "VIBES_DEVICE_ID is not set, so the login of this machine's user counts",
            "on a runner set it, from a secret, to the device's credential",
        )


def _store(facts: Facts) -> Iterator[Finding]:
    facts.sure("machines")
    for db in dict.fromkeys(machine.db for machine in facts.machines):
        facts.opened.store.query(db, limit=1)
        yield ok("store", f"the database {db} of {facts.setup.place} can be read")
    yield from (note("store", doubt) for doubt in getattr(facts.opened.store, "doubts", ()))


def _steps(facts: Facts) -> Iterator[Finding]:
    facts.sure("machines")
    facts.sure("opened")
    for machine in facts.machines:
        try:
            names = ", ".join(facts.opened.steps.steps(machine))
        except VibeyError as error:
            yield problem("steps", error.message, error.hint, error.exit_code)
        else:
            yield ok("steps", f"{machine.name} has its step {names}")
        for name in sorted(_variables(machine.settings)):
            if name not in facts.env:
                yield note(
                    "steps",
                    f"{machine.name} names the variable {shown(name, 60)}, which is not set here",
                    "its program runs without; set it where ticks run, in a workflow by a line under env: of the step",
                )


def _variables(settings: object) -> Iterator[str]:
    """The names under ``variables``, of the step and of each of its platforms."""
    for key, value in settings.items() if isinstance(settings, Mapping) else ():
        if key == "variables":
            yield from value if isinstance(value, (list, tuple)) else ()
        else:
            yield from _variables(value)


def _lanes(facts: Facts) -> Iterator[Finding]:
    facts.sure("machines")
    facts.sure("opened")
    status = Service(facts.setup, facts.opened).status(facts.machines)
    tick = status.last_tick
    if tick.unknown:
        yield unknown("ticks", f"when the last one ran is not known: {tick.unknown}")
    elif tick.at_ms is None:
        yield note("ticks", "none has run yet", "`vibey-actions docs advance` runs one")
    elif status.now_ms - tick.at_ms > _OLD_TICK_MS:
        yield note(
            "ticks",
            f"the last one ran {age(status.now_ms - tick.at_ms)} ago",
            "look at the workflow's page: a schedule ends after 60 days without activity in a public repository",
        )
    else:
        yield ok("ticks", f"the last one ran {age(status.now_ms - tick.at_ms)} ago")
    counts = {sort.value: status.total(sort) for sort in (Sort.STUCK, Sort.FAILED) if status.total(sort)}
    if counts:
        told = ", ".join(f"{count} {name}" for name, count in counts.items())
        yield note("documents", told, "`vibey-actions docs status` says which, why, and what to run")
    else:
        yield ok("documents", "none is stuck or failed")


def _workflow(facts: Facts) -> Iterator[Finding]:
    facts.sure("setup")
    root = facts.setup.root
    if not (root / ".git").exists():
        return
    found = {name: text for name, text in workflow_files(root / FOLDER) if _TICKS.search(text)}
    if not found:
        yield note(
            "workflow",
            f"no workflow in {shown(str(root / FOLDER))} ticks",
            "copy workflows-templates/advance-docs.yml there",
        )
    for name, text in found.items():
        yield from nobodys("workflow", name, text)
        if SCHEDULE.search(text):
            yield ok("workflow", f"{shown(name, 80)} ticks on a schedule")
        else:
            yield note("workflow", f"{shown(name, 80)} ticks and has no schedule", "add one: on: schedule: - cron: ...")


CHECKS: Final[tuple[tuple[str, Callable[[Facts], Iterator[Finding]]], ...]] = (
    ("machines", _declaration),
    ("client", _client),
    ("store", _store),
    ("steps", _steps),
    ("ticks", _lanes),
    ("workflow", _workflow),
)
