"""Which days are due and which were missed, in the zone of each schedule."""

from __future__ import annotations

import zoneinfo
from datetime import UTC, date, datetime
from typing import Any

import pytest

from tests.support.lanes import DAILY, MACHINES, FakeStep, SetClock
from vibey_actions.documents.daily import Plan, plan, read_schedule
from vibey_actions.documents.lane import Lane, Limits
from vibey_actions.documents.model import Document, without
from vibey_actions.documents.report import What
from vibey_actions.documents.stores.memory import MemoryStore
from vibey_actions.errors import DocumentInvalid

DETROIT: Document = {"name": "digest", "hour": 7, "timeZone": "America/Detroit", "since": "2026-01-01"}


def at(text: str) -> SetClock:
    """A clock that stands at a moment in UTC."""
    return SetClock(int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000))


def planned(clock: SetClock, *schedules: Document) -> tuple[MemoryStore, Plan]:
    store = MemoryStore(MACHINES, clock)
    for place, schedule in enumerate(schedules):
        store.put("daily", f"schedule:{place}", {"kind": "daily-schedule", **schedule})
    return store, plan(DAILY, store)


def units(result: Plan) -> list[tuple[object, str]]:
    return [(unit.document["_id"], unit.status) for unit in result.units]


DUE = {
    "before its hour": ("2026-01-01 11:59", DETROIT, []),
    "at its hour": ("2026-01-01 12:00", DETROIT, [("digest:2026-01-01", "claimed")]),
    "late that day": ("2026-01-02 04:59", DETROIT, [("digest:2026-01-01", "claimed")]),
    "the day after": ("2026-01-02 05:00", DETROIT, [("digest:2026-01-01", "missed")]),
    "before its first day": ("2025-12-31 12:00", DETROIT, []),
    "a day ahead of UTC": (
        "2026-01-01 10:00",
        {**DETROIT, "timeZone": "Pacific/Kiritimati", "hour": 0, "since": "2026-01-02"},
        [("digest:2026-01-02", "claimed")],
    ),
    "a person": ("2026-01-01 12:00", {**DETROIT, "person": "ann"}, [("digest:ann:2026-01-01", "claimed")]),
    "on its weekday": ("2026-01-02 12:00", {**DETROIT, "weekdays": ["fri"]}, [("digest:2026-01-02", "claimed")]),
    "on another weekday": ("2026-01-03 12:00", {**DETROIT, "weekdays": ["Fri"]}, [("digest:2026-01-02", "missed")]),
    "Friday there, Saturday in UTC": (
        "2026-01-03 03:00",
        {**DETROIT, "weekdays": ["Fri"], "hour": 22},
        [("digest:2026-01-02", "claimed")],
    ),
    "in summer time": ("2026-07-01 11:00", {**DETROIT, "since": "2026-07-01"}, [("digest:2026-07-01", "claimed")]),
    "an hour that the clocks skip": (
        "2026-03-08 07:00",
        {**DETROIT, "hour": 2, "since": "2026-03-08"},
        [("digest:2026-03-08", "claimed")],
    ),
    "a schedule made today has missed nothing": (
        "2026-01-05 12:00",
        {"name": "d", "hour": 7, "timeZone": "UTC", "createdAt": "2026-01-05T08:00:00Z"},
        [("d:2026-01-05", "claimed")],
    ),
    "a schedule has missed the days after it was made": (
        "2026-01-05 12:00",
        {"name": "d", "hour": 7, "timeZone": "UTC", "createdAt": "2026-01-03T08:00:00Z"},
        [("d:2026-01-04", "missed"), ("d:2026-01-05", "claimed")],
    ),
    "a schedule that says nothing has missed nothing": (
        "2026-01-05 12:00",
        {"name": "d", "hour": 7, "timeZone": "UTC"},
        [("d:2026-01-05", "claimed")],
    ),
}


@pytest.mark.parametrize(("moment", "schedule", "expected"), DUE.values(), ids=DUE.keys())
def test_what_is_due(moment: str, schedule: Document, expected: list[tuple[object, str]]) -> None:
    """Date, weekday and hour come from one conversion into the schedule's zone."""
    assert units(planned(at(moment), schedule)[1]) == expected


def worked(store: MemoryStore, *days: str) -> None:
    """Units of these days, as ticks made them."""
    for day in days:
        unit = {"kind": "daily", "name": "digest", "date": day, "status": "missed", "attempts": 0}
        store.put("daily", f"digest:{day}", unit, writer="daily")


def test_every_day_of_a_long_absence_is_missed() -> None:
    """A lane that stood still for months marks each day since the last that has a unit, and those before it never."""
    store, _ = planned(at("2026-06-01 12:00"), DETROIT)
    worked(store, "2026-02-26", "2026-02-28")
    found = units(plan(DAILY, store))
    assert [status for _, status in found] == ["missed"] * 92 + ["claimed"]
    assert found[0] == ("digest:2026-03-01", "missed")


def test_a_tick_that_was_cut_off_leaves_no_gap() -> None:
    """The oldest days are made first, after today's: the next tick goes on behind the last that was made."""
    store, first = planned(at("2026-06-01 12:00"), DETROIT)
    made = 0

    def enough() -> bool:
        nonlocal made
        made += 1
        return made > 60

    lane = Lane(DAILY, store, {"daily": FakeStep()})
    lane.tick(Limits(stop=enough), units=first.units)
    rest = plan(DAILY, store).units
    assert 0 < len(rest) < len(first.units)
    lane.tick(units=rest)
    assert plan(DAILY, store).units == ()
    days = {str(document["date"]) for document in store.query("daily", "date").documents}
    assert len(days) == (date(2026, 6, 1) - date(2026, 1, 1)).days + 1


