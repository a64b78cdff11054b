"""The store in PostgreSQL keeps the interface of all stores; and its table, its clock and its failures."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from tests.integration.documents.store_conformance import StoreConformance
from tests.support.lanes import JOB, MACHINES, NOON, FakeStep, add, claim, read
from vibey_actions.config import Config
from vibey_actions.documents import moves
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.model import Document
from vibey_actions.documents.report import What
from vibey_actions.documents.status import LastTick, look
from vibey_actions.documents.stores.postgres import PostgresStore
from vibey_actions.errors import (
    DatabaseFailed,
    DocumentConflict,
    DocumentInvalid,
    OutcomeUnknown,
    SchemaMismatch,
    StoreFailed,
)
from vibey_actions.lanes.survey import TableSurvey
from vibey_actions.postgres import documents
from vibey_actions.postgres.documents import DocumentTable, schema_for


@pytest.fixture
def table(dsn: str) -> Iterator[DocumentTable]:
    """The table of a fresh database."""
    made = DocumentTable(dsn)
    yield made
    made.close()


@pytest.fixture
def store(table: DocumentTable) -> PostgresStore:
    """A store on it."""
    return PostgresStore(table, MACHINES)


class TestPostgres(StoreConformance):
    """Every case, in PostgreSQL."""


def run(dsn: str, statement: str, values: Mapping[str, object] | None = None) -> list[tuple[Any, ...]]:
    """SQL by hand."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        cursor = connection.execute(statement.encode(), values)
        return cursor.fetchall() if cursor.description else []


def test_the_table_is_made_once_by_many(dsn: str) -> None:
    """Workers that start together find or make one table, with the columns that are documented."""
    with ThreadPoolExecutor(6) as pool:
        for made in list(pool.map(lambda _: DocumentTable(dsn), range(6))):
            made.close()
    columns = run(
        dsn,
        "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute WHERE attnum > 0"
        " AND attrelid = 'public.document'::regclass",
    )
    assert columns == [("db id rev doc deleted changed_at",)]


def test_documents_that_are_not_synced_lie_in_our_own_schema(dsn: str) -> None:
    """Under a profile, or with documents = false, the table is in vibey_actions; else in public."""
    schemas = [schema_for(Config(**given)) for given in ({}, {"profile": "vibey"}, {"documents": False})]
    assert schemas == ["public", "vibey_actions", "vibey_actions"]
    made = DocumentTable(dsn, "vibey_actions")
    PostgresStore(made).put("notes", "one", {"n": 1})
    made.close()
    assert run(dsn, "SELECT id FROM vibey_actions.document") == [("one",)]
    assert run(dsn, "SELECT to_regclass('public.document')") == [(None,)]


@pytest.mark.parametrize(
    "columns",
    ["id int PRIMARY KEY, title text", "db text, id text, rev text, doc json, deleted boolean, changed_at timestamptz"],
    ids=["another table", "the same names"],
)
def test_a_table_of_somebody_else_is_left_alone(dsn: str, columns: str) -> None:
    """A table that happens to be called document is refused, with the way out; it is not altered."""
    run(dsn, f"CREATE TABLE public.document ({columns})")
    with pytest.raises(SchemaMismatch) as caught:
        DocumentTable(dsn)
    assert "documents = false" in caught.value.hint
    assert len(run(dsn, "SELECT 1 FROM pg_indexes WHERE indexname LIKE 'document_%'")) == columns.count("PRIMARY")


@pytest.mark.parametrize(
    "document",
    [
        {"t": "a\x00b"},
        {"a\x00b": 1},
        {"n": Decimal("1E+200000")},
        {"deep": None},
    ],
    ids=["NUL", "NUL in a name", "a number without end", "too deep"],
)
def test_what_jsonb_cannot_hold_is_said(store: PostgresStore, document: Document) -> None:
    """A document that is JSON and no jsonb is refused in words that show none of it, and nothing is written."""
    if "deep" in document:
        nested: object = "marker"
        for _ in range(3000):
            nested = [nested]
        document = {"deep": nested}
    with pytest.raises(DocumentInvalid) as caught:
        store.put("notes", "one", document)
    assert "one" in caught.value.message
    assert "marker" not in caught.value.message + caught.value.hint
    assert store.get("notes", "one") is None


@pytest.mark.parametrize("name", ["", "x" * 129, "a\x00", "\ud800"], ids=["empty", "long", "nul", "half"])
def test_what_cannot_name_a_database_is_refused(store: PostgresStore, name: str) -> None:
    """An empty, overlong or unstorable name, wherever it is given."""
    for use in (
        lambda: store.put(name, "one", {}),
        lambda: store.get(name, "one"),
        lambda: store.query(name),
        lambda: store.delete(name, "one"),
    ):
        with pytest.raises(DocumentInvalid):
            use()


