"""What the docs commands do, over a store that is open: documents put, found and sent back, and lanes walked."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from vibey_actions.documents import daily, moves
from vibey_actions.documents.lane import Lane, Limits
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import ID, Document, body, check_id, id_of, status_of, text_of, without
from vibey_actions.documents.report import Due, TickReport
from vibey_actions.documents.status import STUCK_AFTER_MS, Status, look
from vibey_actions.documents.steps.base import Decision, Ready, Step, StepResult, Work, again
from vibey_actions.documents.stores.base import Page, Store
from vibey_actions.documents.stores.selection import UNSET, Unset
from vibey_actions.errors import (
    DocumentConflict,
    DocumentInvalid,
    DocumentMissing,
    SettingError,
    VibeyError,
)
from vibey_actions.lanes.opening import Opened
from vibey_actions.lanes.setup import Setup
from vibey_actions.lanes.ticks import Ticks
from vibey_actions.text import shown

POLL: Final = 1.0
"""Seconds between two looks at whether documents have changed."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A unit of work that was taken in: as it stands, and whether it was new."""

    document: Document
    new: bool


@dataclass(frozen=True, slots=True)
class Walked:
    """One machine's part in a tick: its report, or why there is none."""

    machine: str
    report: TickReport | None = None
    error: VibeyError | None = None

    @property
    def failed(self) -> bool:
        """Whether the tick did not come to its end."""
        return self.report is None or bool(self.report.stopped)


@dataclass(frozen=True, slots=True)
class Selection:
    """What a query selects, as ``Store.query`` takes it."""

    field: str | None = None
    key: object = UNSET
    keys: Sequence[object] | None = None
    range: tuple[object, object] | None = None
    prefix: object = UNSET


