"""A store and a remote in memory, for the cycle's tests: they keep their promises and note every write.

``Log`` collects what is written, in order, and can break off (``Died``) in front of a write or right behind it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice, takewhile
from pathlib import Path
from typing import Any

from tests.support.documents import KEY, content, document, seal
from tests.support.views import MemoryView
from vibey_actions.errors import RemoteMoved, StateMoved
from vibey_actions.rows.canonical import decode, encode
from vibey_actions.state.bounds import EVERYTHING
from vibey_actions.state.checked import CheckedFiles
from vibey_actions.state.cycle import Cycle, Options
from vibey_actions.state.declaration import Declaration
from vibey_actions.state.document import DocumentReader, keys_of
from vibey_actions.state.documents import Documents
from vibey_actions.state.interfaces import Filled
from vibey_actions.state.merge import Merge
from vibey_actions.state.progress import Silent
from vibey_actions.state.report import Conflict
from vibey_actions.state.seal import open_sealed
from vibey_actions.state.spool import Spool

Tables = dict[str, dict[bytes, bytes]]


class Died(BaseException):
    """The process ends here."""


@dataclass
class Log:
    """What was written, in order. ``dies_at`` counts down the points at which a process may end."""

    writes: list[tuple[Any, ...]] = field(default_factory=list)
    dies_at: int | None = None

    def point(self) -> None:
        """A moment at which the process may end."""
        if self.dies_at is not None:
            self.dies_at -= 1
            if self.dies_at < 0:
                raise Died

    @contextmanager
    def writing(self, *what: Any) -> Iterator[None]:
        """One write: it happens in the block, as a whole, and the process may end on either side of it."""
        self.point()
        yield
        self.writes.append(what)
        self.point()


@dataclass
class MemoryStore:
    """One database: its rows, its migrations, its watermark and what it knows to agree with it."""

    declaration: Declaration
    log: Log
    schema: list[str] = field(default_factory=list)
    tables: Tables = field(default_factory=dict)
    recorded: str | None = None
    agreed: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    fills: bool = False
    before_apply: list[Callable[[], object]] = field(default_factory=list)
    broken: Sequence[Conflict] = ()
    lifting: Callable[[Tables], Tables] | None = None
    folder: Path = field(default_factory=Path)
    announced: str | None = None

    def put(self, table: str, *rows: Mapping[str, Any]) -> None:
        """Insert or update rows."""
        for row in rows:
            key = encode([row[column] for column in self.declaration.tables[table].key])
            self.tables.setdefault(table, {})[key] = encode(dict(row))

    def drop(self, table: str, *key: Any) -> None:
        """Delete a row."""
        del self.tables[table][encode(list(key))]

    @property
    def rows(self) -> dict[str, list[Any]]:
        """Every table's rows as values, tables without rows left out."""
        return {n: [decode(t[key]) for key in sorted(t)] for n, t in sorted(self.tables.items()) if t}

    def base(self) -> str | None:
        return self.recorded

    @contextmanager
    def view(self, base: str | None) -> Iterator[MemoryDatabaseView]:
        assert base in {self.recorded, self.announced}
        copy = {name: dict(self.tables.get(name, {})) for name in self.declaration.tables}
        yield MemoryDatabaseView(self.schema, self.declaration, copy, dict(self.agreed))

    def apply(
        self,
        changes: Mapping[str, Spool],
        agreements: Mapping[str, Any],
        *,
        commit: str | None,
        expected: str | None,
        final: bool,
        changed_here: Collection[str] = (),
    ) -> Mapping[str, Any]:
        for happens in self.before_apply[:1]:
            self.before_apply.pop(0)
            happens()
        after = {name: dict(rows) for name, rows in self.tables.items()}
        agreements = {name: dict(rows) for name, rows in agreements.items()}
        for name, spool in changes.items():
            table = after.setdefault(name, {})
            for change in spool:
                if table.get(change.key) != change.before:
                    raise StateMoved(f"a row of {name} changed here since it was read")
                for rows in (table, agreements.get(name, {})):
                    rows.pop(change.key, None)
                    if change.after is not None:
                        rows[change.key] = change.after
        with self.log.writing("apply", commit, "final" if final else "not final"):
            self._watermark(commit, expected, agreements if final else {})
            self.tables = after
        return agreements

    def conflicts(self, changes: Mapping[str, Spool], changed_here: Collection[str]) -> Sequence[Conflict]:
        return self.broken

    def record(self, agreements: Mapping[str, Any], *, commit: str, expected: str | None) -> None:
        with self.log.writing("record", commit):
            self._watermark(commit, expected, agreements)

    def _watermark(self, commit: str | None, expected: str | None, agreements: Mapping[str, Any]) -> None:
        assert self.recorded == expected, "the watermark was moved by somebody else"
        if commit is not None:
            self.recorded = commit
            self.announced = None
            self.agreed = {name: dict(rows) for name, rows in agreements.items()}

    def announce(self, commit: str) -> None:
        self.announced = commit

    def pending(self) -> str | None:
        return self.announced

    def can_fill(self) -> bool:
        return self.fills

    def fill(
        self,
        document: DocumentReader,
        *,
        commit: str | None,
        agrees: bool = True,
        finish: Callable[[], None] | None = None,
    ) -> Filled:
        rows = by_key(content(document), self.declaration)
        if finish is not None:
            finish()
        if any(self.tables.values()):
            raise StateMoved("the database is no longer empty")
        with self.log.writing("fill", commit):
            self._watermark(commit, None, {name: rows.get(name, {}) for name in self.declaration.tables})
            self.tables = rows
        return Filled({name: len(table) for name, table in rows.items()})

    def can_lift(self) -> bool:
        return self.lifting is not None

    @contextmanager
    def lift(self, sealed: Path, schema: list[str]) -> Iterator[Path]:
        assert self.lifting is not None
        older = content(DocumentReader(open_sealed(sealed, KEY)))
        newer = self.lifting({n: dict(enumerate_keys(rows)) for n, rows in older.items()})
        text = document({name: [decode(table[key]) for key in sorted(table)] for name, table in newer.items()}, schema)
        path = self.folder / f"lifted-{sealed.name}"
        path.write_bytes(seal(text))
        yield path
        path.unlink()


