"""``docs advance``, ``docs sweep`` and ``docs watch``: walk the documents on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Annotated

import typer

from vibey_actions.cli import console, failure
from vibey_actions.cli.docs import session
from vibey_actions.cli.docs.session import Machines
from vibey_actions.cli.options import Json
from vibey_actions.cli.signals import Stop, Stopped
from vibey_actions.cli.sync import YEAR, now
from vibey_actions.errors import SettingError, VibeyError

if TYPE_CHECKING:
    from vibey_actions.documents.report import Due
    from vibey_actions.lanes.service import Service, Walked

_MOST = 1_000_000

Limit = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, max=_MOST, help="At most N documents of each machine are worked on in a tick."),
]


def advance(*, machine: Machines = None, limit: Limit = None, as_json: Json = False) -> None:
    """Walk every document that is due one step on: sweep, claim, step, finish. One tick; what is due is said first.

    A document that fails is in a failed status and no failure of the command; it ends with 1 where a machine could not
    be walked. A signal lets the document that is being worked on finish; a second one ends it at once.
    """
    with Stop.listening() as stop, session.working() as service:
        walked = _tick(service, machine or (), limit, stop, _Rests(0), as_json=as_json)
    _end(walked)


def sweep(*, machine: Machines = None, as_json: Json = False) -> None:
    """Take back the leases that have run out, and nothing else."""
    with session.working() as service:
        walked = service.sweep(service.setup.chosen(machine or ()), _saying(as_json=as_json))
    _tell(walked, as_json=as_json)
    _end(walked)


def watch(
    *,
    every: Annotated[
        int, typer.Option("--every", metavar="SECONDS", min=1, max=YEAR, help="Tick at least this often.")
    ] = 60,
    machine: Machines = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Tick again and again until a signal comes: when documents change, where the store says so, else every SECONDS.

    A document that was given back for another attempt waits those SECONDS.
    """
    rests = _Rests(every)
    with Stop.listening() as stop, session.working() as service, suppress(Stopped):
        service.steps(service.setup.chosen(machine or ()))
        while not stop.asked:
            try:
                _tick(service, machine or (), limit, stop, rests, as_json=as_json)
            except SettingError:
                raise
            except VibeyError as error:
                failure.say(error, as_json=as_json)
            if not stop.asked:
                service.wait(every, stop.wait, lambda: stop.asked)


class _Rests:
    """What a watch gave back, and until when each waits: giving it back is a change, and would else be heard as one."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: dict[str, float] = {}

    def __contains__(self, identifier: object) -> bool:
        return monotonic() < self._until.get(str(identifier), 0)

    def note(self, began: float, walked: Sequence[Walked]) -> None:
        """Keep what a tick that began then has given back."""
        from vibey_actions.documents.report import What

        self._until = {identifier: until for identifier, until in self._until.items() if until > began}
        for one in walked:
            for event in one.report.of(What.AGAIN, What.OVER_BUDGET) if one.report is not None else ():
                self._until[event.identifier] = began + self._seconds


def _tick(
    service: Service, machines: Sequence[str], limit: int | None, stop: Stop, rests: _Rests, *, as_json: bool
) -> list[Walked]:
    from vibey_actions.documents.lane import Limits

    began = monotonic()
    limits = Limits(limit, lambda: stop.asked, rests.__contains__)
    walked = service.advance(service.setup.chosen(machines), limits, _saying(as_json=as_json))
    rests.note(began, walked)
    _tell(walked, as_json=as_json)
    return walked


def _saying(*, as_json: bool) -> Callable[[Due], None]:
    """Says what is due, before anything is done about it."""

    def say(due: Due) -> None:
        if not as_json:
            console.out(f"{now()} {due}")
            console.flush()

    return say


def _tell(walked: Sequence[Walked], *, as_json: bool) -> None:
    from vibey_actions.lanes import telling

    if as_json:
        console.json_line({"time": now(), "machines": [telling.as_object(one) for one in walked]})
        return
    for one in walked:
        if one.error is not None:
            failure.say(one.error, as_json=False)
        else:
            for line in telling.lines(one):
                console.out(line)
    console.flush()


def _end(walked: Sequence[Walked]) -> None:
    codes = [one.error.exit_code if one.error is not None else 1 for one in walked if one.failed]
    if codes:
        raise typer.Exit(max(codes))
