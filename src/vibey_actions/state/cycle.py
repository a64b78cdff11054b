"""The cycle: one database and its branch brought level (docs/format.md, "The order of writes").

Read the head, the base and the database; merge; on any conflict write nothing anywhere; apply here; record the head;
seal and push from exactly that head; record the pushed commit. Each step writes only what differs, and a cycle that
died anywhere is completed by the next.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from vibey_actions.errors import (
    BranchGone,
    BranchRewritten,
    Conflicts,
    GaveUp,
    RemoteMoved,
    RolledBack,
    SchemaMismatch,
    StateMoved,
    TableRefused,
    TooFarBehind,
)
from vibey_actions.remotes.base import Remote
from vibey_actions.state.declaration import Declaration
from vibey_actions.state.document import DocumentReader, DocumentWriter
from vibey_actions.state.documents import Documents, reopen
from vibey_actions.state.interfaces import Agreements, Store, View
from vibey_actions.state.merge import Merge, check_deletes, merge
from vibey_actions.state.progress import Progress
from vibey_actions.state.report import Conflict, Counts, Report, SyncState
from vibey_actions.state.reshape import reshape

LARGE_FILL = 2 * 1024 * 1024
"""From this size of the sealed file on, in bytes, an empty database is filled in one stream."""


LOOKED_THROUGH = 300
"""How many commits behind the head are opened to find one that held an export."""


@dataclass(frozen=True, slots=True)
class Options:
    """``attempts`` bounds how often a cycle starts again; ``max_deletes`` how many rows it may delete at an end.

    ``once``: what is here is an export, which may have been pushed before by a sync that died behind its push. Where a
    commit since the base held all of it nothing is written, so that rows deleted since do not come back.
    """

    push: bool = True
    attempts: int = 5
    max_deletes: int | None = None
    accept_rollback: bool = False
    once: bool = False


@dataclass(slots=True)
class Cycle:
    """Brings ``store`` and ``remote`` level. ``path`` is the state file's path on the branch."""

    store: Store
    remote: Remote
    documents: Documents
    path: str
    options: Options
    progress: Progress
    notice: Callable[[str], None]

    def sync(self) -> Report:
        """Run until the ends agree. Raises Conflicts, GaveUp, and what the store and the remote raise."""
        for attempt in range(1, self.options.attempts + 1):
            try:
                return replace(self._once(), attempts=attempt)
            except (StateMoved, RemoteMoved) as moved:
                if attempt == self.options.attempts:
                    raise GaveUp(
                        f"gave up after {attempt} attempts; the last: {moved.message}",
                        "run the sync again; VIBEY_STATE_ATTEMPTS sets how often it tries",
                    ) from moved
                self.notice(f"{moved.message}; starting again ({attempt + 1} of {self.options.attempts})")
                time.sleep(random.uniform(0.05, 0.2) * attempt)  # noqa: S311 - spreads two syncs apart
        raise AssertionError("attempts is at least 1")

    def status(self) -> Report:
        """What a sync would do. Writes nothing."""
        base, head = self._ends()
        with self.store.view(base) as view, ExitStack() as stack:
            if head is not None and head == base and view.as_agreed:
                return Report(SyncState.IN_SYNC, self.remote.name, head, None)
            found = self._merge(stack, view, base, head, push=False)
            found.merge.conflicts += self._broken(found.merge)
            return _status(found, self.remote.name, head)

    def _once(self, *, may_fill: bool = True) -> Report:
        recorded = self.store.base()
        base, head = self._ends()
        if base is not None and base != recorded:
            self.store.record({}, commit=base, expected=recorded)
        with ExitStack() as stack:
            with self.store.view(base) as view:
                if head is not None and head == base and view.as_agreed:
                    return Report(SyncState.IN_SYNC, self.remote.name, head, None)
                if self.options.once and head is not None and (held := self._held_at(view, base, head)) is not None:
                    return Report(SyncState.IN_SYNC, self.remote.name, head, None, held_at=held)
                fills = may_fill and head is not None and base is None and self._is_fill(view, head)
                declaration = view.declaration
                if not fills:
                    found = self._merge(stack, view, base, head, push=self.options.push)
                    self._refuse(found)
                    agreements = view.agreements(found.merge)
            if not fills:
                return self._write(found, agreements, base, head)
        filled = self._fill(head, declaration) if head is not None and self.store.can_fill() else None
        return filled or self._once(may_fill=False)

    def _ends(self) -> tuple[str | None, str | None]:
        """The base and the branch's head, which is sure to continue it.

        A push that arrived without its sync having heard of it is the base: what it holds was read from here.
        """
        base, head, pending = self.store.base(), self.remote.head(), self.store.pending()
        if pending not in (None, base) and head is not None and self.remote.is_ancestor(pending, head):
            base = pending
        return base, self._checked(head, base)

    def _checked(self, head: str | None, base: str | None) -> str | None:
        if head == base:
            return head
        if head is None:
            raise BranchGone(
                f"the branch of {self.remote.name} is gone, and this database agreed with its commit {base}",
                "if it was deleted on purpose: `vibey-actions state forget`, then sync; else restore the branch",
            )
        if base is not None and not self.remote.is_ancestor(base, head):
            raise BranchRewritten(
                f"{self.remote.name} was rewritten: its head {head} does not continue {base}, "
                "which this database agreed with",
                "restore the branch, or start over with `vibey-actions state forget` and sync: "
                "the ends are then merged without a base",
            )
        if not self.options.accept_rollback and self.remote.is_replay(head):
            raise RolledBack(
                f"the head {head} of {self.remote.name} holds a state that an earlier commit already held: "
                "somebody put an old state back",
                "if that was on purpose, sync once with --accept-rollback: rows go back to what they were",
            )
        return head

    def _open(self, commit: str, declaration: Declaration) -> DocumentReader:
        return reopen(
            lambda: self.remote.fetch(commit),
            lambda: self.remote.discard(commit),
            lambda path: self.documents.open(path, declaration),
        )

    def _at(self, view: View, commit: str) -> DocumentReader:
        document = self._open(commit, view.declaration)
        check_schema(view.schema, document.schema, self.remote.name)
        return document

    def _in_shape(
        self, stack: ExitStack, view: View, document: DocumentReader, commit: str
    ) -> tuple[DocumentReader, bool]:
        """The document at ``commit`` in the schema of this database, and whether it had to be lifted there."""
        if document.schema == view.schema:
            return document, False
        lifted = stack.enter_context(self.store.lift(self.remote.fetch(commit), view.schema))
        return self.documents.open(lifted, view.declaration), True

    def _merge(self, stack: ExitStack, view: View, base: str | None, head: str | None, *, push: bool) -> _Found:
        theirs, lifted = None, False
        if head is not None:
            theirs = self._at(view, head)
            if theirs.schema != view.schema and head == base and not self.store.can_lift():
                return self._reshape(stack, view, theirs, head, push=push)
            theirs, lifted = self._in_shape(stack, view, theirs, head)
        base_document, base_lifted, older_base = theirs, lifted, False
        if base != head:
            base_document, base_lifted = None, False
            if base is not None:
                base_document = self._at(view, base)
                older_base = base_document.schema != view.schema and not self.store.can_lift()
                if older_base:
                    _by_no_key(base_document)
                else:
                    base_document, base_lifted = self._in_shape(stack, view, base_document, base)
        # What is here is the base: then the merge is the branch's state, which needs no second sealing.
        writes = push and (lifted or head is None or not view.as_agreed)
        writer, draft = None, None
        if writes:
            writer, draft = stack.enter_context(self._draft(view))
        self.progress.step("comparing with the branch")
        merged = merge(
            view.declaration,
            base_document,
            theirs,
            view.view,
            writer=writer,
            progress=self.progress,
            older_base=older_base,
        )
        stack.callback(merged.close)
        # Every row of both was read to the end, and checked where it was not before.
        for commit, was_lifted in ((head, lifted), (base, base_lifted)):
            if commit is not None and not was_lifted:
                self.documents.note_checked(self.remote.fetch(commit), view.declaration)
        return _Found(merged, draft, lifted or head is None, view.declaration)

    def _held_at(self, view: View, base: str | None, head: str) -> str | None:
        """The newest commit since the base at which a merge of what is here would have changed nothing.

        Everything then is as if the merge had been made right behind that commit. Raises TooFarBehind where there are
        more commits than are looked through.
        """
        if head == base:
            return None
        self.progress.step("looking whether the branch held this before")
        behind = self.remote.history(base, head, LOOKED_THROUGH + 1)
        for commit in behind[:LOOKED_THROUGH]:
            with ExitStack() as stack, suppress(SchemaMismatch, TableRefused):
                merged = self._merge(stack, view, base, commit, push=False).merge
                if not merged.conflicts and not merged.changes_there:
                    return commit
        if len(behind) > LOOKED_THROUGH:
            raise TooFarBehind(
                f"{self.remote.name} moved by more than {LOOKED_THROUGH} commits since {base or 'its first commit'}, "
                "which this was made from, so it cannot be told whether the branch held it before",
                "look at what it holds (`vibey-actions state show FILE`); import it into a database and sync that, or "
                "discard it",
            )
        return None

    def _draft(self, view: View) -> AbstractContextManager[tuple[DocumentWriter, Path]]:
        return self.documents.draft(view.schema, view.declaration.serialized, view.declaration.folds)

    def _reshape(self, stack: ExitStack, view: View, document: DocumentReader, head: str, *, push: bool) -> _Found:
        """The branch is still the base, at older migrations: what is here is what it is to become."""
        self.progress.step("bringing the branch to this database's migrations")
        _by_no_key(document)
        writer, draft = stack.enter_context(self._draft(view)) if push else (None, None)
        outcome = reshape(view.declaration, document, view.view, writer=writer, progress=self.progress)
        self.documents.note_checked(self.remote.fetch(head), view.declaration)
        return _Found(outcome, draft, reshaped=True, declaration=view.declaration)

    def _broken(self, merged: Merge) -> list[Conflict]:
        """Rows that would break a constraint here, however the rows that conflict are settled."""
        if not merged.changes_here or merged.unnamed_conflicts:
            return []
        unsettled = {(conflict.table, conflict.key) for conflict in merged.conflicts}
        tables = {table for table, _ in unsettled}
        return [
            conflict
            for conflict in self.store.conflicts(merged.pull, merged.push_counts)
            if not _hangs_on(conflict, unsettled, tables)
        ]

    def _refuse(self, found: _Found) -> None:
        conflicts = found.merge.conflicts
        if conflicts:
            # By the look alone nothing is refused: the apply looks again, behind its locks.
            conflicts += self._broken(found.merge)
            total = len(conflicts) + found.merge.unnamed_conflicts
            raise Conflicts(
                f"{total} row(s) conflict with {self.remote.name}; nothing was written at either end",
                "settle each as its line says, then sync again",
                conflicts,
            )
        check_deletes(found.merge.pull_counts, self.options.max_deletes, "here")
        if self.options.push:
            check_deletes(found.merge.push_counts, self.options.max_deletes, "on the branch")

    def _write(self, found: _Found, agreements: Agreements, base: str | None, head: str | None) -> Report:
        differs = found.differs_there
        if found.merge.changes_here:
            assert head is not None  # noqa: S101 - changes come from the branch
            self.progress.step("applying the branch's changes here")
            agreements = self.store.apply(
                found.merge.pull,
                agreements,
                commit=head,
                expected=base,
                final=not differs,
                changed_here=found.merge.push_counts,
            )
        elif head is not None and (head != base or not differs):
            self.store.record({} if differs else agreements, commit=head, expected=base)
        if differs and self.options.push:
            head = self._push(found, agreements, head)
        elif differs and head is not None:
            self.store.record(_level_tables(found, agreements), commit=head, expected=head)
        return _done(found, self.remote.name, head, pushed=differs and self.options.push)

    def _push(self, found: _Found, agreements: Agreements, head: str | None) -> str:
        assert found.draft is not None  # noqa: S101 - made whenever a push may follow
        self.progress.step("pushing the merged state")
        commit = self.remote.push({self.path: found.draft}, head, announce=self.store.announce)
        self.store.record(agreements, commit=commit, expected=head)
        self.documents.note_checked(self.remote.fetch(commit), found.declaration)
        return commit

    def _is_fill(self, view: View, head: str) -> bool:
        """A large state into an empty database: nothing to merge, so it need not be looked at twice."""
        if self.remote.fetch(head).stat().st_size < LARGE_FILL or not view.is_empty():
            return False
        return self._open(head, view.declaration).schema == view.schema

    def _fill(self, head: str, declaration: Declaration) -> Report | None:
        self.progress.step("filling the empty database")
        filled = self.store.fill(self._open(head, declaration), commit=head)
        if filled is None:
            return None
        self.documents.note_checked(self.remote.fetch(head), declaration)
        pull = {name: Counts(inserted=rows) for name, rows in filled.rows.items() if rows}
        return Report(SyncState.IN_SYNC, self.remote.name, head, sum(filled.rows.values()), pull=pull)