def enumerate_keys(rows: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Rows by their key, which is the column id in these tests."""
    return ((keys_of(row, ("id",))[0], row) for row in rows)


def by_key(tables: Mapping[str, list[bytes]], declaration: Declaration) -> Tables:
    return {name: {keys_of(row, declaration.tables[name].key)[0]: row for row in rows} for name, rows in tables.items()}


@dataclass
class MemoryDatabaseView:
    """A store as of one moment."""

    schema: list[str]
    declaration: Declaration
    tables: Tables
    agreed: Tables

    @property
    def as_agreed(self) -> bool:
        return all(self.agreed.get(name) == rows for name, rows in self.tables.items())

    def is_empty(self) -> bool:
        return not any(self.tables.values())

    def view(self, name: str) -> MemoryView:
        agrees = self.agreed.get(name) == self.tables[name]
        return MemoryView(self.tables[name], ranges=() if agrees else (EVERYTHING,))

    def agreements(self, merge: Merge) -> Mapping[str, Any]:
        assert set(merge.bounds) == set(self.tables)
        return {name: dict(rows) for name, rows in self.tables.items()}


@dataclass
class MemoryRemote:
    """A branch: commits with one sealed file each. ``before_push`` runs in front of a push, one for each push."""

    folder: Path
    log: Log
    commits: dict[str, tuple[bytes, str | None]] = field(default_factory=dict)
    tip: str | None = None
    name: str = "OWNER/NAME:vibey-state"
    before_push: list[Callable[[], object]] = field(default_factory=list)
    downloads: list[str] = field(default_factory=list)

    @staticmethod
    def name_of(sealed: bytes, parent: str | None) -> str:
        """The commit of ``sealed`` on ``parent``."""
        return hashlib.sha1(sealed + (parent or "").encode(), usedforsecurity=False).hexdigest()

    def add(self, sealed: bytes, parent: str | None) -> str:
        """A new commit, the branch's tip from now on."""
        commit = self.name_of(sealed, parent)
        self.commits[commit] = (sealed, parent)
        self.tip = commit
        return commit

    def head(self) -> str | None:
        return self.tip

    def fetch(self, commit: str) -> Path:
        path = self.folder / commit
        if not path.exists():
            self.downloads.append(commit)
            path.write_bytes(self.commits[commit][0])
        return path

    def discard(self, commit: str) -> None:
        (self.folder / commit).unlink()

    def lineage(self, commit: str | None) -> Iterator[str]:
        """``commit`` and those behind it, newest first."""
        while commit is not None:
            yield commit
            commit = self.commits[commit][1]

    def is_ancestor(self, commit: str, head: str) -> bool:
        return commit in self.lineage(head)

    def history(self, base: str | None, head: str, most: int) -> Sequence[str]:
        return list(islice(takewhile(lambda commit: commit != base, self.lineage(head)), most))

    def is_replay(self, head: str) -> bool:
        sealed, parent = self.commits[head]
        return any(self.commits[earlier][0] == sealed for earlier in self.lineage(parent))

    def push(
        self, files: Mapping[str, Path], parent: str | None, *, announce: Callable[[str], None] | None = None
    ) -> str:
        ((path, file),) = files.items()
        assert path == "state.vibey"
        for happens in self.before_push[:1]:
            self.before_push.pop(0)
            happens()
        if announce is not None:
            announce(self.name_of(file.read_bytes(), parent))
        if self.tip != parent:
            raise RemoteMoved("the branch moved")
        with self.log.writing("push", parent):
            commit = self.add(file.read_bytes(), parent)
            (self.folder / commit).write_bytes(file.read_bytes())
        return commit

    def state(self, commit: str | None = None) -> tuple[list[str], dict[str, list[Any]]]:
        """Migrations and rows at a commit, by default at the tip."""
        chosen = commit or self.tip
        assert chosen is not None
        path = self.folder / "looked-at"
        path.write_bytes(self.commits[chosen][0])
        reader = DocumentReader(open_sealed(path, KEY), key_of=lambda _: None)
        return reader.schema, {name: [decode(row) for row in rows] for name, rows in content(reader).items()}


def cycle_of(store: MemoryStore, remote: MemoryRemote, folder: Path, notices: list[str], **options: Any) -> Cycle:
    """A cycle between the two, with documents kept in ``folder``."""
    documents = Documents(folder / "drafts", CheckedFiles(folder / "checked"), KEY)
    return Cycle(store, remote, documents, "state.vibey", Options(**options), Silent(), notices.append)
