"""An export merged into its branch without its database, and never twice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import KEY, document, export, seal
from tests.support.memory import Log, MemoryRemote, MemoryStore, cycle_of
from vibey_actions.errors import (
    BranchGone,
    BranchRewritten,
    Conflicts,
    GaveUp,
    ImportRefused,
    SchemaMismatch,
    TableRefused,
    TooFarBehind,
    Unreadable,
    VibeyError,
    WrongKey,
)
from vibey_actions.state import cycle as cycling
from vibey_actions.state.checked import CheckedFiles
from vibey_actions.state.cycle import Cycle, Options
from vibey_actions.state.declaration import Declaration, Rule, Table
from vibey_actions.state.documents import Documents
from vibey_actions.state.exported import ExportStore
from vibey_actions.state.identity import Fold
from vibey_actions.state.progress import Silent
from vibey_actions.state.report import Report
from vibey_actions.state.shapes import read_shapes, sha256_of, write_shapes

REMOTE = "OWNER/NAME:vibey-state"
DECLARED = Declaration(
    {
        "ledger": Table("ledger", ("id",), ("id", "v"), append_only=True),
        "mine": Table("mine", ("id",), ("id", "v"), Rule.MINE),
        "newest": Table("newest", ("id",), ("at", "id", "v"), Rule.NEWEST, newest_by="at"),
        "t": Table("t", ("id",), ("id", "v")),
        "theirs": Table("theirs", ("id",), ("id", "v"), Rule.THEIRS),
    }
)
Tables = dict[str, list[dict[str, Any]]]


def row(number: int, v: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": number, "v": v, **more}


@dataclass
class Branch:
    """A branch, and exports made at its commits."""

    folder: Path
    log: Log = field(default_factory=Log)
    made: int = 0

    def __post_init__(self) -> None:
        (self.folder / "cache").mkdir()
        self.remote = MemoryRemote(self.folder / "cache", self.log)

    def put(self, tables: Tables, schema: list[str] | None = None) -> str:
        """A new head that holds exactly these rows."""
        return self.remote.add(seal(document(tables, schema or [])), self.remote.tip)

    def export(
        self, tables: Tables, base: str | None, *, schema: list[str] | None = None, remote: str = REMOTE
    ) -> Path:
        self.made += 1
        path = self.folder / f"export{self.made}"
        path.write_bytes(seal(export(document(tables, schema or []), base, remote)))
        return path

    def cycle(self, path: Path, declaration: Declaration = DECLARED, key: bytes = KEY) -> Cycle:
        store = ExportStore(path, declaration, REMOTE, key)
        store.check()
        documents = Documents(self.folder / "drafts", CheckedFiles(self.folder / "checked"), KEY)
        return Cycle(store, self.remote, documents, "state.vibey", Options(once=True), Silent(), lambda _: None)

    def take_up(self, path: Path, declaration: Declaration = DECLARED) -> Report:
        return self.cycle(path, declaration).sync()

    def refused(self, error: type[VibeyError], path: Path, **options: Any) -> VibeyError:
        """The refusal of an export; the branch stays where it is."""
        tip = self.remote.tip
        with pytest.raises(error) as caught:
            self.cycle(path, **options).sync()
        assert self.remote.tip == tip
        assert type(caught.value) is error
        return caught.value

    @property
    def rows(self) -> Tables:
        return self.remote.state()[1]


@pytest.fixture
def branch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Branch:
    monkeypatch.setattr(cycling.time, "sleep", lambda _: None)  # type: ignore[attr-defined]
    return Branch(tmp_path)


def test_what_the_export_changed_is_pushed(branch: Branch) -> None:
    """Rows added, changed and deleted since the base are so on the branch afterwards, and counted."""
    base = branch.put({"t": [row(1), row(2), row(3)], "theirs": [row(1)]})
    report = branch.take_up(branch.export({"t": [row(1), row(2, "b"), row(4)], "theirs": [row(1)]}, base))
    assert branch.rows == {"t": [row(1), row(2, "b"), row(4)], "theirs": [row(1)]}
    assert report.pushed
    assert report.commit == branch.remote.tip
    assert (report.push["t"].inserted, report.push["t"].updated, report.push["t"].deleted) == (1, 1, 1)


def test_what_the_branch_changed_meanwhile_stays(branch: Branch) -> None:
    """The branch's own changes since the base are kept, in the same table and in others."""
    base = branch.put({"t": [row(1), row(2)]})
    branch.put({"mine": [row(9)], "t": [row(2, "there"), row(5)]})
    branch.take_up(branch.export({"t": [row(1), row(2), row(3)]}, base))
    assert branch.rows == {"mine": [row(9)], "t": [row(2, "there"), row(3), row(5)]}


