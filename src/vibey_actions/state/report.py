"""What a sync did or would do, as values a command can show and a program can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum


@dataclass(slots=True)
class Counts:
    """Rows of one table that one end would gain, change and lose."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0

    @property
    def total(self) -> int:
        return self.inserted + self.updated + self.deleted

    def count(self, before: bytes | None, after: bytes | None) -> None:
        """Count one change from a row to another; None is no row."""
        if before is None:
            self.inserted += 1
        elif after is None:
            self.deleted += 1
        else:
            self.updated += 1


class ConflictKind(str, Enum):
    """Why a row could not be merged."""

    BOTH_CHANGED = "both-changed"
    DELETED_HERE = "deleted-here"
    DELETED_THERE = "deleted-there"
    UNORDERED_TIMES = "unordered-times"
    DIVERGENCE = "divergence"
    CONSTRAINT = "constraint"


@dataclass(frozen=True, slots=True)
class Conflict:
    """One conflicting row: its table, its key as canonical text, why, and what to do. Never its values.

    ``mend`` is what can be done with the row itself; ``rules`` are the texts of VIBEY_STATE_CONFLICTS that settle it
    for one time, by this end's row and by the branch's, where a rule can. ``constraint`` names the constraint for
    ConflictKind.CONSTRAINT, ``other`` table and key of the other row that it is about; the key is "" where that is not
    known.
    """

    table: str
    key: str
    kind: ConflictKind
    why: str
    mend: str
    constraint: str = ""
    other: tuple[str, str] | None = None
    rules: tuple[str, ...] = ()

    @property
    def advice(self) -> str:
        """What to do, for who runs a command."""
        rules = " or ".join(f"VIBEY_STATE_CONFLICTS={rule}" for rule in self.rules)
        return f"{self.mend}, or settle it once with {rules}" if rules else self.mend


class SyncState(str, Enum):
    """How the two ends stand to each other."""

    IN_SYNC = "in-sync"
    BEHIND = "behind"
    AHEAD = "ahead"
    BOTH_CHANGED = "both-changed"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True)
class Report:
    """The outcome of ``state sync`` (what was done) or ``state status`` (what would be done).

    ``commit`` is the branch's head at the end, None where there is no branch. ``rows`` counts the merged rows, None
    where nothing had to be read to know that the ends agree. ``pull`` and ``push`` hold only tables that change.
    ``held_at`` is the commit that held all of an export before (see ``cycle.Options.once``).
    """

    state: SyncState
    remote: str
    commit: str | None
    rows: int | None
    pull: Mapping[str, Counts] = field(default_factory=dict)
    push: Mapping[str, Counts] = field(default_factory=dict)
    conflicts: Sequence[Conflict] = ()
    notes: Sequence[str] = ()
    pushed: bool = False
    attempts: int = 1
    held_at: str | None = None

    @property
    def to_pull(self) -> int:
        return sum(counts.total for counts in self.pull.values())

    @property
    def to_push(self) -> int:
        return sum(counts.total for counts in self.push.values())
