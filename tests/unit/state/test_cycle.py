"""The cycle, path by path, with a store and a remote in memory: what is written, in which order, and when nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import KEY, document, seal
from tests.support.memory import Died, Log, MemoryRemote, MemoryStore, Tables, cycle_of
from vibey_actions.errors import (
    BranchGone,
    BranchRewritten,
    Conflicts,
    GaveUp,
    RemoteMoved,
    RolledBack,
    SchemaMismatch,
    StateMoved,
    TableRefused,
    TooManyDeletes,
    Unreadable,
    VibeyError,
    WrongKey,
)
from vibey_actions.rows.canonical import decode, encode
from vibey_actions.state import cycle as cycling
from vibey_actions.state import merge as merging
from vibey_actions.state.checked import CheckedFiles
from vibey_actions.state.cycle import check_schema
from vibey_actions.state.declaration import Declaration, Rule, Table
from vibey_actions.state.report import Conflict, ConflictKind, Counts, Report, SyncState

DECLARED = Declaration(
    {
        "mine": Table("mine", ("id",), ("id", "v"), Rule.MINE),
        "t": Table("t", ("id",), ("id", "v")),
        "u": Table("u", ("id",), ("id", "v")),
    }
)


def row(number: int, v: Any = "a") -> dict[str, Any]:
    return {"id": number, "v": v}


@dataclass
class World:
    """One branch and the machines around it, each with a store and folders of its own."""

    folder: Path
    log: Log = field(default_factory=Log)
    notices: list[str] = field(default_factory=list)
    made: int = 0

    def __post_init__(self) -> None:
        cache = self.folder / "cache"
        cache.mkdir()
        self.remote = MemoryRemote(cache, self.log)

    def machine(
        self, *rows: dict[str, Any], declaration: Declaration = DECLARED, schema: list[str] | None = None
    ) -> MemoryStore:
        self.made += 1
        folder = self.folder / f"machine{self.made}"
        folder.mkdir()
        store = MemoryStore(declaration, self.log, schema or [], folder=folder)
        store.put("t", *rows)
        return store

    def sync(self, store: MemoryStore, **options: Any) -> Report:
        return cycle_of(store, self.remote, store.folder, self.notices, **options).sync()

    def status(self, store: MemoryStore, **options: Any) -> Report:
        """The status, which never writes."""
        with self.unchanged(store):
            return cycle_of(store, self.remote, store.folder, self.notices, **options).status()

    def pair(self, *rows: dict[str, Any]) -> tuple[MemoryStore, MemoryStore]:
        """Two machines in sync with the branch."""
        here, there = self.machine(*rows), self.machine()
        self.sync(here)
        self.sync(there)
        self.log.writes.clear()
        return here, there

    def unchanged(self, *stores: MemoryStore) -> Unchanged:
        return Unchanged(self, stores)

    def refused(self, error: type[VibeyError], store: MemoryStore, **options: Any) -> VibeyError:
        """The sync's refusal; nothing may have been written at either end."""
        with self.unchanged(store), pytest.raises(error) as caught:
            self.sync(store, **options)
        assert caught.value.message
        return caught.value


class Unchanged:
    """Neither end is written to within the block."""

    def __init__(self, world: World, stores: tuple[MemoryStore, ...]) -> None:
        self.world, self.stores = world, stores

    def picture(self) -> Any:
        return [list(self.world.log.writes), self.world.remote.tip, dict(self.world.remote.commits)] + [
            (store.recorded, store.rows, dict(store.agreed)) for store in self.stores
        ]

    def __enter__(self) -> None:
        self.before = self.picture()

    def __exit__(self, *_: object) -> None:
        assert self.picture() == self.before


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(cycling.time, "sleep", lambda _: None)  # type: ignore[attr-defined]
    return World(tmp_path)


def test_the_first_sync_makes_the_branch(world: World) -> None:
    """Without a branch every row is pushed as its first commit, which is recorded after the push."""
    here = world.machine(row(1), row(2))
    assert world.status(here).state is SyncState.AHEAD
    report = world.sync(here)
    tip = world.remote.tip
    assert world.log.writes == [("push", None), ("record", tip)]
    assert world.remote.state() == ([], {"t": [row(1), row(2)]})
    assert report == Report(SyncState.IN_SYNC, world.remote.name, tip, 2, {}, {"t": Counts(inserted=2)}, pushed=True)