def test_an_export_without_a_base_makes_the_branch(branch: Branch) -> None:
    """The first export of all becomes the branch's first commit."""
    branch.take_up(branch.export({"t": [row(1)]}, None))
    assert branch.rows == {"t": [row(1)]}
    branch.take_up(branch.export({"t": [row(2)]}, None))
    assert branch.rows == {"t": [row(1), row(2)]}


def test_an_export_that_changes_nothing_writes_nothing(branch: Branch) -> None:
    """Where the export holds what its base held no commit is made."""
    base = branch.put({"t": [row(1)]})
    report = branch.take_up(branch.export({"t": [row(1)]}, base))
    assert branch.remote.tip == base
    assert not report.pushed


def test_a_conflict_writes_nothing(branch: Branch) -> None:
    """Every row that both changed is named, in whatever table, and the branch stays."""
    base = branch.put({"t": [row(1), row(2)]})
    branch.put({"t": [row(1, "there"), row(2)]})
    path = branch.export({"ledger": [row(7)], "t": [row(1, "here"), row(2, "here")]}, base)
    error = branch.refused(Conflicts, path)
    assert isinstance(error, Conflicts)
    assert [(one.table, one.key) for one in error.conflicts] == [("t", "[1]")]


@pytest.mark.parametrize(("table", "stands"), [("mine", "here"), ("theirs", "there")])
def test_rules_see_the_export_as_this_end(branch: Branch, table: str, stands: str) -> None:
    """The rule `mine` keeps the export's row, `theirs` the branch's."""
    base = branch.put({table: [row(1)]})
    branch.put({table: [row(1, "there")]})
    branch.take_up(branch.export({table: [row(1, "here")]}, base))
    assert branch.rows == {table: [row(1, stands)]}


AT = ["2024-01-01T00:00:00+00:00", "2024-02-02T00:00:00+00:00", "2024-03-03T00:00:00+00:00"]


def changed_by_both(branch: Branch) -> Path:
    """An export and a branch that both changed every table, so that every rule has something to do."""
    base = branch.put(
        {
            "ledger": [row(1)],
            "mine": [row(1)],
            "newest": [row(1, at=AT[0]), row(2, at=AT[0])],
            "t": [row(1), row(2), row(3)],
            "theirs": [row(1)],
        }
    )
    branch.put(
        {
            "ledger": [row(1), row(2)],
            "mine": [row(1, "there")],
            "newest": [row(1, "there", at=AT[1]), row(2, "there", at=AT[2])],
            "t": [row(1), row(3), row(6)],
            "theirs": [row(1, "there")],
        }
    )
    return branch.export(
        {
            "ledger": [row(1), row(3)],
            "mine": [row(1, "here")],
            "newest": [row(1, "here", at=AT[2]), row(2, "here", at=AT[1])],
            "t": [row(1, "here"), row(2), row(5)],
            "theirs": [row(1, "here")],
        },
        base,
    )


def test_an_export_offered_again_is_held_by_the_head(branch: Branch) -> None:
    """A writer killed between push and mark: the next one finds all of it in the head, whatever the rules did."""
    path = changed_by_both(branch)
    first = branch.take_up(path)
    again = branch.take_up(path)
    assert first.pushed
    assert first.held_at is None
    assert not again.pushed
    assert again.held_at == branch.remote.tip == first.commit


def test_a_row_deleted_since_stays_deleted(branch: Branch) -> None:
    """An export that the branch held once does not bring back what was deleted or changed after that."""
    path = changed_by_both(branch)
    held = branch.take_up(path).commit
    after = branch.rows | {"t": [row(1, "later")], "ledger": [row(1)]}
    branch.put(after)
    branch.put(after | {"mine": [row(1, "later still")]})
    report = branch.take_up(path)
    assert report.held_at == held
    assert branch.rows == after | {"mine": [row(1, "later still")]}


def test_without_a_base_a_deleted_row_stays_deleted(branch: Branch) -> None:
    """The same for exports made before there was a branch, where every commit is looked at."""
    path = branch.export({"t": [row(1), row(2)]}, None)
    held = branch.take_up(path).commit
    branch.put({"t": [row(2)]})
    assert branch.take_up(path).held_at == held
    assert branch.rows == {"t": [row(2)]}


def test_the_same_export_by_two_writers_at_once(branch: Branch) -> None:
    """A writer that loses the race to one with the same export looks again, and writes nothing."""
    base = branch.put({"t": [row(1)]})
    path = branch.export({"t": [row(1), row(2)]}, base)

    def other_writer() -> None:
        branch.take_up(path)
        branch.put({"t": [row(1)]})

    branch.remote.before_push.append(other_writer)
    report = branch.take_up(path)
    assert branch.rows == {"t": [row(1)]}
    assert report.held_at is not None