def test_texts_that_no_document_holds_are_refused_in_queries(store: PostgresStore) -> None:
    """A field or a place with NUL or half a character is an error of ours, not the driver's."""
    for wrong in ("a\x00", "\ud800"):
        with pytest.raises(DocumentInvalid):
            store.query("notes", wrong)
        with pytest.raises(DocumentInvalid):
            store.query("notes", after=wrong)


def test_a_key_with_nul_finds_nothing(store: PostgresStore) -> None:
    """A value that PostgreSQL cannot hold is in no document; the others are found all the same."""
    store.put("notes", "one", {"v": "a"})
    assert store.query("notes", "v", key="a\x00").documents == ()
    assert [
        found["_id"] for found in store.query("notes", "v", keys=["\x00", ["\x00"], Decimal("1E-20000"), "a"]).documents
    ] == ["one"]


def test_long_values_of_indexed_fields_are_no_error(store: PostgresStore) -> None:
    """A status of any length can be written and found, beside one that begins alike."""
    long, longer = "s" * 100, "s" * 5000
    for identifier, status in (("i" * 512, longer), ("two", long)):
        store.put("d" * 128, identifier, {"status": status, "claimDay": longer})
    assert [found["_id"] for found in store.query("d" * 128, "status", key=longer).documents] == ["i" * 512]


def test_a_deleted_document_leaves_nothing_of_itself(dsn: str, store: PostgresStore) -> None:
    """What stays is a tombstone: the id, a revision, and no content."""
    store.put("notes", "one", {"secret": "x"})
    store.delete("notes", "one")
    ((doc, deleted),) = run(dsn, "SELECT doc, deleted FROM public.document")
    assert (doc, deleted) == (None, True)


def test_what_did_not_change_is_not_written(dsn: str, store: PostgresStore) -> None:
    """An equal put, by revision or not, leaves the row as it was, to the very version."""
    revision = store.put("notes", "one", {"a": 1})
    before = run(dsn, "SELECT xmin::text, ctid::text, changed_at FROM public.document")
    store.put("notes", "one", {"a": Decimal("1.0")})
    store.put("notes", "one", {"a": 1}, if_rev=revision)
    assert run(dsn, "SELECT xmin::text, ctid::text, changed_at FROM public.document") == before


def test_a_forged_read_passes_no_guard(store: PostgresStore) -> None:
    """A move from a version that was never read, under the head's revision, is a lost one."""
    job = add(store, JOB, "one", input="x")
    won = claim(store, JOB, job, "c1")
    assert won is not None
    forged = {**won, "claimId": "c2"}
    assert store.finish(JOB.db, forged, {**forged, "status": "done", "output": 1}, writer="worker") is None
    assert store.move(JOB.db, forged, {**forged, "status": "done", "output": 1}, writer="worker") is None
    assert read(store, JOB, "one") == won