def test_an_empty_database_makes_the_branch_too(world: World) -> None:
    """A state without rows is a state."""
    report = world.sync(world.machine())
    assert (report.pushed, report.to_push, report.rows) == (True, 0, 0)
    assert world.remote.state() == ([], {})


def test_a_second_sync_writes_and_reads_nothing(world: World) -> None:
    """Straight after a first one nothing is written at either end, nothing downloaded and nothing opened."""
    here, there = world.pair(row(1))
    downloads = list(world.remote.downloads)
    for store in (here, there):
        with world.unchanged(store):
            assert world.sync(store) == Report(SyncState.IN_SYNC, world.remote.name, world.remote.tip, None)
            assert world.sync(store, push=False).state is SyncState.IN_SYNC
        assert world.status(store).state is SyncState.IN_SYNC
    assert world.remote.downloads == downloads
    assert not list((here.folder / "drafts").iterdir())


def test_pull_into_an_empty_database(world: World) -> None:
    """Rows and watermark come in one write; nothing is pushed."""
    world.sync(world.machine(row(1), row(2)))
    there, tip = world.machine(), world.remote.tip
    world.log.writes.clear()
    assert world.status(there).state is SyncState.BEHIND
    report = world.sync(there)
    assert world.log.writes == [("apply", tip, "final")]
    assert there.rows == {"t": [row(1), row(2)]}
    assert report == Report(SyncState.IN_SYNC, world.remote.name, tip, 2, {"t": Counts(inserted=2)})


def test_push_alone(world: World) -> None:
    """A change made here goes to the branch; this database is not written but for its watermark, after the push."""
    here, there = world.pair(row(1), row(2))
    base = here.recorded
    here.put("t", row(2, "b"), row(3))
    here.drop("t", 1)
    assert world.status(here).push == {"t": Counts(1, 1, 1)}
    report = world.sync(here)
    assert world.log.writes == [("push", base), ("record", world.remote.tip)]
    assert (report.to_push, report.to_pull, report.pushed) == (3, 0, True)
    world.sync(there)
    assert there.rows == here.rows == {"t": [row(2, "b"), row(3)]}


def test_pull_alone(world: World) -> None:
    """A change made there comes here in one write with its watermark; the branch is not moved."""
    here, there = world.pair(row(1), row(2))
    there.put("t", row(2, "b"), row(3))
    there.drop("t", 1)
    world.sync(there)
    world.log.writes.clear()
    assert world.status(here).pull == {"t": Counts(1, 1, 1)}
    report = world.sync(here)
    assert world.log.writes == [("apply", world.remote.tip, "final")]
    assert (report.to_push, report.to_pull, report.pushed) == (0, 3, False)
    assert here.rows == there.rows


def test_both_ways(world: World) -> None:
    """The branch's changes are applied and its head recorded before the push; the pushed commit is recorded after."""
    here, there = world.pair(row(1), row(2))
    here.put("t", row(1, "here"))
    there.put("u", row(9))
    world.sync(there)
    head = world.remote.tip
    world.log.writes.clear()
    assert world.status(here).state is SyncState.BOTH_CHANGED
    report = world.sync(here)
    tip = world.remote.tip
    assert world.log.writes == [("apply", head, "not final"), ("push", head), ("record", tip)]
    assert world.remote.commits[tip or ""][1] == head
    assert (report.pull, report.push) == ({"u": Counts(inserted=1)}, {"t": Counts(updated=1)})
    world.sync(there)
    assert here.rows == there.rows == {"t": [row(1, "here"), row(2)], "u": [row(9)]}
    for store in (here, there):
        with world.unchanged(store):
            assert world.sync(store).rows is None


def test_a_moved_branch_that_needs_nothing_here_is_recorded_before_the_push(world: World) -> None:
    """What came from the branch is nothing new here: the head is recorded first all the same, then the push follows."""
    here, there = world.pair(row(1))
    for store in (here, there):
        store.put("t", row(2))
    here.put("u", row(5))
    world.sync(there)
    head = world.remote.tip
    world.log.writes.clear()
    world.sync(here)
    assert world.log.writes == [("record", head), ("push", head), ("record", world.remote.tip)]