class Service:
    """The work of the docs commands over ``opened``."""

    def __init__(self, setup: Setup, opened: Opened) -> None:
        self.setup = setup
        self._opened = opened
        self._seen: int | None = None

    @property
    def _store(self) -> Store:
        return self._opened.store

    def take_in(self, machine: Machine, document: Document, identifier: str | None) -> Taken:
        """A new unit of work for ``machine``, in the status that the document says, else in the first.

        One that is there already stays as it is: taking the same event in again is a no-op. Raises DocumentInvalid
        without an id, DocumentDenied for a status that no new document may have.
        """
        name = _identifier(document, identifier)
        kind = document.get(machine.kind_field, machine.kind)
        if kind != machine.kind:
            raise DocumentInvalid(
                f"its {machine.kind_field} is another one than the machine's, which is {machine.kind}",
                f"leave {machine.kind_field} out, or name the machine of that kind",
            )
        new = moves.new_document(machine, body(document), status_of(document), self._store.now_ms())
        writer = machine.creator(str(new["status"]))
        try:
            self._store.put(machine.db, name, new, if_rev=None, writer=writer)
        except DocumentConflict:
            return Taken(self._there(machine.db, name), new=False)
        return Taken(self._there(machine.db, name), new=True)

    def put(
        self, db: str, document: Document, identifier: str | None, *, if_rev: str | Unset | None, writer: str | None
    ) -> str:
        """Write ``document`` as it is, as ``writer``; its machine's guard is asked. Returns the revision.

        Raises DocumentConflict, DocumentDenied, DocumentInvalid, OutcomeUnknown, StoreFailed.
        """
        return self._store.put(db, _identifier(document, identifier), body(document), if_rev=if_rev, writer=writer)

    def find(self, identifier: str, machine: str | None = None, db: str | None = None) -> tuple[str, Document]:
        """The document ``identifier`` and its database: ``db``, or the machine's, or the one that has it.

        Raises DocumentMissing, and DocumentInvalid where more than one database has it.
        """
        check_id(identifier)
        looked = self.databases(machine, db)
        found = [(one, document) for one in looked if (document := self._store.get(one, identifier)) is not None]
        if not found:
            places = ", ".join(looked)
            raise DocumentMissing(
                f"there is no document {shown(identifier, 120)} in {places} of {self.setup.place}",
                "`vibey-actions docs status` and `docs query` show what there is",
            )
        if len(found) > 1:
            raise DocumentInvalid(
                f"{shown(identifier, 120)} is in more than one database: {', '.join(one for one, _ in found)}",
                "say which with --machine or --db",
            )
        return found[0]

    def databases(self, machine: str | None = None, db: str | None = None) -> tuple[str, ...]:
        """The databases that are meant: ``db``, the machine's, or those of the machines that the file names."""
        if db is not None:
            if machine is not None:
                raise SettingError("--machine and --db exclude each other", "give the one that is meant")
            return (db,)
        machines = self.setup.chosen((machine,) if machine is not None else ())
        return tuple(dict.fromkeys(one.db for one in machines))

    def query(self, db: str, selection: Selection, limit: int | None = None, after: str | None = None) -> Page:
        """One page of ``db``. Raises DocumentInvalid for a selection that cannot be, StoreFailed."""
        return self._store.query(
            db,
            selection.field,
            key=selection.key,
            keys=selection.keys,
            range=selection.range,
            prefix=selection.prefix,
            limit=limit,
            after=after,
        )

    def delete(self, identifier: str, machine: str | None, db: str | None) -> str:
        """Delete the document, from the version that is there now. Returns its database. Raises as ``find`` does."""
        place, document = self.find(identifier, machine, db)
        self._store.delete(place, identifier, if_rev=str(document["_rev"]))
        return place

    def retry(self, identifier: str, machine: str | None = None, *, again: bool = False) -> Document:
        """Send a failed document back to its machine's first status. Returns it as it stands.

        Raises DocumentDenied where the machine does not retry from there or the outcome is unknown, DocumentConflict
        where somebody moved it meanwhile.
        """
        db, document = self.find(identifier, machine)
        owner = next((one for one in self.setup.machines if one.db == db and one.owns(document)), None)
        if owner is None:
            raise DocumentInvalid(
                f"{shown(identifier, 120)} is of no machine's kind", "`vibey-actions docs get` shows what it is"
            )
        new, writer = moves.retried(owner, document, self._store.now_ms(), again=again)
        written = self._store.move(db, document, new, writer=writer)
        if written is None:
            raise DocumentConflict(
                f"{shown(identifier, 120)} has moved since it was read", "look at it again, then decide anew"
            )
        return written

    def steps(self, machines: Sequence[Machine]) -> dict[str, Mapping[str, Step]]:
        """The steps of every machine, before anything is walked. Raises MachineInvalid."""
        return {machine.name: self._opened.steps.steps(machine) for machine in machines}

    def advance(
        self, machines: Sequence[Machine], limits: Limits | None = None, say: Callable[[Due], None] = lambda _: None
    ) -> list[Walked]:
        """One tick of each machine. A store that fails under one keeps no other from its tick.

        Raises MachineInvalid, before anything is written, where a machine's steps cannot be made.
        """
        steps = self.steps(machines)
        self._seen = self._count()
        return [
            self._walked(machine, steps[machine.name], lambda lane, one: self._tick(one, lane, limits or Limits()), say)
            for machine in machines
        ]

    def sweep(self, machines: Sequence[Machine], say: Callable[[Due], None] = lambda _: None) -> list[Walked]:
        """Take back the leases that ran out, and nothing else; no step is needed for it."""
        return [self._walked(machine, _waiting(machine), lambda lane, _: lane.sweep(), say) for machine in machines]

    def wait(self, seconds: float, sleep: Callable[[float], None], stopped: Callable[[], bool]) -> None:
        """Wait until documents have changed since the last tick began, where the store tells; ``seconds`` at most.

        ``sleep`` may end early; ``stopped`` then says so.
        """
        if self._seen is None:
            sleep(seconds)
            return
        ends = time.monotonic() + seconds
        while not stopped() and (left := ends - time.monotonic()) > 0:
            sleep(min(left, POLL))
            if self._count() not in (None, self._seen):
                return

    def _count(self) -> int | None:
        return self._opened.changes() if self._opened.changes is not None else None

    def status(self, machines: Sequence[Machine], stuck_after_ms: int = STUCK_AFTER_MS) -> Status:
        """How the lanes stand. Raises StoreFailed, DatabaseFailed."""
        tick, survey = self._opened.ticks.last(), self._opened.survey
        return look(machines, self._store, tick, stuck_after_ms=stuck_after_ms, survey=survey)

    def _walked(
        self,
        machine: Machine,
        steps: Mapping[str, Step],
        walk: Callable[[Lane, Machine], TickReport],
        say: Callable[[Due], None],
    ) -> Walked:
        record = _Record(self._opened.ticks, say)
        try:
            report = walk(Lane(machine, self._store, steps, say=record.begin), machine)
        except VibeyError as error:
            record.end(f"it was cut off: {error.message}")
            return Walked(machine.name, error=error)
        report.notes += [*getattr(self._store, "doubts", ()), *record.notes]
        record.end(did(report))
        return Walked(machine.name, report)

    def _tick(self, machine: Machine, lane: Lane, limits: Limits) -> TickReport:
        if not makes_units(machine):
            return lane.tick(limits)
        plan = daily.plan(machine, self._store)
        report = lane.tick(limits, plan.units)
        report.notes += plan.notes
        return report

    def _there(self, db: str, identifier: str) -> Document:
        document = self._store.get(db, identifier)
        if document is None:
            raise DocumentMissing(
                f"{shown(identifier, 120)} is gone again: somebody deleted it meanwhile", "take it in again"
            )
        return document


