"""The step ``write-back``: the exports of finished jobs are brought to the branch, each exactly once.

Those that a cancelled, killed or refused writer left are taken up by the next one. What is pushed, or turns out to be
on the branch already, gets a durable mark; a conflict leaves its export unmarked and stops none of the others.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Final

from vibey_actions.actions import declared, gate, summary
from vibey_actions.actions.event import Event
from vibey_actions.actions.exports import (
    Choice,
    Discarded,
    Export,
    Found,
    Wanted,
    choose,
    discard,
    mark_name,
    sort_out,
)
from vibey_actions.actions.inputs import Inputs
from vibey_actions.actions.record import Place
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.step import failed
from vibey_actions.actions.taking import Taking
from vibey_actions.actions.work import note
from vibey_actions.errors import RateLimited, RemoteDenied, VibeyError
from vibey_actions.remotes.artifacts import Artifact, Artifacts
from vibey_actions.state.owned import private_folder
from vibey_actions.state.report import Report
from vibey_actions.text import counted

_STEP: Final = "write-back"
_TITLE: Final = "vibey-actions write-back"
MARK_FILE: Final = "taken.txt"


def write_back(runner: Runner, inputs: Inputs) -> int:
    """Run the step; returns its exit code. Raises VibeyError where nothing could be looked at at all."""
    event = Event.from_env(runner.env)
    artifacts = Artifacts(gate.run_api(runner, inputs), event.repository, note(runner))
    if inputs.discard:
        return _give_up(runner, inputs, artifacts)
    decision = gate.ask(runner, inputs, _STEP)
    if not decision.opened:
        runner.notice(f"{decision.text} No export was looked at.", title="The state was not written")
        return 0
    declared.check_migrations(decision.config, runner.workspace)
    choice = _choose(inputs, event, artifacts)
    marks = _Marks(runner, inputs.artifact_prefix)
    writing = _Writing(runner, marks)
    with _working_folder(runner) as folder, Taking(runner, inputs, decision, Place(folder), artifacts) as taking:
        writing.run(taking, choice.taken, folder)
    return _Ending(runner, choice, writing).say()


def _choose(inputs: Inputs, event: Event, artifacts: Artifacts) -> Choice:
    wanted = Wanted(event.run_id, inputs.export, inputs.run_id)
    found, everywhere = _found(inputs, artifacts)
    return choose(found, wanted, everywhere)


def _found(inputs: Inputs, artifacts: Artifacts) -> tuple[Found, list[Artifact]]:
    """The exports that there are, and every artifact of the name that was given."""
    recent = list(artifacts.recent())
    named = artifacts.named(inputs.export, expected=True) if inputs.export else []
    of_run = artifacts.of_run(inputs.run_id) if inputs.run_id else []
    prefix = inputs.artifact_prefix
    known = {one.number for one in recent}
    # An export older than what was looked through has a mark that may be older, too: that is asked for by its name.
    older = sort_out(prefix, (one for one in chain(named, of_run) if one.number not in known)).exports
    marks = [mark for one in older for mark in artifacts.named(mark_name(prefix, one.sha256))]
    return sort_out(prefix, chain(recent, named, of_run, marks)), named


@contextmanager
def _working_folder(runner: Runner) -> Iterator[Path]:
    """A private folder under RUNNER_TEMP for sealed files, gone afterwards."""
    place = private_folder(Place.of(runner.temp, runner.env).folder)
    folder = Path(tempfile.mkdtemp(prefix="write-back-", dir=place))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass
class _Marks:
    """Marks are outputs ``mark-1`` and on, each set when its export is done: what is killed later has them."""

    runner: Runner
    prefix: str
    made: int = 0

    def add(self, export: Export) -> None:
        if not self.made:
            path = private_folder(Place.of(self.runner.temp, self.runner.env).folder) / MARK_FILE
            path.write_text("The export that this artifact's name ends in has been taken up.\n", "utf-8")
            self.runner.output("mark-file", str(path))
        self.made += 1
        self.runner.output(f"mark-{self.made}", mark_name(self.prefix, export.sha256))


@dataclass
class _Writing:
    """Takes exports up one after the other, and keeps what became of each."""

    runner: Runner
    marks: _Marks
    done: list[tuple[Export, Report]] = field(default_factory=list)
    failed: list[tuple[Export, VibeyError]] = field(default_factory=list)
    left: list[Export] = field(default_factory=list)

    def run(self, taking: Taking, exports: Sequence[Export], folder: Path) -> None:
        for number, export in enumerate(exports):
            own = folder / str(number)
            own.mkdir(mode=0o700)
            try:
                with self.runner.group(f"{export.name} (run {export.run_id}, job {export.job})"):
                    report = taking.take_up(export, own)
            except VibeyError as error:
                self._fail(export, error)
                if isinstance(error, (RateLimited, RemoteDenied)):
                    self.left += exports[number + 1 :]
                    return
            else:
                self.marks.add(export)
                self.done.append((export, report))
                self.runner.say(_outcome(report))
            shutil.rmtree(own, ignore_errors=True)

    def _fail(self, export: Export, error: VibeyError) -> None:
        self.failed.append((export, error))
        self.runner.say(f"the export {export.name} was not written and stays where it is")
        failed(_STEP, self.runner, error)


def _outcome(report: Report) -> str:
    if report.pushed:
        return f"pushed {counted(report.to_push, 'row')}; the branch is at {report.commit} now"
    if report.held_at is not None:
        return f"the branch held all of it at {report.held_at}; nothing was written"
    return "the branch holds all of it; nothing was written"


@dataclass
class _Ending:
    """What the step says in the end, and how it ends."""

    runner: Runner
    choice: Choice
    writing: _Writing

    def say(self) -> int:
        left = [*self.choice.left, *self.writing.left]
        pushed = [report for _, report in self.writing.done if report.pushed]
        self.runner.output("pushed", "true" if pushed else "false")
        self.runner.output("commit", (pushed[-1].commit or "") if pushed else "")
        self.runner.output("left", str(len(left) + len(self.writing.failed)))
        for export in self.choice.lost:
            self.runner.warning(_lost(export), title=_TITLE)
        if left:
            self.runner.notice(_left(left), title=_TITLE)
        if not self.writing.done and not self.writing.failed and not left:
            self.runner.notice(self._nothing, title=_TITLE)
        self.runner.summary(self._summary(left))
        return max((error.exit_code for _, error in self.writing.failed), default=0)

    @property
    def _nothing(self) -> str:
        return "What was named has been taken up before." if self.choice.done else "No export is waiting."

    def _summary(self, left: list[Export]) -> str:
        parts = [f"### {_TITLE}"]
        rows = [
            (summary.code(one.name), one.run_id, summary.plain(_outcome(report))) for one, report in self.writing.done
        ]
        rows += [
            (summary.code(one.name), one.run_id, f"not written ({summary.code(error.code)}), see above")
            for one, error in self.writing.failed
        ]
        if rows:
            parts.append(summary.table(("export", "run", "what became of it"), rows))
        parts += [summary.changes({}, report.push) for _, report in self.writing.done if report.pushed]
        parts += [summary.plain(_lost(one)) for one in self.choice.lost]
        parts += [_what_next(one) for one, _ in self.writing.failed]
        parts += [summary.plain(_left(left))] if left else []
        return "\n\n".join([part for part in parts if part] if len(parts) > 1 else [*parts, self._nothing])


def _what_next(export: Export) -> str:
    return (
        f"{summary.code(export.name)} stays and is tried again by every write until it is settled. **To settle it:** "
        "mend what is said above and dispatch <code>resolve-conflicts.yml</code> with "
        f"<code>run-id: {export.run_id}</code>, or with <code>rules</code> for one time (<code>mine</code> keeps the "
        "export's rows, <code>theirs</code> the branch's). **To give up** what it holds: "
        f"<code>discard: {export.sha256}</code>"
    )


def _left(exports: list[Export]) -> str:
    names = ", ".join(one.name for one in exports)
    return (
        f"{counted(len(exports), 'more export')} {'waits' if len(exports) == 1 else 'wait'} for the next write: {names}"
    )


def _lost(export: Export) -> str:
    return (
        f"the export {export.name} of run {export.run_id} expired before it was written, so what it held is lost; "
        f"end this report with discard: {export.sha256}"
    )


def _give_up(runner: Runner, inputs: Inputs, artifacts: Artifacts) -> int:
    """Mark exports without looking into them. Nothing is opened, so the gate is not asked."""
    found, _ = _found(inputs, artifacts)
    chosen: Discarded = discard(found, inputs.discard)
    marks = _Marks(runner, inputs.artifact_prefix)
    lines = []
    for export in chosen.given_up:
        marks.add(export)
        lines.append(f"given up: {export.name} of run {export.run_id}; what only it holds is lost")
    lines += [f"taken up or given up before: {digest}" for digest in chosen.before]
    for line in lines:
        runner.notice(line, title=_TITLE)
    runner.output("left", "0")
    runner.summary("\n\n".join([f"### {_TITLE}", *map(summary.plain, lines)]))
    return 0
