"""How the lanes stand: how many documents are in each status, since when, and which need a person, why and what to run.

Read from the documents alone. Source: docs/documents.md, "Looking after lanes".
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from vibey_actions.documents.machine import Machine, machine_of
from vibey_actions.documents.model import (
    ATTEMPTS,
    CREATED,
    ERROR,
    HELD,
    LEASE,
    UNKNOWN,
    UPDATED,
    Document,
    attempts_of,
    expired,
    id_of,
    number,
    status_of,
    text_of,
    time_ms,
)
from vibey_actions.documents.stores.base import Store
from vibey_actions.text import shown

STUCK_AFTER_MS: Final = 24 * 60 * 60 * 1000
"""A document that no writer moved for so long is stuck, whoever's turn it is."""
RECENT_MS: Final = 7 * STUCK_AFTER_MS
"""How long a failure is listed that no operator can send back: nothing would ever take it off the list."""
MOST_LISTED: Final = 50
"""Documents of one sort that are kept of a machine, those that wait longest (of failed ones: the newest)."""
NO_STATUS: Final = "(no known status)"
_MOST_MOMENTS: Final = 30
_MOST_DOUBTS: Final = 20
_UNITS: Final = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class Sort(str, Enum):
    """Why a document is listed."""

    STUCK = "stuck"
    """It does not move by itself, or has not for long."""
    FAILED = "failed"
    """It ended in a failed status: one from which an operator may send it back, or of the last week."""
    HELD = "held"
    """It waits for a reason that it names."""
    WORKING = "working"
    """Somebody has a claim on it that stands."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One document that is worth a look. ``command`` is what to run about it, empty where there is nothing."""

    identifier: str
    machine: str
    status: str
    sort: Sort
    reason: str
    since_ms: int | None
    attempts: int | None
    command: tuple[str, ...] = ()
    timeline: tuple[tuple[int, str], ...] = ()
    """The moments that the document names, in order: milliseconds since 1970, and what."""

    @property
    def command_line(self) -> str:
        """What to type, quoted for a shell; empty where nothing helps but waiting."""
        return shlex.join(("vibey-actions", "docs", *self.command)) if self.command else ""


@dataclass(slots=True)
class MachineStatus:
    """The documents of one machine. ``oldest`` is, per status, the one that has been there longest and since when."""

    machine: str
    counts: dict[str, int] = field(default_factory=dict)
    oldest: dict[str, tuple[str, int]] = field(default_factory=dict)
    terminals: frozenset[str] = frozenset()
    listed: dict[Sort, list[Listed]] = field(default_factory=dict)
    totals: dict[Sort, int] = field(default_factory=dict)

    def of(self, sort: Sort) -> Sequence[Listed]:
        """The listed documents of one sort; ``totals`` says how many there are."""
        return self.listed.get(sort, [])


@dataclass(frozen=True, slots=True)
class LastTick:
    """When a tick last ran, as far as its record says; ``at_ms`` None: never, or ``unknown`` says why not known."""

    at_ms: int | None = None
    text: str = ""
    unknown: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """All lanes at one moment of the deciding clock."""

    now_ms: int
    machines: tuple[MachineStatus, ...]
    last_tick: LastTick
    doubts: tuple[str, ...] = ()

    def total(self, sort: Sort) -> int:
        """How many documents of this sort there are."""
        return sum(machine.totals.get(sort, 0) for machine in self.machines)


class Survey(Protocol):
    """What a store that can count does better than reading every document."""

    def counts(self, machine: Machine) -> Mapping[str | None, int]:
        """The machine's documents by status; None stands for all without one that is a text."""
        ...

    def but(self, machine: Machine, quiet: Sequence[str]) -> Iterator[Document]:
        """The machine's documents that are in none of the ``quiet`` statuses."""
        ...


def look(
    machines: Iterable[Machine],
    store: Store,
    last_tick: LastTick,
    *,
    stuck_after_ms: int = STUCK_AFTER_MS,
    survey: Survey | None = None,
) -> Status:
    """Every document of these machines, told apart. With a ``survey`` those that ended well are counted, not read.

    Raises what the store and the survey do; writes nothing.
    """
    asked, now = tuple(machines), store.now_ms()
    found = {machine.name: _Gathering(machine, now, store.grace_ms, stuck_after_ms) for machine in asked}
    if survey is not None:
        for machine in asked:
            found[machine.name].survey(survey)
    else:
        for db in dict.fromkeys(machine.db for machine in asked):
            for document in _all(store, db):
                owner = machine_of(asked, db, document)
                if owner is not None:
                    found[owner.name].count(document)
    doubts = dict.fromkeys((*getattr(store, "doubts", ()), *getattr(survey, "doubts", ())))
    return Status(now, tuple(one.done() for one in found.values()), last_tick, tuple(doubts)[:_MOST_DOUBTS])


def age(ms: int) -> str:
    """A length of time in its largest unit, rounded down."""
    size, unit = next(((size, unit) for size, unit in _UNITS if abs(ms) >= size), _UNITS[-1])
    return f"{abs(ms) // size} {unit}"


def timeline(document: Mapping[str, object]) -> tuple[tuple[int, str], ...]:
    """The moments that a document's own fields name, in order."""
    moments = [(moment, name) for name, value in document.items() if (moment := time_ms(value)) is not None]
    lease = number(document.get(LEASE))
    if isinstance(lease, int) and 0 < lease < 10**14:
        moments.append((lease, LEASE))
    return tuple((moment, _MOMENTS.get(name, shown(name, 80))) for moment, name in sorted(moments)[:_MOST_MOMENTS])


