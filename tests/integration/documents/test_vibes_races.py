"""Workers that race for documents in a vibe, in a time that passes in no time: the same seed is the same race."""

from __future__ import annotations

import json
import random
from collections import Counter
from functools import partial

import pytest

from tests.support.lanes import JOB, MACHINES, FakeStep
from tests.support.vibes_server.client import DirectClient
from tests.support.vibes_server.vibe import Body, Forbidden, Vibe
from tests.support.virtual_time import VirtualTime
from vibey_actions.documents.client import script_text
from vibey_actions.documents.guard import refusal
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.model import Document
from vibey_actions.documents.steps.base import StepResult, Work, done
from vibey_actions.documents.stores.vibes import VibesStore
from vibey_actions.errors import DocumentDenied, OutcomeUnknown

WORKERS, DOCUMENTS, SETTLE = 3, 20, 20.0


class SlowClient(DirectClient):
    """Every call takes some seconds, and is stopped at its deadline. A write lands somewhere within its call, or
    (``late``: how often) only after up to two minutes more, whether its worker was told so or not."""

    def __init__(self, vibe: Vibe, time: VirtualTime, chance: random.Random, late: float) -> None:
        super().__init__(vibe, lambda _kind, _deadline: time.sleep(chance.uniform(1, 5)))
        self._time, self._chance, self._late = time, chance, late
        self.under_way: list[str] = []

    def put(self, db: str, identifier: str, document: Document, deadline: float | None = None) -> None:
        limit = 90.0 if deadline is None else deadline
        landing = self._chance.uniform(1, 12) if self._chance.random() < 0.8 else self._chance.uniform(12, 40)
        reply = self._chance.uniform(0, 4)
        body: Body = json.loads(script_text(document, "a write"))
        if self._chance.random() < self._late:
            self.under_way.append(identifier)
            self._time.spawn(lambda: self._land(db, identifier, body), landing + self._chance.uniform(0, 120))
            self._time.sleep(min(limit, landing + reply))
            if self._chance.random() < 0.5:
                raise OutcomeUnknown("no reply came")
            return
        if landing > limit:
            self._time.sleep(limit)
            raise OutcomeUnknown("the client was stopped")
        self._time.sleep(landing)
        try:
            self.vibe.put(db, identifier, body)
        except Forbidden as error:
            raise DocumentDenied(str(error)) from None
        self._time.sleep(min(limit - landing, reply))
        if landing + reply > limit:
            raise OutcomeUnknown("the client was stopped")

    def _land(self, db: str, identifier: str, body: Body) -> None:
        self.under_way.remove(identifier)
        try:
            self.vibe.put(db, identifier, body)
        except Forbidden:
            return


class Race:
    """Three workers, each ticking until every document has come to its end, and what they did."""

    def __init__(self, seed: int, late: float = 0.0, *, guarded: bool = False) -> None:
        self.time, self.vibe = VirtualTime(1_767_268_800.0), Vibe()
        self.worked: list[str] = []
        self.clients: list[SlowClient] = []
        if guarded:
            self.vibe.access = self._access
        for number in range(DOCUMENTS):
            new = {"type": "job", "status": "pending", "attempts": 0, "input": "x", "createdAt": "2026-01-01T00:00:00Z"}
            self.vibe.documents[JOB.db, f"m{number:02}"] = new
        for worker in range(WORKERS):
            chance = random.Random(f"{seed}/{worker}")  # noqa: S311
            client = SlowClient(self.vibe, self.time, chance, late)
            self.clients.append(client)
            store = VibesStore(
                client, MACHINES, settle=SETTLE, clock=self.time, monotonic=self.time.monotonic, sleep=self.time.sleep
            )
            self.time.spawn(partial(self._walk, store, chance), chance.uniform(0, 3))
        self.time.run()

    def _walk(self, store: VibesStore, chance: random.Random) -> None:
        def work(work: Work) -> StepResult:
            self.worked.append(str(work.document["_id"]))
            self.time.sleep(chance.uniform(0, 15))
            return done({"output": work.document["claimId"]})

        lane = Lane(JOB, store, {"command": FakeStep(work)}, new_claim=lambda: f"c{chance.getrandbits(48):x}")
        for _ in range(60):
            lane.tick()
            if set(self.ends()) <= JOB.terminals and not any(client.under_way for client in self.clients):
                return
            self.time.sleep(60)

    def _access(self, new: Body, old: Body | None) -> None:
        reason = refusal(JOB, old, new, "worker", self.time.now_ms())
        if reason is not None:
            raise Forbidden(reason)

    def ends(self) -> Counter[str]:
        return Counter(body["status"] for body in self.vibe.documents.values())


@pytest.mark.parametrize("seed", range(8))
def test_three_workers_do_no_work_twice_while_writes_land_in_time(seed: int) -> None:
    """Twenty documents, each worked on once and done, with clients of very different speed and no other fence."""
    race = Race(seed)
    assert race.ends() == {"done": DOCUMENTS}
    assert sorted(race.worked) == sorted(identifier for _, identifier in race.vibe.documents)


@pytest.mark.parametrize("guarded", [False, True], ids=["no-fence", "access-function"])
@pytest.mark.parametrize("seed", range(4))
def test_late_writes_lose_no_document_and_no_result_of_a_lost_claim_counts(seed: int, guarded: bool) -> None:  # noqa: FBT001
    """One write in ten lands up to two minutes late: every document still comes to an end, and what it holds is the
    result of the claim that it names."""
    race = Race(seed, late=0.1, guarded=guarded)
    ends = race.ends()
    assert set(ends) <= {"done", "failed"}
    assert ends.total() == DOCUMENTS
    finished = [body for body in race.vibe.documents.values() if body["status"] == "done"]
    assert [body["output"] for body in finished] == [body["claimId"] for body in finished]
