"""Many workers on one table: each document worked once, whoever is killed, slow or wrong about the time."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import psycopg
import pytest

from tests.support import forked
from tests.support.forked import Child
from tests.support.lanes import JOB, FakeStep, add
from tests.support.machines import until
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.report import What
from vibey_actions.documents.steps.base import StepResult, Work, done
from vibey_actions.documents.stores.postgres import PostgresStore
from vibey_actions.postgres.documents import DocumentTable

WORKED = "CREATE TABLE public.worked (key text, worker int)"
LOG = """
CREATE TABLE public.log (number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, old jsonb, new jsonb);
CREATE FUNCTION public.note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN INSERT INTO public.log (old, new) VALUES (OLD.doc, NEW.doc); RETURN NEW; END $$;
CREATE TRIGGER note BEFORE UPDATE ON public.document FOR EACH ROW EXECUTE FUNCTION public.note()
"""


@pytest.fixture
def table(dsn: str) -> Iterator[DocumentTable]:
    """The table, beside one where every step says that it ran."""
    made = DocumentTable(dsn)
    run(dsn, WORKED)
    yield made
    made.close()


def run(dsn: str, statement: str) -> list[tuple[Any, ...]]:
    """SQL by hand."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def worker(
    dsn: str, machine: Machine, pause: Callable[[], float] = lambda: 0.0, *, until_empty: bool = True
) -> Callable[[], dict[str, int]]:
    """What a worker's process does: tick until nothing is left; returns how often each thing happened."""

    def work() -> dict[str, int]:
        # The parent's sequence would be every worker's.
        random.seed(os.getpid())
        with psycopg.connect(dsn, autocommit=True) as notes:

            def answer(work: Work) -> StepResult:
                notes.execute("INSERT INTO public.worked VALUES (%s, %s)", (work.key, os.getpid()))
                time.sleep(pause())
                return done({"output": work.key})

            table = DocumentTable(dsn)
            lane = Lane(machine, PostgresStore(table, (machine,)), {"command": FakeStep(answer)})
            happened: dict[str, int] = {}
            while True:
                report = lane.tick()
                for what, count in report.counts().items():
                    happened[what] = happened.get(what, 0) + count
                if until_empty and report.due.nothing and not report.due.working:
                    table.close()
                    return happened

    return work


def ended(children: list[Child]) -> list[dict[str, int]]:
    """What the workers tell, who all have to end well."""
    found = [child.join() for child in children]
    assert [one.error for one in found] == [""] * len(found)
    return [one.value for one in found]


def statuses(dsn: str) -> dict[str, int]:
    return dict(run(dsn, "SELECT doc ->> 'status', count(*)::int FROM public.document GROUP BY 1"))


def test_eight_workers_and_500_documents(dsn: str, table: DocumentTable) -> None:
    """Each document is worked exactly once and none is left; who comes second steps aside without an error."""
    store = PostgresStore(table, (JOB,))
    for number in range(500):
        add(store, JOB, f"job:{number:03}", input=number)
    told = ended([forked.start(worker(dsn, JOB)) for _ in range(8)])
    assert statuses(dsn) == {"done": 500}
    assert run(dsn, "SELECT count(*), count(DISTINCT key) FROM public.worked") == [(500, 500)]
    assert sum(one.get("done", 0) for one in told) == 500
    assert {what for one in told for what in one} <= {"done", "lost"}


