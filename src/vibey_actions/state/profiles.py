"""Built-in declarations: databases whose tables, keys and rules are known. Pure data.

The profile ``vibey`` is that of the system whose state format this is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from vibey_actions.errors import SettingError
from vibey_actions.state.declaration import Rule

OWN_TABLES: Final = frozenset({"schema_migration", "state_sync"})
"""Never synced in any database: the migrator's record and the watermark."""


@dataclass(frozen=True, slots=True)
class Counter:
    """A table of counters, never synced: per ``group``, ``next_column`` is above the highest ``column``."""

    table: str
    group: tuple[str, ...]
    column: str
    next_column: str


@dataclass(frozen=True, slots=True)
class ProfileTable:
    """One declared table; ``sequences`` maps a column to the sequence advanced past it."""

    key: tuple[str, ...]
    rule: Rule = Rule.REFUSE
    newest_by: str | None = None
    append_only: bool = False
    self_references: tuple[str, ...] = ()
    sequences: tuple[tuple[str, str], ...] = ()
    counters: tuple[Counter, ...] = ()

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Every column the declaration relies on."""
        newest = () if self.newest_by is None else (self.newest_by,)
        counted = tuple(name for counter in self.counters for name in (*counter.group, counter.column))
        return (*self.key, *newest, *self.self_references, *(column for column, _ in self.sequences), *counted)


@dataclass(frozen=True, slots=True)
class Profile:
    """A whole database: its synced tables, parents first, and those of ``public`` that are never synced."""

    name: str
    tables: Mapping[str, ProfileTable]
    never_synced: frozenset[str]


def profile(name: str) -> Profile:
    """The built-in profile ``name``; raises SettingError for any other name."""
    found = _PROFILES.get(name)
    if found is None:
        raise SettingError(
            f"there is no profile {name}", f"use {' or '.join(sorted(_PROFILES))}, or leave profile out of [state]"
        )
    return found


def _newest(*key: str, by: str = "updated_at", sequence: str | None = None) -> ProfileTable:
    sequences = () if sequence is None else (("bump_seq", sequence),)
    return ProfileTable(key, Rule.NEWEST, newest_by=by, sequences=sequences)


_LEDGER: Final = ProfileTable(
    ("project_id", "seq"),
    append_only=True,
    counters=(Counter("event_seq", ("project_id",), "seq", "next_seq"),),
)

_VIBEY: Final = Profile(
    "vibey",
    {
        "project": _newest("id"),
        "event": _LEDGER,
        "job": _newest("id", sequence="job_bump_seq"),
        "job_dependency": ProfileTable(("job_id", "depends_on_job_id")),
        "work_item": ProfileTable(("project_id", "cycle", "item_id")),
        "open_item": ProfileTable(("item_id",), self_references=("superseded_by",)),
        "handoff": ProfileTable(("handoff_id",)),
        "engine_health": ProfileTable(("project_id", "engine_id"), Rule.MINE),
        "rotation_cursor": ProfileTable(("project_id", "engine_id"), Rule.MINE),
        "human_gate": _newest("gate_id", by="answered_at"),
        "artifact": ProfileTable(("artifact_id",)),
        "budget_ledger": ProfileTable(("project_id", "cycle", "phase", "engine_id")),
        "triaged_ticket": _newest("repository", "issue_number", sequence="triaged_ticket_bump_seq"),
    },
    never_synced=OWN_TABLES | {"event_seq"},
)

_PROFILES: Final = {_VIBEY.name: _VIBEY}