_MOMENTS: Final = {CREATED: "made", UPDATED: "last written", LEASE: "lease ends", "postAt": "to be posted"}


@dataclass(frozen=True, slots=True)
class _Judgement:
    """Why a document is listed, and what to run about it."""

    sort: Sort
    reason: str
    command: tuple[str, ...] = ()


class _Gathering:
    """Adds up one machine's documents."""

    def __init__(self, machine: Machine, now: int, grace_ms: int, stuck_after_ms: int) -> None:
        self._machine = machine
        self._now = now
        self._grace = grace_ms
        self._stuck_after = stuck_after_ms
        self._found = MachineStatus(
            machine.name, dict.fromkeys(machine.statuses, 0), terminals=frozenset(machine.terminals)
        )

    def survey(self, survey: Survey) -> None:
        machine = self._machine
        for known, count in survey.counts(machine).items():
            self._add(known, count)
        quiet = machine.terminals - machine.failures - {machine.failed}
        for document in survey.but(machine, sorted(quiet)):
            self._note(document)

    def count(self, document: Document) -> None:
        self._add(status_of(document), 1)
        self._note(document)

    def _add(self, known: str | None, count: int) -> None:
        status = self._name(known)
        self._found.counts[status] = self._found.counts.get(status, 0) + count

    def _name(self, known: str | None) -> str:
        return known if known in self._machine.statuses and known is not None else NO_STATUS

    def _note(self, document: Document) -> None:
        found, status = self._found, self._name(status_of(document))
        since = time_ms(document.get(UPDATED)) or time_ms(document.get(CREATED))
        if since is not None and (status not in found.oldest or since < found.oldest[status][1]):
            found.oldest[status] = (id_of(document), since)
        judged = self._judge(document, status, since)
        if judged is not None:
            self._list(document, status, since, judged)

    def done(self) -> MachineStatus:
        for sort, listed in self._found.listed.items():
            self._found.listed[sort] = self._first(sort, listed)
        return self._found

    def _list(self, document: Document, status: str, since: int | None, judged: _Judgement) -> None:
        listed = self._found.listed.setdefault(judged.sort, [])
        attempts = attempts_of(document) if ATTEMPTS in document else None
        listed.append(
            Listed(
                identifier=id_of(document),
                machine=self._machine.name,
                status=status,
                sort=judged.sort,
                reason=judged.reason,
                since_ms=since,
                attempts=attempts,
                command=judged.command,
                timeline=timeline(document),
            )
        )
        self._found.totals[judged.sort] = self._found.totals.get(judged.sort, 0) + 1
        if len(listed) > 2 * MOST_LISTED:
            self._found.listed[judged.sort] = self._first(judged.sort, listed)

    @staticmethod
    def _first(sort: Sort, listed: list[Listed]) -> list[Listed]:
        newest = -1 if sort is Sort.FAILED else 1
        return sorted(listed, key=lambda one: (newest * (one.since_ms or 0), one.identifier))[:MOST_LISTED]

    def _judge(self, document: Document, status: str, since: int | None) -> _Judgement | None:
        machine, identifier = self._machine, _argument(id_of(document))
        if status == NO_STATUS:
            look_at = ("get", "--db", machine.db, *identifier)
            return _Judgement(Sort.STUCK, "its status is none of the machine's", look_at)
        if status in machine.failures:
            again = ("--again",) if document.get(UNKNOWN) is True else ()
            return _Judgement(Sort.FAILED, _why(document), ("retry", "--machine", machine.name, *again, *identifier))
        if status == machine.failed and since is not None and self._now - since < RECENT_MS:
            return _Judgement(Sort.FAILED, _why(document), ("get", "--machine", machine.name, *identifier))
        if status in machine.terminals:
            return None
        return self._claimed(document) if machine.claimed(document) else self._waiting(document, status, since)

    def _claimed(self, document: Document) -> _Judgement:
        machine = self._machine
        if not expired(document, machine.lease_ms, self._now - self._grace):
            until = number(document.get(LEASE))
            ends = f"its lease ends in {age(int(until) - self._now)}" if until is not None else "it names no lease"
            return _Judgement(Sort.WORKING, ends)
        what = "what it did is unknown" if machine.once(document) else "no tick has taken it back yet"
        return _Judgement(Sort.STUCK, f"its lease has run out, and {what}", ("sweep", "--machine", machine.name))

    def _waiting(self, document: Document, status: str, since: int | None) -> _Judgement | None:
        machine, held = self._machine, text_of(document, HELD)
        if held is not None and status in machine.waiting:
            return _Judgement(Sort.HELD, held)
        waited = self._now - since if since is not None else None
        if waited is not None and waited < self._stuck_after:
            return None
        how_long = (
            f"nobody has moved it for {age(waited)}" if waited is not None else "it does not say how long it waits"
        )
        if status in machine.waiting:
            return _Judgement(Sort.STUCK, f"{how_long}, though it is ready", ("advance", "--machine", machine.name))
        writers = ", ".join(sorted({edge.writer for edge in machine.edges_from(status)}))
        look_at = ("get", "--machine", machine.name, *_argument(id_of(document)))
        return _Judgement(Sort.STUCK, f"{how_long}; {writers} moves it on", look_at)


def _why(document: Document) -> str:
    return text_of(document, ERROR) or "it says no reason"


def _argument(identifier: str) -> tuple[str, ...]:
    """An id as an argument: never taken for an option."""
    return ("--", identifier) if identifier.startswith("-") else (identifier,)


def _all(store: Store, db: str) -> Iterator[Document]:
    after: str | None = None
    while True:
        page = store.query(db, after=after)
        yield from page.documents
        after = page.next
        if after is None:
            return
