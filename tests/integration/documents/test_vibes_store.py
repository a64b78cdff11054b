"""Documents in a vibe: the suite of all stores, and what a store has to do that can only read, write and read back."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.documents.store_conformance import DB, StoreConformance
from tests.support.lanes import JOB, MACHINES, PUBLISH, FakeStep, add, claim, read
from tests.support.vibes_server.client import DirectClient
from tests.support.vibes_server.faults import Fault
from tests.support.vibes_server.site import CALL, SETTLE, Site
from tests.support.vibes_server.vibe import Forbidden, Vibe
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.model import Document
from vibey_actions.documents.report import What
from vibey_actions.documents.steps.base import StepResult, Work
from vibey_actions.documents.steps.base import done as step_done
from vibey_actions.documents.stores.base import Store
from vibey_actions.documents.stores.vibes import VibesStore
from vibey_actions.errors import (
    DocumentConflict,
    DocumentDenied,
    DocumentInvalid,
    OutcomeUnknown,
    SettingError,
    StoreFailed,
)


class TestVibes(StoreConformance):
    """Every case, over a client that answers at once."""

    exact_numbers = False

    @pytest.fixture
    def store(self) -> Store:
        return Site().worker()[0]

    def test_a_document_written_back_has_a_new_revision(self, store: Store) -> None:
        """The one case that differs: a revision is a digest of the content, so the same content has the same one."""
        first = store.put(DB, "one", {"a": 1, "n": 1.0})
        assert store.put(DB, "one", {"a": 2}) != first
        assert store.put(DB, "one", {"n": 1, "a": 1}) == first

    def test_racing_claims_have_one_winner(self, store: Store) -> None:
        """Without compare-and-set a race needs time to pass: tests/integration/documents/test_vibes_races.py."""
        job = add(store, JOB, "one", input="x")
        assert [claim(store, JOB, job, f"c{number}") is not None for number in range(8)] == [True] + [False] * 7


@pytest.fixture
def site() -> Site:
    return Site()


def waiting(site: Site, *identifiers: str) -> None:
    """Jobs that wait, as somebody else wrote them."""
    for identifier in identifiers:
        site.vibe.documents[JOB.db, identifier] = {"type": "job", "status": "pending", "attempts": 0, "input": "x"}


def stored(site: Site, identifier: str) -> dict[str, Any]:
    found = site.vibe.get(JOB.db, identifier)
    assert found is not None
    return found


def taken(store: VibesStore, identifier: str, claim_id: str) -> Document:
    """The document, claimed."""
    won = claim(store, JOB, read(store, JOB, identifier), claim_id)
    assert won is not None
    return won


def done(store: VibesStore, claimed: Document, output: str) -> Document | None:
    """A finish of the claim."""
    return store.finish(JOB.db, claimed, {**claimed, "status": "done", "output": output}, writer="worker")


# What a tick costs


def test_a_tick_with_nothing_due_reads_once(site: Site) -> None:
    """Two client calls are allowed where nothing is due; one query tells all of it."""
    waiting(site, "one")
    site.vibe.documents[JOB.db, "one"]["status"] = "done"
    store, client = site.worker()
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert (report.events, client.calls) == ([], ["query"])


def test_a_document_claimed_and_finished_costs_four_calls(site: Site) -> None:
    """The query that found it, then per document a write, a read back, a look at the claim, and the finish."""
    waiting(site, *(f"m{number}" for number in range(5)))
    store, client = site.worker()
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert [event.what for event in report.events] == [What.DONE] * 5
    assert client.calls == ["query", *["put", "query", "query", "put"] * 5]


def test_an_old_reading_is_made_anew_before_a_claim(site: Site) -> None:
    """A document that was read before a long step is looked at again: whoever finished it meanwhile is not overrun."""
    waiting(site, "m1", "m2")
    store, _ = site.worker()

    def long_step(_: Work) -> StepResult:
        site.time.now += 3600
        site.vibe.documents[JOB.db, "m2"] |= {"status": "done", "output": "of another"}
        return step_done()

    step = FakeStep(long_step)
    report = Lane(JOB, store, {"command": step}).tick()
    assert [(event.identifier, event.what) for event in report.events] == [("m1", What.DONE), ("m2", What.LOST)]
    assert stored(site, "m2")["output"] == "of another"


# Claims


def test_a_claim_counts_after_the_settling_pause(site: Site) -> None:
    """Written, then a pause, then read back: what stands is what the worker gets."""
    waiting(site, "m1")
    store, _ = site.worker()
    won = taken(store, "m1", "c1")
    assert site.time.pauses == [SETTLE]
    assert (won["claimId"], won["attempts"]) == ("c1", 1)
    assert stored(site, "m1")["claimId"] == "c1"


def test_the_last_writer_within_the_pause_owns_the_document(site: Site) -> None:
    """Both read it waiting and both write: the earlier one reads another's claim back and steps aside."""
    waiting(site, "m1")
    (first, _), (second, _) = site.worker(), site.worker()
    both = read(second, JOB, "m1")
    won: list[Document | None] = []
    site.time.pausing = lambda: won.append(claim(second, JOB, both, "c2"))
    assert claim(first, JOB, read(first, JOB, "m1"), "c1") is None
    assert [one["claimId"] for one in won if one is not None] == ["c2"]
    assert done(second, won[0] or {}, "of c2") is not None


