"""The profile vibey on a real database of that shape."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from vibey_actions.config import Config, TableConfig
from vibey_actions.errors import SchemaMismatch, SettingError, TableRefused
from vibey_actions.postgres.catalog import read_catalog
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.tables import DerivedCounter, SequenceOf
from vibey_actions.state.declaration import Rule
from vibey_actions.state.profiles import profile

SCHEMA = Path(__file__).parents[2] / "data" / "vibey" / "schema.sql"
VIBEY = Config(profile="vibey")


@pytest.fixture
def session(dsn: str) -> Iterator[psycopg.Connection]:
    """A connection to a database that the system's migrations made."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute(SCHEMA.read_text("utf-8"))
    with connect(dsn, purpose="test") as connection:
        yield connection


def test_declaration_and_catalog_are_put_together(session: psycopg.Connection) -> None:
    """Rules, sequences and the ledger's counter come from the profile; columns, keys and order from PostgreSQL."""
    catalog = read_catalog(session, VIBEY)
    assert catalog.tables.keys() == profile("vibey").tables.keys()
    assert catalog.declaration.tables["job"].rule is Rule.NEWEST
    assert catalog.declaration.tables["human_gate"].newest_by == "answered_at"
    event = catalog.tables["event"]
    assert event.partitioned
    assert event.table.append_only
    assert "payload_size" not in event.table.columns
    assert event.counters == (DerivedCounter('"public"."event_seq"', ("project_id",), "seq", "next_seq"),)
    assert catalog.tables["job"].sequences == (SequenceOf('"public"."job_bump_seq"', "bump_seq"),)
    assert catalog.tables["open_item"].self_references == ("superseded_by",)
    order = catalog.parents_first
    assert order.index("project") < order.index("job") < order.index("job_dependency")


def test_a_sequence_that_is_declared_and_found_is_there_once(session: psycopg.Connection) -> None:
    """Where a default draws from the declared sequence as well, it is advanced once."""
    session.execute("ALTER TABLE public.job ALTER bump_seq SET DEFAULT nextval('public.job_bump_seq')")
    assert len(read_catalog(session, VIBEY).tables["job"].sequences) == 1


def test_a_rule_of_the_file_wins_but_not_over_append_only(session: psycopg.Connection) -> None:
    """The file may choose another rule for a table of the profile; the ledger has none to choose."""
    config = Config(profile="vibey", tables={"job": TableConfig(conflict=Rule.THEIRS)})
    assert read_catalog(session, config).declaration.tables["job"].rule is Rule.THEIRS
    with pytest.raises(SettingError, match="event is append-only"):
        read_catalog(session, Config(profile="vibey", tables={"event": TableConfig(conflict=Rule.MINE)}))


def test_a_new_table_is_refused_until_it_is_excluded(session: psycopg.Connection) -> None:
    """A table on neither list is never silently left out; a new partition of a declared one is no new table."""
    session.execute("CREATE TABLE public.event_p3 (LIKE public.event INCLUDING GENERATED)")
    with pytest.raises(TableRefused, match="event_p3"):
        read_catalog(session, VIBEY)
    assert "event_p3" not in read_catalog(session, Config(profile="vibey", exclude=("event_p3",))).tables
    session.execute(
        "ALTER TABLE public.event DETACH PARTITION public.event_p1; DROP TABLE public.event_p1, public.event_p3"
    )
    session.execute("CREATE TABLE public.fresh PARTITION OF public.event FOR VALUES WITH (MODULUS 2, REMAINDER 1)")
    assert "event" in read_catalog(session, VIBEY).tables


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("DROP TABLE public.handoff", "lacks the table handoff"),
        ("DROP TABLE public.event_seq", "lacks the table event_seq"),
        ("DROP SEQUENCE public.triaged_ticket_bump_seq", "lacks the sequence triaged_ticket_bump_seq"),
        ("ALTER TABLE public.job DROP COLUMN updated_at", "lacks the column job.updated_at"),
    ],
)
def test_what_is_missing_is_named(session: psycopg.Connection, change: str, said: str) -> None:
    """A database behind its migrations is told so before a row is read."""
    session.execute(change)
    with pytest.raises(SchemaMismatch, match=said):
        read_catalog(session, VIBEY)
