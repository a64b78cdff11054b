"""The group ``docs``: work documents, and the lanes that walk them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from vibey_actions.cli.docs.doctor import doctor
from vibey_actions.cli.docs.documents import delete, get, put, query, retry
from vibey_actions.cli.docs.machines import access_js, machine
from vibey_actions.cli.docs.status import status
from vibey_actions.cli.docs.ticks import advance, sweep, watch

COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "put": put,
    "get": get,
    "query": query,
    "del": delete,
    "advance": advance,
    "sweep": sweep,
    "watch": watch,
    "status": status,
    "retry": retry,
    "access-js": access_js,
    "machine": machine,
    "doctor": doctor,
}
