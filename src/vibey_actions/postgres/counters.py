"""Sequences and counter tables, advanced past what was written and never back (spec: tables and rules)."""

from __future__ import annotations

import psycopg

from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.sql import identifier, identifiers
from vibey_actions.postgres.staging import Stage
from vibey_actions.postgres.tables import DerivedCounter


def advance_sequences(connection: psycopg.Connection, stage: Stage) -> None:
    """Each sequence of the table's columns: at least the highest value that was written."""
    for sequence in stage.table.sequences:
        highest = f"SELECT max({stage.column(sequence.column)})::bigint FROM {stage.name} WHERE op <> 'd'"
        advance_sequence(connection, sequence.sequence, highest)


def advance_sequence(connection: psycopg.Connection, sequence: str, highest: str) -> None:
    """Move ``sequence`` (qualified, quoted) to the number that the query ``highest`` gives, if that is further on."""
    with saying(f"advancing the sequence {sequence}"):
        connection.execute(
            f"SELECT setval({_literal(sequence)}::regclass, least(h.highest, q.seqmax)) FROM ({highest}) AS h(highest),"
            f" {sequence} AS s, pg_sequence AS q WHERE q.seqrelid = {_literal(sequence)}::regclass"
            " AND q.seqincrement > 0 AND h.highest >= q.seqmin"
            " AND h.highest > CASE WHEN s.is_called THEN s.last_value ELSE s.last_value - 1 END".encode()
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
