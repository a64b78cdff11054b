"""Unique values that rows pass on to one another: an order in which they can be written, or what gives way meanwhile.

PostgreSQL checks a unique index row by row, so a row cannot take a value that another one has not given up yet. Rows
without a circle go one after the other. Else a column of the index that may be null is emptied first; else the index
is put aside and made again in the same transaction, where its definition brings all of it back.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import psycopg

from vibey_actions.errors import RowRefused
from vibey_actions.postgres.clashes import waiting_pairs
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.constraints import Unique, index_definition
from vibey_actions.postgres.expressions import target
from vibey_actions.postgres.finalrows import FinalRows
from vibey_actions.postgres.sql import bound, identifier, value
from vibey_actions.text import visible

Pairs = Sequence[tuple[int, int]]


class HeldError(Exception):
    """Nothing can give way in ``table``, as long as what hangs on a constraint is there; ``refusal`` says it."""

    def __init__(self, table: str, refusal: RowRefused) -> None:
        super().__init__(table)
        self.table = table
        self.refusal = refusal


@dataclass(slots=True)
class Untangled:
    """``levels`` are numbers of staged updates that go before the others, level by level.

    ``aside`` are the commands that make again what was removed.
    """

    levels: list[list[int]] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)

    def restore(self, connection: psycopg.Connection) -> None:
        """Make again what was put aside. Raises psycopg.IntegrityError where the rows do not keep it."""
        for restoration in self.aside:
            connection.execute(restoration.encode())


def untangle(
    connection: psycopg.Connection,
    rows: FinalRows,
    uniques: Iterable[Unique],
    referenced: Collection[frozenset[str]],
    *,
    in_order: bool,
) -> Untangled:
    """Clear the way for the updates of one table.

    ``referenced`` are the columns that foreign keys point at, which are never emptied; ``in_order`` says whether the
    updates can go level by level. Raises HeldError, naming the constraint and two rows, where nothing can give way.
    """
    tangled: list[tuple[Unique, Pairs]] = []
    for unique in uniques:
        if unique.is_key or not unique.immediate:
            continue
        pairs = _waiting(connection, rows, unique)
        if pairs and not _emptied(connection, rows, unique, pairs, referenced):
            tangled.append((unique, pairs))
    levels = levels_of([pair for _, pairs in tangled for pair in pairs]) if in_order else None
    if levels is not None:
        if levels:
            with saying(f"ordering the rows of {rows.table.name}"):
                connection.execute(f"CREATE INDEX ON {rows.stage.name} (n)".encode())
        return Untangled(levels)
    return Untangled(aside=[_put_aside(connection, rows, unique, pairs) for unique, pairs in tangled])


def levels_of(pairs: Pairs) -> list[list[int]] | None:
    """Numbers in levels, every one after those that it waits for (pairs: waiting, waited for); None in a circle."""
    waits: dict[int, set[int]] = {}
    frees: dict[int, list[int]] = {}
    for one, other in set(pairs):
        waits.setdefault(one, set()).add(other)
        waits.setdefault(other, set())
        frees.setdefault(other, []).append(one)
    levels: list[list[int]] = []
    level = sorted(number for number, others in waits.items() if not others)
    done = 0
    while level:
        levels.append(level)
        done += len(level)
        following = []
        for number in level:
            for waiting in frees.get(number, ()):
                waits[waiting].discard(number)
                if not waits[waiting]:
                    following.append(waiting)
        level = sorted(following)
    return levels if done == len(waits) else None


def _waiting(connection: psycopg.Connection, rows: FinalRows, unique: Unique) -> Pairs:
    with saying(f"looking for rows of {unique.table} that pass on what {visible(unique.name)} keeps apart"):
        try:
            with connection.transaction():
                return waiting_pairs(connection, rows, unique)
        except psycopg.ProgrammingError:
            # It cannot be asked over staged rows (an index over the row's own type): PostgreSQL has the last word.
            return []


def _emptied(
    connection: psycopg.Connection,
    rows: FinalRows,
    unique: Unique,
    pairs: Pairs,
    referenced: Collection[frozenset[str]],
) -> bool:
    """Whether the rows that are waited for could give up what they have."""
    if unique.nulls_alike or frozenset(unique.columns) in referenced:
        return False
    holders = sorted({other for _, other in pairs})
    may_be_null = {c.name for c in rows.table.carried if not (c.not_null or c.identity)} - set(rows.table.table.key)
    for column in unique.columns:
        if column in may_be_null:
            query = (
                f"UPDATE {target(rows.table)} r SET {identifier(column)} = NULL FROM {rows.stage.name} s"
                f" WHERE s.n = ANY({value('numbers')}) AND {rows.stage.match('r', 's')}"
            )
            with saying(f"emptying {visible(column)} of rows of {unique.table} that pass it on"):
                try:
                    with connection.transaction():
                        connection.execute(bound(query), {"numbers": holders})
                except psycopg.IntegrityError:
                    continue
                return True
    return False


def _put_aside(connection: psycopg.Connection, rows: FinalRows, unique: Unique, pairs: Pairs) -> str:
    """Remove it; returns the command that makes it again, for the search_path of the moment."""
    if not unique.whole:
        one, other = _keys(connection, rows, pairs[0])
        refusal = RowRefused(
            f"table {unique.table}, rows {one} and {other}: they pass on what {visible(unique.name)} keeps apart, "
            "which is checked row by row and cannot be put aside, because other objects or settings hang on it",
            "make the same change here by hand, or declare the constraint DEFERRABLE; nothing was written",
        )
        raise HeldError(unique.table, refusal)
    with saying(f"putting aside {visible(unique.name)}, whose values rows of {unique.table} swap"):
        restoration = unique.restoration or index_definition(connection, unique.oid)
        connection.execute(unique.removal.encode())
    return restoration


def _keys(connection: psycopg.Connection, rows: FinalRows, pair: tuple[int, int]) -> tuple[str, str]:
    with saying(f"naming rows of {rows.table.name}"):
        query = f"SELECT n, k FROM {rows.stage.name} WHERE n = ANY(%s)".encode()
        found: Mapping[int, str] = dict(connection.execute(query, (list(pair),)).fetchall())
    return found[pair[0]], found[pair[1]]
