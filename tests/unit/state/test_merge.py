"""The merge of whole documents: what it refuses, counts and leaves behind. Its rows: test_rules, tests/property."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any

import pytest

from tests.support.documents import document
from tests.support.views import MemoryView, partial_view
from vibey_actions.errors import SchemaMismatch, TableRefused, TooManyDeletes, Unreadable
from vibey_actions.rows.canonical import encode
from vibey_actions.state import merge as merging
from vibey_actions.state import scanner, spool
from vibey_actions.state.bounds import EVERYTHING, KeyRange
from vibey_actions.state.declaration import Declaration, Table
from vibey_actions.state.document import DocumentReader, DocumentWriter
from vibey_actions.state.merge import Keyed, Merge, check_deletes, merge
from vibey_actions.state.progress import Silent
from vibey_actions.state.report import ConflictKind, Counts

Plain = Mapping[str, list[dict[str, Any]]]


def declared(*names: str, columns: tuple[str, ...] = ("id", "v")) -> Declaration:
    return Declaration({name: Table(name, ("id",), columns) for name in names})


def rows(*numbers: int, v: str = "a") -> list[dict[str, Any]]:
    return [{"id": number, "v": v} for number in numbers]


def view_of(content: Plain) -> Callable[[str], MemoryView]:
    return lambda name: MemoryView({encode([row["id"]]): encode(row) for row in content.get(name, [])})


def reader(content: Plain, declaration: Declaration | None = None) -> DocumentReader:
    tables = declaration.tables if declaration else {}
    return DocumentReader([document(content)], key_of=lambda name: tables[name].key if name in tables else None)


def merged(declaration: Declaration, base: Plain | None, mine: Plain, theirs: Plain | None, **options: Any) -> Merge:
    before, after = (None if content is None else reader(content, declaration) for content in (base, theirs))
    return merge(declaration, before, after, options.get("view", view_of(mine)), writer=None, progress=Silent())


@pytest.mark.parametrize("name", ["a", "m", "z"])
@pytest.mark.parametrize("base", [None, {}, {"b": rows(1)}])
def test_a_table_on_the_branch_that_is_not_synced_here(name: str, base: Plain | None) -> None:
    """It is refused by name wherever it stands among the declared ones, never read as a table without rows."""
    theirs = {"b": rows(1), "n": rows(1), name: rows(1)}
    with pytest.raises(TableRefused, match=f"table {name}, which") as caught:
        merged(declared("b", "n"), base, {"b": rows(1)}, theirs)
    assert f"forget-table {name}" in caught.value.hint


@pytest.mark.parametrize("name", ["a", "m", "z"])
def test_it_is_refused_on_an_unmoved_branch_too(name: str) -> None:
    """A table newly excluded here, with nothing changed there, is refused by name."""
    same = reader({"b": rows(1), name: rows(1)})
    with pytest.raises(TableRefused, match=f"table {name}, which"):
        merge(declared("b"), same, same, view_of({"b": rows(1)}), writer=None, progress=Silent())


def test_no_table_declared_at_all() -> None:
    """A database without tables refuses a branch that has some, and merges an empty one."""
    with pytest.raises(TableRefused):
        merged(declared(), None, {}, {"b": rows(1)})
    assert merged(declared(), {}, {}, {}).rows == 0


@pytest.mark.parametrize("name", ["a", "m", "z"])
def test_a_table_that_was_forgotten_on_purpose(name: str) -> None:
    """A table that only the base holds was taken off the branch; the others are merged against it as ever."""
    base: Plain = {"b": rows(1, 3), "n": rows(1, 3), name: rows(1)}
    found = merged(declared("b", "n"), base, {"b": rows(1), "n": rows(1)}, {"b": rows(1, 2, 3), "n": rows(1, 2, 3)})
    assert found.pull_counts == {"b": Counts(inserted=1), "n": Counts(inserted=1)}
    assert found.push_counts == {"b": Counts(deleted=1), "n": Counts(deleted=1)}
    found.close()


@pytest.mark.parametrize("same", [True, False])
def test_the_ledger_in_the_merge(*, same: bool) -> None:
    """New rows of an append-only table merge; one that is gone or changed diverges, also where both ends agree."""
    table = Table("t", ("id",), ("id", "v"), append_only=True)
    base: Plain = {"t": rows(1, 2, 3)}
    theirs: Plain = base if same else {"t": [*rows(1, v="b"), *rows(3, 5)]}
    document = reader(base)
    mine: Plain = {"t": [*rows(1, v="b"), *rows(3, 4)]}
    found = merge(
        Declaration({"t": table}),
        document,
        document if same else reader(theirs),
        view_of(mine),
        writer=None,
        progress=Silent(),
    )
    assert [(conflict.key, conflict.kind) for conflict in found.conflicts] == [
        ("[1]", ConflictKind.DIVERGENCE),
        ("[2]", ConflictKind.DIVERGENCE),
    ]
    assert found.push_counts == {"t": Counts(inserted=1)}
    assert found.pull_counts == ({} if same else {"t": Counts(inserted=1)})
    found.close()


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (("id", "v", "w"), r"only this database knows the column\(s\) w"),
        (("id",), r"only the branch knows the column\(s\) v"),
        (("id", "w"), r"only the branch knows the column\(s\) v; only this database knows the column\(s\) w"),
    ],
)
@pytest.mark.parametrize("same", [True, False])
def test_columns_that_only_one_end_knows(columns: tuple[str, ...], said: str, *, same: bool) -> None:
    """They are refused by name, whether the branch moved or not, and whatever is known to be unchanged here."""
    declaration = declared("t", columns=columns)
    theirs = reader({"t": rows(1)})
    base = theirs if same else None
    for view in (MemoryView({}), MemoryView({}, ranges=())):
        with pytest.raises(SchemaMismatch, match=said):
            merge(declaration, base, theirs, lambda _, view=view: view, writer=None, progress=Silent())  # type: ignore[misc]
        theirs = reader({"t": rows(1)})
        base = theirs if same else None


def test_a_branch_that_does_not_exist_takes_everything() -> None:
    """Without base and branch every row goes there, and the document is the database's."""
    parts: list[bytes] = []
    mine = {"a": rows(1, 2), "c": rows(3)}
    writer = DocumentWriter(parts.append, ["1"], lambda: None)
    found = merge(declared("a", "b", "c"), None, None, view_of(mine), writer=writer, progress=Silent())
    assert b"".join(parts) == document(mine, ["1"])
    assert (found.pull, found.rows) == ({}, 3)
    assert found.push_counts == {"a": Counts(inserted=2), "c": Counts(inserted=1)}


