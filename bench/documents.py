"""Document lanes on PostgreSQL: how many claims and finishes a second, with and without a million finished documents.

Each worker is a process with the real lane, whose step does nothing; all of them walk the same waiting documents, so
they get into each other's way as workers do.
"""

from __future__ import annotations

import multiprocessing
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

import psycopg

from vibey_actions.documents.declare import built_in
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.model import Document
from vibey_actions.documents.steps.base import Ready, StepResult, Work, done
from vibey_actions.documents.stores.postgres import PostgresStore
from vibey_actions.postgres.documents import DocumentTable
from vibey_actions.postgres.server import Server

TARGET = 2000.0
"""Transitions a second on two cores."""
JUDGED = 2
"""The number of workers whose rates the aims are held against: one for each of those cores."""
NOT_SLOWER = 0.9
"""What is left of the rate beside finished documents may be this, even where single rounds were closer together."""
JOB = built_in("job")
_FILL = """
INSERT INTO public.document (db, id, rev, doc)
SELECT 'jobs', %(prefix)s || lpad(n::text, 9, '0'), '1-' || md5(n::text),
    jsonb_build_object('type', 'job', 'status', %(status)s::text, 'attempts', %(attempts)s::int,
        'createdAt', '2026-01-01T00:00:00.000Z', 'updatedAt', '2026-01-01T00:00:00.000Z',
        'input', jsonb_build_object('number', n, 'text', repeat('x', 100)))
FROM generate_series(1, %(count)s) AS n
"""


@dataclass(frozen=True, slots=True)
class Walk:
    """One run: all waiting documents to their end. ``seconds`` from the first worker's start to the last one's end."""

    finished: int
    workers: int
    transitions: int
    seconds: float

    @property
    def rate(self) -> float:
        """Transitions a second."""
        return self.transitions / self.seconds


class Nothing:
    """A step that does nothing."""

    def decide(self, document: Document, now_ms: int) -> Ready:  # noqa: ARG002 - the interface's
        """There is always work."""
        return Ready()

    def run(self, work: Work) -> StepResult:  # noqa: ARG002 - the interface's
        """Done at once."""
        return done({"output": 1})


def walk(dsn: str, workers: int, finished: int) -> Walk:
    """Have ``workers`` processes walk what waits in ``dsn``."""
    fork = multiprocessing.get_context("fork")
    barrier, told = fork.Barrier(workers), fork.Queue()
    processes = [fork.Process(target=_work, args=(dsn, barrier, told)) for _ in range(workers)]
    for process in processes:
        process.start()
    answers = [told.get(timeout=600) for _ in processes]
    for process in processes:
        process.join()
    seconds = max(end for _, _, end in answers) - min(begin for _, begin, _ in answers)
    return Walk(finished, workers, 2 * sum(count for count, _, _ in answers), seconds)


def _work(dsn: str, barrier: Barrier, told: Queue[tuple[int, float, float]]) -> None:
    table = DocumentTable(dsn)
    lane = Lane(JOB, PostgresStore(table, (JOB,)), {"command": Nothing()})
    barrier.wait(60)
    began = time.monotonic()
    count = 0
    while (worked := lane.tick().counts().get("done", 0)) > 0:
        count += worked
    told.put((count, began, time.monotonic()))
    table.close()


def measure_documents(
    postgres: Server,
    rounds: int,
    *,
    waiting: int = 10_000,
    finished: int = 1_000_000,
    workers: Sequence[int] = (1, 2, 8),
) -> list[Walk]:
    """Every run, those beside finished documents taking turns with those without."""
    places = {0: "docs_few", finished: "docs_many"}
    for ended, name in places.items():
        with psycopg.connect(postgres.dsn("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        DocumentTable(postgres.dsn(name)).close()
        _fill(postgres.dsn(name), "finished:", "done", 1, ended)
    walks = []
    for number in range(rounds):
        for count in workers:
            for ended, name in places.items():
                _fill(postgres.dsn(name), f"{number}:{count}:", "pending", 0, waiting)
                walks.append(walk(postgres.dsn(name), count, ended))
                print(
                    f"  {count} workers, {ended} finished: {walks[-1].rate:.0f} a second", file=sys.stderr, flush=True
                )
                if walks[-1].transitions != 2 * waiting:
                    raise AssertionError(f"{walks[-1].transitions} transitions of {2 * waiting}")
    return walks


def _fill(dsn: str, prefix: str, status: str, attempts: int, count: int) -> None:
    values = {"prefix": prefix, "status": status, "attempts": attempts, "count": count}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(_FILL, values)
        connection.execute("VACUUM (ANALYZE) public.document")
        connection.execute("CHECKPOINT")


def documents_table(walks: Sequence[Walk]) -> str:
    """Medians per number of workers and of finished documents, as markdown; what misses its aim is marked.

    The aims are of as many workers as the aim has cores. Beside finished documents it is slower where the median falls
    below every round without them, and below a tenth less than their median; of one round that is not said.
    """
    lines = [
        "| workers | finished documents | transitions a second | slowest - fastest | aim |",
        "|---|---|---|---|---|",
    ]
    rates: dict[tuple[int, int], list[float]] = {}
    for one in walks:
        rates.setdefault((one.workers, one.finished), []).append(one.rate)
    for (workers, finished), found in sorted(rates.items()):
        aim = _aim(found, rates[workers, 0], finished) if workers == JUDGED else ""
        spread = f"{min(found):,.0f} - {max(found):,.0f}"
        lines.append(f"| {workers} | {finished:,} | {statistics.median(found):,.0f} | {spread} | {aim} |")
    return "\n".join(lines)


def _aim(found: Sequence[float], without: Sequence[float], finished: int) -> str:
    rate = statistics.median(found)
    if finished == 0:
        return f"{TARGET:,.0f}" + ("" if rate >= TARGET else " (MISSED)")
    if len(found) == 1:
        return "not slower (not to be told by one round)"
    return "not slower" + ("" if rate >= min(*without, NOT_SLOWER * statistics.median(without)) else " (MISSED)")