def test_two_exports_by_two_writers_at_once(branch: Branch) -> None:
    """A writer that loses the race to one with another export merges with what that one pushed."""
    base = branch.put({"t": [row(1)]})
    one, other = branch.export({"t": [row(1), row(2)]}, base), branch.export({"t": [row(1), row(3)]}, base)
    branch.remote.before_push.append(lambda: branch.take_up(other))
    assert branch.take_up(one).attempts == 2
    assert branch.rows == {"t": [row(1), row(2), row(3)]}


def test_a_branch_that_never_rests_is_given_up(branch: Branch) -> None:
    """After the last attempt the export is left as it is."""
    base = branch.put({"t": [row(1)]})
    path = branch.export({"t": [row(2)]}, base)
    for number in range(5):
        branch.remote.before_push.append(partial(branch.put, {"t": [row(1), row(4 + number)]}))
    with pytest.raises(GaveUp):
        branch.take_up(path)


def test_more_commits_than_are_looked_through(branch: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it cannot be told whether the branch held an export, it is not written; the newest commits do tell."""
    monkeypatch.setattr(cycling, "LOOKED_THROUGH", 2)
    base = branch.put({"t": [row(1)]})
    path = branch.export({"t": [row(1), row(2)]}, base)
    for number in range(3):
        branch.put({"t": [row(1), row(4 + number)]})
    assert base in branch.refused(TooFarBehind, path).message
    branch.put({"t": [row(1), row(2)]})
    assert branch.take_up(path).held_at == branch.remote.tip


def test_as_many_commits_as_are_looked_through(branch: Branch, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last commit that is looked at may be the one behind the base."""
    monkeypatch.setattr(cycling, "LOOKED_THROUGH", 2)
    base = branch.put({"t": [row(1)]})
    path = branch.export({"t": [row(1), row(2)]}, base)
    for number in range(2):
        branch.put({"t": [row(1), row(4 + number)]})
    assert branch.take_up(path).pushed


def test_a_commit_with_tables_that_are_not_synced_any_more(branch: Branch) -> None:
    """A commit that no writer of this configuration can have made is passed over."""
    base = branch.put({"t": [row(1)]})
    path = branch.export({"t": [row(1), row(2)]}, base)
    branch.put({"gone": [row(1)], "t": [row(1)]})
    branch.put({"t": [row(1)]})
    assert branch.take_up(path).pushed
    assert branch.rows == {"t": [row(1), row(2)]}


def test_a_branch_that_is_gone_or_rewritten(branch: Branch) -> None:
    """An export whose base is not behind the head is refused by name."""
    base = branch.put({"t": [row(1)]})
    path = branch.export({"t": [row(2)]}, base)
    branch.remote.tip = None
    branch.refused(BranchGone, path)
    branch.put({"t": [row(3)]})
    branch.refused(BranchRewritten, path)


def test_migrations_of_the_branch(branch: Branch) -> None:
    """An export behind the branch is refused; one ahead of an unmoved branch carries it along, else is refused."""
    base = branch.put({"t": [row(1)]}, ["1"])
    newer = branch.export({"t": [row(1, "b")]}, base, schema=["1", "2"])
    moved = branch.put({"t": [row(1), row(2)]}, ["1"])
    branch.refused(SchemaMismatch, newer)
    branch.take_up(branch.export({"t": [row(1), row(2, "b")]}, moved, schema=["1", "2"]))
    assert branch.remote.state() == (["1", "2"], {"t": [row(1), row(2, "b")]})
    branch.refused(SchemaMismatch, branch.export({"t": [row(1, "b")]}, base, schema=["1"]))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda b: b.export({"t": []} | {"t": [row(1)]}, None, remote="OWNER/OTHER:vibey-state"), ImportRefused),
        (lambda b: b.export({"unknown": [row(1)]}, None), TableRefused),
        (lambda b: b.export({"t": [row(2), row(1)]}, None), Unreadable),
        (lambda b: b.export({"t": [{"id": 1, "w": 2}]}, None), SchemaMismatch),
        (lambda b: b.export({"t": [row(1)]}, "main"), Unreadable),
    ],
    ids=["another branch's", "a table that is not synced", "rows out of order", "other columns", "a base that is none"],
)
def test_an_export_that_cannot_be_merged(
    branch: Branch, make: Callable[[Branch], Path], error: type[VibeyError]
) -> None:
    """What is not an export of this state is refused before anything is asked of the branch."""
    branch.refused(error, make(branch))


