"""The step ``open``: a database for this job, migrated, and filled with the state where the gate opens.

The record is written before each thing that has to be undone, so whoever is killed here leaves what `close` needs to
clean up; later steps are handed the database last of all. A state that cannot be opened leaves no database.
"""

from __future__ import annotations

import time
from typing import Final

from vibey_actions.actions import cluster, declared, ending, gate, summary
from vibey_actions.actions.environments import migrator_environment
from vibey_actions.actions.gate import Decision
from vibey_actions.actions.inputs import Inputs, WhenClosed
from vibey_actions.actions.record import Phase, Place, Record
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.secrets import secrets_of_dsn
from vibey_actions.actions.work import LOGIN_SECONDS, note, operations, wait_for_login
from vibey_actions.errors import DatabaseFailed, GateClosed, StepRefused
from vibey_actions.postgres import roles
from vibey_actions.postgres.connection import as_uri
from vibey_actions.postgres.migrate import migrate
from vibey_actions.state.report import Report
from vibey_actions.text import counted

_DECLARE: Final = "declare a service container and pass its connection string as pg-url"


def open_state(runner: Runner, inputs: Inputs) -> int:
    """Run the step; returns its exit code. Raises VibeyError, having taken back whatever it had begun."""
    decision = gate.ask(runner, inputs, "open")
    if not decision.opened and inputs.when_closed is not WhenClosed.EMPTY:
        return _closed(runner, inputs, decision)
    declared.check_work_tree(decision.event, runner.workspace)
    declared.check_migrations(decision.config, runner.workspace)
    place = Place.of(runner.temp, runner.env)
    with place.alone():
        _take_over(runner, place)
        opening = _Opening(runner, inputs, decision, place)
        try:
            return opening.run()
        except BaseException:
            ending.end(place, opening.record, note(runner))
            raise


def _closed(runner: Runner, inputs: Inputs, decision: Decision) -> int:
    if inputs.when_closed is WhenClosed.FAIL:
        raise GateClosed(
            f"the state cannot be opened ({decision.reason.value}). {decision.text}",
            "give the step its key, or declare the repository; when-closed: skip lets the job go on without a database",
        )
    runner.notice(f"{decision.text} This job has no database.", title="The state was not opened")
    return 0


def _take_over(runner: Runner, place: Place) -> None:
    """Clean up after an opening of this job that was killed. Raises StepRefused where one is in use."""
    before = place.read()
    if before is None:
        return
    if before.phase is not Phase.OPENING:
        raise StepRefused(
            "this job has a database of an earlier open", "run the step close (with if: always()) before another open"
        )
    ending.end(place, before, note(runner))


class _Opening:
    """One run of the step: ``record`` is what has to be taken back."""

    def __init__(self, runner: Runner, inputs: Inputs, decision: Decision, place: Place) -> None:
        self.record = Record()
        self._runner = runner
        self._inputs = inputs
        self._decision = decision
        self._place = place
        self._own = not inputs.pg_url

    def run(self) -> int:
        started = time.monotonic()
        self._note(Record())
        owner = self._own_database() if self._own else self._declared_database()
        self._migrate(owner)
        report, counts = self._fill(owner) if self._decision.opened else (None, {})
        app = self._application(owner)
        rows = sum(counts.values())
        phase = Phase.OPENED if report is not None else Phase.EMPTY
        commit, remote = (report.commit or "", report.remote) if report is not None else ("", "")
        done = self.record.replace(phase=phase, commit=commit, remote=remote, rows=rows, dsn=owner, app_dsn=app)
        self._note(done.replace(declaration=self._decision.declaration))
        self._hand_over(owner, app)
        self._runner.output("opened", "true" if phase is Phase.OPENED else "false")
        self._runner.output("commit", commit)
        self._runner.output("rows", str(rows))
        self._say(report, counts, time.monotonic() - started)
        return 0

    def _note(self, record: Record) -> None:
        self.record = record
        self._place.write(record)

    def _own_database(self) -> str:
        try:
            return self._start()
        except DatabaseFailed as error:
            raise DatabaseFailed(error.message, f"{error.hint}; or {_DECLARE}") from None

    def _start(self) -> str:
        folder = cluster.new_folder(self._runner.temp)
        self._note(self.record.replace(cluster=str(folder)))
        self._runner.say("starting a PostgreSQL for this job ...")
        made = cluster.start(self._runner, folder, self._runner.mask)
        extra = tuple(map(str, made.detached.extra))
        self._note(self.record.replace(dsn=made.owner, app_dsn=made.application, extra=extra, pid=made.detached.pid))
        return made.owner

    def _declared_database(self) -> str:
        dsn = self._inputs.pg_url
        self._runner.mask(*secrets_of_dsn(dsn))
        self._runner.say("waiting for the declared database ...")
        wait_for_login(dsn, LOGIN_SECONDS)
        # A URI, which is the form that programs other than PostgreSQL's own expect.
        owner = as_uri(dsn)
        self._note(self.record.replace(dsn=owner))
        return owner

    def _migrate(self, owner: str) -> None:
        self._runner.say("migrating ...")
        secrets = [self._inputs.key.strip(), self._inputs.token]
        environment = migrator_environment(self._runner.env, secrets)
        config, runner = self._decision.config, self._runner
        done = migrate(owner, config, environment=environment, cwd=runner.workspace, notice=note(runner))
        for version in done.applied:
            runner.say(f"applied {version}")

    def _fill(self, owner: str) -> tuple[Report, dict[str, int]]:
        engine = operations(self._runner, self._inputs, self._decision, self._place, owner)
        report = engine.sync(push=False)
        for text in report.notes:
            note(self._runner)(text)
        return report, engine.counts()

    def _application(self, owner: str) -> str:
        """The application role's DSN, its rights granted; the owner's where no such role can be made."""
        schemas = self._decision.config.schemas
        if self._own:
            roles.grant(owner, roles.APPLICATION, schemas)
            return self.record.app_dsn
        role, password = roles.new_role(), roles.new_password()
        self._runner.mask(password)
        self._note(self.record.replace(role=role))
        app = roles.make_application(owner, role, password)
        if app is None:
            self._note(self.record.replace(role=""))
            self._runner.notice(
                "The role of pg-url may not make an application role, so VIBEY_PG_URL is pg-url itself: later steps "
                "work as the owner. CREATEROLE would give them a role that has the rows alone.",
                title="No application role",
            )
            return owner
        roles.grant(owner, role, schemas)
        return app

    def _hand_over(self, owner: str, app: str) -> None:
        self._runner.variable("VIBEY_PG_URL", app)
        self._runner.variable("VIBEY_STATE_PG_URL", owner)

    def _say(self, report: Report | None, counts: dict[str, int], seconds: float) -> None:
        self._runner.say(
            f"VIBEY_PG_URL is the application's database, VIBEY_STATE_PG_URL the owner's ({seconds:.1f} s)"
            if report is None
            else f"filled from {report.remote} at {report.commit or 'no commit yet'}: "
            f"{counted(sum(counts.values()), 'row')} in {counted(len(counts), 'table')} ({seconds:.1f} s)"
        )
        self._runner.summary(summary.opened(report, counts, own=self._own))
        if report is not None and not counts:
            self._runner.notice(
                "Nothing has made a table in this job's database. Say under [migrations] of .github/vibey-state.toml "
                "where your SQL files are, or make tables in a later step, as the owner (VIBEY_STATE_PG_URL).",
                title="The database has no table",
            )