def test_the_server_s_clock_decides(store: PostgresStore, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker whose own clock is hours wrong has the server's time, asked or counted on."""
    ((first,),) = run(dsn, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "time_ns", lambda: 0)
    found = [store.now_ms() for _ in range(3)]
    ((last,),) = run(dsn, "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
    assert first <= found[0] <= found[1] <= found[2] <= last


def test_the_clock_is_asked_again_after_a_while(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted on is bounded: a machine that slept, or a server that was set, is found out."""
    store.now_ms()
    monkeypatch.setattr(documents, "_CLOCK_SECONDS", 0)
    monkeypatch.setattr(DocumentTable, "_rows", lambda *_: [(7,)])
    assert store.now_ms() == 7


def test_active_documents_are_found_past_any_number_of_ended_ones(dsn: str, store: PostgresStore) -> None:
    """The plan of what a tick reads uses the index of statuses, although the statistics say that all are waiting."""
    for number in range(50):
        add(store, JOB, f"{number:05}", input="x")
    run(dsn, "ANALYZE public.document")
    run(
        dsn,
        "INSERT INTO public.document (db, id, rev, doc) SELECT 'jobs', 'z' || n, 'r' || n,"
        ' \'{"type":"job","status":"done"}\' FROM generate_series(1, 20000) n',
    )
    statement = documents._sql("in_status", "public").decode()
    values = {"db": "jobs", "status": "pending", "short": "pending", "after": "", "limit": 500}
    plan = "\n".join(line for (line,) in run(dsn, f"EXPLAIN {statement}", values))
    assert "document_status" in plan
    assert len(list(store.active(JOB))) == 50


def test_pages_of_active_documents_join_without_a_seam(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every waiting and working document comes once and by id, whatever the length of a page."""
    monkeypatch.setattr("vibey_actions.documents.stores.postgres._PAGE", 3)
    jobs = [add(store, JOB, f"{number:02}", input="x") for number in range(13)]
    for job in jobs[::2]:
        assert claim(store, JOB, job, f"c{job['_id']}") is not None
    assert [found["_id"] for found in store.active(JOB)] == [f"{number:02}" for number in range(13)]


def test_a_cap_per_day_counts_its_day_alone(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims are counted from an index: of that day, of that kind, across pages."""
    monkeypatch.setattr("vibey_actions.documents.stores.postgres._PAGE", 2)
    bounded = replace(JOB, per_day=10)
    for number in range(5):
        store.put("jobs", f"note{number}", {"type": "note", "claimDay": "2026-01-01"})
        job = add(store, JOB, f"job{number}", input="x")
        edge = JOB.claimable["pending"]
        new = moves.claimed(bounded, edge, job, NOON + 86_400_000 * (number == 4), claim=f"c{number}")
        assert store.claim("jobs", job, new, writer="worker") is not None
    found = [document["_id"] for document in store.claims_of(JOB, "2026-01-01")]
    assert found == ["job0", "job1", "job2", "job3"]


ROW = {"type": "job", "input": "x", "status": "pending", "attempts": 0}


@pytest.mark.parametrize(
    "extra",
    [
        "jsonb_build_object('n', (repeat('[', 3000) || repeat(']', 3000))::jsonb)",
        "jsonb_build_object('n', (repeat('[', 400) || repeat(']', 400))::jsonb)",
        "jsonb_build_object('n', 1e5000)",
    ],
    ids=["endless lists", "deep lists", "an endless number"],
)
def test_a_row_that_is_no_document_holds_up_no_other(dsn: str, store: PostgresStore, extra: str) -> None:
    """What another program wrote and no reader can hold is left alone and said; all others are walked and counted."""
    insert = "INSERT INTO public.document (db, id, rev, doc) VALUES ('jobs', 'bad', '1-a', %(row)s::jsonb || " + extra
    run(dsn, insert + ")", {"row": json.dumps(ROW)})
    add(store, JOB, "good", input="x")
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert [(event.identifier, event.what) for event in report.events] == [("good", What.DONE)]
    assert [found["_id"] for found in store.query("jobs").documents] == ["good"]
    survey = TableSurvey(dsn, "public")
    status = look([JOB], store, LastTick(), survey=survey)
    assert status.machines[0].counts == {"pending": 1, "running": 0, "done": 1, "failed": 0}
    for doubts in (store.doubts, status.doubts):
        assert ["bad" in doubt for doubt in doubts] == [True]
    for use in (lambda: store.get("jobs", "bad"), lambda: store.put("jobs", "bad", ROW, writer="author")):
        with pytest.raises(DocumentInvalid):
            use()
    store.delete("jobs", "bad")
    assert list(store.active(JOB)) == []


def test_a_row_with_an_id_within_is_walked(dsn: str, store: PostgresStore) -> None:
    """An _id and a _rev that another program stored in the document say nothing, and are gone after the first write."""
    insert = "INSERT INTO public.document (db, id, rev, doc) VALUES ('jobs', 'one', '1-a', %(row)s)"
    run(dsn, insert, {"row": json.dumps({**ROW, "_id": "two", "_rev": 7})})
    assert read(store, JOB, "one") == {**ROW, "_id": "one", "_rev": "1-a"}
    report = Lane(JOB, store, {"command": FakeStep()}).tick()
    assert [(event.identifier, event.what) for event in report.events] == [("one", What.DONE)]
    assert run(dsn, "SELECT doc ? '_id', doc ? '_rev' FROM public.document") == [(False, False)]


def test_a_query_by_an_endless_value_is_refused(store: PostgresStore) -> None:
    """A value deeper than any document is an error of the query, in words."""
    value: object = 1
    for _ in range(500):
        value = [value]
    for selection in ({"key": value}, {"keys": [value]}, {"range": (value, value)}, {"prefix": value}):
        with pytest.raises(DocumentInvalid, match="nested more deeply"):
            store.query("jobs", "n", **selection)


def test_others_claims_are_known_without_asking(store: PostgresStore, dsn: str) -> None:
    """After some lost claims one look at the table shows the rest that is gone; nothing that stands is thought gone."""
    jobs = [add(store, JOB, f"{number:03}", input="x") for number in range(60)]
    found = list(store.active(JOB))
    other = DocumentTable(dsn)
    for job in jobs[:40]:
        assert claim(PostgresStore(other, MACHINES), JOB, job, f"other{job['_id']}") is not None
    other.close()
    assert not any(store.has_moved(JOB.db, document) for document in found)
    for job in found[:16]:
        assert claim(store, JOB, job, f"mine{job['_id']}") is None
    assert [store.has_moved(JOB.db, document) for document in found] == [True] * 40 + [False] * 20
    assert claim(store, JOB, found[40], "mine") is not None
    assert not any(store.has_moved(JOB.db, document) for document in store.active(JOB))


def test_a_write_taken_back_never_was(store: PostgresStore) -> None:
    """The version before comes back with its revision; what was new is gone; what moved on since stays."""
    job = add(store, JOB, "one", input="x")
    won = claim(store, JOB, job, "c1")
    assert won is not None
    store.take_back(JOB.db, won, job)
    assert read(store, JOB, "one") == job
    made = store.claim(JOB.db, None, {"_id": "new", "type": "job", "status": "pending", "attempts": 0}, writer="author")
    assert made is not None
    store.take_back(JOB.db, made, None)
    assert store.get(JOB.db, "new") is None
    again = claim(store, JOB, job, "c2")
    assert again is not None
    store.take_back(JOB.db, won, job)
    assert read(store, JOB, "one") == again


def test_a_connection_that_was_ended_is_opened_again(dsn: str, store: PostgresStore) -> None:
    """A server that restarts between two calls is no error of a lane."""
    store.put("notes", "one", {"a": 1})
    for use in (lambda: store.get("notes", "one"), lambda: store.put("notes", "one", {"a": 2})):
        run(
            dsn,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE '%documents'"
            " AND datname = current_database()",
        )
        use()
    found = store.get("notes", "one")
    assert found is not None
    assert found["a"] == 2


@pytest.mark.parametrize("arrived", [True, False], ids=["written", "not written"])
def test_a_lost_answer_is_no_lost_claim(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch, *, arrived: bool
) -> None:
    """A connection that breaks before the answer to a claim: sent again, it is the same claim, once."""
    job = add(store, JOB, "one", input="x")
    once = DocumentTable._once
    broken: list[str] = []

    def breaking(self: DocumentTable, block: str, values: Mapping[str, object]) -> psycopg.Cursor:
        if block != "update_known" or broken:
            return once(self, block, values)
        broken.append(block)
        if arrived:
            once(self, block, values)
        assert self._connection is not None
        self._connection.close()
        raise psycopg.OperationalError("the connection is lost")

    monkeypatch.setattr(DocumentTable, "_once", breaking)
    won = claim(store, JOB, job, "c1")
    assert broken
    assert won is not None
    assert read(store, JOB, "one") == won


def test_a_server_that_is_gone_leaves_the_outcome_unknown(
    store: PostgresStore, table: DocumentTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the answer is lost and no new connection is to be had, nothing is claimed to be known; a read says why."""
    job = add(store, JOB, "one", input="x")

    def refused(*_: object, **__: object) -> psycopg.Connection:
        raise DatabaseFailed("cannot connect")

    monkeypatch.setattr(documents, "connect", refused)
    assert table._connection is not None
    table._connection.close()
    with pytest.raises(OutcomeUnknown):
        claim(store, JOB, job, "c1")
    with pytest.raises(StoreFailed):
        store.get(JOB.db, "one")


def test_a_read_that_fails_is_no_empty_one(dsn: str, store: PostgresStore) -> None:
    """A table that is gone, or a right that was taken, is StoreFailed at every read, never nothing there."""
    store.now_ms()
    run(dsn, "ALTER TABLE public.document RENAME TO kept")
    for use in (
        lambda: store.get("notes", "one"),
        lambda: store.query("notes"),
        lambda: list(store.active(JOB)),
        lambda: store.put("notes", "one", {}),
    ):
        with pytest.raises(StoreFailed):
            use()


def test_a_put_that_others_always_overtake_ends(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write that never finds its head unmoved fails after a while, and with a revision it conflicts."""
    revision = store.put("notes", "one", {"a": 1})
    monkeypatch.setattr(DocumentTable, "update", lambda *_, **__: False)
    with pytest.raises(StoreFailed):
        store.put("notes", "one", {"a": 2})
    monkeypatch.undo()
    store.put("notes", "one", {"a": 3})
    with pytest.raises(DocumentConflict):
        store.delete("notes", "one", if_rev=revision)