def test_a_damaged_export(branch: Branch) -> None:
    """A state in an export's place, a cut file and one under another key are refused."""
    path = branch.export({"t": [row(1)]}, None)
    branch.refused(WrongKey, path, key=bytes(32))
    path.write_bytes(path.read_bytes()[:-1])
    branch.refused(Unreadable, path)
    path.write_bytes(seal(document({"t": [row(1)]})))
    branch.refused(Unreadable, path)
    path.write_bytes(seal(export(document({"t": [row(1)]})) + b" "))
    branch.refused(Unreadable, path)


def test_a_database_made_of_an_export_is_not_taken_up_twice(tmp_path: Path) -> None:
    """The same holds where the export was imported: with `once` a commit that held it ends the sync."""
    (tmp_path / "cache").mkdir()
    log = Log()
    remote = MemoryRemote(tmp_path / "cache", log)
    base = remote.add(seal(document({"t": [row(1)]})), None)

    def imported() -> MemoryStore:
        store = MemoryStore(DECLARED, log, recorded=base, folder=tmp_path)
        store.put("t", row(1), row(2))
        return store

    held = cycle_of(imported(), remote, tmp_path, [], once=True).sync()
    assert held.pushed
    remote.add(seal(document({"t": [row(1)]})), remote.tip)
    assert cycle_of(imported(), remote, tmp_path, [], once=True).sync().held_at == held.commit
    assert remote.state()[1] == {"t": [row(1)]}
    cycle_of(imported(), remote, tmp_path, []).sync()
    assert remote.state()[1] == {"t": [row(1), row(2)]}


TABLES = {
    "a": Table("a", ("x", "y"), ("x", "y", "z"), serialized=("z",), folds=(("x", Fold.SCALE),)),
    "b": Table("b", ("id",), ("id",)),
}


def test_shapes_come_back_as_they_were(tmp_path: Path) -> None:
    """Keys, columns, what is carried as text and what is folded are read as they were written, without any rule."""
    path, file = tmp_path / "state.shapes", tmp_path / "state.export"
    file.write_bytes(b"an export")
    ruled = TABLES | {"b": Table("b", ("id",), ("id",), Rule.MINE)}
    write_shapes(path, file, ruled, KEY)
    assert read_shapes(path, file, KEY) == TABLES
    assert b"serialized" not in path.read_bytes()


def test_shapes_of_another_export(tmp_path: Path) -> None:
    """A file of shapes serves the one export that it was written beside."""
    path, file, other = (tmp_path / name for name in ("state.shapes", "one", "other"))
    file.write_bytes(b"one")
    other.write_bytes(b"other")
    write_shapes(path, file, TABLES, KEY)
    with pytest.raises(Unreadable, match="another export"):
        read_shapes(path, other, KEY)
    with pytest.raises(WrongKey):
        read_shapes(path, file, bytes(32))


TABLE = b'{"columns":["a"],"folds":{},"key":["a"],"serialized":[]}'


@pytest.mark.parametrize(
    "tables",
    [
        b"[]",
        b'{"t":{}}',
        b'{"t":[]}',
        b'{"t":' + TABLE.replace(b'"key":["a"]', b'"key":["b"]') + b"}",
        b'{"t":' + TABLE.replace(b'"key":["a"]', b'"key":[]') + b"}",
        b'{"t":' + TABLE.replace(b'"folds":{}', b'"folds":{"a":"whim"}') + b"}",
        b'{"t": ' + TABLE + b"}",
    ],
)
def test_shapes_that_are_none(tmp_path: Path, tables: bytes) -> None:
    """A file that does not describe tables is refused as unreadable, not with a traceback."""
    path, file = tmp_path / "state.shapes", tmp_path / "state.export"
    file.write_bytes(b"")
    head = b'{"export":"' + sha256_of(file).encode() + b'","format":"vibey-actions-shapes/1","tables":'
    path.write_bytes(seal(head + b'{"t":' + TABLE + b"}}"))
    assert read_shapes(path, file, KEY) == {"t": Table("t", ("a",), ("a",))}
    path.write_bytes(seal(head + tables + b"}"))
    with pytest.raises(Unreadable):
        read_shapes(path, file, KEY)


@pytest.mark.parametrize("text", [b"[]", b"not json", document({"t": [row(1)]}), export(document({}))])
def test_another_file_in_the_place_of_shapes(tmp_path: Path, text: bytes) -> None:
    """A sealed state or export, or anything else under the key, is not read as shapes."""
    path, file = tmp_path / "state.shapes", tmp_path / "state.export"
    file.write_bytes(b"")
    path.write_bytes(seal(text))
    with pytest.raises(Unreadable):
        read_shapes(path, file, KEY)