def test_an_emptied_table_is_deleted_rows() -> None:
    """A table without rows at one end is read as its rows' deletion, once for each end."""
    base = {"t": rows(1, 2), "u": rows(1)}
    found = merged(declared("t", "u"), base, {"u": rows(1)}, {"t": rows(1, 2)})
    assert found.push_counts == {"t": Counts(deleted=2)}
    assert found.pull_counts == {"u": Counts(deleted=1)}
    assert found.rows == 0
    found.close()


def test_every_conflict_is_named() -> None:
    """All conflicts of all tables come in one report, in order; what merges is still found beside them."""
    base = {"t": rows(1, 2, 3), "u": rows(1)}
    mine = {"t": rows(1, 2, 3, v="b"), "u": rows(1, v="b")}
    theirs = {"t": [*rows(1, v="c"), *rows(2), *rows(3, v="c")], "u": rows(1, v="c")}
    found = merged(declared("t", "u"), base, mine, theirs)
    assert [(c.table, c.key) for c in found.conflicts] == [("t", "[1]"), ("t", "[3]"), ("u", "[1]")]
    assert found.push_counts == {"t": Counts(updated=1)}
    assert found.unnamed_conflicts == 0


def test_conflicts_beyond_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is counted, so that they do not take all memory."""
    monkeypatch.setattr(merging, "MAX_NAMED_CONFLICTS", 3)
    found = merged(declared("t"), None, {"t": rows(*range(10), v="b")}, {"t": rows(*range(10))})
    assert (len(found.conflicts), found.unnamed_conflicts) == (3, 7)


def test_unread_chunks_go_through_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """On an unmoved branch what is outside the ranges is not taken apart, and the database not asked for it."""
    monkeypatch.setattr(scanner, "WINDOW", 400)
    content = {"t": [{"id": f"{number:04}", "v": "a"} for number in range(500)]}
    asked: list[bytes] = []
    low, high = b'["0200"]', b'["0210"]'

    class View(MemoryView):
        def rows(self) -> Iterator[Keyed]:
            for key, row in super().rows():
                asked.append(key)
                yield key, row

    mine = {encode([row["id"]]): encode(row) for row in content["t"]}
    mine[b'["0205"]'] = encode({"id": "0205", "v": "b"})
    view = View(mine, [KeyRange(low, high)])
    parts: list[bytes] = []
    writer = DocumentWriter(parts.append, [], lambda: None)
    whole_rows: list[bytes] = []
    real = merging._keyed

    def keyed(batch: scanner.Batch, key: tuple[str, ...]) -> Iterator[Keyed]:
        whole_rows.extend(batch.rows)
        return real(batch, key)

    monkeypatch.setattr(merging, "_keyed", keyed)
    same = reader(content)
    found = merge(declared("t"), same, same, lambda _: view, writer=writer, progress=Silent())
    content["t"][205]["v"] = "b"
    assert b"".join(parts) == document(content)
    assert found.rows == 500
    assert len(asked) == 10
    assert len(whole_rows) < 60
    assert found.push_counts == {"t": Counts(updated=1)}


CHANGES: dict[str, Callable[[dict[bytes, bytes], int], object]] = {
    "changed": lambda rows, at: rows.update({encode([at]): encode({"id": at, "v": "b"})}),
    "deleted": lambda rows, at: rows.pop(encode([at])),
    "inserted": lambda rows, at: rows.update({encode([f"{at}x"]): encode({"id": f"{at}x", "v": "b"})}),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("size", [1, 45, 512 * 1024])
def test_a_change_at_any_place_of_a_chunk(window: Callable[[int], None], size: int, change: str) -> None:
    """A row is found wherever it stands in its chunk and its batch: at their first key, their last, or between."""
    window(size)
    keys = [encode([number]) for number in range(1, 9)]
    content: Plain = {"t": rows(*range(1, 9))}
    for at in range(1, 9):
        mine = {encode([row["id"]]): encode(row) for row in content["t"]}
        base = dict(mine)
        CHANGES[change](mine, at)
        for cuts in ([], *([key] for key in keys), *([low, high] for low in keys for high in keys if low < high), keys):
            view = partial_view(mine, base, cuts)
            parts: list[bytes] = []
            same = reader(content)
            writer = DocumentWriter(parts.append, [], lambda: None)
            found = merge(declared("t"), same, same, lambda _, view=view: view, writer=writer, progress=Silent())  # type: ignore[misc]
            assert found.push_counts["t"].total == 1, (at, cuts)
            assert b"".join(parts).count(b'"id"') == len(mine) == found.rows


def test_progress_is_told() -> None:
    """Whoever listens hears of rows while documents are read."""
    heard: list[int] = []

    class Listener(Silent):
        def advance(self, done: int, total: int | None) -> None:
            heard.append(done)

    same = reader({"t": rows(1, 2)})
    merge(declared("t"), same, same, view_of({"t": rows(1)}), writer=None, progress=Listener()).close()
    assert heard


def test_a_fault_late_in_a_document_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch, temporary_files: list[IO[bytes]]
) -> None:
    """A document that breaks off after changes were spooled is unreadable, and the spools are closed."""
    made = temporary_files
    monkeypatch.setattr(spool, "_IN_MEMORY", 1)
    text = document({"t": rows(1, 2), "u": rows(1)})
    for broken in (text[:-2], text + b"x", text.replace(b'"u":[{"id":1', b'"u":[{"id":01')):
        theirs = DocumentReader([broken], key_of=lambda _: ("id",))
        with pytest.raises(Unreadable):
            merge(declared("t", "u"), None, theirs, view_of({}), writer=None, progress=Silent())
    assert len(made) >= 3
    assert all(file.closed for file in made)


def test_the_range_everything_is_every_row() -> None:
    """A view that knows nothing is read whole."""
    found = merged(declared("t"), {}, {"t": rows(1)}, {}, view=lambda _: MemoryView({b"": b"x"}, [EVERYTHING]))
    assert found.rows == 1


COUNTS = {"a": Counts(inserted=9, deleted=3), "b": Counts(updated=9), "c": Counts(deleted=2)}


@pytest.mark.parametrize("limit", [None, 5, 6])
def test_as_many_deletes_as_allowed(limit: int | None) -> None:
    """No limit, or one that is not exceeded, lets the merge pass; inserts and updates do not count."""
    check_deletes(COUNTS, limit, "here")


@pytest.mark.parametrize("limit", [0, 1, 4])
def test_too_many_deletes(limit: int) -> None:
    """Deletions of all tables of one end count together, and the tables are named."""
    with pytest.raises(TooManyDeletes, match=rf"delete 5 rows on the branch \(a: 3, c: 2\), more than .* {limit}"):
        check_deletes(COUNTS, limit, "on the branch")
