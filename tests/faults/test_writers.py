"""Writers that are cancelled, killed, or not alone: no export is lost, and none arrives twice."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.github_server import GitHubServer
from tests.support.github_server.faults import Fault
from tests.support.github_server.replies import Reply
from tests.support.writes import DIRECTORY, TABLES, Writes, customers

PATIENCE = 100


class Held:
    """A request that came in and is answered only once it may be."""

    def __init__(self) -> None:
        self.came = threading.Event()
        self.may_go = threading.Event()

    def before(self) -> None:
        self.came.set()
        self.may_go.wait(PATIENCE)

    def after(self, reply: Reply) -> Reply:
        self.before()
        return reply

    def wait(self) -> None:
        assert self.came.wait(PATIENCE), "the writer does not come that far"


@pytest.fixture
def held() -> Iterator[Held]:
    request = Held()
    yield request
    request.may_go.set()


@pytest.fixture
def writes(tmp_path: Path) -> Iterator[Writes]:
    """A repository whose databases are made by SQL files, with one row on its branch and one export."""
    with GitHubServer(tmp_path / "github") as server:
        made = Writes(server, tmp_path, ["1"])
        made.commit(DIRECTORY, {"1": TABLES})
        made.put(customers(c1="ann"))
        made.export(customers(c1="ann", c2="bob"))
        yield made


@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM], ids=lambda one: one.name)
def test_a_writer_that_ends_between_import_and_push(writes: Writes, held: Held, ending: signal.Signals) -> None:
    """Killed or cancelled there it has changed nothing, its server is gone, and the next write takes the export up."""
    before = writes.head
    writes.github.arm(Fault(before=held.before), "POST", "/git/blobs")
    writer = writes.start()
    held.wait()
    writer.end(ending)
    held.may_go.set()
    written = writer.wait()
    assert written.code != 0
    assert written.marks == []
    assert writes.head == before
    assert len(writes.write(8).marks) == 1
    assert writes.names() == ["ann", "bob"]


def test_a_writer_that_is_killed_before_the_branch_moves(writes: Writes, held: Held) -> None:
    """With everything uploaded but the reference not moved nothing has happened yet."""
    before = writes.head
    writes.github.arm(Fault(before=held.before), "PATCH", "/git/refs/")
    writer = writes.start()
    held.wait()
    writer.end(signal.SIGKILL)
    assert writes.head == before
    # What was asked of GitHub by somebody who is dead since may still happen there, and is one push then.
    held.may_go.set()
    assert len(writes.write(8).marks) == 1
    assert writes.names() == ["ann", "bob"]


def test_a_writer_that_is_killed_between_push_and_mark(writes: Writes, held: Held) -> None:
    """The branch has the rows and no mark says so: the next write sees it, and brings back nothing deleted since."""
    writes.github.arm(Fault(after=held.after), "PATCH", "/git/refs/")
    writer = writes.start()
    held.wait()
    writer.end(signal.SIGKILL)
    held.may_go.set()
    assert writer.wait().marks == []
    assert writes.names() == ["ann", "bob"]
    head = writes.put(customers(c1="ann"))
    written = writes.write(8)
    assert written.code == 0
    assert writes.head == head
    assert len(written.marks) == 1
    assert writes.write(9).marks == []


def test_two_writers_at_once(writes: Writes, held: Held) -> None:
    """Both see the same exports, and one is held up in front of its push: all arrive, each once."""
    writes.export(customers(c1="ann", c3="cid"), run=8)
    writes.github.arm(Fault(before=held.before), "POST", "/git/blobs")
    slow = writes.start(7)
    held.wait()
    fast = writes.write(8)
    assert fast.code == 0
    assert len(fast.marks) == 2
    head = writes.put(customers(c1="ann", c3="cid"))
    held.may_go.set()
    late = slow.wait(marking=False)
    assert late.code == 0, late.log
    assert writes.head == head
    assert len(late.marks) == 2
