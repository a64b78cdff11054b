"""The lane: one tick walks the documents of one machine. Say what is due, sweep, claim, step, finish.

Source: docs/documents.md. The lane holds no lock. Every write of it
is conditional on the document being what was read, or on the claim that it holds; whoever comes second steps aside.
"""

from __future__ import annotations

import random
import secrets
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from vibey_actions.documents import moves
from vibey_actions.documents.finding import Candidate, Finder, Found, Unit
from vibey_actions.documents.holding import Holder
from vibey_actions.documents.machine import Machine, Transition
from vibey_actions.documents.model import CLAIM_DAY, ERROR, Document, copied, id_of, status_of, text_of
from vibey_actions.documents.report import Due, Event, TickReport, What
from vibey_actions.documents.steps.base import Step, StepResult, Work, unknown
from vibey_actions.documents.stores.base import Store
from vibey_actions.errors import DocumentDenied, DocumentInvalid, OutcomeUnknown, StoreFailed, VibeyError
from vibey_actions.text import shown

_T = TypeVar("_T")
__all__ = ["Lane", "Limits", "Unit", "spent_today"]

_AHEAD = 20
"""Documents of a sort that are failed, held or made before work begins: a flood of them is written after it, and
starves no work where a write is slow."""
_TIME = "the time of this run"
_LEAP = 128
"""How far ahead a lane goes on, at most, where a claim was lost; what it leaps over comes last."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a tick goes, besides the machine's own caps."""

    per_tick: int | None = None
    """Documents to work on."""
    stop: Callable[[], bool] = lambda: False
    """Asked before each document: True leaves the rest for the next tick."""
    resting: Callable[[str], bool] = lambda _: False
    """Asked of each id that is ready: True leaves that document for a later tick."""


