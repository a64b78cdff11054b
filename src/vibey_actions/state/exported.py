"""An export in the place of its database: what the cycle needs to merge it into the branch (see interfaces.Store).

Nothing is ever applied to it: what the branch has that it lacks stays there, and its base stays the base however often
the cycle starts again.
"""

# ruff: noqa: ARG002 - the arguments are the interface's
from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from vibey_actions.errors import ImportRefused, SchemaMismatch, TableRefused
from vibey_actions.state.bounds import EVERYTHING, KeyRange
from vibey_actions.state.declaration import Declaration
from vibey_actions.state.document import DocumentReader, keys
from vibey_actions.state.export import ExportReader
from vibey_actions.state.interfaces import Agreements, Filled
from vibey_actions.state.merge import Keyed, Merge, check_carried, check_columns, columns_of
from vibey_actions.state.report import Conflict
from vibey_actions.state.scanner import Batch
from vibey_actions.state.seal import open_sealed
from vibey_actions.state.spool import Spool


@dataclass
class ExportStore:
    """The export sealed in ``path``, whose tables ``declaration`` declares. Implements interfaces.Store.

    ``check`` has to come first.
    """

    path: Path
    declaration: Declaration
    remote: str
    key: bytes = field(repr=False)
    _base: str | None = None
    _schema: list[str] = field(default_factory=list)

    def check(self) -> None:
        """Read the export from end to end, every row with the checks of its format.

        Raises Unreadable, ImportRefused where it belongs to another branch, TableRefused for a table that is not
        declared.
        """
        tables = self.declaration.tables
        export = self._open(lambda name: tables[name].key if name in tables else None)
        if export.remote != self.remote:
            raise ImportRefused(
                f"the export belongs to {export.remote}, not to {self.remote}", "write it where it belongs"
            )
        for name, batches in export.document.tables():
            if name not in tables:
                raise TableRefused(
                    f"the export holds the table {name}, which is not synced",
                    f"take {name} out of exclude in [state] of .github/vibey-state.toml, or discard the export",
                )
            check_carried(tables[name], export.document)
            for number, batch in enumerate(batches):
                if number == 0:
                    check_columns(tables[name], columns_of(batch))
        export.finish()
        self._base, self._schema = export.base, export.document.schema

    def base(self) -> str | None:
        return self._base

    @contextmanager
    def view(self, base: str | None) -> Iterator[ExportView]:
        """The export's rows, whatever the base."""
        yield ExportView(self._schema, self.declaration, lambda: self._open(None).document)

    def _open(self, key_of: Callable[[str], tuple[str, ...] | None] | None) -> ExportReader:
        return ExportReader(open_sealed(self.path, self.key), key_of=key_of)

    def apply(
        self,
        changes: Mapping[str, Spool],
        agreements: Agreements,
        *,
        commit: str | None,
        expected: str | None,
        final: bool,
        changed_here: Collection[str] = (),
    ) -> Agreements:
        return agreements

    def conflicts(self, changes: Mapping[str, Spool], changed_here: Collection[str]) -> Sequence[Conflict]:
        return ()

    def record(self, agreements: Agreements, *, commit: str, expected: str | None) -> None:
        """Nothing is kept: a cycle that starts again merges from the export's own base."""

    def announce(self, commit: str) -> None:
        """Nothing is kept: a push whose answer was lost is looked up by the remote."""

    def pending(self) -> str | None:
        return None

    def can_fill(self) -> bool:
        return False

    def fill(
        self,
        document: DocumentReader,
        *,
        commit: str | None,
        agrees: bool = True,
        finish: Callable[[], None] | None = None,
    ) -> Filled:
        raise AssertionError("an export is never filled")

    def can_lift(self) -> bool:
        return False

    @contextmanager
    def lift(self, sealed: Path, schema: list[str]) -> Iterator[Path]:
        raise SchemaMismatch(
            "the export was made at newer migrations than the branch's state that it has to be merged with, and "
            "without a database no rows can be brought to them",
            "import the export into a database at its migrations and sync that; or discard it",
        )
        yield sealed


@dataclass
class ExportView:
    """The export's tables. Each pass asks for them in name order; a name that is behind begins another pass."""

    schema: list[str]
    declaration: Declaration
    _document: Callable[[], DocumentReader]
    _tables: Iterator[tuple[str, Iterator[Batch]]] = field(default_factory=lambda: iter(()))
    _next: tuple[str, Iterator[Batch]] | None = None
    _last: str | None = None

    @property
    def as_agreed(self) -> bool:
        return False

    def is_empty(self) -> bool:
        return False

    def view(self, name: str) -> ExportRows:
        if self._last is None or name <= self._last:
            self._tables = self._document().tables()
            self._next = next(self._tables, None)
        self._last = name
        return ExportRows(self._rows(name))

    def _rows(self, name: str) -> Iterator[Keyed]:
        if self._next is None or self._next[0] != name:
            return
        key = self.declaration.tables[name].key
        for batch in self._next[1]:
            yield from zip(keys(batch, key), batch.rows, strict=True)
        self._next = next(self._tables, None)

    def agreements(self, merge: Merge) -> Agreements:
        return {}


@dataclass(frozen=True, slots=True)
class ExportRows:
    """All rows of one table of an export."""

    _rows: Iterator[Keyed]
    ranges: Sequence[KeyRange] = (EVERYTHING,)
    bounds: Sequence[bytes] = ()

    def rows(self) -> Iterator[Keyed]:
        return self._rows
