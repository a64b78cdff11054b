"""The three-way merge: base, theirs and mine side by side in key order, one pass, no table held in memory.

What both ends hold alike goes through untouched. Every other row is settled by `rules.settle`; what that changes here
goes to a spool, what it changes there is counted, and the merged rows go to a writer where one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from vibey_actions.errors import SchemaMismatch, TooManyDeletes
from vibey_actions.rows.canonical import decode, members
from vibey_actions.state.bounds import BoundsBuilder, KeyRange
from vibey_actions.state.declaration import Declaration, Table, undeclared
from vibey_actions.state.document import DocumentReader, DocumentWriter, end_keys, keys
from vibey_actions.state.older import check_key, older_rows
from vibey_actions.state.progress import Progress
from vibey_actions.state.report import Conflict, Counts
from vibey_actions.state.rules import Row, settle
from vibey_actions.state.scanner import Batch
from vibey_actions.state.spool import Change, Spool

MAX_NAMED_CONFLICTS = 100_000
"""Conflicts beyond this many are counted, not named, so that they do not take all memory."""

Keyed = tuple[bytes, bytes]


class TableView(Protocol):
    """This database's rows of one table, as far as they may differ from the base.

    ``ranges`` are the ascending, disjoint key ranges that have to be compared; outside them the rows are the base's.
    """

    @property
    def ranges(self) -> Sequence[KeyRange]: ...

    @property
    def bounds(self) -> Sequence[bytes]: ...

    def rows(self) -> Iterator[Keyed]:
        """Key and canonical text of every row in the ranges, ascending."""
        ...


@dataclass(slots=True)
class Merge:
    """What the merge found. ``pull`` holds the changes this database needs, ``push`` counts those of the branch."""

    pull: dict[str, Spool] = field(default_factory=dict)
    pull_counts: dict[str, Counts] = field(default_factory=dict)
    push_counts: dict[str, Counts] = field(default_factory=dict)
    conflicts: list[Conflict] = field(default_factory=list)
    unnamed_conflicts: int = 0
    rows: int = 0
    bounds: dict[str, list[bytes]] = field(default_factory=dict)

    @property
    def changes_here(self) -> bool:
        return bool(self.pull)

    @property
    def changes_there(self) -> bool:
        return bool(self.push_counts)

    def close(self) -> None:
        for spool in self.pull.values():
            spool.close()


def merge(
    declaration: Declaration,
    base: DocumentReader | None,
    theirs: DocumentReader | None,
    view_of: Callable[[str], TableView],
    *,
    writer: DocumentWriter | None,
    progress: Progress,
    older_base: bool = False,
) -> Merge:
    """Merge every declared table. ``base`` None: a state without rows; ``theirs is base``: the branch did not move.

    With ``older_base`` the base is at older migrations and could not be lifted: an end has changed one of its rows
    where a column that both shapes know has another text.

    Raises TableRefused where a document holds a table that is not declared, SchemaMismatch where its rows have other
    columns, Unreadable where a document is.
    """
    outcome = Merge()
    try:
        same = theirs is base
        base_tables = _Tables(base)
        their_tables = base_tables if same else _Tables(theirs)
        for name in sorted(declaration.tables):
            _refuse_undeclared(base_tables, their_tables, name)
            table = declaration.tables[name]
            if writer is not None:
                writer.table(name)
            one = _TableMerge(table, view_of(name), outcome, writer, progress, older_base=older_base)
            base_tables.check(table, older=older_base)
            their_tables.check(table)
            if same:
                one.branch_unmoved(base_tables.take(name))
            else:
                one.both(base_tables.take(name), their_tables.take(name))
        _refuse_undeclared(base_tables, their_tables, None)
        if writer is not None:
            writer.close()
    except BaseException:
        outcome.close()
        raise
    return outcome


class _Tables:
    """A document's tables, taken by name in name order."""

    def __init__(self, reader: DocumentReader | None) -> None:
        self._tables = reader.tables() if reader is not None else iter(())
        self._reader = reader
        self._next = next(self._tables, None)

    @property
    def next_name(self) -> str | None:
        return self._next[0] if self._next else None

    def check(self, table: Table, *, older: bool = False) -> None:
        """Refuse rows of ``table`` that are carried or keyed in another way than this database's; ``older``: keyed."""
        if self._reader is not None and self.next_name == table.name:
            (check_key if older else check_carried)(table, self._reader)

    def take(self, name: str) -> Iterator[Batch]:
        if self._next is None or self._next[0] != name:
            return
        yield from self._next[1]
        self._next = next(self._tables, None)

    def skip(self) -> None:
        self._next = next(self._tables, None)