def test_the_same_change_at_both_ends(world: World) -> None:
    """It is no conflict, no pull and no push: only the watermark moves."""
    here, there = world.pair(row(1))
    for store in (here, there):
        store.put("t", row(1, "same"))
    world.sync(there)
    world.log.writes.clear()
    report = world.sync(here)
    assert world.log.writes == [("record", world.remote.tip)]
    assert (report.to_pull, report.to_push, report.pushed) == (0, 0, False)


def test_an_earlier_row_put_back_is_a_change(world: World) -> None:
    """Undone here and done anew there are changes like others: three-way against the last agreement."""
    here, there = world.pair(row(1, "x"))
    here.put("t", row(1, "y"))
    world.sync(here)
    world.sync(there)
    there.put("t", row(1, "x"))
    world.sync(there)
    world.sync(here)
    assert here.rows == {"t": [row(1, "x")]}


def test_a_row_of_a_rule_mine_goes_out(world: World) -> None:
    """What this database keeps by its rule is pushed."""
    here, there = world.pair()
    here.put("mine", row(1, "here"))
    there.put("mine", row(1, "there"))
    world.sync(there)
    world.sync(here)
    assert world.remote.state()[1] == {"mine": [row(1, "here")]}
    world.sync(there)
    assert there.rows == {"mine": [row(1, "here")]}


def test_a_conflict_writes_nothing_anywhere(world: World) -> None:
    """Every conflicting row of every table is named, and what would merge waits with it."""
    here, there = world.pair(row(1), row(2), row(3))
    for store, v in ((here, "here"), (there, "there")):
        store.put("t", row(1, v), row(2, v))
        store.put("u", row(7, v))
    here.drop("t", 3)
    there.put("t", row(3, "there"), row(4))
    world.sync(there)
    found = world.refused(Conflicts, here)
    assert isinstance(found, Conflicts)
    assert [(c.table, c.key, c.kind) for c in found.conflicts] == [
        ("t", "[1]", ConflictKind.BOTH_CHANGED),
        ("t", "[2]", ConflictKind.BOTH_CHANGED),
        ("t", "[3]", ConflictKind.DELETED_HERE),
        ("u", "[7]", ConflictKind.BOTH_CHANGED),
    ]
    assert "4 row(s)" in found.message
    world.refused(Conflicts, here, push=False)
    report = world.status(here)
    assert report.state is SyncState.CONFLICT
    assert len(report.conflicts) == 4
    here.put("t", row(1, "there"), row(2, "there"), row(3, "there"))
    here.put("u", row(7, "there"))
    assert world.sync(here).to_pull == 1


def test_unnamed_conflicts_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message counts all conflicts, also those beyond the number that is named."""
    monkeypatch.setattr(merging, "MAX_NAMED_CONFLICTS", 1)
    world.sync(world.machine(row(1), row(2), row(3)))
    found = world.refused(Conflicts, world.machine(row(1, "b"), row(2, "b"), row(3, "b")))
    assert "3 row(s)" in found.message


def test_the_first_sync_of_two_databases_with_rows(world: World) -> None:
    """Without a base nothing is deleted: the ends' rows are united, and different rows under one key conflict."""
    world.sync(world.machine(row(1), row(2)))
    there = world.machine(row(2), row(3))
    world.sync(there)
    assert there.rows == {"t": [row(1), row(2), row(3)]} == world.remote.state()[1]
    world.refused(Conflicts, world.machine(row(1, "other")))


def test_a_branch_that_moves_before_the_push(world: World) -> None:
    """The cycle starts again from the new head, three-way: what was pulled is not taken for a change made here."""
    here, there = world.pair(row(1), row(2))
    there.put("t", row(1, "first"))
    world.sync(there)
    here.put("t", row(2, "here"))

    def meanwhile() -> None:
        there.put("t", row(1, "second"), row(3))
        world.sync(there)

    world.remote.before_push.append(meanwhile)
    report = world.sync(here)
    assert report.attempts == 2
    assert len(world.notices) == 1
    assert "2 of 5" in world.notices[0]
    world.sync(there)
    assert here.rows == there.rows == {"t": [row(1, "second"), row(2, "here"), row(3)]}


def test_another_machine_makes_the_branch_first(world: World) -> None:
    """Two first syncs at once: the second one starts again and merges with the first."""
    here, there = world.machine(row(1)), world.machine(row(2))
    world.remote.before_push.append(lambda: world.sync(there))
    assert world.sync(here).attempts == 2
    assert here.rows == {"t": [row(1), row(2)]} == world.remote.state()[1]


