"""Times as PostgreSQL writes them into JSON, ordered as it orders them (the server's own word: tests/integration)."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from vibey_actions.state.times import Moment, moment, newer

ZONED = [
    None,
    "-infinity",
    "4713-01-01T00:00:00+00:00 BC",
    "0044-03-15T00:00:00+00:00 BC",
    "0044-03-15T00:00:00.000001+00:00 BC",
    "0001-02-28T00:00:00+00:00 BC",
    "0001-02-29T00:00:00+00:00 BC",
    "0001-03-01T00:00:00+00:00 BC",
    "0001-12-31T23:59:59.999999+00:00 BC",
    "0001-01-01T00:00:00+00:00",
    "1969-12-31T23:59:59.9+00:00",
    "1969-12-31T23:59:59.95+00:00",
    "1970-01-01T00:00:00+00:00",
    "2024-02-28T23:59:59+00:00",
    "2024-02-29T00:00:00+00:00",
    "2024-03-01T00:00:00+00:00",
    "2024-03-01T00:00:00.1+00:00",
    "2024-03-01T00:00:00.12+00:00",
    "2024-03-01T00:00:00.2+00:00",
    "9999-12-31T23:59:59.999999+00:00",
    "10000-01-01T00:00:00+00:00",
    "15000-12-31T23:40:28+00:00",
    "294276-12-31T23:59:59.999999+00:00",
    "infinity",
]
DATES = ["4714-11-24 BC", "0044-03-15 BC", "0001-01-01", "1900-02-28", "1900-03-01", "2000-02-29", "9999-12-31"]
DATES += ["10000-01-01", "15000-12-31", "999999-12-31", "1000000-01-01", "5874897-12-31"]


def known(value: object) -> Moment:
    found = moment(value)
    assert found is not None, value
    return found


@pytest.mark.parametrize(
    "ascending",
    [ZONED, [text and text.replace("+00:00", "") for text in ZONED], [None, "-infinity", *DATES, "infinity"]],
    ids=["timestamptz", "timestamp", "date"],
)
def test_order(ascending: list[str | None]) -> None:
    """Missing, -infinity, BC, fractions, years beyond 9999 and infinity stand in this order, each pair both ways."""
    for earlier, later in combinations(map(known, ascending), 2):
        assert newer(later, earlier) is True
        assert newer(earlier, later) is False


@pytest.mark.parametrize("text", [*ZONED, *DATES, "2024-01-01T00:00:00"])
def test_equal_times_cannot_be_ordered(text: str | None) -> None:
    """Neither of two equal times is the newer; two missing ones are equal."""
    assert newer(known(text), known(text)) is None


def test_the_same_moment_at_other_offsets_is_equal() -> None:
    """An offset is counted in, with minutes and seconds."""
    noon = ["2024-01-01T12:00:00+00:00", "2024-01-01T14:30:00+02:30", "2024-01-01T07:00:00-05", "2024-01-01T12:00:00Z"]
    noon += ["2024-01-01T11:59:30-00:00:30", "2024-01-02T02:00:00+14:00", "2024-01-01 12:00:00.000+00"]
    for left, right in pairwise(map(known, noon)):
        assert newer(left, right) is None
    assert newer(known("2024-01-01T12:00:00+01:00"), known(noon[0])) is False
    assert newer(known("2024-01-01T12:00:00-01:00"), known(noon[0])) is True


@pytest.mark.parametrize(
    ("before_midnight", "after_midnight"),
    [
        ("1900-02-28T23:30:00+00:00", "1900-03-01T00:30:00+01:00"),
        ("2000-02-29T23:30:00+00:00", "2000-03-01T00:30:00+01:00"),
        ("2023-02-28T23:30:00+00:00", "2023-03-01T00:30:00+01:00"),
        ("2024-02-29T23:30:00+00:00", "2024-03-01T00:30:00+01:00"),
        ("2023-12-31T23:30:00+00:00", "2024-01-01T00:30:00+01:00"),
        ("0001-02-29T23:30:00+00:00 BC", "0001-03-01T00:30:00+01:00 BC"),
        ("0101-02-28T23:30:00+00:00 BC", "0101-03-01T00:30:00+01:00 BC"),
        ("0001-12-31T23:30:00+00:00 BC", "0001-01-01T00:30:00+01:00"),
    ],
)
def test_days_follow_each_other_as_in_the_calendar(before_midnight: str, after_midnight: str) -> None:
    """Leap days stand where the proleptic Gregorian calendar has them: nothing lies between these midnights."""
    assert newer(known(before_midnight), known(after_midnight)) is None


def test_with_and_without_an_offset_cannot_be_ordered() -> None:
    """A time with an offset against one without has no order, however far apart; infinities and missing ones have."""
    for plain in ("2024-01-01T00:00:00", "1900-01-01", "9999-12-31T00:00:00"):
        zoned = known("2024-06-01T00:00:00+00:00")
        assert newer(known(plain), zoned) is None
        assert newer(zoned, known(plain)) is None
        for open_end, is_newer in (("infinity", True), ("-infinity", False), (None, False)):
            assert newer(known(open_end), known(plain)) is is_newer
            assert newer(known(open_end), zoned) is is_newer


@pytest.mark.parametrize(
    "value",
    [
        0,
        1_700_000_000,
        True,
        [],
        {},
        "",
        "yesterday",
        "12:00:00",
        "2024",
        "2024-1-1",
        "2024-01-01T",
        "2024-01-01T00:00",
        "2024-01-01T00:00:00.",
        "2024-01-01T00:00:00.1234567",
        "2024-01-01T00:00:00+0",
        "2024-01-01T00:00:00 AD",
        "2024-01-01\n",
        " 2024-01-01",
        "-2024-01-01",
        "Infinity",
        "NaN",
        "\u0662\u0660\u0662\u0664-01-01",
    ],
)
def test_what_is_no_time(value: object) -> None:
    """Anything else is not a time, never a wrong one."""
    assert moment(value) is None
