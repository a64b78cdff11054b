"""The name of a table in a document: as it is in ``public``, else schema and table, each quoted where SQL needs it.

Source: issue "Any database", schemas. Quoting is quote_ident's of PostgreSQL 18 on every server: newer ones reserve
more words, and a name must not depend on the server that wrote the state.
"""

from __future__ import annotations

import re
from typing import Final

from vibey_actions.postgres.sql import identifier

PUBLIC: Final = "public"

_PLAIN: Final = re.compile(r"[a-z_][a-z0-9_]*")
# What pg_get_keywords() of PostgreSQL 18 counts as anything but unreserved.
_RESERVED: Final = frozenset(
    """
    all analyse analyze and any array as asc asymmetric authorization between bigint binary bit boolean both case cast
    char character check coalesce collate collation column concurrently constraint create cross current_catalog
    current_date current_role current_schema current_time current_timestamp current_user dec decimal default deferrable
    desc distinct do else end except exists extract false fetch float for foreign freeze from full grant greatest group
    grouping having ilike in initially inner inout int integer intersect interval into is isnull join json json_array
    json_arrayagg json_exists json_object json_objectagg json_query json_scalar json_serialize json_table json_value
    lateral leading least left like limit localtime localtimestamp merge_action national natural nchar none normalize
    not notnull null nullif numeric offset on only or order out outer overlaps overlay placing position precision
    primary real references returning right row select session_user setof similar smallint some substring symmetric
    system_user table tablesample then time timestamp to trailing treat trim true union unique user using values
    varchar variadic verbose when where window with xmlattributes xmlconcat xmlelement xmlexists xmlforest
    xmlnamespaces xmlparse xmlpi xmlroot xmlserialize xmltable
    """.split()  # noqa: SIM905 - it is read as a text
)


def document_name(schema: str, table: str) -> str:
    """``table`` for one of schema public, else ``schema.table``."""
    return table if schema == PUBLIC else f"{quote_ident(schema)}.{quote_ident(table)}"


def quote_ident(name: str) -> str:
    """``name`` as it is where SQL reads it back as itself, else in double quotes."""
    return name if _PLAIN.fullmatch(name) and name not in _RESERVED else identifier(name)
