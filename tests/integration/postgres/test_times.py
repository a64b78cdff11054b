"""Times in the core against the server's own order of the same values."""

from __future__ import annotations

from random import Random

import psycopg
import pytest

from vibey_actions.state.times import Moment, moment, newer

LAST_YEAR = {"timestamptz": 294_276, "timestamp": 294_276, "date": 5_874_897}


def inputs(kind: str) -> list[str | None]:
    """Random values of a type as PostgreSQL reads them, near each other and far apart; the same on every run."""
    choose = Random(kind)  # noqa: S311 - examples, not secrets
    years = [1, 2, 4, 44, 100, 400, 1582, 1899, 1900, 1999, 2000, 2023, 2024, 9999, 10_000, 15_000, LAST_YEAR[kind] - 1]
    found: list[str | None] = [None, None, "infinity", "infinity", "-infinity", "epoch", "4713-01-01 BC"]
    for _ in range(350):
        year = choose.choice(years) if choose.random() < 0.7 else choose.randrange(1, LAST_YEAR[kind])
        text = f"{year:04}-{choose.choice([1, 2, 2, 3, 12]):02}-{choose.choice([1, 2, 28, 28]):02}"
        if kind != "date":
            text += f" {choose.choice([0, 12, 23]):02}:{choose.choice([0, 59]):02}:{choose.choice([0, 1, 59]):02}"
            text += choose.choice(["", ".5", ".05", ".000001", ".999999", ".1", ".100001"])
        if kind == "timestamptz":
            text += choose.choice(["+00", "+02:30", "-14", "+14", "-00:00:30", "+05:45:15"])
        found.append(text + choose.choice(["", "", " BC" if year < 4000 else ""]))
    return found + choose.sample(found, 40)


def ranked(dsn: str, kind: str) -> list[tuple[Moment, int]]:
    """Every value as its row's JSON has it, and its rank in the server's order."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        query = (
            "SELECT to_jsonb(t)->'at', dense_rank() OVER (ORDER BY at NULLS FIRST)"
            f" FROM (SELECT input::{kind} AS at FROM unnest(%s::text[]) AS input) t"
        )
        rows = connection.execute(query.encode(), (inputs(kind),)).fetchall()
    found = [(moment(text), rank) for text, rank in rows]
    assert len({rank for _, rank in found}) > 200
    return [(known, rank) for known, rank in found if known is not None]


@pytest.mark.parametrize("kind", LAST_YEAR)
def test_order_is_the_servers(dsn: str, kind: str) -> None:
    """Every value is understood, and each pair is ordered as ORDER BY orders it, equal ones as equal."""
    values = ranked(dsn, kind)
    assert len(values) == len(inputs(kind))
    for left, left_rank in values:
        for right, right_rank in values:
            assert newer(left, right) is (None if left_rank == right_rank else left_rank > right_rank)


LIMITS = {
    "timestamptz": ("4714-11-24 00:00:00+00 BC", "294276-12-31 23:59:59.999999+00"),
    "timestamp": ("4714-11-24 00:00:00 BC", "294276-12-31 23:59:59.999999"),
    "date": ("4714-11-24 BC", "5874897-12-31"),
}


@pytest.mark.parametrize("kind", LIMITS)
def test_the_servers_limits(dsn: str, kind: str) -> None:
    """The first and the last value that the type holds are understood and ordered."""
    with psycopg.connect(dsn) as connection:
        connection.execute("SET TIME ZONE 'UTC'")
        query = f"SELECT to_jsonb(%s::text::{kind}), to_jsonb(%s::text::{kind})"
        row = connection.execute(query.encode(), LIMITS[kind]).fetchone()
    assert row is not None
    first, last = map(moment, row)
    assert first is not None
    assert last is not None
    assert newer(last, first) is True
