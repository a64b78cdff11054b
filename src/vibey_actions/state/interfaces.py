"""What the cycle needs of a database: the small interface that the PostgreSQL edge implements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from vibey_actions.state.declaration import Declaration
from vibey_actions.state.document import DocumentReader
from vibey_actions.state.merge import Merge, TableView
from vibey_actions.state.report import Conflict
from vibey_actions.state.spool import Spool

Agreements = Mapping[str, Any]
"""By table, what the store needs to know later that the table did not change; opaque to the cycle."""


class View(Protocol):
    """The database as of one moment."""

    @property
    def schema(self) -> list[str]:
        """The versions of the applied migrations, sorted."""
        ...

    @property
    def declaration(self) -> Declaration: ...

    @property
    def as_agreed(self) -> bool:
        """Whether every table is known to be as it was at the recorded base."""
        ...

    def is_empty(self) -> bool: ...

    def view(self, name: str) -> TableView: ...

    def agreements(self, merge: Merge) -> Agreements:
        """What is to be recorded for the tables as this view holds them."""
        ...


@dataclass(frozen=True, slots=True)
class Filled:
    """What a fill wrote, by table."""

    rows: Mapping[str, int]


class Store(Protocol):
    """One database and its watermark for one remote."""

    def base(self) -> str | None:
        """The commit last agreed with, None where none is recorded."""
        ...

    def view(self, base: str | None) -> AbstractContextManager[View]: ...

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
        """Write ``changes`` and record ``commit`` (None: nothing) as the base, in one transaction.

        ``changed_here`` are the tables of which this database has changes that the branch lacks.

        With ``final`` the agreements hold for ``commit`` and are recorded with it; else the caller records them after
        its push. Returns them as they are after the changes. Raises StateMoved, Conflicts, RowRefused.
        """
        ...

    def conflicts(self, changes: Mapping[str, Spool], changed_here: Collection[str]) -> Sequence[Conflict]:
        """The rows that ``apply`` would refuse for a constraint of this database. Writes nothing."""
        ...

    def record(self, agreements: Agreements, *, commit: str, expected: str | None) -> None:
        """Record ``commit`` as the base, and what agreed with it."""
        ...

    def announce(self, commit: str) -> None:
        """Note that ``commit``, made of what the database holds, is about to be the branch's head.

        What was noted is dropped when a base is recorded.
        """
        ...

    def pending(self) -> str | None:
        """The commit that was announced last, where it is not known what became of it."""
        ...

    def can_fill(self) -> bool:
        """Whether an empty database can take a whole document in one stream (see the fill)."""
        ...

    def fill(
        self,
        document: DocumentReader,
        *,
        commit: str | None,
        agrees: bool = True,
        finish: Callable[[], None] | None = None,
    ) -> Filled | None:
        """Write a whole document into an empty database and record ``commit`` (None: nothing), in one transaction.

        None where the database refuses that: its triggers or checks may need the rows in another order, which the apply
        knows. Nothing was written then.

        ``agrees`` says whether the document is what ``commit`` holds; ``finish`` has the last word before the commit.
        Raises StateMoved where the database is no longer empty.
        """
        ...

    def can_lift(self) -> bool:
        """Whether an older state can be brought to newer migrations at all: by plain SQL files, not by a command."""
        ...

    def lift(self, sealed: Path, schema: list[str]) -> AbstractContextManager[Path]:
        """The state sealed in ``sealed``, brought from its migrations to ``schema``, as another sealed file.

        Raises SchemaMismatch, saying what to run, where that cannot be done.
        """
        ...
