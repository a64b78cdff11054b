"""The engine of the state commands as a step of the action has it: its filtered settings, its words in the log."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from vibey_actions.actions.environments import state_environment
from vibey_actions.actions.gate import Decision
from vibey_actions.actions.inputs import Inputs
from vibey_actions.actions.record import Place
from vibey_actions.actions.runner import Runner
from vibey_actions.errors import DatabaseFailed
from vibey_actions.operations import Operations
from vibey_actions.postgres.connection import connect
from vibey_actions.settings import Settings

LOGIN_SECONDS: Final = 60.0
"""How long a database may take until a login works."""


@dataclass(frozen=True, slots=True)
class Said:
    """A Progress whose steps are lines of the log."""

    runner: Runner

    def step(self, text: str) -> None:
        """Say the step."""
        self.runner.say(f"{text} ...")

    def advance(self, done: int, total: int | None) -> None:
        """Say nothing: a log keeps every line."""


def operations(runner: Runner, inputs: Inputs, decision: Decision, place: Place, dsn: str) -> Operations:
    """The engine on the database ``dsn``, behind an open gate, with the configuration that the gate read.

    Raises SettingError for a setting that cannot be used.
    """
    env = state_environment(
        runner.env,
        key=inputs.key.strip(),
        token=inputs.token,
        repository=decision.event.repository,
        dsn=dsn,
        cache=str(place.cache),
    )
    settings = Settings.from_env(env, runner.workspace)
    return Operations(settings, decision.config, env, Said(runner), note(runner))


def note(runner: Runner) -> Callable[[str], None]:
    """Takes what is worth knowing and changes no outcome."""
    return lambda text: runner.say(f"note: {text}")


def wait_for_login(dsn: str, seconds: float) -> None:
    """Wait until a login with ``dsn`` works. Raises DatabaseFailed where none does in time, SettingError for no DSN."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            connect(dsn, purpose="set-up").close()
        except DatabaseFailed as error:
            if time.monotonic() > deadline or not _may_pass(error):
                raise
            time.sleep(0.5)
        else:
            return


def _may_pass(error: DatabaseFailed) -> bool:
    """Whether waiting can help: a server that answers with a refusal of this login goes on refusing it."""
    return not any(word in error.message for word in ("authentication", "does not exist", "pg_hba", "too old", "UTF8"))
