"""The end of a job's database: a server of ours is stopped and deleted, a role that was made is dropped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from vibey_actions.actions.record import Place, Record
from vibey_actions.postgres import roles
from vibey_actions.postgres.detached import Detached


def end(place: Place, record: Record, notice: Callable[[str], None], *, keep_export: bool = False) -> None:
    """End what ``record`` names, and delete the job's folder last, but for an export that is still to be uploaded.

    Raises DatabaseFailed where a server does not stop; the record then stays, and another `close` tries again.
    """
    if record.cluster:
        Detached(Path(record.cluster), tuple(map(Path, record.extra)), record.pid).end()
    elif record.role:
        roles.drop_application(record.dsn, record.role, notice=notice)
    place.remove(keep_export=keep_export)