class Lane:
    """One machine over one store. ``steps`` has a step for each name that the machine's claims use."""

    def __init__(
        self,
        machine: Machine,
        store: Store,
        steps: Mapping[str, Step],
        *,
        say: Callable[[Due], None] = lambda _: None,
        new_claim: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        self._machine = machine
        self._store = store
        self._steps = steps
        self._finder = Finder(machine, store, steps)
        self._say = say
        self._new_claim = new_claim

    def tick(self, limits: Limits | None = None, units: Sequence[Unit] = ()) -> TickReport:
        """Walk every document that is due one step on, and make the ``units`` that are due.

        Raises StoreFailed where the documents cannot be read: then nothing was written. What goes wrong with one
        document is an event of the report and stops no other.
        """
        few = (partial(self._unusable, most=_AHEAD), partial(self._hold, most=_AHEAD), partial(self._make, most=_AHEAD))
        phases = (self._sweep, *few, self._advance, self._unusable, self._hold, self._make)
        return self._run(limits or Limits(), units, *phases)

    def sweep(self) -> TickReport:
        """Take back the leases that ran out, and nothing else. Raises StoreFailed as ``tick`` does."""
        return self._run(Limits(), (), self._sweep)

    def _run(self, limits: Limits, units: Sequence[Unit], *phases: Callable[[Found, _Tick], None]) -> TickReport:
        found = self._finder.read(units)
        report = TickReport(found.due(self._machine))
        self._say(report.due)
        tick = _Tick(report, limits, [unit for unit in units if not self._worked_on(unit)])
        try:
            for phase in phases:
                phase(found, tick)
        except StoreFailed as error:
            report.stopped = error.message
        return report

    def _sweep(self, found: Found, tick: _Tick) -> None:
        """Leases that ran out, each from the revision that was read; what is taken back can be claimed at once."""
        for document in found.expired:
            if tick.over():
                return
            now = self._store.now_ms()
            written = self._move(document, moves.swept(self._machine, document, now), tick)
            if written is None:
                continue
            failed = status_of(written) == self._machine.failed
            ended = What.UNKNOWN if self._machine.once(document) else What.FAILED
            tick.add(document, ended if failed else What.RELEASED, written, str(written.get(ERROR, "")))
            if not failed:
                self._finder.sort(written, now, found)

    def _unusable(self, found: Found, tick: _Tick, most: int | None = None) -> None:
        """Waiting documents that no work would help: they fail with the reason, and nothing is spent."""
        for document, reason in tick.some(found.unusable, most):
            written = self._move(document, moves.failed(self._machine, document, reason, self._store.now_ms()), tick)
            if written is not None:
                tick.add(document, What.FAILED, written, reason)

    def _hold(self, found: Found, tick: _Tick, most: int | None = None) -> None:
        for document, reason in tick.some(found.holds, most):
            held = None if self._machine.claimed(document) else moves.held(document, reason, self._store.now_ms())
            written = self._move(document, held, tick)
            if written is not None:
                tick.add(document, What.HELD, written, reason)

    def _make(self, _: Found, tick: _Tick, most: int | None = None) -> None:
        """New documents that nobody works on: days that were missed."""
        for unit in tick.some(tick.units, most):
            new = moves.new_document(self._machine, unit.document, unit.status, self._store.now_ms())
            written = self._move(None, new, tick)
            if written is not None:
                tick.report.events.append(Event(id_of(new), What.MADE, None, unit.status))

    def _worked_on(self, unit: Unit) -> bool:
        edge = self._machine.edge(None, unit.status)
        return edge is None or edge.claim

    def _move(self, read: Document | None, new: Document | None, tick: _Tick) -> Document | None:
        """A write from the version that was read; where it does not come about, an event says why."""
        if new is None:
            return None
        try:
            written = self._store.move(self._machine.db, read, new, writer=self._machine.lane)
        except (DocumentDenied, DocumentInvalid, OutcomeUnknown) as error:
            tick.add(read or new, What.REFUSED, None, error.message)
            return None
        if written is None:
            tick.add(read or new, What.LOST, None, "somebody moved it meanwhile")
        return written

    def _advance(self, found: Found, tick: _Tick) -> None:
        """Claim, step and finish one document after another, until none is left or a cap is reached."""
        tick.report.notes += found.notes
        worked, seen, waiting = 0, 0, deque(found.ready())
        while waiting:
            tick.report.cap = self._reached(worked, tick.limits)
            if tick.report.cap:
                tick.report.left = found.ready_count - seen
                return
            candidate = waiting.popleft()
            seen += 1
            if tick.limits.resting(id_of(candidate.document)):
                continue
            if candidate.note:
                tick.report.notes.append(f"{shown(id_of(candidate.document), 120)}: {candidate.note}")
            won = self._work(candidate, tick)
            worked += won
            if not won and len(waiting) > 1:
                # Another worker walks the same documents: out of its way, or the two would try each one together.
                waiting.rotate(-random.randrange(min(_LEAP, len(waiting))))  # noqa: S311

    def _reached(self, worked: int, limits: Limits) -> str:
        """The cap that lets no more work begin; empty where there is none."""
        most = min((cap for cap in (self._machine.per_tick, limits.per_tick) if cap is not None), default=None)
        if most is not None and worked >= most:
            return f"{most} a tick"
        if limits.stop():
            return _TIME
        per_day = self._machine.per_day
        return f"{per_day} a day" if per_day is not None and spent_today(self._machine, self._store) >= per_day else ""

    def _work(self, candidate: Candidate, tick: _Tick) -> int:
        """One document; 1 where its claim was won."""
        try:
            holder = self._claim(candidate)
        except (DocumentDenied, DocumentInvalid, OutcomeUnknown) as error:
            tick.add(candidate.document, What.REFUSED, None, error.message)
            return 0
        if holder is None:
            tick.add(candidate.document, What.LOST, None, "another worker claimed it first")
            return 0
        try:
            tick.report.events.append(self._done(candidate.edge, holder, tick))
        except StoreFailed as error:
            tick.add(candidate.document, What.REFUSED, None, error.message)
            raise
        return 1

    def _claim(self, candidate: Candidate) -> Holder | None:
        read = None if candidate.new else candidate.document
        if read is not None and self._store.has_moved(self._machine.db, read):
            return None
        now = self._store.now_ms()
        before = read if read is not None else moves.new_document(self._machine, candidate.document, None, now)
        new = moves.claimed(self._machine, candidate.edge, before, now, claim=self._new_claim(), step=candidate.step)
        standing = self._store.claim(self._machine.db, read, new, writer=self._machine.lane)
        source = status_of(read) if read is not None else None
        return Holder(self._machine, self._store, standing, source) if standing is not None else None

    def _done(self, edge: Transition, holder: Holder, tick: _Tick) -> Event:
        # Counted again now that the claim stands, so that two workers at the cap cannot both go beyond it; of the day
        # that the claim was written on, which may be over.
        per_day, day = self._machine.per_day, text_of(holder.document, CLAIM_DAY) or ""
        if per_day is not None and _spent_on(self._machine, self._store, day) > per_day:
            return holder.give_back(f"the cap of {per_day} a day is reached", What.OVER_BUDGET)
        result = self._step(edge, holder)
        if self._store.now_ms() > holder.until_ms:
            name = shown(holder.identifier, 120)
            tick.report.notes.append(f"{name}: its work outlived the lease; lengthen that, or let the step renew it")
        return holder.conclude(result)

    def _step(self, edge: Transition, holder: Holder) -> StepResult:
        work = Work(
            machine=self._machine,
            document=copied(holder.document),
            key=holder.key,
            until_ms=holder.until_ms,
            now_ms=self._store.now_ms,
            renew=holder.renew,
        )
        try:
            return self._steps[edge.step or ""].run(work)
        except VibeyError as error:
            return unknown(error.message)
        except Exception as error:  # noqa: BLE001 - a step is a plug-in: its fault is this document's, not the tick's
            return unknown(f"the step broke off with {type(error).__name__}")


@dataclass(frozen=True, slots=True)
class _Tick:
    """What the phases of one tick share."""

    report: TickReport
    limits: Limits
    units: list[Unit]
    """Those that are only to be made."""

    def over(self) -> bool:
        """Whether the tick is to begin nothing more."""
        stopped = self.limits.stop()
        if stopped and not self.report.cap:
            self.report.cap = _TIME
        return stopped

    def some(self, listed: list[_T], most: int | None) -> Iterator[_T]:
        """The next ``most`` of these, taken off the list, as long as there is time."""
        chosen = listed[:most]
        del listed[: len(chosen)]
        for each in chosen:
            if self.over():
                return
            yield each

    def add(self, document: Document, what: What, written: Document | None, reason: str) -> None:
        """An event of a document that was in the status of ``document``."""
        target = status_of(written) if written is not None else None
        self.report.events.append(Event(id_of(document), what, status_of(document), target, reason))


def spent_today(machine: Machine, store: Store) -> int:
    """How many claims of today stand on the machine's documents: what a cap per day is held against."""
    return _spent_on(machine, store, moves.day_of(store.now_ms()))


def _spent_on(machine: Machine, store: Store, day: str) -> int:
    return sum(moves.claims_on(document, day) for document in store.claims_of(machine, day))
