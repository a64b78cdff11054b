"""The profile vibey between two databases: the ledger, its counters, its sequences, and what it does not carry."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.ends import End, Ends
from vibey_actions.config import Config
from vibey_actions.errors import Conflicts, RowRefused
from vibey_actions.state import cycle
from vibey_actions.state.report import ConflictKind

SCHEMA = (Path(__file__).parents[1] / "data" / "vibey" / "schema.sql").read_text("utf-8")
PROJECT = "00000000-0000-0000-0000-000000000001"
JOB = "00000000-0000-0000-0000-000000000002"


@pytest.fixture
def both(ends: Ends) -> tuple[End, End]:
    """Two databases of the profile, the first with a project and a job on the branch."""
    one, other = ends.pair(SCHEMA, config=Config(profile="vibey"))
    one.run(
        f"INSERT INTO project (id, name, repo_path) VALUES ('{PROJECT}', 'p', '/p')",
        f"INSERT INTO event_seq VALUES ('{PROJECT}', 3)",
        f"INSERT INTO job (id, project_id, cycle, phase, kind, idempotency_key, bump_seq)"
        f" VALUES ('{JOB}', '{PROJECT}', 1, 'x', 'x', 'k', 41)",
        event(1),
        event(2),
    )
    one.sync()
    return one, other


def event(seq: int, digest: str = "d") -> str:
    """The statement that appends to the ledger."""
    return (
        "INSERT INTO event (event_id, project_id, seq, phase, kind, digest, payload, produced_at)"
        f" VALUES (gen_random_uuid(), '{PROJECT}', {seq}, 'x', 'x', '{digest}', '{{\"n\": {seq}}}', 'infinity')"
    )


def next_seq(end: End) -> int:
    """What the ledger numbers the next event of the project."""
    return int(end.value("SELECT next_seq FROM event_seq"))


@pytest.mark.parametrize("fills", [False, True])
def test_counters_and_sequences_pass_what_came_in(
    both: tuple[End, End], monkeypatch: pytest.MonkeyPatch, *, fills: bool
) -> None:
    """event_seq and the sequences go past the highest number, by either path, and never back."""
    monkeypatch.setattr(cycle, "LARGE_FILL", 0 if fills else 2**40)
    one, other = both
    other.sync()
    assert next_seq(other) == 3
    assert other.value("SELECT nextval('job_bump_seq')") == 42
    assert other.value("SELECT sum(payload_size) FROM event") == one.value("SELECT sum(payload_size) FROM event")
    one.run(event(3), "UPDATE event_seq SET next_seq = 4")
    one.sync()
    other.run("UPDATE event_seq SET next_seq = 90", "UPDATE job SET bump_seq = 7, updated_at = now() + interval '1 s'")
    other.sync()
    assert next_seq(other) == 90
    assert other.value("SELECT nextval('job_bump_seq')") == 43
    one.sync()
    assert next_seq(one) == 4
    assert one.rows("event") == other.rows("event")
    assert one.rows("job") == other.rows("job")


def test_a_ledger_that_diverged_is_reported_as_such(both: tuple[End, End]) -> None:
    """Two events under one number: divergence, named by key, nothing written at either end."""
    one, other = both
    other.sync()
    one.run(event(3, "one"))
    other.run(event(3, "other"), event(4))
    one.sync()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.key, c.kind) for c in error.conflicts] == [
        ("event", f'["{PROJECT}",3]', ConflictKind.DIVERGENCE)
    ]


def test_a_value_that_format_1_loses_is_refused_before_any_write(both: tuple[End, End], ends: Ends) -> None:
    """The JSON null in a jsonb column: table, key and column are named, and the branch stays where it was."""
    one, _ = both
    commits = ends.commits()
    one.run("UPDATE job SET payload = 'null'")
    error = one.refused(RowRefused)
    assert f'table job, row ["{JOB}"]: the value of payload (jsonb)' in error.message
    assert ends.commits() == commits