def test_a_write_that_lands_after_the_pause_is_found_out_at_the_finish(site: Site) -> None:
    """The late claim stands on the document by then: the other's finish is refused and its result counts for nothing;
    the late worker had stepped aside, and the sweep brings the document home."""
    waiting(site, "m1")
    (first, _), (second, late) = site.worker(), site.worker()
    both = read(second, JOB, "m1")
    late.faults.arm(Fault.LATE, "put")
    lost: list[Document | None] = []
    site.time.pausing = lambda: lost.append(claim(second, JOB, both, "c2"))
    claimed = taken(first, "m1", "c1")
    assert lost == [None]
    site.vibe.land()
    assert done(first, claimed, "of c1") is None
    assert (stored(site, "m1")["claimId"], "output" in stored(site, "m1")) == ("c2", False)
    site.time.now += 3600
    report = Lane(JOB, first, {"command": FakeStep()}).tick()
    assert [event.what for event in report.events] == [What.RELEASED, What.DONE]


def test_a_claim_has_only_the_rest_of_the_pause_to_be_written(site: Site) -> None:
    """The client is stopped once a write would land later than a pause after the read that it rests on."""
    waiting(site, "m1")
    store, client = site.worker()
    deadlines: list[float | None] = []
    before = client.before

    def note(kind: str, deadline: float | None) -> None:
        before(kind, deadline)
        if kind == "put":
            deadlines.append(deadline)

    client.before = note
    taken(store, "m1", "c1")
    assert deadlines == [SETTLE - CALL]


def test_a_client_slower_than_the_pause_claims_nothing(site: Site) -> None:
    """Where the read alone takes longer, no claim is written, no attempt spent, and the error names the setting."""
    waiting(site, "m1")
    site.call = SETTLE + 1
    store, client = site.worker()
    with pytest.raises(StoreFailed, match="longer than the settling pause") as raised:
        claim(store, JOB, read(store, JOB, "m1"), "c1")
    assert "raise the settling pause" in raised.value.hint
    assert "put" not in client.calls


@pytest.mark.parametrize("fault", [Fault.APPLIES_THEN_SILENT, Fault.APPLIES_THEN_CLOSES], ids=lambda one: one.name)
def test_a_claim_whose_reply_was_lost_is_read_back(site: Site, fault: Fault) -> None:
    """It was applied: the claim stands, and nothing is written twice."""
    waiting(site, "m1")
    store, client = site.worker()
    client.faults.arm(fault, "put")
    assert taken(store, "m1", "c1")["attempts"] == 1
    assert client.calls.count("put") == 1


def test_a_claim_that_nobody_knows_of_is_no_claim(site: Site) -> None:
    """It was not applied as far as can be seen: the worker steps aside and says why, and writes no second time."""
    waiting(site, "m1")
    store, client = site.worker()
    client.faults.arm(Fault.SILENT, "put")
    with pytest.raises(OutcomeUnknown):
        claim(store, JOB, read(store, JOB, "m1"), "c1")
    assert client.calls.count("put") == 1


