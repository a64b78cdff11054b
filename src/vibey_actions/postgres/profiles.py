"""Whether a database is what a profile declares: every table there, keyed as declared, and no other beside them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from vibey_actions.errors import SchemaMismatch, SettingError, TableRefused
from vibey_actions.postgres.sql import identifier
from vibey_actions.postgres.tables import DerivedCounter, SequenceOf
from vibey_actions.state.profiles import Profile, ProfileTable
from vibey_actions.text import visible

_MIGRATE = "run `vibey-actions migrate`, then the same command again"


def check_tables(profile: Profile, keys: Mapping[str, tuple[str, ...]], exclude: Collection[str]) -> None:
    """Compare the tables of ``public`` (name -> primary key) with the profile.

    Raises SettingError where a declared table is excluded, TableRefused for tables on neither list or under another
    key than declared, SchemaMismatch for declared ones that are missing; each names all it found.
    """
    excluded = sorted(set(exclude) & profile.tables.keys())
    if excluded:
        raise SettingError(
            f"exclude names {', '.join(excluded)}, which the profile {profile.name} syncs",
            "take it out of exclude: the other machines would read it as a table without rows",
        )
    _refuse_missing(profile, [name for name in profile.tables if name not in keys], "table")
    unknown = sorted(keys.keys() - profile.tables.keys() - profile.never_synced - set(exclude))
    if unknown:
        raise TableRefused(
            f"the profile {profile.name} declares nothing of {_listed('table', unknown)} in schema public",
            "add it to exclude in [state] if it must stay on this machine, or drop the profile to sync every table",
        )
    for name, declared in profile.tables.items():
        if keys[name] != declared.key:
            raise TableRefused(
                f"table {name} has the primary key ({', '.join(map(visible, keys[name])) or 'none'}), the profile "
                f"{profile.name} declares ({', '.join(declared.key)})",
                _MIGRATE,
            )
    counters = {counter.table for table in profile.tables.values() for counter in table.counters}
    _refuse_missing(profile, sorted(counters - keys.keys()), "table")


def check_columns(profile: Profile, columns: Mapping[str, Collection[str]], sequences: Collection[str]) -> None:
    """Raise SchemaMismatch where a column or sequence that the profile names is missing."""
    for name, table in profile.tables.items():
        missing = [column for column in table.named_columns if column not in columns[name]]
        _refuse_missing(profile, [f"{name}.{column}" for column in missing], "column")
    named = [sequence for table in profile.tables.values() for _, sequence in table.sequences]
    _refuse_missing(profile, [sequence for sequence in named if sequence not in sequences], "sequence")


def declared_sequences(table: ProfileTable) -> tuple[SequenceOf, ...]:
    """The sequences of a declared table, in schema public."""
    return tuple(SequenceOf(_public(sequence), column) for column, sequence in table.sequences)


def declared_counters(table: ProfileTable) -> tuple[DerivedCounter, ...]:
    """The counter tables that a declared table feeds, in schema public."""
    return tuple(DerivedCounter(_public(c.table), c.group, c.column, c.next_column) for c in table.counters)


def _public(name: str) -> str:
    return f"{identifier('public')}.{identifier(name)}"


def _refuse_missing(profile: Profile, names: list[str], kind: str) -> None:
    if names:
        raise SchemaMismatch(
            f"this database lacks {_listed(kind, names)}, declared by the profile {profile.name}", _MIGRATE
        )


def _listed(kind: str, names: list[str]) -> str:
    return f"the {kind}{'s' if len(names) > 1 else ''} {', '.join(map(visible, names))}"