def _refuse_undeclared(base: _Tables, theirs: _Tables, before: str | None) -> None:
    """Every table in front of ``before`` (None: any) is one that this database does not sync."""
    name = theirs.next_name
    if name is not None and (before is None or name < before):
        raise undeclared(name)
    while base is not theirs and (name := base.next_name) is not None and (before is None or name < before):
        # The branch no longer holds it and this database does not sync it: forgotten on purpose, nothing to lose.
        base.skip()


class _TableMerge:
    def __init__(
        self,
        table: Table,
        view: TableView,
        outcome: Merge,
        writer: DocumentWriter | None,
        progress: Progress,
        *,
        older_base: bool,
    ) -> None:
        self._table = table
        self._outcome = outcome
        self._writer = writer
        self._progress = progress
        self._ranges = list(view.ranges)
        self._range = 0
        self._rows = iter(view.rows()) if self._ranges else iter(())
        self._mine = next(self._rows, None)
        self._bounds = BoundsBuilder(view.bounds, self._ranges)
        self._checked_columns = False
        self._older_base = older_base

    def branch_unmoved(self, base: Iterator[Batch]) -> None:
        """Base and theirs are one document: what is outside the ranges goes through whole."""
        last = b""
        for batch in base:
            self._check_columns(batch)
            if not self._ranges:
                self._pass(batch)
                continue
            ends = end_keys(batch, self._table.key)
            if self._touches(last, ends[-1]):
                for key, row in _keyed(batch, self._table.key):
                    self._row(key, row, row)
            else:
                self._pass(batch)
            last = ends[-1]
            self._progress.advance(self._outcome.rows, None)
        self._finish()

    def both(self, base: Iterator[Batch], theirs: Iterator[Batch]) -> None:
        key = self._table.key
        base_rows = (
            older_rows(self._table, base) if self._older_base else (row for batch in base for row in _keyed(batch, key))
        )
        for row_key, base_row, their_row in aligned(base_rows, self._their_rows(theirs)):
            self._row(row_key, base_row, their_row)
        self._finish()

    def _their_rows(self, batches: Iterator[Batch]) -> Iterator[Keyed]:
        for batch in batches:
            self._check_columns(batch)
            self._progress.advance(self._outcome.rows, None)
            yield from _keyed(batch, self._table.key)

    def _check_columns(self, batch: Batch) -> None:
        if self._checked_columns:
            return
        self._checked_columns = True
        columns = columns_of(batch)
        check_columns(self._table, columns)

    def _pass(self, batch: Batch) -> None:
        self._outcome.rows += len(batch)
        if self._writer is not None:
            self._writer.rows(batch.text)

    def _touches(self, after: bytes, until: bytes) -> bool:
        """Whether a range holds a key behind ``after`` up to ``until``; steps over the ranges in front of them."""
        while self._range < len(self._ranges):
            current = self._ranges[self._range]
            if current.high is not None and current.high <= after:  # its rows came out before ``after``
                self._range += 1
                continue
            return current.low <= until
        return False

    def _reads(self, key: bytes) -> bool:
        """Whether ``key``, not below any asked before, is in a range that was read from this database."""
        while self._range < len(self._ranges):
            current = self._ranges[self._range]
            if current.high is not None and current.high <= key:
                self._range += 1
                continue
            return current.low <= key
        return False

    def _row(self, key: bytes, base: Row, theirs: Row) -> None:
        """One key that base or theirs holds; this database's rows in front of it come first."""
        while self._mine is not None and self._mine[0] < key:
            self._only_here(*self._mine)
        if not self._reads(key):
            self._settled(key, base, base, theirs, read=False)
        elif self._mine is not None and self._mine[0] == key:
            mine = self._mine[1]
            self._mine = next(self._rows, None)
            self._settled(key, base, mine, theirs, read=True)
        else:
            self._settled(key, base, None, theirs, read=True)

    def _only_here(self, key: bytes, mine: bytes) -> None:
        self._mine = next(self._rows, None)
        self._settled(key, None, mine, None, read=True)

    def _finish(self) -> None:
        while self._mine is not None:
            self._only_here(*self._mine)
        self._outcome.bounds[self._table.name] = self._bounds.build()

    def _settled(self, key: bytes, base: Row, mine: Row, theirs: Row, *, read: bool) -> None:
        outcome = self._outcome
        if self._older_base and base is not None:
            base = _in_newer_shape(base, mine, theirs)
        if mine == theirs and (mine == base or not self._table.append_only):
            merged: Row | Conflict = mine
        else:
            merged = settle(self._table, key, base, mine, theirs)
        if isinstance(merged, Conflict):
            self._conflict(merged)
            return
        if merged != mine:
            self._pull(Change(key, mine, merged))
        if merged != theirs:
            outcome.push_counts.setdefault(self._table.name, Counts()).count(theirs, merged)
        if merged is not None:
            outcome.rows += 1
            if self._writer is not None:
                self._writer.rows(merged)
            if read or mine is None:
                self._bounds.row(key, len(merged))

    def _conflict(self, conflict: Conflict) -> None:
        if len(self._outcome.conflicts) < MAX_NAMED_CONFLICTS:
            self._outcome.conflicts.append(conflict)
        else:
            self._outcome.unnamed_conflicts += 1

    def _pull(self, change: Change) -> None:
        name = self._table.name
        spool = self._outcome.pull.get(name)
        if spool is None:
            spool = self._outcome.pull[name] = Spool()
        spool.add(change)
        self._outcome.pull_counts.setdefault(name, Counts()).count(change.before, change.after)


