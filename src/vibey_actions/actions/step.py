"""One step of the action from its environment to its exit code: masks first, then the inputs, then the work.

Every failure is said three times in the same words: as lines of the log, as one annotation, and in the summary, with
what mends it and the YAML to paste.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from importlib import import_module
from typing import Final

from vibey_actions.actions import summary
from vibey_actions.actions.inputs import PREFIX, Inputs
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.secrets import secrets_of_dsn, written_forms
from vibey_actions.errors import Conflicts, VibeyError

STEPS: Final = {
    "open": ("open", "open_state"),
    "close": ("close", "close_state"),
    "write-back": ("write_back", "write_back"),
    "run": ("run", "run_command"),
    "advance": ("advance", "advance"),
}
"""By the input ``step``: the module here and its function, loaded only when it is asked for."""

_WITHHELD: Final = re.compile(PREFIX + r"\w+|VIBEY_STATE_KEY|PG[A-Z]+")
"""Secrets, and libpq's own variables: each connection is made from its DSN alone."""


def run_step(name: str, runner: Runner) -> int:
    """Run the step ``name`` and return its exit code. Only a fault of ours, or a signal, comes out as an exception."""
    runner.mask(*written_forms(runner.env.get(f"{PREFIX}KEY", "")))
    runner.mask(*secrets_of_dsn(runner.env.get(f"{PREFIX}PG_URL", "")))
    _forget_withheld()
    module, function = STEPS[name]
    try:
        inputs = Inputs.from_env(runner.env)
        work: Callable[[Runner, Inputs], int] = getattr(import_module(f"vibey_actions.actions.{module}"), function)
        return work(runner, inputs)
    except VibeyError as error:
        return failed(name, runner, error)
    except Exception as error:
        told = f"internal: {type(error).__name__}"
        runner.error(f"{told}. This is a fault of vibey-actions: report it with this run's log.", title=f"step {name}")
        runner.summary(summary.internal(name, told))
        raise


def failed(name: str, runner: Runner, error: VibeyError) -> int:
    """Say that the step ``name`` failed. Returns the exit code."""
    if isinstance(error, Conflicts):
        for conflict in error.conflicts:
            runner.say(f"conflict: {conflict.table} {conflict.key}: {conflict.why}")
            runner.say(f"    {summary.advice(name, conflict)}")
    cure, hint = summary.cure(name, error), summary.hint(name, error)
    text = "\n".join(part for part in (error.message, hint and f"What to do: {hint}", cure) if part)
    runner.error(text, title=f"vibey-actions {name}: {error.code}")
    runner.summary(summary.failure(name, error, cure))
    return error.exit_code


def _forget_withheld() -> None:
    """Take out of this process's environment what neither it nor anything started from here is to go by."""
    for variable in [one for one in os.environ if _WITHHELD.fullmatch(one)]:
        del os.environ[variable]
