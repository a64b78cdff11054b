"""Many machines, any order of work and death: they end up level, and nothing that was written once is lost."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.settings import bounded
from tests.support.memory import Died, Log, MemoryRemote, MemoryStore, cycle_of
from vibey_actions.state.declaration import Declaration, Rule, Table
from vibey_actions.state.report import SyncState

DECLARED = Declaration(
    {
        "log": Table("log", ("id",), ("id", "v"), append_only=True),
        "mine": Table("mine", ("id",), ("id", "v"), Rule.MINE),
        "theirs": Table("theirs", ("id",), ("id", "v"), Rule.THEIRS),
    }
)
MACHINES = 3

machines = st.integers(0, MACHINES - 1)
acts = st.one_of(
    st.tuples(st.just("append"), machines, st.none()),
    st.tuples(st.just("put"), machines, st.tuples(st.sampled_from(["mine", "theirs"]), st.integers(0, 3))),
    st.tuples(st.just("drop"), machines, st.tuples(st.sampled_from(["mine", "theirs"]), st.integers(0, 3))),
    st.tuples(st.just("sync"), machines, st.sampled_from([None, None, 0, 1, 2, 3, 4, 5])),
    st.tuples(st.just("pull"), machines, st.sampled_from([None, None, 0, 1, 2, 3])),
)


@bounded(120)
@given(st.lists(acts, max_size=25), st.lists(acts, max_size=4))
def test_machines_end_up_level(work: list[Any], between: list[Any]) -> None:
    """After any work, with syncs that died anywhere and others that came in between, every machine holds the same."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr("time.sleep", lambda _: None)
        fleet = Fleet(Path(name))
        for number, act in enumerate(work):
            if number < len(between):
                fleet.remote.before_push.append(partial(fleet.run, between[number]))
            fleet.run(act)
        fleet.remote.before_push.clear()
        fleet.settle()
        fleet.check()


class Fleet:
    """Some machines, their branch, and every ledger row that was ever appended."""

    def __init__(self, folder: Path) -> None:
        for part in ("cache", *map(str, range(MACHINES))):
            (folder / part).mkdir()
        self.log = Log()
        self.remote = MemoryRemote(folder / "cache", self.log)
        self.stores = [MemoryStore(DECLARED, self.log, folder=folder / str(number)) for number in range(MACHINES)]
        self.appended = 0
        self.ledger: set[int] = set()
        self.busy: set[int] = set()

    def run(self, act: tuple[str, int, Any]) -> None:
        what, number, detail = act
        store = self.stores[number]
        if what == "append":
            self.appended += 1
            self.ledger.add(self.appended)
            store.put("log", {"id": self.appended, "v": "x"})
        elif what == "put":
            self.appended += 1
            store.put(detail[0], {"id": detail[1], "v": self.appended})
        elif what == "drop":
            store.tables.get(detail[0], {}).pop(b"[%d]" % detail[1], None)
        elif number not in self.busy:
            self.sync(number, detail, push=what == "sync")

    def sync(self, number: int, dies_at: int | None, *, push: bool = True) -> None:
        self.busy.add(number)
        self.log.dies_at = dies_at
        store = self.stores[number]
        try:
            cycle_of(store, self.remote, store.folder, [], push=push).sync()
        except Died:
            pass
        finally:
            self.log.dies_at = None
            self.busy.remove(number)

    def settle(self) -> None:
        """Everyone pushes, then everyone pulls. A row of the rule ``mine`` may travel once more."""
        for _ in range(3):
            for number in range(MACHINES):
                self.sync(number, None)

    def check(self) -> None:
        first = self.stores[0].rows
        assert all(store.rows == first for store in self.stores)
        assert self.remote.state()[1] == first
        assert {row["id"] for row in first.get("log", [])} == self.ledger
        writes = list(self.log.writes)
        for store in self.stores:
            report = cycle_of(store, self.remote, store.folder, []).sync()
            assert report.state is SyncState.IN_SYNC
        assert self.log.writes == writes
