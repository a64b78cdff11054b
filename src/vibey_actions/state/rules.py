"""What becomes of one row that is not the same at base, here and there (spec: tables and rules)."""

from __future__ import annotations

from vibey_actions.rows.canonical import NotJson, decode
from vibey_actions.state.declaration import Rule, Table
from vibey_actions.state.report import Conflict, ConflictKind
from vibey_actions.state.times import Moment, moment, newer

Row = bytes | None
"""A row's canonical text, or None for no row."""


def settle(table: Table, key: bytes, base: Row, mine: Row, theirs: Row) -> Row | Conflict:
    """The merged row, or the conflict that stands in the way of one."""
    if table.append_only and base is not None and (mine != base or theirs != base):
        return _divergence(table, key, base, mine, theirs)
    if mine == theirs:
        return mine
    if mine == base:
        return theirs
    if theirs == base:
        return mine
    return _by_rule(table, key, mine, theirs)


def _by_rule(table: Table, key: bytes, mine: Row, theirs: Row) -> Row | Conflict:
    if table.append_only:
        return _conflict(
            table,
            key,
            ConflictKind.DIVERGENCE,
            "the two ends hold different rows under one key of an append-only table",
            "no rule settles this: decide which end's history stands, remove the other's row there, then sync again",
        )
    if table.rule is Rule.MINE:
        return mine
    if table.rule is Rule.THEIRS:
        return theirs
    if table.rule is Rule.NEWEST and mine is not None and theirs is not None:
        return _newest(table, key, mine, theirs)
    return _unsettled(table, key, mine, theirs)


def _newest(table: Table, key: bytes, mine: bytes, theirs: bytes) -> Row | Conflict:
    assert table.newest_by is not None  # noqa: S101 - Table refuses the rule without a column
    mine_at, theirs_at = (_time(row, table.newest_by) for row in (mine, theirs))
    mine_newer = newer(mine_at, theirs_at) if mine_at and theirs_at else None
    if mine_newer is None:
        return _conflict(
            table,
            key,
            ConflictKind.UNORDERED_TIMES,
            f"both ends changed the row and {table.newest_by} does not tell which change is the newer",
            f"set a later {table.newest_by} on the row that is to stand, or settle it once with {_rules(table)}",
        )
    return mine if mine_newer else theirs


def _time(row: bytes, column: str) -> Moment | None:
    try:
        return moment(decode(row).get(column))
    except NotJson:
        return None


def _rules(table: Table) -> str:
    return f"VIBEY_STATE_CONFLICTS={table.name}=mine or VIBEY_STATE_CONFLICTS={table.name}=theirs"


def _unsettled(table: Table, key: bytes, mine: Row, theirs: Row) -> Conflict:
    if mine is None:
        kind, why = ConflictKind.DELETED_HERE, "the row was deleted here and changed on the branch"
    elif theirs is None:
        kind, why = ConflictKind.DELETED_THERE, "the row was changed here and deleted on the branch"
    else:
        kind, why = ConflictKind.BOTH_CHANGED, "both ends changed the row differently"
    return _conflict(
        table, key, kind, why, f"make the row the same at both ends, or settle it once with {_rules(table)}"
    )


def _divergence(table: Table, key: bytes, base: bytes, mine: Row, theirs: Row) -> Conflict:
    ends = (("here", mine), ("on the branch", theirs))
    done = [f"{'removed' if row is None else 'changed'} {end}" for end, row in ends if row != base]
    return _conflict(
        table,
        key,
        ConflictKind.DIVERGENCE,
        f"a row of an append-only table was {' and '.join(done)} since the last sync",
        "no rule settles this: put the row back as it was (`vibey-actions state show --at COMMIT` has it)",
    )


def _conflict(table: Table, key: bytes, kind: ConflictKind, why: str, advice: str) -> Conflict:
    return Conflict(table.name, key.decode("ascii"), kind, why, advice)