def test_a_claim_that_the_vibe_refuses_is_lost_where_the_document_moved(site: Site) -> None:
    """Its access function saw another head: somebody was first. Where nobody was, the refusal is an error."""
    waiting(site, "m1", "m2")
    store, _ = site.worker()
    moved, still = read(store, JOB, "m1"), read(store, JOB, "m2")

    def refuse(_new: Document, old: Document | None) -> None:
        if old is not None:
            old |= {"status": "running"}
            site.vibe.documents[JOB.db, "m1"]["status"] = "running"
        raise Forbidden("no transition running -> running")

    site.vibe.access = refuse
    assert claim(store, JOB, moved, "c1") is None
    with pytest.raises(DocumentDenied, match="no transition"):
        claim(store, JOB, still, "c2")


def test_a_conflict_that_the_vibe_reports_is_a_lost_claim(site: Site) -> None:
    """The vibe's own word that somebody else is writing: step aside, without a pause."""
    waiting(site, "m1")
    store, client = site.worker()
    client.faults.arm(Fault.CONFLICT, "put")
    assert claim(store, JOB, read(store, JOB, "m1"), "c1") is None
    assert site.time.pauses == []


def test_a_claim_of_a_new_document_asks_for_it_by_its_id(site: Site) -> None:
    """A query may not show all there is: only an exact read says that nothing is there."""
    store, _ = site.worker()
    site.vibe.page = 0
    waiting(site, "day:1")
    assert store.query(JOB.db).documents == ()
    new: Document = {"_id": "day:1", "type": "job", "status": "pending", "attempts": 0}
    assert store.claim(JOB.db, None, new, writer="author") is None
    assert store.claim(JOB.db, None, {**new, "_id": "day:2"}, writer="author") is not None


# Finishing


def test_a_finish_whose_reply_was_lost_counts_once_it_is_there(site: Site) -> None:
    """Applied, then silent: read back and taken for done."""
    waiting(site, "m1")
    store, client = site.worker()
    claimed = taken(store, "m1", "c1")
    client.faults.arm(Fault.APPLIES_THEN_SILENT, "put")
    assert done(store, claimed, "built") is not None
    assert client.calls.count("put") == 2


def test_a_finish_that_did_not_arrive_is_written_once_more(site: Site) -> None:
    """A result is not thrown away for one lost connection; after the second the outcome is unknown."""
    waiting(site, "m1", "m2")
    store, client = site.worker()
    claimed = taken(store, "m1", "c1")
    client.faults.arm(Fault.CLOSES, "put")
    assert done(store, claimed, "built") is not None
    assert stored(site, "m1")["output"] == "built"
    claimed = taken(store, "m2", "c2")
    client.faults.arm(Fault.CLOSES, "put", times=2)
    with pytest.raises(OutcomeUnknown):
        done(store, claimed, "built")


def test_a_finish_is_not_repeated_over_another_claim(site: Site) -> None:
    """Between the lost write and its repetition somebody else took the document: it is left alone."""
    waiting(site, "m1")
    store, client = site.worker()
    claimed = taken(store, "m1", "c1")
    client.faults.arm(Fault.CLOSES, "put")
    before = client.before

    def meanwhile(kind: str, deadline: float | None) -> None:
        before(kind, deadline)
        if kind == "put":
            site.vibe.documents[JOB.db, "m1"] |= {"claimId": "of another"}

    client.before = meanwhile
    with pytest.raises(OutcomeUnknown):
        done(store, claimed, "built")
    assert "output" not in stored(site, "m1")


def test_a_finish_refused_by_the_vibe_is_a_lost_claim_where_the_document_moved(site: Site) -> None:
    """The access function compares with its own head, which may be newer than what was read a moment before."""
    waiting(site, "m1")
    store, _ = site.worker()
    claimed = taken(store, "m1", "c1")

    def stale(_new: Document, _old: Document | None) -> None:
        site.vibe.documents[JOB.db, "m1"] |= {"claimId": "of another"}
        raise Forbidden("stale claim")

    site.vibe.access = stale
    assert done(store, claimed, "late") is None


