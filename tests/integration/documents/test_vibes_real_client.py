"""The real ``vibes-diy`` client against a vibe of ours: that our picture of it is the right one.

Each call takes some seconds and 350 MB, so here is one of each kind; what the store makes of the answers is in
test_vibes_store.py.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http import HTTPStatus

import pytest

from tests.support.lanes import JOB, FakeStep
from tests.support.vibes_client import installed
from tests.support.vibes_server.device import device_id
from tests.support.vibes_server.faults import Fault
from tests.support.vibes_server.server import VibesServer
from tests.support.vibes_server.vibe import Body, Forbidden
from vibey_actions.documents.client import VibesClient
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.steps.base import StepResult, Work, done
from vibey_actions.documents.stores.vibes import VibesStore
from vibey_actions.errors import DocumentConflict, DocumentDenied, OutcomeUnknown, StoreFailed

ID = "at://a b/ü\n-1"


@pytest.fixture(scope="module")
def command() -> tuple[str, ...]:
    return installed()


@pytest.fixture
def server() -> Iterator[VibesServer]:
    with VibesServer() as server:
        yield server


@pytest.fixture
def client(server: VibesServer, command: tuple[str, ...]) -> VibesClient:
    environment = {"PATH": os.environ["PATH"], "VIBES_DEVICE_ID": device_id()}
    return VibesClient(command, server.name, environment, api_url=server.url)


def test_a_document_is_written_read_found_and_deleted(server: VibesServer, client: VibesClient) -> None:
    """Each verb of the client, with an id of spaces, slashes, a line end and Unicode; only reads ask as the owner."""
    document = {"status": "pending", "text": 'é"\n😀', "list": [1, 2.5, {"a": None}], "yes": True}
    client.put("requests", ID, document)
    assert server.vibe.documents == {("requests", ID): document}
    assert client.get("requests", ID) == {**document, "_id": ID}
    server.vibe.documents["requests", "other"] = {"status": {"an": "object"}}
    assert [row["_id"] for row in client.query("requests").documents] == [ID, "other"]
    client.delete("requests", ID)
    assert client.get("requests", ID) is None
    asked = {
        kind: [bool(one.get("adminMode")) for one in server.asked(kind)] for kind in ("put", "get", "query", "delete")
    }
    assert asked == {"put": [False], "get": [True, True], "query": [True], "delete": [False]}


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        pytest.param(Fault.CONFLICT, DocumentConflict, id="conflict"),
        pytest.param(Fault.LOGGED_OUT, StoreFailed, id="logged-out"),
        pytest.param(Fault.APPLIES_THEN_CLOSES, OutcomeUnknown, id="applies-then-closes"),
    ],
)
def test_a_write_that_fails_is_understood(
    server: VibesServer, client: VibesClient, fault: Fault, error: type[Exception]
) -> None:
    """The texts of the real client lead to the errors that the store relies on."""
    server.faults.arm(fault, "put")
    with pytest.raises(error):
        client.put("requests", "m-1", {"status": "pending"})
    assert (("requests", "m-1") in server.vibe.documents) == (fault is Fault.APPLIES_THEN_CLOSES)


def test_the_message_of_an_access_function_is_passed_on(server: VibesServer, client: VibesClient) -> None:
    """What the vibe's access.js throws is what a person reads."""

    def refuse(_new: Body, _old: Body | None) -> None:
        raise Forbidden("no transition built -> building")

    server.vibe.access = refuse
    with pytest.raises(DocumentDenied, match="no transition built -> building"):
        client.put("requests", "m-1", {"status": "building"})


def test_a_silent_server_is_left_at_our_own_deadline(server: VibesServer, client: VibesClient) -> None:
    """The client by itself would wait half a minute for a reply that never comes."""
    server.faults.arm(Fault.SILENT, "put")
    with pytest.raises(OutcomeUnknown, match="did not end in time"):
        client.put("requests", "m-1", {"status": "pending"}, deadline=10)


def test_a_refused_upgrade_was_not_sent(server: VibesServer, client: VibesClient) -> None:
    """403 in place of a connection: nothing was written, and the error says that nothing was."""
    server.refuses = HTTPStatus.FORBIDDEN
    with pytest.raises(StoreFailed, match="WebSocket error"):
        client.put("requests", "m-1", {"status": "pending"})


def test_twenty_megabytes_go_and_come_whole(server: VibesServer, client: VibesClient) -> None:
    """Far beyond what a pipe or an argument holds, in both directions."""
    text = "x" * 20_000_000
    client.put("requests", "big", {"text": text})
    assert client.get("requests", "big") == {"_id": "big", "text": text}


def test_two_lanes_work_a_document_once(server: VibesServer, client: VibesClient) -> None:
    """The whole way with real programs: both see the job and claim it, one of them works on it, and it is done.

    The pause is a multiple of what a call takes here now; where that was too short for a claim, another round begins
    anew with twice the pause.
    """
    machine = replace(JOB, lease_ms=3_600_000)
    worked: list[object] = []
    begun = time.monotonic()
    client.query(JOB.db)
    settle = max(15.0, 4 * (time.monotonic() - begun))

    def work(unit: Work) -> StepResult:
        worked.append(unit.document["claimId"])
        return done({"output": "made"})

    def walk() -> None:
        Lane(machine, VibesStore(client, (machine,), settle=settle), {"command": FakeStep(work)}).tick()

    for _ in range(4):
        server.vibe.documents[JOB.db, "m1"] = {"type": "job", "status": "pending", "attempts": 0, "input": "x"}
        with ThreadPoolExecutor(2) as pool:
            for ended in [pool.submit(walk) for _ in range(2)]:
                ended.result()
        if worked:
            break
        settle *= 2
    found = server.vibe.documents[JOB.db, "m1"]
    assert (found["status"], found["output"], [found["claimId"]]) == ("done", "made", worked)
