"""One vibe's databases: last write wins on whole documents, an access function on every put, writes that land late."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Body = dict[str, Any]
Access = Callable[[Body, Body | None], None]
"""What the vibe's access.js does with (doc, oldDoc); it raises Forbidden."""


class Forbidden(Exception):
    """The access function refuses a write; the text is its own message."""


@dataclass
class Held:
    """A write that was answered but has not landed yet."""

    db: str
    document_id: str
    body: Body


@dataclass
class Vibe:
    """The documents by database and id. ``page`` cuts what one query gives, as a server does that expects paging.

    ``writes`` lists every write that landed and changed something, in order.
    """

    access: Access = lambda _new, _old: None
    page: int | None = None
    documents: dict[tuple[str, str], Body] = field(default_factory=dict)
    writes: list[tuple[str, str, Body]] = field(default_factory=list)
    held: list[Held] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def put(self, db: str, document_id: str, body: Body, *, late: bool = False) -> None:
        """Write a document, at once or (``late``) when ``land`` is called. Raises Forbidden."""
        with self.lock:
            old = self.documents.get((db, document_id))
            self.access(copy.deepcopy(body), copy.deepcopy(old))
            if late:
                self.held.append(Held(db, document_id, copy.deepcopy(body)))
            else:
                self._write(db, document_id, body)

    def land(self) -> None:
        """Let every late write land, over whatever is there by now."""
        with self.lock:
            while self.held:
                one = self.held.pop(0)
                self._write(one.db, one.document_id, one.body)

    def get(self, db: str, document_id: str) -> Body | None:
        with self.lock:
            return copy.deepcopy(self.documents.get((db, document_id)))

    def query(self, db: str) -> tuple[list[Body], str | None]:
        """The first page of a database and, where it was cut, the id to go on from."""
        with self.lock:
            ids = sorted(document_id for name, document_id in self.documents if name == db)
            shown = ids if self.page is None else ids[: self.page]
            # A body's own _id hides the document's: that is what misleads a reader of queries.
            rows = [{"_id": one, **copy.deepcopy(self.documents[db, one])} for one in shown]
            return rows, shown[-1] if shown and len(shown) < len(ids) else None

    def delete(self, db: str, document_id: str) -> None:
        with self.lock:
            self.documents.pop((db, document_id), None)

    def names(self) -> list[str]:
        with self.lock:
            return sorted({name for name, _ in self.documents})

    def _write(self, db: str, document_id: str, body: Body) -> None:
        if self.documents.get((db, document_id)) != body:
            self.documents[db, document_id] = copy.deepcopy(body)
            self.writes.append((db, document_id, copy.deepcopy(body)))
