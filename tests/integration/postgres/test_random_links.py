"""Random rearrangements of what random foreign keys reference: the rows afterwards are exactly the merged ones.

VIBEY_TEST_SEED sets the first seed, VIBEY_TEST_COUNT how many databases are made; a failure names its seed.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from itertools import count

import psycopg
import pytest

from tests.support.ends import End, Ends
from vibey_actions.errors import Conflicts

SEED = int(os.environ.get("VIBEY_TEST_SEED", "86"))
COUNT = int(os.environ.get("VIBEY_TEST_COUNT", "2"))
ROUNDS = 4
ACTIONS = ("NO ACTION", "RESTRICT", "CASCADE", "SET NULL", "SET DEFAULT")
LATE = ("", "DEFERRABLE", "DEFERRABLE INITIALLY DEFERRED")

Rows = dict[int, list[int | None]]
"""By id. p: id, u, w, up (a u of p); c: id, u and w of p; g: id, id of c."""
State = dict[str, Rows]
START: State = {
    "p": {n: [n, n, n, None] for n in range(1, 7)},
    "c": {n: [n, n, n] for n in range(1, 7)},
    "g": {n: [n, n] for n in range(1, 5)},
}


def schema(chance: random.Random) -> tuple[str, ...]:
    """Three tables whose foreign keys have random actions."""

    def key(child: str, parent: str) -> str:
        actions = f"ON DELETE {chance.choice(ACTIONS)} ON UPDATE {chance.choice(ACTIONS)}"
        return f"FOREIGN KEY ({child}) REFERENCES {parent} {actions} {chance.choice(LATE)}"

    needed = chance.choice(("", "NOT NULL"))
    up, u, w, c = key("up", "p (u)"), key("u", "p (u)"), key("w", "p (w)"), key("c", "c")
    return (
        f"CREATE TABLE p (id int PRIMARY KEY, u int {needed} UNIQUE, w int NOT NULL UNIQUE, up int, {up})",
        f"CREATE TABLE c (id int PRIMARY KEY, u int DEFAULT 1, w int NOT NULL DEFAULT 1, {u}, {w})",
        f"CREATE TABLE g (id int PRIMARY KEY, c int, {c})",
    )


def held(end: End) -> State:
    """What a database holds."""
    with psycopg.connect(end.dsn) as connection:
        return {
            name: {row[0]: list(row) for row in connection.execute(f"SELECT * FROM {name}".encode())} for name in START
        }


def put(end: End, state: State) -> None:
    """Have a database hold ``state``, without an action of a foreign key."""
    before = held(end)
    with psycopg.connect(end.dsn) as connection:
        connection.execute("SET session_replication_role = replica")
        for name, rows in state.items():
            gone = [n for n, row in before[name].items() if rows.get(n) != row]
            connection.execute(f"DELETE FROM {name} WHERE id = ANY(%s)".encode(), (gone,))
        for name, rows in state.items():
            for n, row in rows.items():
                if before[name].get(n) != row:
                    places = ", ".join(["%s"] * len(row))
                    connection.execute(f"INSERT INTO {name} VALUES ({places})".encode(), row)


def copied(state: State) -> State:
    return {name: {n: list(row) for n, row in rows.items()} for name, rows in state.items()}


def with_children(chance: random.Random, new: Callable[[], int], state: State) -> State:
    """The state with a few rows more that reference what is there."""
    state = copied(state)
    parents = list(state["p"].values())
    for _ in range(chance.randrange(4)):
        n, m = new(), new()
        state["c"][n] = [n, chance.choice([*(row[1] for row in parents), None]), chance.choice(parents)[2]]
        state["g"][m] = [m, n]
    return state


def rearranged(chance: random.Random, new: Callable[[], int], state: State) -> State:
    """The state with values of p swapped, taken over, changed, added and gone, and children that follow or stay."""
    state = copied(state)
    parents = state["p"]
    for _ in range(chance.randrange(1, 5)):
        some, column = chance.sample(list(parents), min(len(parents), 3)), chance.choice((1, 2))
        deed = chance.choice(("swap", "take over", "change", "add", "delete"))
        if deed == "swap":
            values = [parents[n][column] for n in some]
            for n, value in zip(some, values[1:] + values[:1], strict=True):
                parents[n][column] = value
        elif deed == "take over":
            n = new()
            parents[n] = [n, *parents.pop(some[0])[1:]]
        elif deed == "change":
            parents[some[0]][column] = new()
        elif deed == "add":
            n = new()
            parents[n] = [n, new(), new(), None]
        elif len(parents) > 3:
            del parents[some[0]]
    _follow(chance, state)
    return with_children(chance, new, state)


def _follow(chance: random.Random, state: State) -> None:
    us = [row[1] for row in state["p"].values()]
    ws = [row[2] for row in state["p"].values()]
    for row in state["p"].values():
        if row[3] not in (*us, None) or chance.random() < 0.2:
            row[3] = chance.choice([*us, None])
    for n, row in list(state["c"].items()):
        if chance.random() < 0.1:
            del state["c"][n]
        if row[1] not in (*us, None) or chance.random() < 0.2:
            row[1] = chance.choice([*us, None])
        if row[2] not in ws or chance.random() < 0.2:
            row[2] = chance.choice(ws)
    state["g"] = {n: row for n, row in state["g"].items() if row[1] in state["c"]}


def merged(base: State, *ends: State) -> State:
    """The base with what each of the ends changed; none of them changed a row that another did."""
    state = copied(base)
    for end in ends:
        for name, rows in end.items():
            for n in rows.keys() | base[name].keys():
                if rows.get(n) != base[name].get(n):
                    state[name].pop(n, None)
                    state[name] |= {n: rows[n]} if n in rows else {}
    return state


def is_whole(state: State) -> bool:
    """Whether every row has what it references."""
    us = {row[1] for row in state["p"].values()} | {None}
    ws = {row[2] for row in state["p"].values()}
    linked = all(row[3] in us for row in state["p"].values()) and all(
        row[1] in state["c"] for row in state["g"].values()
    )
    return linked and all(row[1] in us and row[2] in ws for row in state["c"].values())


@pytest.mark.parametrize("number", range(COUNT))
def test_random_rearrangements_of_random_foreign_keys(ends: Ends, number: int) -> None:
    """Both ends hold the merged rows, whatever the actions; or the rows that lose their parents are conflicts."""
    seed = SEED + number
    chance = random.Random(seed)  # noqa: S311 - the same databases every time
    new = count(100).__next__
    one, other = ends.pair(*schema(chance))
    put(one, START)
    one.sync()
    other.sync()
    for turn in range(ROUNDS):
        one, other = other, one
        base = held(one)
        theirs, mine = rearranged(chance, new, base), with_children(chance, new, base)
        put(one, theirs)
        put(other, mine)
        one.sync()
        meant = merged(base, theirs, mine)
        if not is_whole(meant):
            other.refused(Conflicts)
            put(other, base)
            meant = theirs
        other.sync()
        one.sync()
        assert held(other) == meant, f"seed {seed}, turn {turn}"
        assert held(one) == meant, f"seed {seed}, turn {turn}"