def alike(old: bytes, new: bytes) -> bool:
    """Whether the columns that both rows have hold the same."""
    if old == new:
        return True
    before, now = members(old), members(new)
    return all(before[name] == now[name] for name in before.keys() & now.keys())


def _in_newer_shape(base: bytes, mine: Row, theirs: Row) -> bytes:
    """A row of an older base as an end has it that did not change it; else as it is, which is neither's."""
    for row in (mine, theirs):
        if row is not None and alike(base, row):
            return row
    return base


def columns_of(batch: Batch) -> tuple[str, ...]:
    """The columns of a batch's first row."""
    first = batch.values[0] if batch.values else decode(b"[" + batch.ends + b"]")[0]
    return tuple(first)


def check_carried(table: Table, document: DocumentReader) -> None:
    """Refuse a document whose rows of ``table`` carry other columns as text output, or fold other ones of the key
    (SchemaMismatch, naming them)."""
    serialized = set(document.serialized.get(table.name, ())) ^ set(table.serialized)
    folds = document.folds.get(table.name, {}).items() ^ dict(table.folds).items()
    differing = sorted(serialized | {column for column, _ in folds})
    if differing:
        raise SchemaMismatch(
            f"table {table.name}: the column(s) {', '.join(differing)} have another type on the branch than here",
            "bring both ends to the same schema (`vibey-actions migrate`), then sync",
        )


def check_columns(table: Table, columns: Sequence[str]) -> None:
    """Refuse rows whose columns are not the table's (SchemaMismatch, naming the columns)."""
    if tuple(columns) == table.columns:
        return
    there = sorted(set(columns) - set(table.columns))
    here = sorted(set(table.columns) - set(columns))
    parts = [f"only the branch knows the column(s) {', '.join(there)}"] if there else []
    parts += [f"only this database knows the column(s) {', '.join(here)}"] if here else []
    raise SchemaMismatch(
        f"table {table.name}: {'; '.join(parts) or 'the columns stand in another order'}",
        "bring both ends to the same schema (`vibey-actions migrate`), then sync",
    )


def _keyed(batch: Batch, key: tuple[str, ...]) -> Iterator[Keyed]:
    return zip(keys(batch, key), batch.rows, strict=True)


def aligned(base: Iterator[Keyed], theirs: Iterator[Keyed]) -> Iterator[tuple[bytes, Row, Row]]:
    """Both streams by key, ascending; None where one of them has no row of the key."""
    left, right = next(base, None), next(theirs, None)
    while left is not None or right is not None:
        if right is None or (left is not None and left[0] < right[0]):
            assert left is not None  # noqa: S101 - for the type checker
            yield left[0], left[1], None
            left = next(base, None)
        elif left is None or right[0] < left[0]:
            yield right[0], None, right[1]
            right = next(theirs, None)
        else:
            yield left[0], left[1], right[1]
            left, right = next(base, None), next(theirs, None)


def check_deletes(counts: Mapping[str, Counts], limit: int | None, where: str) -> None:
    """Refuse a merge that deletes more than ``limit`` rows at one end (``--max-deletes``)."""
    deleted = {name: count.deleted for name, count in counts.items() if count.deleted}
    total = sum(deleted.values())
    if limit is None or total <= limit:
        return
    tables = ", ".join(f"{name}: {count}" for name, count in sorted(deleted.items()))
    raise TooManyDeletes(
        f"the sync would delete {total} rows {where} ({tables}), more than --max-deletes {limit}",
        "look at `vibey-actions state status`; when the deletions are meant, sync with a higher limit",
    )
