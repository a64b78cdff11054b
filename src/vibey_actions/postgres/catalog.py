"""Read from PostgreSQL's catalog what is synced and how: tables, keys, columns, foreign keys, sequences.

A fixed number of queries, however many tables there are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, TypeVar

import psycopg
from psycopg.rows import namedtuple_row

from vibey_actions.config import Config, TableConfig
from vibey_actions.errors import SettingError, TableRefused
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.exact import exact
from vibey_actions.postgres.naming import PUBLIC, document_name
from vibey_actions.postgres.order import parents_first
from vibey_actions.postgres.profiles import check_columns, check_tables, declared_counters, declared_sequences
from vibey_actions.postgres.sql import blocks, identifier
from vibey_actions.postgres.tables import Carriage, Catalog, Column, ForeignKey, PgTable, SequenceOf
from vibey_actions.postgres.versions_query import in_user_settings
from vibey_actions.state.declaration import Declaration, Table
from vibey_actions.state.profiles import OWN_TABLES, Profile, ProfileTable, profile
from vibey_actions.text import visible

_TIMES: Final = ("date", "timestamp without time zone", "timestamp with time zone")
_NUMBERS: Final = ("smallint", "integer", "bigint", "numeric")
_MODIFIER: Final = re.compile(r"\([^)]*\)")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class _Relation:
    """``name`` is the table's name in a document, ``relname`` that in its schema."""

    oid: int
    name: str
    schema: str
    relname: str
    partitioned: bool
    of_extension: bool
    key: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Parts:
    """What hangs on tables, by their oid."""

    columns: Mapping[int, tuple[Column, ...]]
    foreign_keys: Mapping[int, tuple[ForeignKey, ...]]
    sequences: Mapping[int, tuple[SequenceOf, ...]]


def read_catalog(
    connection: psycopg.Connection,
    config: Config,
    *,
    version_tables: frozenset[str] = frozenset(),
    exact_rows: bool | None = None,
    notice: Callable[[str], None] | None = None,
) -> Catalog:
    """The synced tables of the configured schemas (public unless said otherwise) as ``config`` declares them.

    ``version_tables`` are the tables that the ``versions`` query reads (see ``tables_read_by``), never synced.
    ``exact_rows`` says whether columns that JSON would change are carried as text; by default without a profile. Raises
    TableRefused for tables that cannot be synced (all of one kind in one error), SchemaMismatch where a profile's
    table is missing, SettingError where the configuration names what is not there.
    """
    with saying("reading the catalog"):
        _refuse_missing_schemas(connection, config)
        relations = _relations(connection, config.schemas)
        chosen = _choose(relations, config, version_tables)
        _refuse_keyless(chosen)
        _check_names(config, {r.name for r in relations}, {r.name for r in chosen}, notice)
        parts = _parts(connection, chosen)
        _refuse_generated_keys(chosen, parts)
        declared = _declared(connection, config, chosen, parts)
    if config.profile is None if exact_rows is None else exact_rows:
        parts = replace(parts, columns={oid: tuple(map(exact, found)) for oid, found in parts.columns.items()})
    tables = {r.name: _table(r, parts, config.tables.get(r.name, TableConfig()), declared.get(r.name)) for r in chosen}
    order = parents_first({name: [key.references for key in table.foreign_keys] for name, table in tables.items()})
    return Catalog(tables, order, Declaration({name: table.table for name, table in tables.items()}))


def existing_schemas(connection: psycopg.Connection, names: Iterable[str]) -> tuple[str, ...]:
    """Those of ``names`` that the database has, in the same order."""
    with saying("reading the catalog"):
        found = {s.nspname for s in _query(connection, "schemas", {"names": list(names)})}
    return tuple(name for name in names if name in found)


def _refuse_missing_schemas(connection: psycopg.Connection, config: Config) -> None:
    existing = existing_schemas(connection, config.schemas)
    missing = [visible(name) for name in config.schemas if name not in (*existing, PUBLIC)]
    if missing:
        raise SettingError(
            f"not in the database, but named by state.schemas: {', '.join(missing)}",
            "correct the name, or run `vibey-actions migrate` where a migration makes the schema",
        )


