"""The database: whether it is reached, through what, as whom, and whether it is level with the branch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from vibey_actions.checks.facts import CLOCK_TOLERANCE, Facts
from vibey_actions.checks.finding import Finding, note, ok, problem
from vibey_actions.errors import SchemaMismatch
from vibey_actions.state.cycle import check_schema
from vibey_actions.state.declaration import Rule
from vibey_actions.text import counted, visible

LONG_AGO: Final = 7 * 86_400.0
_OWNER: Final = "set VIBEY_STATE_PG_URL to the owner of the tables"
_NAMED: Final = 5


def database(facts: Facts) -> Iterator[Finding]:
    """Whether it can be used at all: reached, new enough, UTF8, writable."""
    from vibey_actions.postgres.connection import NEWEST_MAJOR, server_version
    from vibey_actions.postgres.health import extensions, session

    connection = facts.database()
    found = session(connection)
    version = server_version(connection)
    text = f"PostgreSQL {version // 10000}.{version % 10000}, as the role {visible(found.role)}"
    if version // 10000 > NEWEST_MAJOR:
        yield note("database", f"{text}; newer than {NEWEST_MAJOR}, the newest this was tested with")
    else:
        yield ok("database", text)
    if found.standby or found.read_only:
        why = "a standby" if found.standby else "read-only for this role or database"
        yield problem("database", f"it is {why}, so nothing can be written", "connect to the primary, as its owner")
    names = [f"{visible(name)} {visible(number)}" for name, number in extensions(connection)]
    if names:
        yield note(
            "extensions", f"in use here: {', '.join(names)}", "every machine of the branch needs what its rows use"
        )
    yield _clock(facts, found.clock.timestamp())


def _clock(facts: Facts, theirs: float) -> Finding:
    skew = theirs - facts.clock()
    if abs(skew) <= CLOCK_TOLERANCE:
        return ok("database-clock", "the database's clock is that of this machine")
    newest = any(Rule.NEWEST in (table.conflict, table.otherwise) for table in facts.config().tables.values())
    return note(
        "database-clock",
        f"the database's clock is {abs(skew):.0f} seconds {'ahead of' if skew > 0 else 'behind'} this machine's"
        + ("; the rule newest compares times that such clocks wrote" if newest else ""),
        "set the clocks, for example by NTP",
    )


def pooler(facts: Facts) -> Iterator[Finding]:
    """Whether a connection pooler stands in between; one that shares sessions is the database's own problem."""
    facts.database()
    if facts.pooling().between:
        yield note("pooler", "a connection pooler stands in between, in session mode as it seems")


def tables(facts: Facts) -> Iterator[Finding]:
    """What would be synced, and whether this role may."""
    from vibey_actions.postgres.health import lacking

    catalog = facts.catalog()
    count = len(catalog.tables)
    if not count:
        yield note("tables", "there is no table to sync", "`vibey-actions migrate` makes those that migrations declare")
        return
    found = lacking(facts.database(), catalog)
    whole = True
    for name, rights in found.rights.items():
        whole = False
        yield problem("rights", f"this role lacks {', '.join(rights)} on the table {visible(name)}", _OWNER)
    if found.hidden:
        whole = False
        yield problem(
            "rights",
            f"row-level security hides rows of {_listed(found.hidden)} from this role, which would read as deletion",
            "connect as the tables' owner or a role with BYPASSRLS",
        )
    if found.not_owned:
        whole = False
        yield problem("rights", f'triggers = "off" needs the owner of {_listed(found.not_owned)}', _OWNER)
    if found.sequences:
        yield note(
            "rights",
            f"this role may not move the sequence(s) {_listed(found.sequences)} past rows that come",
            "GRANT SELECT, UPDATE ON SEQUENCE ... TO the role",
        )
    if whole:
        yield ok("rights", f"this role may sync the {counted(count, 'table')}")
    yield from _records(facts)


