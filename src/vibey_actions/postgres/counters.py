"""Sequences and counter tables, advanced past what was written and never back."""

from __future__ import annotations

import psycopg

from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.sql import identifier, identifiers
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.tables import DerivedCounter


def advance_sequences(connection: psycopg.Connection, stage: Stage) -> None:
    """Each sequence of the table's columns: at least past every value that was written."""
    for sequence in stage.table.sequences:
        written = f"SELECT {stage.column(sequence.column)} FROM {stage.name} WHERE op <> 'd'"
        advance_sequence(connection, sequence.sequence, written)


def advance_sequence(connection: psycopg.Connection, sequence: str, written: str) -> None:
    """Move ``sequence`` (qualified, quoted) past the numbers that the query ``written`` gives, if it is not yet.

    Past the lowest where it counts down. Numbers outside its bounds, which it never gives out, do not count.
    """
    with saying(f"advancing the sequence {sequence}"):
        connection.execute(
            f"SELECT setval({_literal(sequence)}::regclass, h.furthest::bigint) FROM {sequence} AS s, pg_sequence AS q,"
            " LATERAL (SELECT CASE WHEN q.seqincrement > 0 THEN ceil(max(w.number)) ELSE floor(min(w.number)) END"
            f" FROM (SELECT v.written::numeric FROM ({written}) AS v(written)) AS w(number)"
            " WHERE w.number BETWEEN q.seqmin AND q.seqmax) AS h(furthest)"
            f" WHERE q.seqrelid = {_literal(sequence)}::regclass AND CASE"
            " WHEN q.seqincrement > 0 THEN h.furthest > s.last_value::numeric - CASE WHEN s.is_called THEN 0 ELSE 1 END"
            " ELSE h.furthest < s.last_value::numeric + CASE WHEN s.is_called THEN 0 ELSE 1 END END".encode()
        )


def advance_counters(connection: psycopg.Connection, stage: Stage) -> None:
    """The ledger's counters: the next number of each group is past the highest that was written."""
    for counter in stage.table.counters:
        groups = ", ".join(stage.column(name) for name in counter.group)
        source = (
            f"SELECT {groups}, max({stage.column(counter.column)}) + 1 FROM {stage.name}"
            f" WHERE op <> 'd' GROUP BY {groups}"
        )
        advance_counter(connection, counter, source)


def advance_counter(connection: psycopg.Connection, counter: DerivedCounter, source: str) -> None:
    """Raise ``counter`` to what the query ``source`` (the group's columns, then the next number) gives."""
    groups, following = identifiers(list(counter.group)), identifier(counter.next_column)
    with saying(f"advancing the counters in {counter.target}"):
        connection.execute(
            f"INSERT INTO {counter.target} AS old ({groups}, {following}) {source}"
            f" ON CONFLICT ({groups}) DO UPDATE SET {following} = excluded.{following}"
            f" WHERE old.{following} < excluded.{following}".encode()
        )


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
