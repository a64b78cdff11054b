"""A client of a vibe without a program or a network: for the many calls that a test of the lane makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.support.vibes_server.faults import Fault, Faults
from tests.support.vibes_server.vibe import Forbidden, Vibe
from vibey_actions.documents.client import Rows, check_db, script_text
from vibey_actions.documents.model import Document
from vibey_actions.errors import DocumentConflict, DocumentDenied, OutcomeUnknown, StoreFailed
from vibey_actions.rows.canonical import decode

LOST = {Fault.SILENT, Fault.CLOSES, Fault.APPLIES_THEN_SILENT, Fault.APPLIES_THEN_CLOSES}
UNDONE = {Fault.SILENT, Fault.CLOSES}


class DirectClient:
    """``calls`` lists what was asked; ``before`` runs ahead of each call and gets its kind and its deadline.
    ``unreadable`` is what queries give besides documents."""

    def __init__(self, vibe: Vibe, before: Callable[[str, float | None], None] = lambda _kind, _deadline: None) -> None:
        self.vibe = vibe
        self.before = before
        self.faults = Faults()
        self.calls: list[str] = []
        self.unreadable: list[str] = []

    def get(self, db: str, identifier: str, deadline: float | None = None) -> Document | None:
        self._begin("get", db, deadline)
        found = self.vibe.get(db, identifier)
        return None if found is None else _read({**found, "_id": identifier})

    def query(self, db: str, deadline: float | None = None) -> Rows:
        self._begin("query", db, deadline)
        return Rows([_read(row) for row in self.vibe.query(db)[0]], tuple(self.unreadable))

    def put(self, db: str, identifier: str, document: Document, deadline: float | None = None) -> None:
        fault = self._begin("put", db, deadline)
        text = script_text(document, f"the write of {identifier}")
        try:
            if fault not in UNDONE:
                self.vibe.put(db, identifier, json.loads(text), late=fault is Fault.LATE)
        except Forbidden as error:
            raise DocumentDenied(str(error)) from None
        if fault in LOST:
            raise OutcomeUnknown("no reply came")

    def delete(self, db: str, identifier: str, deadline: float | None = None) -> None:
        fault = self._begin("delete", db, deadline)
        if fault not in UNDONE:
            self.vibe.delete(db, identifier)
        if fault in LOST:
            raise OutcomeUnknown("no reply came")

    def _begin(self, kind: str, db: str, deadline: float | None) -> Fault | None:
        check_db(db)
        self.calls.append(kind)
        self.before(kind, deadline)
        fault = self.faults.take(kind)
        if fault is Fault.DENIED:
            raise DocumentDenied("access denied")
        if fault is Fault.CONFLICT:
            raise DocumentConflict("write conflict")
        if fault is Fault.BROKEN or (kind in {"get", "query"} and fault is not None):
            raise StoreFailed("the vibe cannot be reached")
        return fault


def _read(document: dict[str, Any]) -> Document:
    """As the client prints it and it is parsed: nothing shared with the vibe, every number exact."""
    read: Document = decode(json.dumps(document).encode())
    return read
