"""What a sync takes as unchanged really is: after whatever happened, it finds just what a full comparison finds."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.ends import End, Ends
from vibey_actions.errors import SchemaMismatch
from vibey_actions.postgres.store import PgStore
from vibey_actions.remotes.git import GitRemote
from vibey_actions.state import bounds
from vibey_actions.state.report import Report

SCHEMA = """
CREATE TABLE p (id int PRIMARY KEY, v text, n numeric);
CREATE TABLE c (id text PRIMARY KEY, p int REFERENCES p ON DELETE SET NULL, v jsonb)
"""


class Died(BaseException):
    """Ends a sync where it stands, as a kill does."""


def found(end: End) -> tuple[Any, ...]:
    """What a sync would do."""
    report = end.operations.status()
    return report.state, dict(report.pull), dict(report.push)


def with_and_without(end: End) -> None:
    """The agreements and a comparison of everything come to one result."""
    quick = found(end)
    kept = end.value("SELECT array_agg(a::text ORDER BY a::text) FROM vibey_actions.agreement a")
    end.run("UPDATE vibey_actions.agreement SET base_commit = '-' || base_commit")
    assert found(end) == quick
    end.run("UPDATE vibey_actions.agreement SET base_commit = substr(base_commit, 2)")
    assert end.value("SELECT array_agg(a::text ORDER BY a::text) FROM vibey_actions.agreement a") == kept


def dying(monkeypatch: pytest.MonkeyPatch, kind: type, method: str, *, after: bool) -> None:
    """Have ``method`` die, before or after it did its work."""
    real: Callable[..., Any] = getattr(kind, method)

    def die(*arguments: Any, **options: Any) -> Any:
        if after:
            real(*arguments, **options)
        raise Died

    monkeypatch.setattr(kind, method, die)


DEATHS = [(kind, method, after)
          for kind, method in ((PgStore, "apply"), (PgStore, "record"), (PgStore, "fill"), (GitRemote, "push"))
          for after in (False, True)]  # fmt: skip


def change(chance: random.Random, end: End, number: int) -> None:
    """A few statements on rows that are this end's own: every second key, so that no two ends meet."""
    row = chance.randrange(60) * 2 + number
    many = f"BETWEEN {row} AND {row + chance.choice([2, 40])} AND id % 2 = {number}"
    end.run(
        chance.choice(
            [
                f"INSERT INTO p VALUES ({row}, 'new', 1.0) ON CONFLICT (id) DO UPDATE SET n = p.n + 1",
                f"UPDATE p SET v = v || '{row}' WHERE id {many}",
                f"UPDATE p SET n = CASE WHEN scale(n) > 3 THEN 1.0 ELSE (n::text || '0')::numeric END WHERE id {many}",
                f"UPDATE p SET v = (SELECT o.v FROM p o WHERE o.id = {row}) WHERE id = {row + 2}",
                f"DELETE FROM c WHERE p = {row}; DELETE FROM p WHERE id = {row}",
                f"INSERT INTO c SELECT 'é' || id, id, '{{\"b\": 1}}' FROM p WHERE id {many} ON CONFLICT DO NOTHING",
                f"UPDATE c SET v = v || jsonb_build_object('k', {row}) WHERE p {many.replace('id', 'p')}",
                f"DELETE FROM c WHERE p {many.replace('id', 'p')}",
                "UPDATE p SET v = v; UPDATE c SET v = v",
            ]
        )
    )


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_lost_whatever_happens(ends: Ends, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Random changes at two ends, syncs of every kind, agreements dropped, syncs that die anywhere: both end equal."""
    monkeypatch.setattr(bounds, "ROWS_PER_CHUNK", 7)
    chance = random.Random(seed)  # noqa: S311 - the same course every time
    pair = ends.pair(SCHEMA)
    for number, end in enumerate(pair):
        end.run(f"INSERT INTO p SELECT n * 2 + {number}, 'v' || n, 1.0 FROM generate_series(0, 49) n")
    for _ in range(14):
        number = chance.randrange(2)
        end = pair[number]
        for _ in range(chance.randrange(4)):
            change(chance, end, number)
        what = chance.random()
        if what < 0.3:
            with monkeypatch.context() as patch:
                kind, method, after = chance.choice(DEATHS)
                dying(patch, kind, method, after=after)
                with suppress(Died):
                    end.sync()
            pair[1 - number].sync(push=chance.random() < 0.5)
            end.sync()
        elif what < 0.5:
            end.sync(push=False)
        else:
            end.sync()
        if end.value("SELECT to_regclass('vibey_actions.agreement') IS NOT NULL"):
            if chance.random() < 0.2:
                end.forget_agreements()
            with_and_without(end)
    own = [sorted(row for table in ("p WHERE id % 2", "c WHERE p % 2") for row in rows_of(end, f"{table} = {number}"))
           for number, end in enumerate(pair)]  # fmt: skip
    for end in (*pair, *pair):
        end.sync()
    assert pair[0].everything() == pair[1].everything()
    assert sorted(own[0] + own[1]) == sorted(pair[0].rows("p") + pair[0].rows("c"))


def rows_of(end: End, source: str) -> list[str]:
    """The rows of a table that a condition takes."""
    table, _, condition = source.partition(" WHERE ")
    return list(end.value(f"SELECT coalesce(array_agg((t.*)::text), '{{}}') FROM {table} t WHERE {condition}"))


def agreed(end: End) -> bool:
    """Whether the next sync takes everything as it was, without reading a row."""
    return end.sync().rows is None


ONE_CHANGE = (
    "UPDATE t SET a = 2 WHERE id = 1", "UPDATE t SET n = 1.00 WHERE id = 1", "UPDATE t SET b = NULL WHERE id = 3",
    "UPDATE t SET f = '-0' WHERE id = 1", "UPDATE t SET e = 'sad' WHERE id = 1", "UPDATE t SET j = '[1]' WHERE id = 1",
    "UPDATE t SET x = '[0:1]={1,2}' WHERE id = 1", "UPDATE t SET s = '{\"a\": 1}' WHERE id = 1",
    "INSERT INTO t (id) VALUES (900)", "INSERT INTO t (id) VALUES (0)", "DELETE FROM t WHERE id = 2",
    "UPDATE t SET a = CASE id WHEN 1 THEN 2 ELSE 1 END WHERE id < 3", "UPDATE t SET id = 901 WHERE id = 3",
    "ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'", "DELETE FROM t",
)  # fmt: skip
NO_CHANGE = (
    "UPDATE t SET j = '{\"b\":2,\"a\":1}' WHERE id = 1", "UPDATE t SET a = a", "VACUUM FULL t", "REINDEX TABLE t",
    "DELETE FROM t WHERE id = 2; INSERT INTO t (id, a) VALUES (2, 2)", "ALTER TABLE t ADD CHECK (true)",
)  # fmt: skip


def test_any_change_of_any_row_is_seen(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to change a row, a scale or a label is found; what leaves every row as it was is not read again."""
    monkeypatch.setattr(bounds, "ROWS_PER_CHUNK", 2)
    end = ends.make(
        "CREATE TYPE mood AS ENUM ('ok', 'sad')",
        "CREATE TABLE t (id int PRIMARY KEY, a int, b text DEFAULT 'x', n numeric DEFAULT 1.0, f float8 DEFAULT 0,"
        " e mood DEFAULT 'ok', j jsonb DEFAULT '{\"a\": 1, \"b\": 2}', x int[] DEFAULT '{1,2}', "
        " s json DEFAULT '{\"a\":1}')",
        "CREATE TABLE quiet (id int PRIMARY KEY)",
    )
    end.run("INSERT INTO t (id, a) SELECT n, n FROM generate_series(1, 9) n", "INSERT INTO quiet VALUES (1)")
    end.sync()
    assert agreed(end)
    for statement in NO_CHANGE:
        end.run(*statement.split("; "))
        assert agreed(end), statement
    for statement in ONE_CHANGE:
        end.run(statement)
        report: Report = end.sync()
        assert report.to_push > 0, statement
        assert set(report.push) == {"t"}
        assert agreed(end), statement


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER TABLE t ADD COLUMN more int NOT NULL DEFAULT 5",
        "ALTER TABLE t DROP COLUMN v",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t ALTER COLUMN v TYPE int USING 1",
        "ALTER TABLE t RENAME COLUMN v TO x; ALTER TABLE t RENAME COLUMN u TO v; ALTER TABLE t RENAME COLUMN x TO u",
        "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (u)",
        "CREATE TABLE another (id int PRIMARY KEY); INSERT INTO another VALUES (1)",
    ],
)
def test_another_shape_is_never_taken_as_agreed(ends: Ends, statement: str) -> None:
    """A column, a type or a key that changed has the table compared in full: refused or read, never passed over."""
    end = ends.make("CREATE TABLE t (id int PRIMARY KEY, u text NOT NULL, v text NOT NULL)")
    end.run("INSERT INTO t VALUES (1, 'u', 'v')")
    end.sync()
    assert agreed(end)
    end.run(*statement.split("; "))
    with suppress(SchemaMismatch):
        assert end.sync().rows is not None