def test_a_row_that_changes_here_before_the_apply(world: World) -> None:
    """The apply is rolled back and the cycle starts again with what is there now."""
    here, there = world.pair(row(1), row(2))
    there.put("t", row(1, "there"), row(3))
    world.sync(there)
    here.before_apply.append(lambda: here.put("t", row(3)))
    report = world.sync(here)
    assert report.attempts == 2
    assert here.rows == {"t": [row(1, "there"), row(2), row(3)]}


@pytest.mark.parametrize("attempts", [1, 2, 5])
@pytest.mark.parametrize("moved", [StateMoved, RemoteMoved])
def test_it_gives_up(world: World, attempts: int, moved: type[VibeyError]) -> None:
    """After VIBEY_STATE_ATTEMPTS attempts the last reason is said."""
    here, there = world.pair(row(1))
    tried: list[int] = []

    def moves() -> None:
        tried.append(1)
        raise moved("it moved again")

    if moved is StateMoved:
        there.put("t", row(2))
        world.sync(there)
        here.before_apply += [moves] * 9
    else:
        here.put("t", row(3))
        world.remote.before_push += [moves] * 9
    with world.unchanged(here), pytest.raises(GaveUp, match=f"{attempts} attempts.*it moved again"):
        world.sync(here, attempts=attempts)
    assert len(tried) == attempts
    assert len(world.notices) == attempts - 1


def test_other_failures_are_not_tried_again(world: World) -> None:
    """A refusal of the remote is final."""
    here = world.machine(row(1))

    def refuses() -> None:
        raise VibeyError("no")

    world.remote.before_push += [refuses, refuses]
    world.refused(VibeyError, here)
    assert len(world.remote.before_push) == 1


def test_a_branch_that_is_gone(world: World) -> None:
    """With a base recorded it is refused by name, by status too; without one it is made."""
    here, _ = world.pair(row(1))
    world.remote.tip = None
    assert "state forget" in world.refused(BranchGone, here).hint
    with pytest.raises(BranchGone):
        world.status(here)
    here.recorded, here.agreed = None, {}
    assert world.sync(here).pushed


def test_a_branch_that_was_rewritten(world: World) -> None:
    """A head that does not continue the base is refused by name, also where the base can still be read."""
    here, there = world.pair(row(1))
    there.put("t", row(2))
    world.sync(there)
    world.sync(here)
    first = world.remote.commits[here.recorded or ""][1]
    world.remote.tip = first
    assert str(first) in world.refused(BranchRewritten, here).message
    world.remote.add(seal(document({"t": [row(5)]})), None)
    world.refused(BranchRewritten, here)
    with pytest.raises(BranchRewritten):
        world.status(here)


def test_an_old_state_put_back(world: World) -> None:
    """A head that holds what an earlier commit held is refused; accepted on purpose, its rows come back."""
    here, there = world.pair(row(1))
    there.put("t", row(1, "new"), row(2))
    world.sync(there)
    world.sync(here)
    old = world.remote.commits[world.remote.commits[here.recorded or ""][1] or ""][0]
    world.remote.add(old, here.recorded)
    assert "--accept-rollback" in world.refused(RolledBack, here).hint
    world.sync(here, accept_rollback=True)
    assert here.rows == {"t": [row(1)]}
    with world.unchanged(here):
        world.sync(here)


def test_without_push(world: World) -> None:
    """What the branch has comes here and its head is the base; what it lacks stays here until a sync that pushes."""
    here, there = world.pair(row(1))
    there.put("t", row(2))
    world.sync(there)
    here.put("u", row(9))
    head = world.remote.tip
    report = world.sync(here, push=False)
    assert (report.state, report.pushed, report.commit) == (SyncState.AHEAD, False, head)
    assert (here.recorded, world.remote.tip) == (head, head)
    assert here.rows == {"t": [row(1), row(2)], "u": [row(9)]}
    assert not (here.folder / "drafts").exists() or not list((here.folder / "drafts").iterdir())
    assert world.sync(here, push=False).push == {"u": Counts(inserted=1)}
    assert world.status(here).state is SyncState.AHEAD
    assert world.sync(here).push == {"u": Counts(inserted=1)}
    assert world.remote.state()[1] == here.rows


