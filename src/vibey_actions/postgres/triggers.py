"""The database's own triggers while rows are applied: kept from firing where that is declared, and blamed where not.

``[tables.X] triggers = "off"`` (issue "Any database", triggers). Disabling a trigger is the owner's right and holds
readers off no more than the apply does; a transaction that dies takes it back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import psycopg

from vibey_actions.errors import RowRefused
from vibey_actions.postgres.connection import saying
from vibey_actions.postgres.sql import blocks, identifier
from vibey_actions.postgres.tables import Catalog, PgTable
from vibey_actions.rows.canonical import decode
from vibey_actions.text import visible

FIRING: Final = "OA"
"""When a trigger fires in our sessions, as the letters of pg_trigger say."""
_COMMANDS: Final = {"O": "ENABLE", "A": "ENABLE ALWAYS", "R": "ENABLE REPLICA", "D": "DISABLE"}
_OTHERWISE: Final = "rows are not what was written"
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Trigger:
    """``root`` is the oid of the synced table, ``relation`` the SQL name of what it is on: that or a partition."""

    root: int
    relation: str
    name: str
    fires: str

    def set(self, connection: psycopg.Connection, fires: str) -> None:
        """Have it fire as the letter ``fires`` of pg_trigger says."""
        command = f"ALTER TABLE ONLY {self.relation} {_COMMANDS[fires]} TRIGGER {identifier(self.name)}"
        with saying(f"turning the trigger {visible(self.name)} of {visible(self.relation)} off or on"):
            connection.execute(command.encode())


@dataclass(frozen=True, slots=True)
class Silenced:
    """Triggers that were turned off, as they were before."""

    triggers: tuple[Trigger, ...]

    @classmethod
    def turn_off(cls, connection: psycopg.Connection, tables: Iterable[PgTable]) -> Silenced:
        """Keep the triggers of those ``tables`` from firing that are declared so. Nothing may have been written yet.

        Raises DatabaseFailed where the role does not own a table that has any.
        """
        declared = [table for table in tables if table.triggers_off]
        if not declared:
            return cls(())
        found = triggers_of(connection, declared)
        touched = {trigger.root for trigger in found if trigger.fires in FIRING}
        for trigger in found:
            if trigger.fires in FIRING:
                trigger.set(connection, "D")
        return cls(tuple(trigger for trigger in found if trigger.root in touched))

    def restore(self, connection: psycopg.Connection) -> None:
        """Give every trigger the state it had. No event may be pending: constraints are immediate by now."""
        # From the root down: what is set on a root may reach its partitions, where it can have been different.
        for trigger in self.triggers:
            trigger.set(connection, trigger.fires)


def quiet(catalog: Catalog) -> Catalog:
    """The catalog with every table's triggers off, for a database where rows are only to be carried through."""
    tables = {name: replace(table, triggers_off=True) for name, table in catalog.tables.items()}
    return replace(catalog, tables=tables)


def triggers_of(connection: psycopg.Connection, tables: Iterable[PgTable]) -> list[Trigger]:
    """The triggers of the database's own on ``tables`` and their partitions, from the root down."""
    with saying("reading the triggers of the tables that are to change"):
        rows = connection.execute(blocks("triggers")["triggers"], {"oids": [table.oid for table in tables]}).fetchall()
    return [Trigger(*row) for row in rows]


def rewritten(
    connection: psycopg.Connection, table: PgTable, key: str, meant: bytes | None, found: bytes | None
) -> RowRefused:
    """The refusal of a row that was written as ``meant`` and is ``found`` otherwise (None: no row)."""
    if meant is None:
        what = "the row is still there after it was deleted"
    elif found is None:
        what = "the row is not there after it was written"
    else:
        what = f"{_listed('column', _differing(decode(meant), decode(found)))} not what was written"
    return RowRefused(f"table {table.name}, row {key}: {what}; {cause_in(connection, table)}", advice(table))


def rewritten_load(connection: psycopg.Connection, table: PgTable, surplus: int, columns: Sequence[str]) -> RowRefused:
    """The refusal of a whole table that was filled: ``surplus`` rows too many or too few, or other ``columns``."""
    if surplus:
        what = f"it holds {abs(surplus)} row(s) {'more' if surplus > 0 else 'less'} than were written to it"
    else:
        what = f"{_listed('column', sorted(map(visible, columns)))} not what was written" if columns else _OTHERWISE
    return RowRefused(f"table {table.name}: {what}; {cause_in(connection, table)}", advice(table))


def cause_in(connection: psycopg.Connection, table: PgTable) -> str:
    """Who may have made something else of what was written to ``table``."""
    names = sorted({visible(trigger.name) for trigger in triggers_of(connection, [table]) if trigger.fires in FIRING})
    if names:
        return f"its trigger{'s' if len(names) > 1 else ''} {', '.join(names)} may have done that"
    return "a rule, or a trigger of another table, may have done that"


def advice(table: PgTable) -> str:
    """What helps against triggers that rewrite rows of ``table``."""
    section = section_of(table)
    off = f'declare [tables.{section}] triggers = "off" in .github/vibey-state.toml, so that they do not fire then'
    if table.triggers_off:
        off = "have it leave rows alone that application_name 'vibey-actions sync' writes"
    return (
        f"a row that is rewritten on every sync never comes to rest: {off}, or exclude the table; nothing was written"
    )


def section_of(table: PgTable) -> str:
    """The table's name as the configuration file has it behind ``tables.``."""
    return table.name if _BARE_KEY.fullmatch(table.name) else '"' + re.sub(r'(["\\])', r"\\\1", table.name) + '"'


def _differing(meant: dict[str, Any], found: dict[str, Any]) -> list[str]:
    return [
        visible(name) for name in meant if meant[name] != found.get(name) or type(meant[name]) is not type(found[name])
    ]


def _listed(kind: str, names: list[str]) -> str:
    return f"the {kind}{'s' if len(names) > 1 else ''} {', '.join(names)} {'are' if len(names) > 1 else 'is'}"