def makes_units(machine: Machine) -> bool:
    """Whether documents of the machine are made by schedules: claimed by being made, or missed."""
    claimed = machine.edge(None, "claimed")
    return claimed is not None and claimed.claim and machine.edge(None, "missed") is not None


def did(report: TickReport) -> str:
    """What a tick did, in one line."""
    counts = ", ".join(f"{count} {what}" for what, count in report.counts().items()) or "nothing to do"
    stopped = f"; ended early: {report.stopped}" if report.stopped else ""
    return f"{report.due.machine}: {counts}{stopped}"


@dataclass(slots=True)
class _Record:
    """A tick's place in the record. One that cannot be kept is said, and stops no work."""

    ticks: Ticks
    say: Callable[[Due], None]
    number: int | None = None
    notes: list[str] = field(default_factory=list)

    def begin(self, due: Due) -> None:
        self.say(due)
        try:
            self.number = self.ticks.began(due)
        except VibeyError as error:
            self.notes.append(f"this tick is not in the record: {error.message}")

    def end(self, did: str) -> None:
        if self.number is not None:
            with suppress(VibeyError):
                self.ticks.ended(self.number, did)


class _Waits:
    """In the place of a step where none is run: whatever waits is ready."""

    def decide(self, document: Document, now_ms: int) -> Decision:  # noqa: ARG002
        return Ready()

    def run(self, work: Work) -> StepResult:  # noqa: ARG002
        return again("nothing is worked on here")


def _waiting(machine: Machine) -> dict[str, Step]:
    return {edge.step: _Waits() for edge in machine.transitions if edge.step is not None}


def public(document: Document) -> Document:
    """``document`` for whoever asks: ``_id`` first."""
    return {ID: id_of(document), **without(document, (ID,))}


def _identifier(document: Document, identifier: str | None) -> str:
    own = text_of(document, ID)
    if identifier is not None and own is not None and own != identifier:
        raise DocumentInvalid("its _id is another one than --id", "give the one that is meant")
    name = identifier if identifier is not None else own
    if name is None:
        raise DocumentInvalid(
            "the document has no id",
            "give --id, derived from the event it comes from: then taking it in again is a no-op",
        )
    return check_id(name)
