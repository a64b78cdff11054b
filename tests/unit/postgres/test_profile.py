"""The profile vibey says what the specification's table says, and a database is held against it by name."""

from __future__ import annotations

import pytest

from vibey_actions.errors import SchemaMismatch, SettingError, TableRefused
from vibey_actions.postgres.profiles import check_columns, check_tables, declared_counters, declared_sequences
from vibey_actions.postgres.tables import DerivedCounter, SequenceOf
from vibey_actions.state.profiles import profile

SPECIFICATION = """
project | id | newest by updated_at
event | project_id, seq | append-only
job | id | newest by updated_at; sequence bump_seq -> job_bump_seq
job_dependency | job_id, depends_on_job_id | refuse
work_item | project_id, cycle, item_id | refuse
open_item | item_id | refuse; superseded_by references its own table
handoff | handoff_id | refuse
engine_health | project_id, engine_id | mine
rotation_cursor | project_id, engine_id | mine
human_gate | gate_id | newest by answered_at
artifact | artifact_id | refuse
budget_ledger | project_id, cycle, phase, engine_id | refuse
triaged_ticket | repository, issue_number | newest by updated_at; sequence bump_seq -> triaged_ticket_bump_seq
"""


def test_the_profile_is_the_table_of_the_specification() -> None:
    """Written out as the specification writes it, the profile gives the same lines in the same order."""
    lines = []
    for name, table in profile("vibey").tables.items():
        rule = f"newest by {table.newest_by}" if table.newest_by else str(table.rule.value)
        rule = "append-only" if table.append_only else rule
        rule += "".join(f"; sequence {column} -> {sequence}" for column, sequence in table.sequences)
        rule += "".join(f"; {column} references its own table" for column in table.self_references)
        lines.append(f"{name} | {', '.join(table.key)} | {rule}")
    assert "\n".join(lines) == SPECIFICATION.strip()


def test_what_is_never_synced_and_what_the_ledger_feeds() -> None:
    """Three tables are never synced; event.seq feeds event_seq.next_seq, bump_seq its sequence."""
    vibey = profile("vibey")
    assert vibey.never_synced == {"schema_migration", "event_seq", "state_sync"}
    assert declared_counters(vibey.tables["event"]) == (
        DerivedCounter('"public"."event_seq"', ("project_id",), "seq", "next_seq"),
    )
    assert declared_sequences(vibey.tables["job"]) == (SequenceOf('"public"."job_bump_seq"', "bump_seq"),)


def test_another_profile_is_refused_by_name() -> None:
    """A misspelt profile is a setting that cannot be used, with the ones there are."""
    with pytest.raises(SettingError, match="no profile vibes") as caught:
        profile("vibes")
    assert "use vibey" in caught.value.hint


def whole() -> dict[str, tuple[str, ...]]:
    """The tables of a migrated database with their keys."""
    vibey = profile("vibey")
    keys = {name: table.key for name, table in vibey.tables.items()}
    return keys | {"schema_migration": ("version",), "event_seq": ("project_id",), "state_sync": ("remote",)}


def test_a_whole_database_passes_with_an_excluded_table_beside_it() -> None:
    """What the profile declares, and a table kept out on purpose, is no reason to refuse."""
    check_tables(profile("vibey"), whole() | {"cache": ()}, ["cache"])


def test_tables_on_neither_list_are_refused_all_by_name() -> None:
    """A new table is never silently left out."""
    with pytest.raises(TableRefused, match="tables extra, notes in schema public"):
        check_tables(profile("vibey"), whole() | {"notes": ("id",), "extra": ()}, [])


@pytest.mark.parametrize("name", ["project", "event_seq"])
def test_a_missing_table_is_named(name: str) -> None:
    """A declared table or counter that is not there means that migrations are missing."""
    keys = whole()
    del keys[name]
    with pytest.raises(SchemaMismatch, match=f"lacks the table {name},") as caught:
        check_tables(profile("vibey"), keys, [])
    assert "migrate" in caught.value.hint


@pytest.mark.parametrize("key", [(), ("seq", "project_id"), ("event_id",)])
def test_another_key_than_declared_is_refused(key: tuple[str, ...]) -> None:
    """The key in the document is the declared one in its order; the database's has to be the same."""
    with pytest.raises(TableRefused, match="table event has the primary key"):
        check_tables(profile("vibey"), whole() | {"event": key}, [])


def test_a_declared_table_cannot_be_excluded() -> None:
    """To the other machines an excluded table would be one whose rows were all deleted."""
    with pytest.raises(SettingError, match="exclude names event, job"):
        check_tables(profile("vibey"), whole(), ["job", "event"])


def test_a_missing_column_or_sequence_is_named() -> None:
    """The columns that rules, counters and sequences rely on must exist."""
    vibey = profile("vibey")
    columns = {name: set(table.named_columns) for name, table in vibey.tables.items()}
    sequences = {"job_bump_seq", "triaged_ticket_bump_seq"}
    check_columns(vibey, columns, sequences)
    with pytest.raises(SchemaMismatch, match=r"the sequence job_bump_seq"):
        check_columns(vibey, columns, {"triaged_ticket_bump_seq"})
    columns["human_gate"].remove("answered_at")
    with pytest.raises(SchemaMismatch, match=r"the column human_gate\.answered_at"):
        check_columns(vibey, columns, sequences)
