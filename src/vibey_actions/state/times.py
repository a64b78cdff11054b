"""Ordering the times of rows as PostgreSQL orders them, from their JSON text, without loading them as dates.

``newest`` compares a declared column of type date, timestamp or timestamptz: infinity, years
BC and beyond 9999 and fractions included. Rows are read with TIME ZONE 'UTC', so a time with an offset is in UTC.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_TIME = re.compile(
    r"(?P<year>\d{4,7})-(?P<month>\d\d)-(?P<day>\d\d)"
    r"(?:[T ](?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d{1,6}))?"
    r"(?P<offset>Z|[+-]\d\d(?::?\d\d)?(?::?\d\d)?)?)?"
    r"(?P<bc> BC)?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Moment:
    """A time that can be compared with others of the same ``zoned``; ``zoned`` is None for what has no offset to lack
    (a missing time, an infinity)."""

    order: tuple[int, ...]
    zoned: bool | None


MISSING = Moment((-2,), None)
_INFINITIES = {"-infinity": Moment((-1,), None), "infinity": Moment((1,), None)}


def moment(value: object) -> Moment | None:
    """The moment of a JSON value of a time column; None where it is not a time that can be ordered."""
    if value is None:
        return MISSING
    if not isinstance(value, str):
        return None
    if value in _INFINITIES:
        return _INFINITIES[value]
    match = _TIME.fullmatch(value)
    return _from(match) if match else None


def _from(match: re.Match[str]) -> Moment:
    year = int(match["year"])
    if match["bc"]:
        year = 1 - year
    seconds = int(match["hour"] or 0) * 3600 + int(match["minute"] or 0) * 60 + int(match["second"] or 0)
    microseconds = int((match["fraction"] or "0").ljust(6, "0"))
    days = _day_number(year, int(match["month"]), int(match["day"]))
    total = days * 86400 + seconds - _offset_seconds(match["offset"])
    return Moment((0, total, microseconds), match["offset"] is not None)


def _day_number(year: int, month: int, day: int) -> int:
    """Days of the proleptic Gregorian calendar, counted so that a later day has the larger number."""
    shifted = year - (month <= 2)  # noqa: PLR2004 - the year starts in March here, so that leap days end it
    month_index = (month + 9) % 12
    return 365 * shifted + shifted // 4 - shifted // 100 + shifted // 400 + (153 * month_index + 2) // 5 + day - 1


def _offset_seconds(offset: str | None) -> int:
    if offset is None or offset == "Z":
        return 0
    digits = offset[1:].replace(":", "").ljust(6, "0")
    seconds = int(digits[:2]) * 3600 + int(digits[2:4]) * 60 + int(digits[4:6])
    return -seconds if offset[0] == "-" else seconds


def newer(mine: Moment, theirs: Moment) -> bool | None:
    """Whether mine is the newer; None where the two cannot be ordered: equal, or one with an offset, one without."""
    if mine.zoned is not None and theirs.zoned is not None and mine.zoned != theirs.zoned:
        return None
    if mine.order == theirs.order:
        return None
    return mine.order > theirs.order
