"""What becomes of one row that is not the same at base, here and there (docs/settings.md, "Rules")."""

from __future__ import annotations

from vibey_actions.rows.canonical import NotJson, decode, encode, members, object_of
from vibey_actions.state.declaration import Rule, Table
from vibey_actions.state.lanes import settled
from vibey_actions.state.report import Conflict, ConflictKind
from vibey_actions.state.times import Moment, moment, newer

Row = bytes | None
"""A row's canonical text, or None for no row."""


def settle(table: Table, key: bytes, base: Row, mine: Row, theirs: Row) -> Row | Conflict:
    """The merged row, or the conflict that stands in the way of one."""
    if table.append_only and base is not None and (mine != base or theirs != base):
        return _divergence(table, key, base, mine, theirs)
    if mine == base:
        return theirs
    if theirs in (base, mine):
        return mine
    if table.rule is not Rule.COLUMNS:
        documents = table.endings
        return (
            settled(documents, base, mine, theirs)
            if documents is not None
            else _by_rule(table, table.rule, key, mine, theirs)
        )
    if base is None or mine is None or theirs is None:
        return _by_rule(table, table.otherwise, key, mine, theirs)
    return _by_columns(table, key, base, mine, theirs)


def _by_rule(table: Table, rule: Rule, key: bytes, mine: Row, theirs: Row) -> Row | Conflict:
    if table.append_only:
        return _conflict(
            table,
            key,
            ConflictKind.DIVERGENCE,
            "the two ends hold different rows under one key of an append-only table",
            "no rule settles this: decide which end's history stands, remove the other's row there, then sync again",
        )
    if rule is Rule.MINE:
        return mine
    if rule is Rule.THEIRS:
        return theirs
    if rule is Rule.NEWEST and mine is not None and theirs is not None:
        mine_newer = _mine_is_newer(table, mine, theirs)
        if mine_newer is None:
            return _unordered(table, key, "the row")
        return mine if mine_newer else theirs
    return _unsettled(table, key, mine, theirs)


def _by_columns(table: Table, key: bytes, base: bytes, mine: bytes, theirs: bytes) -> Row | Conflict:
    """The row with every column that one end alone changed as that end has it.

    A column that the base does not know yet was changed by both where they differ.
    """
    at_base, here, there = (members(row) for row in (base, mine, theirs))
    merged = {name: there.get(name, value) if value == at_base.get(name) else value for name, value in here.items()}
    disputed = [
        name
        for name, value in here.items()
        if value != there.get(name) and at_base.get(name) not in (value, there.get(name))
    ]
    if disputed:
        mine_stands = _mine_stands(table, mine, theirs)
        if mine_stands is None:
            return _disputed(table, key, disputed)
        merged.update({name: (here if mine_stands else there)[name] for name in disputed})
    return object_of(merged)


def _mine_stands(table: Table, mine: bytes, theirs: bytes) -> bool | None:
    """Whose value the table's second rule takes; None where it takes neither."""
    if table.otherwise is Rule.NEWEST:
        return _mine_is_newer(table, mine, theirs)
    return {Rule.MINE: True, Rule.THEIRS: False}.get(table.otherwise)


def _disputed(table: Table, key: bytes, columns: list[str]) -> Conflict:
    what = f"the column{'s' if len(columns) > 1 else ''} {', '.join(columns)}"
    if table.otherwise is Rule.NEWEST:
        return _unordered(table, key, what)
    return _conflict(
        table,
        key,
        ConflictKind.BOTH_CHANGED,
        f"both ends changed {what} differently",
        f"make {what} the same at both ends",
        rules=_rules(table),
    )


def _mine_is_newer(table: Table, mine: bytes, theirs: bytes) -> bool | None:
    assert table.newest_by is not None  # noqa: S101 - Table refuses the rule without a column
    mine_at, theirs_at = (_time(row, table.newest_by) for row in (mine, theirs))
    return newer(mine_at, theirs_at) if mine_at and theirs_at else None


def _unordered(table: Table, key: bytes, what: str) -> Conflict:
    return _conflict(
        table,
        key,
        ConflictKind.UNORDERED_TIMES,
        f"both ends changed {what} and {table.newest_by} does not tell which change is the newer",
        f"set a later {table.newest_by} on the row that is to stand",
        rules=_rules(table),
    )


def _time(row: bytes, column: str) -> Moment | None:
    try:
        return moment(decode(row).get(column))
    except NotJson:
        return None


def _rules(table: Table) -> tuple[str, ...]:
    return tuple(_rule_for(table.name, rule) for rule in (Rule.MINE, Rule.THEIRS))


def _rule_for(table: str, rule: Rule) -> str:
    """The setting's text for one table, in the form that can name it."""
    if table == table.strip() and table.isprintable() and not (table.startswith("{") or {",", "="} & set(table)):
        return f"{table}={rule.value}"
    return encode({table: rule.value}).decode()


def _unsettled(table: Table, key: bytes, mine: Row, theirs: Row) -> Conflict:
    if mine is None:
        kind, why = ConflictKind.DELETED_HERE, "the row was deleted here and changed on the branch"
    elif theirs is None:
        kind, why = ConflictKind.DELETED_THERE, "the row was changed here and deleted on the branch"
    else:
        kind, why = ConflictKind.BOTH_CHANGED, "both ends changed the row differently"
    return _conflict(table, key, kind, why, "make the row the same at both ends", rules=_rules(table))


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


def _conflict(
    table: Table, key: bytes, kind: ConflictKind, why: str, mend: str, *, rules: tuple[str, ...] = ()
) -> Conflict:
    return Conflict(table.name, key.decode("ascii"), kind, why, mend, rules=rules)
