"""The merge rule of the table of documents: an end beats any status but a claim of another worker's and, where it is a
failure, an operator's retry; else the branch's row stands.

So a claim that did not reach the branch first is a lost claim, the end of a lease that was lost gives way to whoever
holds the document by then, and no row of this table is ever a conflict. Source: docs/documents.md, "Where the documents
are". Which statuses are ends comes from the machines, as plain values.
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
Content: TypeAlias = Mapping[str, Any]
ReadEndings: TypeAlias = Callable[[], Endings]


def settled(endings: Endings, base: bytes | None, mine: bytes | None, theirs: bytes | None) -> bytes | None:
    """Of two rows that both differ from the base, the one that stands. ``mine`` is this database's.

    What the branch holds by the time of the push decides, so it does not matter when a claim was lost.
    """
    here = _document(mine)
    if here is None or not _is_end(endings, *here):
        return theirs
    if theirs is None:
        return mine
    there, before = _document(theirs), _document(base) or here
    # A deleted document has gone, which an end does not undo.
    if there is None or _is_end(endings, *there):
        return theirs
    if not _is_free(there[1], before[1], _ended_claim(here[1])):
        return theirs
    # A failure of before it is what an operator's retry answers; a success of before it is not to be worked for again.
    return theirs if "lastError" in here[1] and _is_retried(there[1], here[1]) else mine


def _is_free(document: Content, before: Content, claim: object) -> bool:
    """Whether no other than the holder of ``claim`` has ``document``, or has ended a claim of it since ``before``.

    A lease that was only taken back leaves no trace of that kind: then what came of the work is kept.
    """
    holder = document.get("claimId")
    if holder not in (None, ""):
        return bool(holder == claim)
    return document.get("lastClaimId") in (None, "", claim, before.get("lastClaimId"))


def _is_retried(document: Content, end: Content) -> bool:
    """Whether an operator sent ``document`` back since the attempt that came to ``end``: that alone changes
    ``earlierAttempts`` or lowers ``attempts``."""
    if document.get("earlierAttempts") != end.get("earlierAttempts"):
        return True
    there, here = document.get("attempts"), end.get("attempts")
    return isinstance(there, int) and isinstance(here, int) and there < here


def _ended_claim(end: Content) -> object:
    """The claim that was ended: it stays as ``claimId``, or becomes ``lastClaimId`` where that is cleared."""
    return end.get("claimId") if "claimId" in end else end.get("lastClaimId")


def _is_end(endings: Endings, db: object, document: Content) -> bool:
    status = document.get("status")
    return isinstance(status, str) and any(
        kind.db == db and document.get(kind.field) == kind.value and status in statuses
        for kind, statuses in endings.items()
    )


def _document(row: bytes | None) -> tuple[object, Content] | None:
    """The database and content of a row; None where it holds no document."""
    if row is None:
        return None
    from vibey_actions.rows.canonical import NotJson, decode  # heavy, and the declaration is read by every command

    try:
        values = decode(row)
        found = values.get("doc")
        # An exact row carries jsonb as its text.
        content = decode(found.encode()) if isinstance(found, str) else found
    except NotJson:
        return None
    return (values.get("db"), content) if isinstance(content, dict) else None
