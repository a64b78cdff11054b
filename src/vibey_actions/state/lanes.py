"""The merge rule of the table of documents: an end beats any other status, else the branch's row stands.

So a claim that did not reach the branch first is a lost claim, and no row of this table is ever a conflict. Source:
docs/documents.md, "Where the documents are". Which statuses are ends comes from the machines, as plain values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

DOCUMENT_TABLE: Final = "document"
"""Its name in a document of the state: it stands in schema public."""
KEY: Final = ("db", "id")
COLUMNS: Final = ("changed_at", "db", "deleted", "doc", "id", "rev")


@dataclass(frozen=True, slots=True)
class Kind:
    """The documents of one machine: the database they are in, and the field and value that mark them."""

    db: str
    field: str
    value: str


Endings: TypeAlias = Mapping[Kind, frozenset[str]]
"""The statuses from which no document of a kind moves on by itself."""
ReadEndings: TypeAlias = Callable[[], Endings]


def settled(endings: Endings, mine: bytes | None, theirs: bytes | None) -> bytes | None:
    """Of two rows that both differ from the base, the one that stands. ``mine`` is this database's."""
    if mine is not None and _ended(endings, mine) and (theirs is None or _goes_on(endings, theirs)):
        return mine
    return theirs


def _ended(endings: Endings, row: bytes) -> bool:
    document = _document(row)
    return document is not None and _is_end(endings, *document)


def _goes_on(endings: Endings, row: bytes) -> bool:
    """Whether a row holds a document that has not ended; a deleted one has gone, which an end does not undo."""
    document = _document(row)
    return document is not None and not _is_end(endings, *document)


def _is_end(endings: Endings, db: object, document: Mapping[str, Any]) -> bool:
    status = document.get("status")
    return isinstance(status, str) and any(
        kind.db == db and document.get(kind.field) == kind.value and status in statuses
        for kind, statuses in endings.items()
    )


def _document(row: bytes) -> tuple[object, Mapping[str, Any]] | None:
    """The database and content of a row; None where it holds no document."""
    from vibey_actions.rows.canonical import NotJson, decode  # heavy, and the declaration is read by every command

    try:
        values = decode(row)
        found = values.get("doc")
        # An exact row carries jsonb as its text.
        content = decode(found.encode()) if isinstance(found, str) else found
    except NotJson:
        return None
    return (values.get("db"), content) if isinstance(content, dict) else None