# Reading


@pytest.mark.parametrize("kind", ["get", "query"])
def test_a_read_that_failed_is_no_empty_database(site: Site, kind: str) -> None:
    """Whatever is behind it, a failed read is an error and writes nothing."""
    waiting(site, "m1")
    store, client = site.worker()
    client.faults.arm(Fault.BROKEN, kind)
    with pytest.raises(StoreFailed):
        store.get(JOB.db, "m1") if kind == "get" else store.query(JOB.db)
    client.faults.arm(Fault.BROKEN, "query")
    with pytest.raises(StoreFailed):
        Lane(JOB, store, {"command": FakeStep()}).tick()
    assert site.vibe.writes == []


def test_a_claim_that_cannot_be_read_back_is_none(site: Site) -> None:
    """Not knowing is not owning: the step does not run."""
    waiting(site, "m1")
    store, client = site.worker()
    client.faults.arm(Fault.BROKEN, "query", skip=1)
    step = FakeStep()
    report = Lane(JOB, store, {"command": step}).tick()
    assert step.worked == []
    assert report.stopped


def test_a_partial_query_hides_documents_but_loses_none(site: Site) -> None:
    """What the reply did not hold is not worked on in this tick, is there by its id, and is not overwritten."""
    waiting(site, "m1", "m2", "m3")
    site.vibe.page = 2
    store, _ = site.worker()
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert [event.identifier for event in report.events] == ["m1", "m2"]
    assert read(store, JOB, "m3")["status"] == "pending"
    with pytest.raises(DocumentConflict):
        store.put(JOB.db, "m3", {"type": "job", "status": "pending", "attempts": 0}, if_rev=None, writer="author")


def test_a_full_reply_is_said_to_be_maybe_not_all(site: Site) -> None:
    """Two thousand documents in one reply: the report can say that there may be more."""
    for number in range(2000):
        site.vibe.documents[DB, f"{number:04}"] = {}
    store, _ = site.worker()
    assert store.doubts == ()
    store.query(DB)
    assert len(store.doubts) == 1
    assert "2000 documents" in store.doubts[0]


def test_a_body_with_the_id_of_another_misleads_nobody(site: Site) -> None:
    """Two rows answer to one id: the document that really has it is read by its id, and it alone is worked on."""
    waiting(site, "m1", "m2")
    site.vibe.documents[JOB.db, "m2"] |= {"_id": "m1", "input": "misleading"}
    store, _ = site.worker()
    assert [(one["_id"], one["input"]) for one in store.query(JOB.db).documents] == [("m1", "x")]
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert [event.identifier for event in report.events] == ["m1"]
    assert stored(site, "m2")["status"] == "pending"


def test_a_flood_of_misleading_ids_costs_no_flood_of_reads(site: Site) -> None:
    """More doubled ids than can be looked up one by one are left out, and said."""
    for number in range(11):
        waiting(site, f"a{number:02}", f"b{number:02}")
        site.vibe.documents[JOB.db, f"b{number:02}"]["_id"] = f"a{number:02}"
    store, client = site.worker()
    assert store.query(JOB.db).documents == ()
    assert client.calls == ["query"]
    assert "more than one document" in store.doubts[0]


def test_documents_that_cannot_be_read_are_said_and_hold_up_no_others(site: Site) -> None:
    """What a query could not read is named; ids that are none, or whose own document fails, stop no other's work."""
    waiting(site, "a", "b", "c", "d", "good")
    for one, misleading in (("a", ""), ("b", ""), ("c", "broken"), ("d", "broken")):
        site.vibe.documents[JOB.db, one]["_id"] = misleading
    store, client = site.worker()
    client.unreadable = ["half"]
    client.faults.arm(Fault.BROKEN, "get")
    assert [one["_id"] for one in store.query(JOB.db).documents] == ["good"]
    said = " ".join(store.doubts)
    for name in ("half", "more than one document says that it is : ", "says that it is broken: "):
        assert name in said
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert [(event.identifier, event.what) for event in report.events] == [("good", What.DONE)]


