"""How a command fails: every error as one line and what mends it, on stderr, and as an object for a program."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from typing import Final

from vibey_actions.cli import console
from vibey_actions.errors import Conflicts, VibeyError
from vibey_actions.state.report import Conflict

OWN_CODES: Final = {
    "usage": (2, "The command line cannot be understood."),
    "internal": (1, "A fault of vibey-actions itself, named by its type alone."),
    "interrupted": (1, "SIGINT or SIGTERM ended the command; the next sync completes what it began."),
}
"""The codes of what is no VibeyError: exit code and meaning."""


def say(error: VibeyError, *, as_json: bool) -> int:
    """Say ``error``, every conflicting row first. Returns the exit code."""
    if isinstance(error, Conflicts):
        for line in conflict_lines(error.conflicts):
            console.err(line)
    _say(coded(error.message, error.code), error.hint)
    if as_json:
        console.json_line({"error": as_object(error)})
    return error.exit_code


def usage(message: str, command: str, meant: str = "", *, as_json: bool) -> int:
    """Say that the command line cannot be understood, and what may have been ``meant``. Returns the exit code."""
    hint = f"did you mean {meant}?" if meant else f"`{command} --help` lists what it takes"
    _say(message, hint)
    if as_json:
        console.json_line({"error": {"code": "usage", "message": message, "hint": hint}})
    return 2


def internal(error: Exception, *, as_json: bool) -> int:
    """Say a fault of ours by its type alone: its text may hold anything. Returns the exit code."""
    message = f"internal: {type(error).__name__}"
    hint = "this is a fault of vibey-actions; run it again with VIBEY_DEBUG=1 to see where, and report it"
    trace(error)
    _say(message, hint)
    if as_json:
        console.json_line({"error": {"code": "internal", "message": message, "hint": hint}})
    return 1


def trace(error: Exception) -> None:
    """Show where ``error`` comes from, for who asked for it with VIBEY_DEBUG=1."""
    if os.environ.get("VIBEY_DEBUG") == "1":
        for line in "".join(traceback.format_exception(error)).splitlines():
            console.err(line)


def interrupted(name: str, *, as_json: bool) -> int:
    """Say that a signal ended the command. Returns the exit code."""
    message = f"interrupted by {name}"
    hint = "nothing is half done: the next run completes what this one began"
    _say(message, hint)
    if as_json:
        console.json_line({"error": {"code": "interrupted", "message": message, "hint": hint}})
    return 1


def coded(message: str, code: str) -> str:
    """A message with the code that docs/errors.md and the README list it under."""
    return f"{message} [{code}]"


def as_object(error: VibeyError) -> dict[str, object]:
    """The error as ``--json`` gives it."""
    value: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint}
    if isinstance(error, Conflicts):
        value["conflicts"] = [conflict_object(conflict) for conflict in error.conflicts]
    return value


def conflict_object(conflict: Conflict) -> dict[str, str]:
    """A conflict as ``--json`` gives it; ``key`` is the row's key as canonical JSON text."""
    return {
        "table": conflict.table,
        "key": conflict.key,
        "kind": conflict.kind.value,
        "why": conflict.why,
        "advice": conflict.advice,
        "constraint": conflict.constraint,
    }


def conflict_lines(conflicts: Sequence[Conflict]) -> list[str]:
    """Two lines a conflict: which row and why, and what to do."""
    return [
        line
        for conflict in conflicts
        for line in (
            f"conflict: {conflict.table} {conflict.key}: {conflict.why}{_constraint(conflict)}",
            f"    {conflict.advice}",
        )
    ]


def _constraint(conflict: Conflict) -> str:
    known = not conflict.constraint or conflict.constraint in conflict.why
    return "" if known else f" (constraint {conflict.constraint})"


def _say(message: str, hint: str) -> None:
    console.err(f"error: {message}")
    if hint:
        console.err(f"hint: {hint}")
