"""The step ``close``: what this job changed goes on, as a sealed export or by a push, and the job's database ends.

Everything is read from the record that `open` left, nothing from variables. A server of ours is stopped and deleted in
every case, so before that, and before anything is asked of the branch, what the job changed is in a sealed export: a
push that does not come through, is cancelled or is not allowed leaves it behind. Sealing decrypts nothing, so it takes
the key alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from vibey_actions.actions import cluster, ending, gate, summary
from vibey_actions.actions.exports import export_name
from vibey_actions.actions.gate import Decision, Reason
from vibey_actions.actions.inputs import Inputs
from vibey_actions.actions.record import Phase, Place, Record
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.work import LOGIN_SECONDS, note, operations, wait_for_login
from vibey_actions.errors import GateClosed, RemoteFailed, StepRefused, VibeyError
from vibey_actions.operations import ExportSummary, Operations
from vibey_actions.state.owned import private_folder
from vibey_actions.state.report import Report, SyncState
from vibey_actions.state.shapes import sha256_of
from vibey_actions.text import counted

_LOST: Final = "what this job changed was not saved, so run the job again once this is mended"


def close_state(runner: Runner, inputs: Inputs) -> int:
    """Run the step; returns its exit code. Raises VibeyError, the database being ended nevertheless."""
    place = Place.of(runner.temp, runner.env)
    with ending.undisturbed(note(runner)), place.alone():
        record = place.read()
        if record is None:
            return _nothing(runner, "No state was opened in this job, so there is nothing to close.")
        closing = _Closing(runner, inputs, place, record)
        try:
            if record.phase is Phase.OPENED:
                return closing.run()
            if record.phase is Phase.EMPTY:
                return _nothing(runner, "This job's database was made without the state, so it is not exported.")
            return _nothing(runner, "The opening of the state did not finish, so nothing is exported.")
        except VibeyError as error:
            if record.phase is Phase.OPENED and not closing.saved:
                error.hint = f"{error.hint}; {_LOST}" if error.hint else _LOST
            raise
        finally:
            ending.end(place, record, note(runner), keep_export=closing.exported)


def _nothing(runner: Runner, text: str) -> int:
    runner.output("changed", "false")
    runner.notice(text, title="vibey-actions close")
    runner.summary(f"### vibey-actions close\n\n{summary.plain(text)}")
    return 0


class _Closing:
    """One run of the step on a database that holds the state.

    ``exported``: there is an export to upload. ``saved``: nothing of the job's work hangs on its database any more.
    """

    def __init__(self, runner: Runner, inputs: Inputs, place: Place, record: Record) -> None:
        self.exported = False
        self.saved = False
        self._runner = runner
        self._inputs = inputs
        self._place = place
        self._record = record

    def run(self) -> int:
        decision = gate.ask(self._runner, self._inputs, "close", known=self._record.declaration)
        if decision.reason is Reason.NO_KEY:
            raise GateClosed(
                f"what this job changed cannot be handed on ({decision.reason.value}). {decision.text}",
                "give close the same key as open",
            )
        engine = operations(self._runner, self._inputs, decision, self._place, self._record.dsn)
        self._check_remote(engine.remote)
        if (server := ending.server_of(self._record)) is not None:
            cluster.revive(self._runner, server)
        # A server whose process was killed is back in a moment, and so may a declared one be.
        wait_for_login(self._record.dsn, LOGIN_SECONDS)
        changes = self._changes(engine) if decision.opened else None
        if changes is not None and not _is_changed(changes):
            return self._unchanged(changes)
        exported = self._export(engine, decision)
        self._runner.output("changed", "true")
        if not self._inputs.push:
            self._say_exported(exported, changes)
            return 0
        try:
            return self._push(engine, decision)
        except BaseException:
            self._say_exported(exported, changes)
            raise

    def _check_remote(self, named: str) -> None:
        if named != self._record.remote:
            raise StepRefused(
                f"this job opened the state of {self._record.remote}, and the settings of close name {named}",
                "give both steps the same VIBEY_STATE_ variables",
            )

    def _changes(self, engine: Operations) -> Report | None:
        """What the job changed; None where that cannot be told, because the branch cannot be read."""
        try:
            return engine.changes()
        except RemoteFailed as error:
            self._runner.say(f"note: {error.message}; whether this job changed anything is not known, so it counts")
            return None

    def _unchanged(self, changes: Report) -> int:
        self.saved = True
        commit = changes.commit or ""
        self._runner.output("changed", "false")
        self._runner.output("commit", commit)
        self._runner.say(f"this job changed nothing of the state ({changes.remote} at {commit or 'no commit yet'})")
        self._runner.summary(summary.unchanged(changes))
        return 0

    def _push(self, engine: Operations, decision: Decision) -> int:
        if not decision.opened:
            raise GateClosed(
                f"nothing was pushed ({decision.reason.value}). {decision.text}",
                "what this job changed is kept as a sealed export, which the write workflow brings to the branch",
            )
        report = engine.sync()
        # It is on the branch: nobody has to bring it there any more.
        self._runner.output("export", "")
        self.exported = False
        for text in report.notes:
            note(self._runner)(text)
        self._runner.output("pushed", "true")
        self._runner.output("commit", report.commit or "")
        self._runner.say(f"pushed {counted(report.to_push, 'row')} to {report.remote}, now at {report.commit}")
        self._runner.summary(summary.pushed(report))
        return 0

    def _export(self, engine: Operations, decision: Decision) -> _Exported:
        path = self._place.export
        private_folder(path.parent)
        done = engine.export(path, shapes=self._place.shapes)
        event, digest, prefix = decision.event, sha256_of(path), self._inputs.artifact_prefix
        name, again = (
            export_name(
                prefix, run_id=event.run_id, attempt=event.attempt, job=event.job, sha256=digest, again=is_again
            )
            for is_again in (False, True)
        )
        self.exported = self.saved = True
        for output, value in (("export", name), ("export-again", again), ("export-folder", str(path.parent))):
            self._runner.output(output, value)
        self._runner.output("commit", done.base or "")
        return _Exported(done, name)

    def _say_exported(self, exported: _Exported, changes: Report | None) -> None:
        done, name = exported.done, exported.name
        self._runner.say(f"exported {counted(done.rows, 'row')}, sealed, as {name} ({done.path.stat().st_size} bytes)")
        self._runner.summary(summary.exported(done.remote, done.rows, changes, name, self._inputs.retention_days))


@dataclass(frozen=True, slots=True)
class _Exported:
    done: ExportSummary
    name: str


def _is_changed(changes: Report) -> bool:
    return changes.state is not SyncState.IN_SYNC and (changes.commit is not None or changes.to_push > 0)