def test_without_push_and_without_a_branch(world: World) -> None:
    """Nothing is there to pull, and nothing is written."""
    here = world.machine(row(1))
    with world.unchanged(here):
        report = world.sync(here, push=False)
    assert (report.state, report.commit) == (SyncState.AHEAD, None)


def test_deletes_here_beyond_the_limit(world: World) -> None:
    """A branch that was emptied does not empty this database."""
    here, there = world.pair(row(1), row(2), row(3))
    there.tables = {}
    world.sync(there)
    assert "here (t: 3)" in world.refused(TooManyDeletes, here, max_deletes=2).message
    world.refused(TooManyDeletes, here, max_deletes=0, push=False)
    assert world.sync(here, max_deletes=3).pull == {"t": Counts(deleted=3)}


def test_deletes_there_beyond_the_limit(world: World) -> None:
    """A database that was emptied does not empty the branch; a sync that does not push is not stopped by it."""
    here, _ = world.pair(row(1), row(2), row(3))
    here.tables = {}
    assert "on the branch (t: 3)" in world.refused(TooManyDeletes, here, max_deletes=2).message
    assert world.sync(here, max_deletes=2, push=False).state is SyncState.AHEAD
    world.sync(here, max_deletes=3)
    assert world.remote.state()[1] == {}


def test_a_table_that_is_not_synced_here(world: World) -> None:
    """A branch with a table this database does not sync is refused before any write."""
    here = world.machine()
    here.put("u", row(1))
    world.sync(here)
    there = world.machine(declaration=Declaration({"t": DECLARED.tables["t"]}))
    assert "table u" in world.refused(TableRefused, there).message


def test_other_columns(world: World) -> None:
    """A column that only the branch knows is refused before any write."""
    world.remote.add(seal(document({"t": [{"id": 1, "v": 1, "w": 2}]})), None)
    assert "w" in world.refused(SchemaMismatch, world.machine()).message


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", Unreadable),
        (document({"t": [row(1)]}), Unreadable),
        (seal(document({"t": [row(1)]}))[:-1], Unreadable),
        (seal(document({"t": [row(1)]}), key=bytes(32)), WrongKey),
        (seal(document({"t": [row(2), row(1)]})), Unreadable),
        (seal(document({"t": [row(1)]})[:-2]), Unreadable),
        (seal(document({"t": [row(1)]}) + b" "), Unreadable),
    ],
    ids=["empty", "plain", "cut", "another key", "out of order", "cut before it was sealed", "trailing"],
)
def test_a_head_that_does_not_open(world: World, content: bytes, error: type[VibeyError]) -> None:
    """It is refused with nothing written, with a base and without, and never read as an empty state."""
    here, _ = world.pair(row(1))
    world.remote.add(content, here.recorded)
    assert isinstance(world.refused(error, here), error)
    world.refused(error, world.machine())
    world.refused(error, world.machine(row(7)))
    with pytest.raises(error):
        world.status(here)


def damage(world: World, commit: str | None, content: bytes) -> None:
    (world.remote.folder / (commit or "")).write_bytes(content)


@pytest.mark.parametrize("content", [b"", b"VBYSTAT1", b"x" * 15, b"{}", bytes(500)])
def test_a_damaged_local_copy_is_fetched_anew(world: World, content: bytes) -> None:
    """The head's and the base's copies on this machine may be damaged: one new download mends that."""
    here, there = world.pair(row(1))
    there.put("t", row(2))
    world.sync(there)
    here.put("u", row(1))
    for commit in (here.recorded, world.remote.tip):
        damage(world, commit, content)
    world.remote.downloads.clear()
    base, head = here.recorded, world.remote.tip
    world.sync(here)
    assert sorted(world.remote.downloads) == sorted([base or "", head or ""])
    assert world.remote.state()[1] == here.rows == {"t": [row(1), row(2)], "u": [row(1)]}


def test_a_damaged_branch_is_fetched_anew_once(world: World) -> None:
    """What does not open after a second download is believed to be damaged."""
    here, _ = world.pair(row(1))
    head = world.remote.add(b"damaged", here.recorded)
    world.refused(Unreadable, here)
    assert world.remote.downloads.count(head) == 2


