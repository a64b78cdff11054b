"""Rows of a document that was written at older migrations, under the key that their table has now.

Without a database at those migrations nobody can say what the key was; but under another one rows lack a column of it,
or stand in another order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vibey_actions.errors import SchemaMismatch, Unreadable
from vibey_actions.state.declaration import Table
from vibey_actions.state.document import DocumentReader, keys
from vibey_actions.state.scanner import Batch


def check_key(table: Table, document: DocumentReader) -> None:
    """Refuse a document of older migrations where the table's key columns were of other types (SchemaMismatch)."""
    serialized = set(document.serialized.get(table.name, ())) ^ set(table.serialized)
    if document.folds.get(table.name, {}) != dict(table.folds) or serialized & set(table.key):
        raise _another_key(table)


def older_rows(table: Table, batches: Iterable[Batch]) -> Iterator[tuple[bytes, bytes]]:
    """The rows of a document of older migrations under the key that the table has now.

    Raises SchemaMismatch where they had another one: they lack a column of it, or stand in another order.
    """
    last = b""
    for batch in batches:
        try:
            found = keys(batch, table.key)
        except Unreadable:
            raise _another_key(table) from None
        for key, row in zip(found, batch.rows, strict=True):
            if key <= last:
                raise _another_key(table)
            last = key
            yield key, row


def _another_key(table: Table) -> SchemaMismatch:
    return SchemaMismatch(
        f"table {table.name}: a migration changed its primary key, so that its rows of before and after cannot be "
        "told to be the same",
        "remove the branch, run `vibey-actions state forget` and sync here, and fill the other databases anew",
    )
