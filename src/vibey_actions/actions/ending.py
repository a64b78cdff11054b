"""The end of a job's database: a server of ours is stopped and deleted, a role that was made is dropped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from vibey_actions.actions.record import Place, Record
from vibey_actions.postgres import roles
from vibey_actions.postgres.detached import Detached


@contextmanager
def undisturbed(notice: Callable[[str], None]) -> Iterator[None]:
    """Within the block a job that is cancelled does not stop what saves its work; only the runner's last signal does.

    The runner sends SIGINT, 7.5 seconds later SIGTERM, and 2.5 seconds later what nobody can refuse.
    """

    came: list[str] = []

    def hear(number: int, _: FrameType | None) -> None:
        came.append(signal.Signals(number).name)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            notice(f"{' and '.join(came)} came meanwhile: what this job changed was dealt with first")


def server_of(record: Record) -> Detached | None:
    """The server of ours that ``record`` names, None where the database is a declared one."""
    if not record.cluster:
        return None
    return Detached(Path(record.cluster), tuple(map(Path, record.extra)), record.pid)


def end(place: Place, record: Record, notice: Callable[[str], None], *, keep_export: bool = False) -> None:
    """End what ``record`` names, and delete the job's folder last, but for an export that is still to be uploaded.

    Raises DatabaseFailed where a server does not stop; the record then stays, and another `close` tries again.
    """
    if (server := server_of(record)) is not None:
        server.end()
    elif record.role:
        roles.drop_application(record.dsn, record.role, notice=notice)
    place.remove(keep_export=keep_export)