def test_a_flood_of_missed_days_keeps_nobody_from_today() -> None:
    """Today's work is claimed once a few of them are made; its day ends, theirs have."""
    store, first = planned(at("2026-06-01 12:00"), DETROIT)
    step = FakeStep()
    report = Lane(DAILY, store, {"daily": step}).tick(units=first.units)
    events = [event.what for event in report.events]
    assert len(step.worked) == 1
    assert events.index(What.DONE) == 20
    assert events.count(What.MADE) == 151


def test_a_year_is_as_far_as_is_looked_back() -> None:
    """A schedule since long ago, whose lane never ran."""
    found = units(planned(at("2030-06-01 12:00"), DETROIT)[1])
    assert [status for _, status in found] == ["missed"] * 366 + ["claimed"]


@pytest.mark.parametrize("kept", [1, 5, 14])
def test_units_that_were_deleted_for_their_age_do_not_come_back(kept: int) -> None:
    """Where one of the last days has its unit, ticks ran; those before the days that are looked at stay gone."""
    clock = at("2026-06-01 12:00")
    store, _ = planned(clock, DETROIT)
    worked(store, *(f"2026-05-{31 - back:02}" for back in range(kept)))
    found = units(plan(DAILY, store))
    assert [status for _, status in found] == ["missed"] * (14 - kept) + ["claimed"]


def test_a_new_schedule_reads_no_year(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing before its first day, so its ticks read the last days alone."""
    store, _ = planned(at("2026-06-01 12:00"), {**DETROIT, "since": "2026-05-20"})
    asked: list[object] = []
    query = store.query

    def noted(*arguments: Any, **named: Any) -> Any:
        asked.append(named.get("range"))
        return query(*arguments, **named)

    monkeypatch.setattr(store, "query", noted)
    plan(DAILY, store)
    assert [bounds for bounds in asked if bounds] == [("2026-05-17", "2026-06-02")]


def test_a_day_is_worked_once_however_often_the_tick_comes() -> None:
    """A claimed, finished or missed day is known by its id; the next day is another."""
    clock = at("2026-01-02 12:00")
    store, first = planned(clock, DETROIT)
    step = FakeStep()
    lane = Lane(DAILY, store, {"daily": step})
    lane.tick(units=first.units)
    for _ in range(3):
        again = plan(DAILY, store)
        assert again.units == ()
        lane.tick(units=again.units)
    clock.pass_ms(24 * 3_600_000)
    lane.tick(units=plan(DAILY, store).units)
    assert [work.key for work in step.worked] == ["digest:2026-01-02:1", "digest:2026-01-03:1"]
    statuses = {document["_id"]: document["status"] for document in store.query("daily", "status").documents}
    assert statuses == {"digest:2026-01-01": "missed", "digest:2026-01-02": "done", "digest:2026-01-03": "done"}


def test_a_machine_without_time_zones_knows_them_all_the_same() -> None:
    """A slim container or Windows has no data of its own: the zones come with the package."""
    zoneinfo.reset_tzpath(())
    zoneinfo.ZoneInfo.clear_cache()
    try:
        assert units(planned(at("2026-07-01 11:00"), {**DETROIT, "since": "2026-07-01"})[1]) == [
            ("digest:2026-07-01", "claimed")
        ]
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()


def test_an_unknown_zone_skips_its_schedule_alone() -> None:
    """One stale record stops nobody else's day."""
    wrong = {**DETROIT, "name": "other", "timeZone": "Mars/Olympus"}
    _, result = planned(at("2026-01-01 12:00"), wrong, DETROIT)
    assert units(result) == [("digest:2026-01-01", "claimed")]
    assert result.notes == ("schedule:0 is skipped: its timeZone is unknown here",)


def test_a_unit_that_cannot_be_named_skips_its_schedule_alone() -> None:
    """A name too long for an id of its units is that schedule's fault; the others have their day."""
    _, result = planned(at("2026-01-01 12:00"), {**DETROIT, "name": "n" * 600}, DETROIT)
    assert units(result) == [("digest:2026-01-01", "claimed")]
    assert len(result.notes) == 1


@pytest.mark.parametrize("made", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z"])
def test_a_schedule_made_at_the_end_of_time_stops_nothing(made: str) -> None:
    """A moment that has no date in the schedule's zone tells nothing about missed days; today is due all the same."""
    for zone in ("America/Detroit", "Pacific/Kiritimati"):
        stale = {**without(DETROIT, ["since"]), "createdAt": made, "timeZone": zone, "hour": 0}
        _, result = planned(at("2026-01-01 12:00"), stale)
        assert "claimed" in [status for _, status in units(result)]


@pytest.mark.parametrize(
    "wrong",
    [
        {"name": "a:b"},
        {"name": ""},
        {"hour": 24},
        {"hour": "7"},
        {"hour": True},
        {"hour": 7.5},
        {"weekdays": []},
        {"weekdays": "Mon"},
        {"weekdays": ["Mon", "Someday"]},
        {"timeZone": ""},
        {"timeZone": "../etc/passwd"},
        {"timeZone": "/etc/localtime"},
        {"since": "soon"},
        {"person": 7},
        {"person": ""},
        {"person": ["amy"]},
        {"person": "p" * 600},
        {"name": "n" * 600},
        {"name": "a\x00"},
    ],
    ids=lambda wrong: repr(wrong)[:40],
)
def test_a_schedule_that_cannot_be_read_says_why(wrong: Document) -> None:
    """No field is guessed: a wrong hour would be the wrong day."""
    with pytest.raises(DocumentInvalid):
        read_schedule({"_id": "s", **DETROIT, **wrong})
