"""``state sync``: once, or round after round."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated

import typer

from vibey_actions.cli import console, failure, report, session
from vibey_actions.cli.options import Json
from vibey_actions.cli.signals import Stop, Stopped
from vibey_actions.errors import Conflicts, SettingError, VibeyError
from vibey_actions.state.progress import Progress
from vibey_actions.state.report import Conflict, Report

YEAR = 366 * 24 * 3600


def sync(
    *,
    no_push: Annotated[bool, typer.Option("--no-push", help="Only bring this database level; push nothing.")] = False,
    every: Annotated[
        int | None,
        typer.Option(
            metavar="SECONDS",
            min=1,
            max=YEAR,
            help="Sync again this long after each round, until a signal comes; one line a round.",
        ),
    ] = None,
    max_deletes: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Write nothing where more than N rows would be deleted at an end."),
    ] = None,
    accept_rollback: Annotated[
        bool, typer.Option("--accept-rollback", help="Go on although an older state was put back on the branch.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Merge this database and the branch, write what differs at each end, and say what was done."""
    if every is None:
        with session.working() as operations:
            result = operations.sync(push=not no_push, max_deletes=max_deletes, accept_rollback=accept_rollback)
        report.notes(result)
        if as_json:
            console.json_line(report.done_object(result))
        else:
            report.done(result)
        return
    with Stop.listening() as stop:
        rounds = Rounds(push=not no_push, max_deletes=max_deletes, accept_rollback=accept_rollback, as_json=as_json)
        with suppress(Stopped):
            while not stop.asked:
                rounds.run(stop)
                if not stop.asked:
                    stop.wait(every)


class Rounds:
    """Syncs one after the other, each said in a line with its time; a failed one is said, and the next runs."""

    def __init__(self, *, push: bool, max_deletes: int | None, accept_rollback: bool, as_json: bool) -> None:
        self._push = push
        self._max_deletes = max_deletes
        self._accept_rollback = accept_rollback
        self._json = as_json
        self._first = True
        self._conflicts: Sequence[Conflict] = ()

    def run(self, progress: Progress) -> None:
        """One round, its steps told to ``progress``.

        Raises SettingError in the first: what cannot be used from the start is no passing fault.
        """
        try:
            # Read anew each round, so that a rule declared in the configuration file settles a conflict at once.
            result = session.operations(progress).sync(
                push=self._push, max_deletes=self._max_deletes, accept_rollback=self._accept_rollback
            )
        except VibeyError as error:
            if self._first and isinstance(error, SettingError):
                raise
            self._failed(failure.coded(error.message, error.code), error.hint, failure.as_object(error))
            self._name(error.conflicts if isinstance(error, Conflicts) else ())
        except console.OutputFailed:
            raise
        except Exception as error:  # noqa: BLE001
            failure.trace(error)
            name = f"internal: {type(error).__name__}"
            self._failed(name, "", {"code": "internal", "message": name, "hint": ""})
        else:
            self._done(result)
        self._first = False

    def _done(self, result: Report) -> None:
        self._conflicts = ()
        report.notes(result)
        if self._json:
            console.json_line({"time": now(), **report.done_object(result)})
        else:
            console.out(f"{now()} {report.summary(result)}")
            console.flush()

    def _failed(self, message: str, hint: str, error: dict[str, object]) -> None:
        if self._json:
            console.json_line({"time": now(), "error": error})
        console.err(f"{now()} error: {message}" + (f"; hint: {hint}" if hint else ""))

    def _name(self, conflicts: Sequence[Conflict]) -> None:
        """Every conflicting row, when they are others than in the round before."""
        if conflicts != self._conflicts:
            for line in failure.conflict_lines(conflicts):
                console.err(line)
        self._conflicts = conflicts


def now() -> str:
    """The time, UTC, to the second (ISO 8601)."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