def _records(facts: Facts) -> Iterator[Finding]:
    """Where the sync keeps its own records."""
    from vibey_actions.postgres.health import own_schema, session

    connection = facts.database()
    right, may = own_schema(connection), session(connection)
    if not may.temporary:
        yield problem(
            "rights",
            "this role may make no temporary tables, in which changes are prepared",
            "GRANT TEMPORARY ON DATABASE ... TO the role",
        )
    if right is False or (right is None and not may.create):
        yield note(
            "rights",
            "this role cannot keep what two ends agree on (schema vibey_actions), so every sync reads every row",
            "`vibey-actions migrate` as the database's owner makes it",
        )


def migrations(facts: Facts) -> Iterator[Finding]:
    """The migrations applied here against those of the directory, and against the branch's."""
    here = facts.versions()
    pending = _pending(facts, here)
    if pending:
        yield note("migrations", f"not applied yet: {_listed(pending)}", "run `vibey-actions migrate`")
    if facts.head() is None:
        yield ok("migrations", f"{len(here)} recorded here, and no branch to compare with")
        return
    head, name = facts.opened(), facts.remote().name
    there = head.schema if head is not None else []
    try:
        check_schema(here, there, name)
    except SchemaMismatch as error:
        yield problem("migrations", error.message, error.hint)
        return
    if set(here) == set(there):
        yield ok("migrations", f"this database and the branch are at the same {counted(len(here), 'migration')}")
    else:
        ahead = sorted(set(here) - set(there))
        yield note("migrations", f"this database is ahead of the branch by {_listed(ahead)}; a sync lifts the branch")


def _pending(facts: Facts, here: Sequence[str]) -> list[str]:
    from vibey_actions.postgres.migration_files import read_migrations

    declared = facts.config().migrations
    if declared is None or declared.directory is None:
        return []
    return [file.version for file in read_migrations(declared.directory) if file.version not in here]


def watermark(facts: Facts) -> Iterator[Finding]:
    """The commit this database last agreed with, and how long ago that was."""
    from vibey_actions.postgres.health import last_sync, may_record
    from vibey_actions.postgres.watermark import read_base

    connection, remote = facts.database(), facts.remote()
    base = read_base(connection, remote.name)
    if not base.table:
        yield problem("watermark", "the table state_sync is missing", "run `vibey-actions migrate`")
        return
    if not may_record(connection):
        yield problem("watermark", "this role may not write the table state_sync", _OWNER)
    synced = last_sync(connection, remote.name)
    if base.commit is None or synced is None:
        yield ok("watermark", "this database has not agreed with the branch yet: the next sync merges as a first one")
        return
    yield from _against_head(facts, base.commit)
    text = f"the last sync that changed something was {_ago(synced[1])} ago"
    if synced[1] > LONG_AGO and facts.head() != base.commit:
        yield note("last-sync", f"{text}, and the branch has moved since", "run `vibey-actions state sync`")
    else:
        yield ok("last-sync", text)


def _against_head(facts: Facts, base: str) -> Iterator[Finding]:
    head = facts.head()
    if head is None:
        yield problem(
            "watermark",
            f"this database has agreed with {base}, and the branch is gone",
            "put the branch back; or, to start over with what is here, run `vibey-actions state forget`",
        )
    elif head == base:
        yield ok("watermark", "this database last agreed with the branch's head")
    elif facts.remote().is_ancestor(base, head):
        yield ok("watermark", "the branch has moved on from what this database last agreed with")
    else:
        yield problem(
            "watermark",
            f"{base}, which this database last agreed with, is no ancestor of the branch's head {head}",
            "put the branch back; or, to merge as at first, run `vibey-actions state forget`",
        )


def _ago(seconds: float) -> str:
    for size, name in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        if seconds >= size:
            return counted(int(seconds // size), name)
    return "less than a minute"


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(map(visible, names[:_NAMED]))
    return shown if len(names) <= _NAMED else f"{shown} and {len(names) - _NAMED} more"