def test_a_file_is_checked_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that this machine has checked or written are not checked again; what comes new is."""
    here, there = world.pair(row(1))
    there.put("t", row(2))
    world.sync(there)
    first = world.remote.tip
    checks: list[str] = []
    real = CheckedFiles.knows

    def knows(self: CheckedFiles, path: Path, declaration: Declaration) -> bool:
        known = real(self, path, declaration)
        if not known:
            checks.append(path.name)
        return known

    monkeypatch.setattr(CheckedFiles, "knows", knows)
    world.sync(here)
    assert checks == [first]
    here.put("t", row(3))
    world.sync(here)
    assert checks == [first]


@pytest.mark.parametrize("step", range(6))
def test_a_cycle_that_died_is_completed_by_the_next(world: World, step: int) -> None:
    """Wherever the process ends - before or behind each of the three writes - the next sync completes the work."""
    here, there = world.pair(row(1), row(2))
    there.put("t", row(1, "there"), row(3))
    world.sync(there)
    here.put("t", row(2, "here"), row(4))
    commits = len(world.remote.commits)
    world.log.dies_at = step
    with pytest.raises(Died):
        world.sync(here)
    world.log.dies_at = None
    assert not list((here.folder / "drafts").iterdir())
    world.sync(here)
    assert len(world.remote.commits) == commits + 1
    world.sync(there)
    assert here.rows == there.rows == {"t": [row(1, "there"), row(2, "here"), row(3), row(4)]}
    for store in (here, there):
        with world.unchanged(store):
            world.sync(store)


@pytest.mark.parametrize("step", range(4))
def test_a_first_sync_that_died_is_completed_by_the_next(world: World, step: int) -> None:
    """The branch is made once, with the rows once."""
    here = world.machine(row(1))
    world.log.dies_at = step
    with pytest.raises(Died):
        world.sync(here)
    world.log.dies_at = None
    world.sync(here)
    assert len(world.remote.commits) == 1
    assert world.remote.state()[1] == here.rows == {"t": [row(1)]}
    assert here.recorded == world.remote.tip


OLDER, NEWER = ["0001"], ["0001", "0002"]
WIDE = Declaration({**DECLARED.tables, "t": Table("t", ("id",), ("id", "n", "v"))})


def widen(tables: Tables) -> Tables:
    """The migration 0002: a new column with a default."""
    return {
        name: {key: encode({**decode(text), "n": 0}) if name == "t" else text for key, text in rows.items()}
        for name, rows in tables.items()
    }


def wide(number: int, v: str = "a", n: int = 0) -> dict[str, Any]:
    return {"id": number, "n": n, "v": v}


def test_a_database_behind_the_branch(world: World) -> None:
    """It is refused, naming the migration it lacks."""
    world.sync(world.machine(wide(1), declaration=WIDE, schema=NEWER))
    found = world.refused(SchemaMismatch, world.machine(row(1), schema=OLDER))
    assert "behind" in found.message
    assert "0002" in found.message
    assert "migrate" in found.hint


def test_databases_that_were_migrated_differently(world: World) -> None:
    """Neither list holds the other: refused, naming both."""
    world.sync(world.machine(row(1), schema=["0001", "0002a"]))
    found = world.refused(SchemaMismatch, world.machine(row(1), schema=["0001", "0002b"]))
    assert "only there 0002a; only here 0002b" in found.message


@pytest.mark.parametrize(
    ("mine", "theirs", "refused"),
    [
        ([], [], False),
        (NEWER, OLDER, False),
        (NEWER, [], False),
        (OLDER, OLDER, False),
        ([], OLDER, True),
        (OLDER, NEWER, True),
        (["0001", "0003"], ["0001", "0002"], True),
    ],
)
def test_schemas(mine: list[str], theirs: list[str], *, refused: bool) -> None:
    """Equal lists and being ahead pass, being behind and having diverged do not."""
    if refused:
        with pytest.raises(SchemaMismatch):
            check_schema(mine, theirs, "r")
    else:
        check_schema(mine, theirs, "r")


def migrated(store: MemoryStore) -> MemoryStore:
    store.tables, store.schema, store.declaration, store.agreed = widen(store.tables), NEWER, WIDE, {}
    store.lifting = widen
    return store


def older_pair(world: World) -> tuple[MemoryStore, MemoryStore]:
    here, there = world.machine(row(1), row(2), schema=OLDER), world.machine(schema=OLDER)
    world.sync(here)
    world.sync(there)
    world.log.writes.clear()
    return here, there


def test_a_database_ahead_of_the_branch(world: World) -> None:
    """Its branch is lifted, merged in the newer shape and pushed, although no row changed but by the migration."""
    here, _ = older_pair(world)
    migrated(here)
    assert world.status(here).state is SyncState.AHEAD
    report = world.sync(here)
    assert (report.pushed, report.to_push, report.to_pull) == (True, 0, 0)
    assert world.remote.state() == (NEWER, {"t": [wide(1), wide(2)]})
    with world.unchanged(here):
        world.sync(here)


def test_ahead_with_changes_at_both_ends(world: World) -> None:
    """Base and theirs are both lifted, so that the merge is three-way in the newer shape."""
    here, there = older_pair(world)
    there.put("t", row(1, "there"), row(3))
    there.drop("t", 2)
    world.sync(there)
    migrated(here).put("t", wide(1, n=0), wide(4, n=7))
    report = world.sync(here)
    assert report.pull == {"t": Counts(inserted=1, updated=1, deleted=1)}
    assert report.push == {"t": Counts(inserted=1)}
    expected = {"t": [wide(1, "there"), wide(3), wide(4, n=7)]}
    assert here.rows == expected == world.remote.state()[1]


def test_the_branch_was_migrated_meanwhile(world: World) -> None:
    """The base alone is of the older migrations: it alone is lifted, and nothing is taken for a change."""
    here, there = older_pair(world)
    world.sync(migrated(there))
    migrated(here).put("t", wide(1, "here"))
    report = world.sync(here)
    assert (report.push, report.pull) == ({"t": Counts(updated=1)}, {})


def test_a_lifted_branch_without_push(world: World) -> None:
    """Without push its rows come here, its head is recorded, and the newer shape waits for a sync that pushes."""
    here, there = older_pair(world)
    there.put("t", row(3))
    world.sync(there)
    migrated(here)
    assert world.sync(here, push=False).state is SyncState.AHEAD
    assert here.rows == {"t": [wide(1), wide(2), wide(3)]}
    assert world.remote.state()[0] == OLDER
    assert world.sync(here).pushed
    assert world.remote.state()[0] == NEWER


def test_what_was_lifted_does_not_count_as_checked(world: World) -> None:
    """Only its head was read here, so its rows are checked when they are read."""
    world.remote.add(seal(document({"t": [row(2), row(1)]}, OLDER)), None)
    here = migrated(world.machine())
    world.sync(here)
    documents = cycle_of(here, world.remote, here.folder, []).documents
    first = next(commit for commit, (_, parent) in world.remote.commits.items() if parent is None)
    assert not documents.checked.knows(world.remote.fetch(first), WIDE)
    assert documents.checked.knows(world.remote.fetch(world.remote.tip or ""), WIDE)


def test_a_lift_that_cannot_be_done(world: World) -> None:
    """Its refusal is passed on, with nothing written."""
    here, _ = older_pair(world)

    def refuses(_: Tables) -> Tables:
        raise SchemaMismatch("no scratch database", "run this")

    migrated(here).lifting = refuses
    assert world.refused(SchemaMismatch, here).hint == "run this"


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every state counts as large."""
    monkeypatch.setattr(cycling, "LARGE_FILL", 0)