def tables_read_by(connection: psycopg.Connection, query: str, schemas: Sequence[str] = (PUBLIC,)) -> frozenset[str]:
    """The tables of ``schemas`` that ``query`` reads, asked of the planner; a partition under its root's name.

    The query is planned, not run, with the database's own search_path. Raises SettingError where it cannot be,
    SchemaMismatch where a table of it is missing.
    """
    with in_user_settings(connection):
        plan = connection.execute(f"EXPLAIN (FORMAT JSON, VERBOSE) {query}", prepare=True).fetchone()
    found = sorted(pair for pair in _relations_of(plan[0] if plan else []) if pair[0] in schemas)
    named = {"schemas": [schema for schema, _ in found], "names": [name for _, name in found]}
    with saying("reading the catalog"):
        return frozenset(document_name(r.nspname, r.relname) for r in _query(connection, "roots", named))


def _relations_of(plan: Any) -> set[tuple[str, str]]:
    """Schema and name of every relation that a plan's nodes name, at any depth."""
    if isinstance(plan, list):
        return set().union(*map(_relations_of, plan))
    if not isinstance(plan, dict):
        return set()
    own = {(str(plan["Schema"]), str(plan["Relation Name"]))} if {"Schema", "Relation Name"} <= plan.keys() else set()
    return own.union(*map(_relations_of, plan.values()))


def _relations(connection: psycopg.Connection, schemas: Sequence[str]) -> list[_Relation]:
    found = [
        _Relation(
            r.oid,
            document_name(r.nspname, r.relname),
            r.nspname,
            r.relname,
            r.partitioned,
            r.of_extension,
            tuple(r.key),
        )
        for r in _query(connection, "tables", {"schemas": list(schemas)})
    ]
    found.sort(key=lambda relation: relation.name)
    for one, other in pairwise(found):
        if one.name == other.name:
            raise TableRefused(
                f"two tables have the name {visible(one.name)} in a state: one of schema public with a dot in its "
                "name, and one of another schema",
                "rename one of them, or take the schema out of schemas in [state]",
            )
    return found


def _choose(relations: list[_Relation], config: Config, version_tables: frozenset[str]) -> list[_Relation]:
    own = [r for r in relations if not r.of_extension]
    if config.profile is None:
        # Only those in public are ours, and unqualified names stand for tables of public.
        never = OWN_TABLES | version_tables | set(config.exclude)
        return [r for r in own if r.name not in never]
    declared = profile(config.profile)
    check_tables(declared, {r.name: r.key for r in own}, {*config.exclude, *version_tables - declared.tables.keys()})
    return [r for r in own if r.name in declared.tables]


def _refuse_keyless(relations: list[_Relation]) -> None:
    keyless = [visible(r.name) for r in relations if not r.key]
    if keyless:
        one = len(keyless) == 1
        raise TableRefused(
            f"no primary key, so no way to tell rows apart: table{'' if one else 's'} {', '.join(keyless)}",
            f"add one (ALTER TABLE ... ADD PRIMARY KEY (...)), or name {'it' if one else 'them'} under exclude in "
            "[state] of .github/vibey-state.toml to keep the rows out of the state",
        )


def _refuse_generated_keys(relations: list[_Relation], parts: _Parts) -> None:
    generated = [
        f"{visible(r.name)} ({visible(c.name)})"
        for r in relations
        for c in parts.columns[r.oid]
        if c.generated and c.name in r.key
    ]
    if generated:
        raise TableRefused(
            f"a generated column in the primary key, which a row does not carry: {', '.join(generated)}",
            "make another key the primary one, or name the table under exclude in [state] of .github/vibey-state.toml",
        )


def _check_names(config: Config, existing: set[str], chosen: set[str], notice: Callable[[str], None] | None) -> None:
    for name in sorted(config.tables):
        if name not in chosen:
            why = "is not synced" if name in existing else f"does not exist in {_schemas(config)}"
            raise SettingError(
                f"[tables.{visible(name)}] is configured, but the table {why}",
                "correct the name, or remove the section from .github/vibey-state.toml",
            )
    for name in sorted(set(config.exclude) - existing):
        if notice is not None:
            notice(f"exclude names the table {visible(name)}, which does not exist in {_schemas(config)}")


def _schemas(config: Config) -> str:
    return f"the schemas {', '.join(map(visible, config.schemas))}" if config.schemas != (PUBLIC,) else "schema public"


