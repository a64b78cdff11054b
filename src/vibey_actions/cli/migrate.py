"""``migrate``: the database at the current schema."""

from __future__ import annotations

from vibey_actions.cli import console, session
from vibey_actions.cli.options import Json
from vibey_actions.text import counted


def migrate(*, as_json: Json = False) -> None:
    """Apply the migrations that this database lacks, as [migrations] of the configuration file declares them."""
    with session.working() as operations:
        done = operations.migrate()
    if as_json:
        console.json_line({"applied": list(done.applied), "versions": list(done.versions)})
        return
    for version in done.applied:
        console.out(f"applied {version}")
    count = len(done.versions)
    known = f"{counted(count, 'migration')} recorded" if count else "no migrations recorded"
    console.out(known if done.applied else f"nothing to apply; {known}")