def test_a_large_database_is_read_document_by_document(site: Site) -> None:
    """Beyond a megabyte a look at one document does not fetch all of them."""
    waiting(site, "m1")
    site.vibe.documents[JOB.db, "other"] = {"text": "x" * 2_000_000}
    store, client = site.worker()
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert [event.what for event in report.events] == [What.DONE]
    assert client.calls == ["query", "put", "get", "get", "put"]


def test_a_sweep_writes_over_what_it_read_only(site: Site) -> None:
    """A document that finished between the query and the sweep's write stays finished."""
    waiting(site, "m1")
    site.vibe.documents[JOB.db, "m1"] |= {"status": "running", "attempts": 1, "claimId": "c1", "leaseUntil": 1}
    store, client = site.worker()
    before = client.before

    def finishes(kind: str, deadline: float | None) -> None:
        before(kind, deadline)
        if client.calls.count("query") == 2:
            site.vibe.documents[JOB.db, "m1"] |= {"status": "done", "output": "in time"}

    client.before = finishes
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert [event.what for event in report.events] == [What.LOST]
    assert stored(site, "m1")["status"] == "done"


def test_a_lease_of_another_clock_gets_minutes_of_grace(site: Site) -> None:
    """Each worker has its own clock: a claim is taken back only minutes after its lease by the reader's."""
    waiting(site, "m1")
    lease_end = site.time.now_ms() - 4 * 60_000
    site.vibe.documents[JOB.db, "m1"] |= {"status": "running", "attempts": 1, "claimId": "c1", "leaseUntil": lease_end}
    store, _ = site.worker()
    lane = Lane(JOB, store, {"command": FakeStep()})
    assert lane.tick().events == []
    site.time.now += 2 * 60
    assert [event.what for event in lane.tick().events] == [What.RELEASED, What.DONE]


# Writing


def test_numbers_that_the_vibe_would_change_are_refused(site: Site) -> None:
    """An integer that no double holds is not written as another one."""
    store, _ = site.worker()
    with pytest.raises(DocumentInvalid, match="the number in n"):
        store.put(DB, "one", {"n": 2**53 + 1})
    assert store.get(DB, "one") is None


def test_the_vault_is_never_touched(site: Site) -> None:
    """Neither reads nor writes nor claims go to the database of secrets."""
    store, client = site.worker()
    new: Document = {"_id": "x", "type": "job", "status": "pending", "attempts": 0}
    for attempt in (
        lambda: store.get("vault", "x"),
        lambda: store.query("vault"),
        lambda: store.put("vault", "x", {}),
        lambda: store.delete("vault", "x"),
        lambda: store.claim("vault", None, new, writer="author"),
    ):
        with pytest.raises(SettingError, match="vault"):
            attempt()
    assert client.calls.count("put") == 0


def test_a_pause_of_nothing_is_refused() -> None:
    """Without a pause two workers would both own a document."""
    with pytest.raises(SettingError, match="settling pause"):
        VibesStore(DirectClient(Vibe()), MACHINES, settle=0)


def test_a_delete_whose_reply_was_lost_is_read_back(site: Site) -> None:
    """Gone is gone; still there is an unknown outcome."""
    waiting(site, "m1", "m2")
    store, client = site.worker()
    client.faults.arm(Fault.APPLIES_THEN_CLOSES, "delete")
    store.delete(JOB.db, "m1")
    client.faults.arm(Fault.CLOSES, "delete")
    with pytest.raises(OutcomeUnknown):
        store.delete(JOB.db, "m2")


def test_a_finish_in_place_keeps_the_proof_of_its_claim(site: Site) -> None:
    """A claim that keeps the status is read back by its claimId as well."""
    store, _ = site.worker()
    document = add(store, PUBLISH, "p1", platform="ig")
    won = claim(store, PUBLISH, document, "c1", "items")
    assert won is not None
    assert (won["status"], won["claimId"]) == ("pending", "c1")
