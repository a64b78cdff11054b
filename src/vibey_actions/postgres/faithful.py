"""Values that their JSON image does not carry exactly: found in the database and refused by name.

Format 1 carries rows as to_jsonb gives them (spec 1: Row); what that loses is measured per type in docs/format.md.
"""

from __future__ import annotations

import psycopg

from vibey_actions.errors import RowRefused
from vibey_actions.postgres.chunks import Within
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.expressions import bare_type, key_text
from vibey_actions.postgres.sql import bound, identifier
from vibey_actions.postgres.tables import Carriage, Column, PgTable


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
        broken = f"({cell}::text ~ '\\\\u(0000|[dD][89aAbBcCdDeEfF])')"
        return f"CASE WHEN {broken} THEN true ELSE {cell}::text <> to_jsonb({cell})::text END"
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
    only = "" if table.partitioned else "ONLY "
    where = f" AND {within.condition(key)}" if within else ""
    query = (
        f"SELECT {key}, CASE {found} END FROM {only}{table.sql} r"
        f" WHERE ({' OR '.join(f'({condition})' for _, condition in conditions)}){where} LIMIT 1"
    )
    with saying(f"looking in {table.name} for values that JSON cannot carry"):
        row = connection.execute(bound(query), within.parameters() if within else {}).fetchone()
    if row is None:
        return
    column = conditions[row[1]][0]
    raise RowRefused(
        f"table {table.name}, row {row[0]}: the value of {column.name} ({column.type}) cannot be carried exactly",
        _ADVICE.get(bare_type(column), f'change the value, or exclude the table: [state] exclude = ["{table.name}"]'),
    )


_ADVICE = {
    "jsonb": "it is the JSON null, which would come back as SQL NULL: store SQL NULL instead",
    "json": "its text would come back reformatted: use the type jsonb, or store the text as jsonb prints it",
    "real": "it is minus zero, which would come back as zero: store 0",
    "double precision": "it is minus zero, which would come back as zero: store 0",
}