def test_workers_killed_at_random_moments(dsn: str, table: DocumentTable) -> None:
    """Whenever workers die or outlive their lease, every document ends within its attempts, and only the claim that
    stands ever finishes it."""
    machine = replace(JOB, lease_ms=250, attempts=4)
    store = PostgresStore(table, (machine,))
    run(dsn, LOG)
    for number in range(120):
        add(store, machine, f"job:{number:03}", input=number)

    def pause() -> float:
        return random.choice([0.0, 0.01, 0.01, 0.02, 0.6]) if random.random() < 0.2 else 0.01  # noqa: S311

    def start() -> Child:
        return forked.start(worker(dsn, machine, pause, until_empty=False))

    children = [start() for _ in range(4)]
    chance = random.Random(11)  # noqa: S311

    def over() -> bool:
        return not set(statuses(dsn)) - {"done", "failed"}

    while not over():
        # However slow the machine, between two kills something happens.
        written = run(dsn, "SELECT count(*) FROM public.log")
        time.sleep(chance.uniform(0.02, 0.06))
        victim = chance.randrange(len(children))
        children[victim].kill()
        assert children[victim].join().killed
        children[victim] = start()
        until(lambda: over() or run(dsn, "SELECT count(*) FROM public.log") != written)  # noqa: B023 - called at once
    for child in children:
        child.kill()
        child.join()
    assert run(dsn, "SELECT count(*) FROM public.document WHERE (doc ->> 'attempts')::int > 4") == [(0,)]
    over_claims = """
        SELECT count(*) FROM public.log WHERE new ->> 'status' = 'done'
        AND (old ->> 'status' <> 'running' OR old ->> 'claimId' IS DISTINCT FROM new ->> 'claimId')
    """
    assert run(dsn, over_claims) == [(0,)]
    output = "SELECT count(*) FROM public.document WHERE doc ->> 'status' = 'done'"
    own = " AND doc ->> 'output' IS DISTINCT FROM id || ':' || (doc ->> 'attempts')"
    assert run(dsn, output + own) == [(0,)]
    assert run(dsn, output)[0][0] > 0
    taken_back = "SELECT count(*) FROM public.log WHERE old ->> 'status' = 'running' AND new ->> 'status' = 'pending'"
    assert run(dsn, taken_back)[0][0] > 0
    twice = "SELECT count(*) FROM (SELECT key FROM public.worked GROUP BY key HAVING count(*) > 1) AS worked"
    assert run(dsn, twice) == [(0,)]


def test_a_slow_worker_learns_that_it_lost_its_lease(dsn: str, table: DocumentTable) -> None:
    """While its step runs, the lease ends, another worker takes the document back and does it: the first one's result
    counts for nothing."""
    machine = replace(JOB, lease_ms=1)
    store = PostgresStore(table, (machine,))
    add(store, machine, "one", input="x")
    other = DocumentTable(dsn)
    quick = Lane(machine, PostgresStore(other, (machine,)), {"command": FakeStep(lambda _: done({"output": "quick"}))})

    def slow(_: Work) -> StepResult:
        time.sleep(0.05)
        assert quick.tick().of(What.DONE)
        return done({"output": "slow"})

    report = Lane(machine, store, {"command": FakeStep(slow)}).tick()
    other.close()
    assert [event.what for event in report.events] == [What.LOST]
    assert run(dsn, "SELECT doc ->> 'output', doc ->> 'status' FROM public.document") == [("quick", "done")]


def test_clocks_that_differ_by_minutes_change_nothing(dsn: str, table: DocumentTable) -> None:
    """Workers whose own clocks are far ahead or behind take nobody's document away, and write leases that others
    understand: the server's clock decides."""
    store = PostgresStore(table, (JOB,))
    for number in range(60):
        add(store, JOB, f"job:{number:03}", input=number)

    def skewed(seconds: int) -> Callable[[], dict[str, int]]:
        walk = worker(dsn, JOB, lambda: 0.002)
        clock, exact = time.time, time.time_ns

        def work() -> dict[str, int]:
            with (
                mock.patch.object(time, "time", side_effect=lambda: clock() + seconds),
                mock.patch.object(time, "time_ns", side_effect=lambda: exact() + seconds * 10**9),
            ):
                return walk()

        return work

    run(dsn, LOG)
    ended([forked.start(skewed(minutes * 60)) for minutes in (-10, 0, 10, 600)])
    assert statuses(dsn) == {"done": 60}
    assert run(dsn, "SELECT count(*), count(DISTINCT key) FROM public.worked") == [(60, 60)]
    leases = "SELECT max((new ->> 'leaseUntil')::bigint) - (extract(epoch FROM now()) * 1000)::bigint FROM public.log"
    ((ahead,),) = run(dsn, leases)
    assert ahead <= JOB.lease_ms