@pytest.mark.usefixtures("large")
def test_an_empty_database_is_filled(world: World) -> None:
    """A large state goes into an empty database in one stream, in one write with the watermark."""
    world.sync(world.machine(row(1), row(2)))
    world.log.writes.clear()
    there = world.machine()
    there.fills = True
    tip = world.remote.tip
    report = world.sync(there)
    assert world.log.writes == [("fill", tip)]
    assert report == Report(SyncState.IN_SYNC, world.remote.name, tip, 2, {"t": Counts(inserted=2)})
    assert there.rows == {"t": [row(1), row(2)]}
    with world.unchanged(there):
        world.sync(there)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("why", ["it cannot fill", "it has rows", "it has a base", "another schema"])
def test_what_is_not_filled_is_merged(world: World, why: str) -> None:
    """Where a fill is not possible, or rows are there, the ordinary merge does the work."""
    world.sync(world.machine(row(1), schema=OLDER))
    there = world.machine(*([row(2)] if why == "it has rows" else []), schema=OLDER)
    there.fills = why != "it cannot fill"
    if why == "it has a base":
        there.recorded = world.remote.tip
        there.put("t", row(1))
    if why == "another schema":
        migrated(there)
    world.log.writes.clear()
    world.sync(there)
    assert "fill" not in [write[0] for write in world.log.writes]
    assert [item["id"] for item in there.rows["t"]] == ([1, 2] if why == "it has rows" else [1])


