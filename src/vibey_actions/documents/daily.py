"""Work that is due once per local date: which days a schedule names, which are due, and which were missed.

A schedule is a document of kind ``daily-schedule`` beside the units: ``name``, ``hour``, ``timeZone`` (IANA) and, where
it says so, ``person``, ``weekdays`` (Mon to Sun), ``since`` (the first date). A unit is a document of the machine with
the id ``NAME:DATE`` or ``NAME:PERSON:DATE``: it exists as soon as it is claimed, so no day is worked twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from vibey_actions.documents.finding import Unit
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import CREATED, ID, Document, check_id, id_of, number, text_of, time_ms
from vibey_actions.documents.stores.base import Store
from vibey_actions.errors import DocumentInvalid
from vibey_actions.text import shown

SCHEDULE_KIND: Final = "daily-schedule"
LOOK_BACK: Final = 14
"""Days before today that every tick looks at for missed ones."""
FARTHEST: Final = 366
"""Days before today that are looked at where none of the last ones has a unit: the lane was away for longer."""
WEEKDAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")

_LAST_HOUR: Final = 23


@dataclass(frozen=True, slots=True)
class Schedule:
    """When a unit of work is due, in the days of one zone."""

    identifier: str
    name: str
    person: str | None
    hour: int
    weekdays: frozenset[int]
    zone: ZoneInfo
    since: date | None

    def local(self, now_ms: int) -> datetime:
        """The moment in the schedule's zone: its date, weekday and hour all come from this one conversion."""
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now_ms)).astimezone(self.zone)

    def due(self, now_ms: int) -> date | None:
        """Today, once its hour has come on a day that is meant; however late the tick is that day."""
        here = self.local(now_ms)
        return here.date() if here.hour >= self.hour and self.meant(here.date()) else None

    def meant(self, day: date) -> bool:
        """Whether there is a unit of that day."""
        return day.weekday() in self.weekdays and (self.since is None or day >= self.since)

    def past(self, now_ms: int, most: int = LOOK_BACK) -> list[date]:
        """The days before today that are meant, the oldest first, ``most`` days back."""
        today, day = self.local(now_ms).date(), self.back(now_ms, most)
        days = (day + timedelta(days=further) for further in range((today - day).days))
        return [day for day in days if self.meant(day)]

    def back(self, now_ms: int, most: int) -> date:
        """The day ``most`` days before today, or the first that there is."""
        today = self.local(now_ms).date()
        return date.fromordinal(max(today.toordinal() - most, 1))

    def of(self, known: Mapping[str, date]) -> set[date]:
        """The days of this schedule among known units."""
        return {day for identifier, day in known.items() if identifier == self.unit_id(day)}

    def unit_id(self, day: date) -> str:
        """The id of a day's unit."""
        return ":".join(part for part in (self.name, self.person, day.isoformat()) if part is not None)

    def unit(self, day: date) -> Document:
        """A day's unit, before it has a status."""
        person = {"person": self.person} if self.person is not None else {}
        named: Document = {"name": self.name, **person, "date": day.isoformat(), "schedule": self.identifier}
        return {ID: self.unit_id(day), **named}


@dataclass(frozen=True, slots=True)
class Plan:
    """The units that are to be made now, and what was skipped and why."""

    units: tuple[Unit, ...]
    notes: tuple[str, ...]


def plan(machine: Machine, store: Store) -> Plan:
    """What is due and what was missed by the schedules in the machine's database. Raises StoreFailed.

    A schedule that cannot be used is skipped with a note; the others are not touched by it.
    """
    now, schedules, notes = store.now_ms(), [], []
    for document in _all(store, machine.db, "kind", SCHEDULE_KIND):
        try:
            schedules.append((read_schedule(document), document))
        except DocumentInvalid as error:
            notes.append(f"{shown(id_of(document), 120)} is skipped: {error.message}")
    known = _known(machine, store, now, LOOK_BACK) if schedules else {}
    away = {schedule.identifier for schedule, document in schedules if _was_away(schedule, document, known, now)}
    if away:
        known = _known(machine, store, now, FARTHEST)
    units: list[Unit] = []
    for schedule, document in schedules:
        days = _absence(schedule, known, now) if schedule.identifier in away else schedule.past(now)
        units += _units(schedule, document, days, known, now)
    return Plan(tuple(units), tuple(notes))


