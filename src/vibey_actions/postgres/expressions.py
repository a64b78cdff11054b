"""SQL expressions for a row and its key: what PostgreSQL has to print so that both are canonical or near to it."""

from __future__ import annotations

import re

from vibey_actions.errors import TableRefused
from vibey_actions.postgres.sql import identifier
from vibey_actions.postgres.tables import Carriage, Column, PgTable
from vibey_actions.state.identity import Fold

_WHOLE_NUMBERS = frozenset({"smallint", "integer", "bigint"})
_NUMBERS = frozenset({"numeric", "real", "double precision"})
_PLAIN_TEXTS = frozenset({"oid", "uuid", "date", "bytea", "inet", "cidr", "macaddr", "macaddr8", "pg_lsn", "interval"})
_TIMES = re.compile(r"(timestamp|time)(\(\d\))? with(out)? time zone")
_TYPMOD = re.compile(r"\([^)]*\)")

# Types whose json image, re-encoded canonically, is that of jsonb, so that the cheaper row_to_json may print them.
_SAME_IN_JSON = (
    _WHOLE_NUMBERS | _PLAIN_TEXTS | {"boolean", "numeric", "text", "character varying", "character", "jsonb"}
)


def bare_type(column: Column) -> str:
    """The base type without its modifier: ``numeric(10,2)`` is ``numeric``."""
    return _TYPMOD.sub("", column.base_type).strip()


def row_json(table: PgTable, alias: str) -> str:
    """The row as JSON text that becomes its canonical text once re-encoded (docs/format.md, "Row")."""
    function = "row_to_json" if all(_printed_alike(column) for column in table.carried) else "to_jsonb"
    return f"{function}({whole_row(alias)})"


def _printed_alike(column: Column) -> bool:
    """Whether row_to_json prints the value as to_jsonb does: as its text, then; and cells of more than 256 MB too."""
    if column.carriage is not Carriage.TEXT:
        return bare_type(column) == "jsonb"
    return column.serialized or bare_type(column) not in ("real", "double precision")


def whole_row(alias: str) -> str:
    """The row itself; the bare alias would be a column of that name where the table has one."""
    return f"({alias}.*)"


def _same_in_json(column: Column) -> bool:
    return bare_type(column) in _SAME_IN_JSON or _TIMES.fullmatch(column.base_type) is not None


def row_image(table: PgTable, alias: str) -> str:
    """The row as bytes that differ whenever its JSON text does; only ever compared within one database."""
    # Binary is cheaper than text; it serves for types whose text follows from it alone (that of regclass does not).
    binary = all(_same_in_json(column) or bare_type(column) in _NUMBERS for column in table.carried)
    row = whole_row(alias)
    return f"record_send({row})" if binary else f"textsend({row}::text)"


def target(table: PgTable) -> str:
    """The table itself, without those that inherit from it; a partitioned one with its partitions."""
    return table.sql if table.partitioned else f"ONLY {table.sql}"


def table_source(table: PgTable, alias: str) -> str:
    """The FROM item with the table's carried columns as they are."""
    return _source(table, alias, [identifier(column.name) for column in table.carried], bare=True)


def row_source(table: PgTable, alias: str) -> str:
    """The FROM item that ``row_json`` is to read: the carried columns, those that are serialized as text."""
    columns = [
        f"base.{name}::text AS {name}" if column.serialized else f"base.{name}"
        for column in table.carried
        for name in [identifier(column.name)]
    ]
    return _source(table, alias, columns, bare=not table.table.serialized)


def _source(table: PgTable, alias: str, columns: list[str], *, bare: bool) -> str:
    if bare and len(table.carried) == len(table.columns):
        return f"{target(table)} {alias}"
    return f"(SELECT {', '.join(columns)} FROM {target(table)} base) {alias}"


def key_text(table: PgTable, alias: str) -> str:
    """The row's identity (see `state.identity`) in a collation that orders by code point.

    Raises TableRefused for a key column whose canonical text PostgreSQL cannot be asked for.
    """
    parts = [_key_part(table, table.column(name), f"{alias}.{identifier(name)}") for name in table.table.key]
    inner = " || ',' || ".join(parts)
    return f"""('[' || {inner} || ']') COLLATE "C\""""


def _key_part(table: PgTable, column: Column, value: str) -> str:
    kind = bare_type(column)
    if column.fold is not None or column.serialized:
        return _folded(column.fold, value)
    simple = {
        "boolean": f"CASE WHEN {value} THEN 'true' ELSE 'false' END",
        "uuid": f"'\"' || {value}::text || '\"'",
        **dict.fromkeys(_WHOLE_NUMBERS, f"{value}::text"),
    }
    if kind in simple:
        return simple[kind]
    text = f"to_jsonb({value})::text"
    if kind in _PLAIN_TEXTS or _TIMES.fullmatch(column.base_type):
        return text
    if kind in _NUMBERS:
        return _canonical_number(text)
    if column.carriage is Carriage.TEXT:
        return _canonical_string(text)
    raise TableRefused(
        f"table {table.name}: the key column {column.name} has the type {column.type}, which cannot order a state",
        f"give {table.name} a primary key of plain columns, or exclude it: [state] exclude = [...]",
    )


def _folded(fold: Fold | None, value: str) -> str:
    """What `identity.folded` makes of the value's canonical text; of a serialized one where nothing is to be folded."""
    if fold is Fold.SCALE:
        return _canonical_number(f"to_jsonb(trim_scale({value}))::text")
    if fold is Fold.PADDING:
        return _canonical_string(f"to_jsonb(rtrim({value}::text, ' '))::text")
    # Where the row comes from row_source the value is its text already.
    if fold is None:
        return _canonical_string(f"to_jsonb({value}::text)::text")
    return f"to_jsonb(CASE WHEN {value}::text = '-0' THEN '0' ELSE {value}::text END)::text"


def _canonical_string(text: str) -> str:
    """JSON text of a string, with DEL and all above it escaped as canonical JSON does."""
    return (
        f"CASE WHEN octet_length({text}) = char_length({text}) AND strpos({text}, chr(127)) = 0 THEN {text} ELSE ("
        "SELECT string_agg(CASE WHEN ascii(c) < 127 THEN c"
        r" WHEN ascii(c) < 65536 THEN '\u' || lpad(to_hex(ascii(c)), 4, '0')"
        r" ELSE '\u' || to_hex(55296 + ((ascii(c) - 65536) >> 10))"
        r" || '\u' || to_hex(56320 + ((ascii(c) - 65536) & 1023)) END, '' ORDER BY n)"
        f" FROM string_to_table({text}, NULL) WITH ORDINALITY AS s(c, n)) END"
    )


def _canonical_number(text: str) -> str:
    """JSON text of a number, or of a string for NaN, as str(Decimal(text)) writes it: 0.00000015 is 1.5E-7."""
    return (
        f"(SELECT CASE WHEN n !~ '^-?0[.]000000' OR length(f) - greatest(length(d), 1) < 6 THEN n"
        " WHEN d = '' THEN '0E-' || length(f)"
        " ELSE CASE WHEN starts_with(n, '-') THEN '-' ELSE '' END || left(d, 1)"
        " || CASE WHEN length(d) > 1 THEN '.' || substr(d, 2) ELSE '' END"
        " || 'E-' || (length(f) - length(d) + 1) END"
        f" FROM (SELECT n, split_part(n, '.', 2) AS f, ltrim(split_part(n, '.', 2), '0') AS d"
        f" FROM (SELECT {text} AS n) a) b)"
    )