@dataclass(frozen=True, slots=True)
class _Found:
    """A merge, the sealed draft of its rows where one was made, and whether the schema alone makes a push of it."""

    merge: Merge
    draft: Path | None
    reshaped: bool
    declaration: Declaration

    @property
    def differs_there(self) -> bool:
        return self.reshaped or self.merge.changes_there


def _hangs_on(broken: Conflict, unsettled: Collection[tuple[str, str]], tables: Collection[str]) -> bool:
    """Whether a broken constraint may be none once the ``unsettled`` rows, which are of ``tables``, are settled."""
    if (broken.table, broken.key) in unsettled:
        return True
    return broken.other is not None and (
        broken.other in unsettled or (broken.other[1] == "" and broken.other[0] in tables)
    )


def _by_no_key(document: DocumentReader) -> None:
    """Have its rows checked but for their keys, which a migration may have changed (see ``older_rows``)."""
    document.check_rows(lambda _: None)


def _level_tables(found: _Found, agreements: Agreements) -> Agreements:
    """The agreements that hold although the branch was not pushed to: of tables it lacks nothing of."""
    kept = {} if found.reshaped else agreements
    return {name: kept[name] for name in kept if name not in found.merge.push_counts}


def check_schema(mine: list[str], theirs: list[str], remote: str) -> None:
    """Refuse a state that this database's migrations cannot hold (SchemaMismatch); being ahead of it is no refusal."""
    missing = sorted(set(theirs) - set(mine))
    if not missing:
        return
    extra = sorted(set(mine) - set(theirs))
    if extra:
        raise SchemaMismatch(
            f"this database and {remote} were migrated differently: only there {', '.join(missing)}; "
            f"only here {', '.join(extra)}",
            "bring both to one list of migrations (`vibey-actions migrate` at the end that lacks some), then sync",
        )
    raise SchemaMismatch(
        f"this database is behind {remote}: it lacks the migration(s) {', '.join(missing)}",
        "run `vibey-actions migrate` here, then sync",
    )


def _status(found: _Found, remote: str, head: str | None) -> Report:
    merged = found.merge
    if merged.conflicts:
        state = SyncState.CONFLICT
    elif merged.changes_here and found.differs_there:
        state = SyncState.BOTH_CHANGED
    elif merged.changes_here:
        state = SyncState.BEHIND
    else:
        state = SyncState.AHEAD if found.differs_there else SyncState.IN_SYNC
    return Report(state, remote, head, merged.rows, merged.pull_counts, merged.push_counts, conflicts=merged.conflicts)


def _done(found: _Found, remote: str, head: str | None, *, pushed: bool) -> Report:
    merged = found.merge
    state = SyncState.IN_SYNC if pushed or not found.differs_there else SyncState.AHEAD
    return Report(state, remote, head, merged.rows, merged.pull_counts, merged.push_counts, pushed=pushed)
