"""Whole states moved without a merge: out of a database, into one, and from one sealed file to another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

from vibey_actions.errors import TableRefused
from vibey_actions.state.bounds import EVERYTHING, BoundsBuilder
from vibey_actions.state.declaration import Declaration, undeclared
from vibey_actions.state.document import DocumentReader, DocumentWriter, keys
from vibey_actions.state.merge import Keyed, Merge, TableView, aligned, check_carried, check_columns, columns_of
from vibey_actions.state.report import Counts
from vibey_actions.state.scanner import Batch
from vibey_actions.state.spool import Change, Spool

_UNDECLARED: Final = partial(undeclared, where="the state")


def write_database(
    declaration: Declaration, view_of: Callable[[str], TableView], writer: DocumentWriter
) -> dict[str, int]:
    """Write every row of the views, which have to be whole; returns the rows per table."""
    counts: dict[str, int] = {}
    for name in sorted(declaration.tables):
        writer.table(name)
        rows = 0
        for _, row in view_of(name).rows():
            writer.rows(row)
            rows += 1
        if rows:
            counts[name] = rows
    writer.close()
    return counts


def copy_document(document: DocumentReader, writer: DocumentWriter, leave_out: str) -> int:
    """Write the document without the table ``leave_out``; returns how many rows that had."""
    left_out = 0
    for name, batches in document.tables():
        if name == leave_out:
            left_out = sum(len(batch) for batch in batches)
            continue
        writer.table(name)
        for batch in batches:
            writer.rows(batch.text)
    writer.close()
    return left_out


def replacement(
    declaration: Declaration,
    document: DocumentReader,
    view_of: Callable[[str], TableView],
    refused: Callable[[str], TableRefused] = _UNDECLARED,
) -> tuple[Merge, dict[str, int]]:
    """The changes that make the database's rows those of ``document``, and the document's rows per table.

    Raises what ``refused`` makes of the name of a table that is not declared, SchemaMismatch for other columns,
    Unreadable.
    """
    outcome = Merge()
    try:
        return outcome, _replace(declaration, document, view_of, outcome, refused)
    except BaseException:
        outcome.close()
        raise


def _replace(
    declaration: Declaration,
    document: DocumentReader,
    view_of: Callable[[str], TableView],
    outcome: Merge,
    refused: Callable[[str], TableRefused],
) -> dict[str, int]:
    counts: dict[str, int] = {}
    tables = document.tables()
    following = next(tables, None)
    for name in sorted(declaration.tables):
        if following is not None and following[0] < name:
            break
        rows: Iterator[Keyed] = iter(())
        if following is not None and following[0] == name:
            check_carried(declaration.tables[name], document)
            rows = _checked(declaration, name, following[1])
        bounds = BoundsBuilder((), [EVERYTHING])
        for key, before, after in aligned(view_of(name).rows(), rows):
            bounds.row(key, len(before or after or b""))
            if after is not None:
                counts[name] = counts.get(name, 0) + 1
            if before != after:
                outcome.pull.setdefault(name, Spool()).add(Change(key, before, after))
                outcome.pull_counts.setdefault(name, Counts()).count(before, after)
        outcome.bounds[name] = bounds.build()
        if following is not None and following[0] == name:
            following = next(tables, None)
    if following is not None:
        raise refused(following[0])
    return counts


def _checked(declaration: Declaration, name: str, batches: Iterator[Batch]) -> Iterator[Keyed]:
    table = declaration.tables[name]
    for number, batch in enumerate(batches):
        if number == 0:
            check_columns(table, columns_of(batch))
        yield from zip(keys(batch, table.key), batch.rows, strict=True)