def _parts(connection: psycopg.Connection, relations: list[_Relation]) -> _Parts:
    oids = {"oids": [r.oid for r in relations]}
    names = {r.oid: r.name for r in relations}
    columns: dict[int, list[Column]] = defaultdict(list)
    for c in _query(connection, "columns", oids):
        carriage = Carriage(c.carriage)
        column = Column(
            c.attname,
            c.type,
            c.base_type,
            carriage,
            c.attnotnull,
            c.generated,
            c.attidentity,
            collation=f"{identifier(c.collation_schema)}.{identifier(c.collname)}" if c.collname else "",
            deterministic=c.deterministic,
        )
        columns[c.attrelid].append(column)
    keys: dict[int, list[ForeignKey]] = defaultdict(list)
    for k in _query(connection, "foreign_keys", oids):
        keys[k.owner].append(
            ForeignKey(
                name=k.conname,
                table=names[k.owner],
                columns=tuple(k.columns),
                references=names.get(k.referenced, ""),
                referenced_columns=tuple(k.referenced_columns),
                on_delete=k.confdeltype,
                deferrable=k.condeferrable,
                on_update=k.confupdtype,
            )
        )
    sequences: dict[int, list[SequenceOf]] = defaultdict(list)
    for s in _query(connection, "sequences", oids):
        sequences[s.attrelid].append(SequenceOf(f"{identifier(s.nspname)}.{identifier(s.relname)}", s.attname))
    return _Parts(_frozen(columns), _frozen(keys), _frozen(sequences))


def _declared(
    connection: psycopg.Connection, config: Config, chosen: list[_Relation], parts: _Parts
) -> Mapping[str, ProfileTable]:
    """The profile's tables, checked against the columns and sequences that exist; none without a profile."""
    if config.profile is None:
        return {}
    declared: Profile = profile(config.profile)
    columns = {r.name: {c.name for c in parts.columns[r.oid]} for r in chosen}
    check_columns(declared, columns, {s.relname for s in _query(connection, "sequence_names", None)})
    return declared.tables


def _table(relation: _Relation, parts: _Parts, config: TableConfig, declared: ProfileTable | None) -> PgTable:
    columns = parts.columns.get(relation.oid, ())
    counting = {c.name for c in columns if _without_modifier(c.base_type) in _NUMBERS}
    sequences = [s for s in parts.sequences.get(relation.oid, ()) if s.column in counting]
    sequences += [s for s in (declared_sequences(declared) if declared else ()) if s not in sequences]
    return PgTable(
        table=_core_table(relation, columns, config, declared),
        schema=relation.schema,
        relname=relation.relname,
        oid=relation.oid,
        partitioned=relation.partitioned,
        columns=columns,
        foreign_keys=parts.foreign_keys.get(relation.oid, ()),
        sequences=tuple(sequences),
        counters=declared_counters(declared) if declared else (),
        triggers_off=config.triggers == "off",
    )


def _core_table(
    relation: _Relation, columns: tuple[Column, ...], config: TableConfig, declared: ProfileTable | None
) -> Table:
    carried = Table(
        name=relation.name,
        key=relation.key,
        columns=tuple(sorted(c.name for c in columns if not c.generated)),
        folds=tuple(sorted((c.name, c.fold) for c in columns if c.fold is not None and c.name in relation.key)),
        serialized=tuple(sorted(c.name for c in columns if c.serialized)),
    )
    ruled = config.ruling(carried, declared)
    if ruled.newest_by is not None:
        _check_newest_by(relation.name, ruled.newest_by, columns)
    return ruled


def _check_newest_by(table: str, name: str, columns: tuple[Column, ...]) -> None:
    column = next((c for c in columns if c.name == name), None)
    if column is None:
        why = "does not exist"
    elif column.generated:
        why = "is a generated column, which is not carried"
    elif _without_modifier(column.base_type) not in _TIMES:
        why = f"is of type {visible(column.type)}, not date, timestamp or timestamptz"
    else:
        return
    raise SettingError(
        f"newest-by of table {visible(table)} names the column {visible(name)}, which {why}",
        f"name a time column of the table: [tables.{visible(table)}] newest-by",
    )


def _without_modifier(type_: str) -> str:
    """``timestamp(3) with time zone`` as ``timestamp with time zone``."""
    return _MODIFIER.sub("", type_)


def _query(connection: psycopg.Connection, block: str, parameters: Mapping[str, object] | None) -> list[Any]:
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        return cursor.execute(blocks("catalog")[block], parameters).fetchall()


def _frozen(lists: Mapping[int, Iterable[_T]]) -> Mapping[int, tuple[_T, ...]]:
    return {oid: tuple(found) for oid, found in lists.items()}
