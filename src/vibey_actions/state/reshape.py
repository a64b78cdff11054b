"""The next state of a branch that did not move, from a database that a migrator of its own has brought further.

Such a branch cannot be lifted: nobody can make a database at its older migrations. But where it is still the base,
a three-way merge takes every row as it is here. What is left to do is to see what became of the branch's rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vibey_actions.errors import TableRefused
from vibey_actions.state.bounds import EVERYTHING, BoundsBuilder
from vibey_actions.state.declaration import Declaration, Table
from vibey_actions.state.document import DocumentReader, DocumentWriter
from vibey_actions.state.merge import Keyed, Merge, TableView, aligned, alike
from vibey_actions.state.older import check_key, older_rows
from vibey_actions.state.progress import Progress
from vibey_actions.state.report import Conflict, Counts
from vibey_actions.state.rules import Row, settle


def reshape(
    declaration: Declaration,
    base: DocumentReader,
    view_of: Callable[[str], TableView],
    *,
    writer: DocumentWriter | None,
    progress: Progress,
) -> Merge:
    """Write every row of the views, which have to be whole, and count what differs from ``base``.

    A row counts as changed where a column that both shapes know has another text. One of an append-only table that is
    changed so, or gone, is a conflict. Raises TableRefused for a table of the base that is not synced here,
    SchemaMismatch for one whose key is another, Unreadable.
    """
    outcome = Merge()
    tables = base.tables()
    following = next(tables, None)
    for name in sorted(declaration.tables):
        _refuse_gone(following[0] if following else None, name)
        table = declaration.tables[name]
        rows: Iterator[Keyed] = iter(())
        if following is not None and following[0] == name:
            check_key(table, base)
            rows = older_rows(table, following[1])
        if writer is not None:
            writer.table(name)
        bounds = BoundsBuilder((), [EVERYTHING])
        for key, old, mine in aligned(rows, view_of(name).rows()):
            _row(table, key, old, mine, outcome)
            if mine is not None:
                bounds.row(key, len(mine))
                outcome.rows += 1
                if writer is not None:
                    writer.rows(mine)
        progress.advance(outcome.rows, None)
        outcome.bounds[name] = bounds.build()
        if following is not None and following[0] == name:
            following = next(tables, None)
    _refuse_gone(following[0] if following else None, None)
    if writer is not None:
        writer.close()
    return outcome


def _row(table: Table, key: bytes, old: Row, mine: Row, outcome: Merge) -> None:
    if old is not None and mine is not None and alike(old, mine):
        return
    if table.append_only and old is not None:
        found = settle(table, key, old, mine, old)
        if isinstance(found, Conflict):
            outcome.conflicts.append(found)
            return
    outcome.push_counts.setdefault(table.name, Counts()).count(old, mine)


def _refuse_gone(name: str | None, before: str | None) -> None:
    if name is not None and (before is None or name < before):
        raise TableRefused(
            f"the branch holds the table {name}, which this database does not sync",
            f"if a migration dropped it, take it off the branch: `vibey-actions state forget-table {name}`; else "
            "configure this database so that it is synced",
        )
