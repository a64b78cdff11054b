"""The step ``close``: what this job changed goes on, as a sealed export or by a push, and the job's database ends.

Everything is read from the record that `open` left, nothing from variables. A server of ours is stopped and deleted in
every case. A push that does not come through leaves an export behind, so the job's work is never lost with it.
"""

from __future__ import annotations

from pathlib import Path

from vibey_actions.actions import ending, gate, summary
from vibey_actions.actions.exports import export_name
from vibey_actions.actions.gate import Decision
from vibey_actions.actions.inputs import Inputs
from vibey_actions.actions.record import Phase, Place, Record
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.work import note, operations
from vibey_actions.errors import GateClosed, StepRefused, VibeyError
from vibey_actions.operations import Operations
from vibey_actions.state.owned import private_folder
from vibey_actions.state.report import Report, SyncState
from vibey_actions.state.shapes import sha256_of


def close_state(runner: Runner, inputs: Inputs) -> int:
    """Run the step; returns its exit code. Raises VibeyError, the database being ended nevertheless."""
    place = Place.of(runner.temp, runner.env)
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
    finally:
        ending.end(place, record, note(runner), keep_export=closing.exported)


def _nothing(runner: Runner, text: str) -> int:
    runner.output("changed", "false")
    runner.notice(text, title="vibey-actions close")
    runner.summary(f"### vibey-actions close\n\n{summary.plain(text)}")
    return 0


class _Closing:
    """One run of the step on a database that holds the state."""

    def __init__(self, runner: Runner, inputs: Inputs, place: Place, record: Record) -> None:
        self.exported = False
        self._runner = runner
        self._inputs = inputs
        self._place = place
        self._record = record

    def run(self) -> int:
        decision = gate.ask(self._runner, self._inputs, "close")
        if not decision.opened:
            raise GateClosed(
                f"what this job changed cannot be handed on ({decision.reason.value}). {decision.text}",
                "give close the same key as open; what this job changed is lost, so run the job again",
            )
        engine = operations(self._runner, self._inputs, decision, self._place, self._record.dsn)
        changes = engine.changes()
        if changes.remote != self._record.remote:
            raise StepRefused(
                f"this job opened the state of {self._record.remote}, and the settings of close name {changes.remote}",
                "give both steps the same VIBEY_STATE_ variables; nothing was exported, so run the job again",
            )
        changed = changes.state is not SyncState.IN_SYNC and (changes.commit is not None or changes.to_push > 0)
        self._runner.output("changed", "true" if changed else "false")
        if not changed:
            return self._unchanged(changes)
        if self._inputs.push:
            return self._push(engine, decision, changes)
        self._export(engine, decision, changes)
        return 0

    def _unchanged(self, changes: Report) -> int:
        commit = changes.commit or ""
        self._runner.output("commit", commit)
        self._runner.say(f"this job changed nothing of the state ({changes.remote} at {commit or 'no commit yet'})")
        self._runner.summary(summary.unchanged(changes))
        return 0

    def _push(self, engine: Operations, decision: Decision, changes: Report) -> int:
        try:
            report = engine.sync()
        except VibeyError:
            self._runner.say("the push did not come through; what this job changed is kept as an export")
            self._export(engine, decision, changes)
            raise
        for text in report.notes:
            note(self._runner)(text)
        self._runner.output("pushed", "true")
        self._runner.output("commit", report.commit or "")
        self._runner.say(f"pushed {report.to_push} rows to {report.remote}, now at {report.commit}")
        self._runner.summary(summary.pushed(report))
        return 0

    def _export(self, engine: Operations, decision: Decision, changes: Report) -> None:
        path = self._place.export
        private_folder(path.parent)
        done = engine.export(path, shapes=self._place.shapes)
        event = decision.event
        name = export_name(
            self._inputs.artifact_prefix,
            run_id=event.run_id,
            attempt=event.attempt,
            job=event.job,
            sha256=sha256_of(path),
        )
        self.exported = True
        self._output(path.parent, name)
        self._runner.output("commit", done.base or "")
        self._runner.say(f"exported {done.rows} rows, sealed, as {name} ({path.stat().st_size} bytes)")
        self._runner.summary(summary.exported(changes, done.tables, name, self._inputs.retention_days))

    def _output(self, folder: Path, name: str) -> None:
        self._runner.output("export", name)
        self._runner.output("export-folder", str(folder))