@pytest.mark.usefixtures("large")
def test_small_states_are_merged(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below the limit there is nothing to gain."""
    world.sync(world.machine(row(1)))
    there = world.machine()
    there.fills = True
    monkeypatch.setattr(cycling, "LARGE_FILL", world.remote.fetch(world.remote.tip or "").stat().st_size + 1)
    world.log.writes.clear()
    world.sync(there)
    assert world.log.writes == [("apply", world.remote.tip, "final")]


@pytest.mark.usefixtures("large")
def test_a_damaged_state_fills_nothing(world: World) -> None:
    """A state that turns out to be damaged in the middle of a fill leaves the database empty."""
    world.remote.add(seal(document({"t": [row(1), row(2)]})[:-2]), None)
    there = world.machine()
    there.fills = True
    world.refused(Unreadable, there)


def test_secrets_do_not_show(world: World) -> None:
    """The key is in no representation of what a cycle is made of."""
    shown = repr(cycle_of(world.machine(), world.remote, world.folder, []).documents)
    assert repr(KEY) not in shown
    assert KEY.hex() not in shown


def test_steps_are_told(world: World) -> None:
    """Each step of work says what it does, once and in order."""
    steps: list[str] = []
    here, there = world.pair(row(1))
    there.put("t", row(2))
    world.sync(there)
    here.put("t", row(3))
    cycle = cycle_of(here, world.remote, here.folder, [])
    cycle.progress = Listener(steps.append)
    cycle.sync()
    assert steps == [
        "comparing with the branch",
        "applying the branch's changes here",
        "pushing the merged state",
    ]


@dataclass
class Listener:
    """A progress that keeps the steps."""

    step: Callable[[str], None]

    def advance(self, done: int, total: int | None) -> None:
        pass


@pytest.mark.parametrize("overtaken", [False, True], ids=["still the head", "overtaken"])
def test_a_push_that_arrived_unheard_is_the_base_of_the_next_sync(world: World, *, overtaken: bool) -> None:
    """What changed here since a push whose sync died behind it is a change, no conflict, and a deletion stays one."""
    here, there = world.pair(row(1))
    here.put("t", row(1, "b"), row(2), row(3))
    world.log.dies_at = 1
    with pytest.raises(Died):
        world.sync(here)
    world.log.dies_at = None
    assert here.recorded != world.remote.tip
    if overtaken:
        there.put("t", row(4))
        world.sync(there)
    here.put("t", row(1, "c"))
    here.drop("t", 2)
    world.sync(here)
    world.sync(there)
    assert here.rows == there.rows == {"t": [row(1, "c"), row(3), *([row(4)] if overtaken else [])]}


def test_a_first_push_that_arrived_unheard_does_not_bring_deleted_rows_back(world: World) -> None:
    """The same where nothing was recorded before: without a base, a row deleted here would come back."""
    here = world.machine(row(1), row(2))
    world.log.dies_at = 1
    with pytest.raises(Died):
        world.sync(here)
    world.log.dies_at = None
    here.drop("t", 2)
    assert world.sync(here).push == {"t": Counts(deleted=1)}
    assert here.rows == {"t": [row(1)]}


def test_a_push_that_did_not_arrive_is_no_base(world: World) -> None:
    """A commit that was announced and never became part of the branch changes nothing."""
    here, there = world.pair(row(1))
    here.announced = "0" * 40
    there.put("t", row(1, "b"))
    world.sync(there)
    assert world.sync(here).pull == {"t": Counts(updated=1)}
    assert here.announced is None


def test_the_status_shows_what_the_database_would_refuse(world: World) -> None:
    """Rows of the branch that break a constraint here are conflicts of the status."""
    here, there = world.pair({"id": 1, "v": "a"})
    there.put("t", {"id": 2, "v": "b"})
    here.broken = [Conflict("t", "[2]", ConflictKind.CONSTRAINT, "why", "advice", "one_each")]
    assert not world.status(here).conflicts
    world.sync(there)
    report = world.status(here)
    assert (report.state, list(report.conflicts)) == (SyncState.CONFLICT, here.broken)
