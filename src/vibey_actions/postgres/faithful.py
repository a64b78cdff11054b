"""Values that their JSON image does not carry exactly: found in the database and refused by name.

Format 1 carries rows as to_jsonb gives them; what that loses is measured per type in docs/format.md.
"""

from __future__ import annotations

from collections.abc import Mapping

import psycopg

from vibey_actions.errors import RowRefused
from vibey_actions.postgres.chunks import Within
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.expressions import bare_type, key_text, target
from vibey_actions.postgres.sql import bound, identifier
from vibey_actions.postgres.tables import Carriage, Column, PgTable

# How types refuse input; the hstore of newer servers as a syntax error.
_NO_VALUE = (psycopg.DataError, psycopg.InternalError, psycopg.errors.SyntaxError)


def unfaithful(column: Column, alias: str) -> str | None:
    """A condition that finds values of the column which would change on their way; None where none can be."""
    cell = f"{alias}.{identifier(column.name)}"
    kind = bare_type(column)
    if column.serialized:
        return None
    if kind == "jsonb":
        return f"{cell} = 'null'::jsonb"
    if kind == "json":
        # A text that jsonb cannot hold at all (an escaped NUL, half a surrogate pair) is found before it is cast.
        broken = rf"({cell}::text ~ '(^|[^\\])(\\\\)*\\u(0000|[dD][89a-fA-F])')"
        return f"CASE WHEN {broken} THEN true ELSE {cell}::text = 'null' OR {cell}::text <> to_jsonb({cell})::text END"
    if kind in ("real", "double precision"):
        return f"{cell} = 0 AND {cell}::text = '-0'"
    if column.carriage is Carriage.COMPOUND:
        image = f"jsonb_build_object('v', to_jsonb({cell}))"
        back = f"(SELECT back.v::text FROM jsonb_to_record({image}) AS back(v {column.type}))"
        return f"{back} IS DISTINCT FROM {cell}::text"
    return None


def refuse_unfaithful(connection: psycopg.Connection, table: PgTable, within: Within | None) -> None:
    """Raise RowRefused for the first row (in ``within``) with a value that would change, naming key and column."""
    conditions = [(column, condition) for column in table.carried if (condition := unfaithful(column, "r")) is not None]
    if not conditions:
        return
    key = key_text(table, "r")
    found = " ".join(f"WHEN {condition} THEN {number}" for number, (_, condition) in enumerate(conditions))
    where = f" AND {within.condition(key)}" if within else ""
    query = (
        f"SELECT {key}, CASE {found} END FROM {target(table)} r"
        f" WHERE ({' OR '.join(f'({condition})' for _, condition in conditions)}){where} LIMIT 1"
    )
    parameters = within.parameters() if within else {}
    with saying(f"looking in {table.name} for values that JSON cannot carry"):
        try:
            with connection.transaction():
                row = connection.execute(bound(query), parameters).fetchone()
        except _NO_VALUE:
            # A value that cannot even be written as JSON, or a type that does not read its own.
            _refuse_unreadable(connection, table, where, parameters)
            raise
    if row is None:
        return
    column = conditions[row[1]][0]
    raise RowRefused(
        f"table {table.name}, row {row[0]}: the value of {column.name} ({column.type}) cannot be carried exactly",
        _ADVICE.get(bare_type(column), f'change the value, or exclude the table: [state] exclude = ["{table.name}"]'),
    )


def _refuse_unreadable(
    connection: psycopg.Connection, table: PgTable, where: str, parameters: Mapping[str, object]
) -> None:
    key, only = key_text(table, "r"), target(table)
    for column in table.carried:
        if column.carriage is not Carriage.COMPOUND or column.serialized:
            continue
        asked = f"SELECT count(*) FROM {only} r WHERE ({unfaithful(column, 'r')}){where}"
        try:
            with connection.transaction():
                connection.execute(bound(asked), parameters)
        except _NO_VALUE:
            cell = f"r.{identifier(column.name)}"
            first = f"SELECT min({key}) FROM {only} r WHERE {cell} IS NOT NULL{where}"
            row = connection.execute(bound(first), parameters).fetchone()
            raise RowRefused(
                f"table {table.name}, row {row[0] if row else ''} or one behind it: the value of {column.name} "
                f"({column.type}) cannot be carried exactly, as it does not come back from JSON",
                f'exclude the table: [state] exclude = ["{table.name}"]',
            ) from None


_ADVICE = {
    "jsonb": "it is the JSON null, which would come back as SQL NULL: store SQL NULL instead",
    "json": "it is the JSON null, or its text would come back reformatted: store SQL NULL, or text as jsonb prints it",
    "real": "it is minus zero, which would come back as zero: store 0",
    "double precision": "it is minus zero, which would come back as zero: store 0",
}