def _was_away(schedule: Schedule, document: Document, known: Mapping[str, date], now: int) -> bool:
    """Whether there may be missed days before those that every tick looks at."""
    first = _first(schedule, document, {})
    if first is not None and first >= schedule.back(now, LOOK_BACK):
        return False
    return schedule.of(known).isdisjoint(schedule.past(now))


def _absence(schedule: Schedule, known: Mapping[str, date], now: int) -> list[date]:
    """The days since the last one that has a unit: none of the days that every tick looks at has one.

    Where one of those has, the days before it were looked at by then, and units that are gone were deleted on purpose.
    """
    today = schedule.local(now).date()
    last = max((day for day in schedule.of(known) if day < today), default=date.min)
    return [day for day in schedule.past(now, FARTHEST) if day > last]


def read_schedule(document: Mapping[str, object]) -> Schedule:
    """The schedule that a document holds. Raises DocumentInvalid, naming the field."""
    name, hour, person = text_of(document, "name"), number(document.get("hour")), text_of(document, "person")
    if name is None or ":" in name:
        raise DocumentInvalid("its name is no text without a colon", "name the work, for example digest")
    if person is None and document.get("person") is not None:
        raise DocumentInvalid("its person is no text", "name the person, or leave it out for work that is nobody's")
    if not isinstance(hour, int) or not 0 <= hour <= _LAST_HOUR:
        raise DocumentInvalid("its hour is no whole number from 0 to 23", "write the local hour")
    schedule = Schedule(
        id_of(document),
        name,
        person,
        hour,
        _weekdays(document.get("weekdays")),
        _zone(text_of(document, "timeZone")),
        _since(document.get("since")),
    )
    check_id(schedule.unit_id(date.max))
    return schedule


def _units(
    schedule: Schedule, document: Document, days: Iterable[date], known: Mapping[str, date], now: int
) -> Iterator[Unit]:
    first = _first(schedule, document, known)
    for day in days:
        if first is not None and day >= first and schedule.unit_id(day) not in known:
            yield Unit(schedule.unit(day), "missed")
    today = schedule.due(now)
    if today is not None and schedule.unit_id(today) not in known:
        yield Unit(schedule.unit(today), "claimed")


def _first(schedule: Schedule, document: Document, known: Mapping[str, date]) -> date | None:
    """The first day that can have been missed: by ``since``, else the day after the schedule was made, else the day of
    the earliest unit; None where nothing tells."""
    if schedule.since is not None:
        return schedule.since
    made = time_ms(document.get(CREATED))
    if made is not None:
        with suppress(OverflowError):  # the first or the last day that there is
            return schedule.local(made).date() + timedelta(days=1)
    return min(schedule.of(known), default=None)


def _known(machine: Machine, store: Store, now: int, back: int) -> dict[str, date]:
    """The units of the days that are looked at, by id; a day more at both ends, because zones differ."""
    utc = (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=now)).date()
    bounds = ((utc - timedelta(days=back + 1)).isoformat(), (utc + timedelta(days=1)).isoformat())
    found: dict[str, date] = {}
    after: str | None = None
    while True:
        page = store.query(machine.db, "date", range=bounds, after=after)
        for document in page.documents:
            if machine.owns(document):
                found[id_of(document)] = _day(document.get("date")) or utc
        after = page.next
        if after is None:
            return found


def _all(store: Store, db: str, field: str, key: str) -> Iterator[Document]:
    after: str | None = None
    while True:
        page = store.query(db, field, key=key, after=after)
        yield from page.documents
        after = page.next
        if after is None:
            return


def _weekdays(value: object) -> frozenset[int]:
    if value is None:
        return frozenset(range(7))
    names = {name.lower(): index for index, name in enumerate(WEEKDAYS)}
    listed = value if isinstance(value, list) else []
    chosen = [names.get(each.lower()) if isinstance(each, str) else None for each in listed]
    days = frozenset(day for day in chosen if day is not None)
    if not days or None in chosen:
        raise DocumentInvalid("its weekdays are no list of Mon to Sun", 'write for example ["Mon", "Fri"]')
    return days


def _zone(name: str | None) -> ZoneInfo:
    try:
        return ZoneInfo(name or "")
    except (KeyError, ValueError, OSError):
        raise DocumentInvalid(
            "its timeZone is unknown here", "write an IANA name, for example America/Detroit"
        ) from None


def _since(value: object) -> date | None:
    if value is not None and _day(value) is None:
        raise DocumentInvalid("its since is no date", "write it as 2026-01-31")
    return _day(value)


def _day(value: object) -> date | None:
    try:
        return date.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        return None
