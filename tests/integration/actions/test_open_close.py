"""The steps open and close as a job runs them: a real PostgreSQL of the job's own, a real branch."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.jobs import MIGRATION, Done, Job
from tests.support.machines import until
from vibey_actions.actions import cluster, declared, gate
from vibey_actions.errors import DatabaseFailed, RemoteFailed
from vibey_actions.keys import parse_key
from vibey_actions.postgres.detached import running
from vibey_actions.state.export import ExportReader
from vibey_actions.state.seal import open_sealed

TWO = "INSERT INTO customer (id, name) VALUES (1, 'Ada'), (2, '<script>|')"


def execute(dsn: str, *statements: str) -> list[tuple[Any, ...]]:
    """Run SQL as a step of the job would; the rows of the last statement."""
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def head(job: Job) -> str:
    """The branch's commit, nothing where there is no branch."""
    command = ["git", "-C", str(job.repository), "rev-parse", "-q", "--verify", "refs/heads/vibey-state"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def servers(job: Job) -> list[Path]:
    """The folders of job servers that belong to this job's record, or lie in its temporary folder."""
    record = job.place / "record.json"
    named = [json.loads(record.read_text())["cluster"]] if record.exists() else []
    return [Path(name) for name in named if name] + list(job.temp.glob("vibey-pg-*"))


@contextmanager
def opened(job: Job, **inputs: str) -> Iterator[Done]:
    """The job with its state open; closed again at the end whatever happens."""
    done = job.step("open", **inputs)
    assert done.code == 0, done.log
    try:
        yield done
    finally:
        job.step("close")


def seed(job: Job, dsn: str, *statements: str) -> None:
    """Bring rows to the branch by another job, which has a declared database and pushes."""
    other = job.again("seed")
    done = other.step("open", pg_url=dsn)
    assert done.code == 0, done.log
    execute(done.variables["VIBEY_PG_URL"], *statements)
    assert other.step("close", push="true").outputs["pushed"] == "true"


def secrets_in(job: Job, done: Done) -> list[str]:
    """Secrets of the job that stand where anybody can read them."""
    passwords = [str(conninfo_to_dict(dsn).get("password")) for dsn in done.variables.values()]
    return [secret for secret in [job.key, *passwords] if secret in done.everything]


def test_open_work_close(tmp_path: Path) -> None:
    """An empty branch gives an empty database; what the job wrote as the application is in the sealed export."""
    job = Job.make(tmp_path)
    done = job.process("open")
    assert done.code == 0, done.log
    assert done.outputs == {"opened": "true", "reason": "private", "commit": "", "rows": "0"}
    assert set(done.variables) == {"VIBEY_PG_URL", "VIBEY_STATE_PG_URL"}
    assert secrets_in(job, done) == []
    assert "customer" in done.summary
    execute(done.variables["VIBEY_PG_URL"], TWO)
    (folder,) = set(servers(job))
    data = folder / "data"
    assert running(data) is not None

    closed = job.process("close")
    assert closed.code == 0, closed.log
    assert closed.outputs["changed"] == "true"
    export = Path(closed.outputs["export-folder"]) / "state.export"
    assert closed.outputs["export"].startswith("vibey-state-export-77-1-build-")
    assert "<script>" not in closed.everything
    assert "2 rows" in closed.summary
    reader = ExportReader(open_sealed(export, parse_key(job.key)))
    assert (reader.base, reader.remote) == (None, f"{job.repository}:vibey-state")
    assert sum(len(batch) for _, batches in reader.document.tables() for batch in batches) == 2
    assert running(data) is None
    assert not folder.exists()
    left = [path for path in job.temp.rglob("*") if path.is_file()]
    assert {path.name for path in left} == {"state.export", "state.shapes"}
    assert head(job) == ""


def test_a_database_without_a_table_is_noted(tmp_path: Path, dsn: str) -> None:
    """Who has not said yet where migrations are is told so by `open`, and not by the failure of their own step."""
    job = Job.make(tmp_path, config="[state]\npublic = false\n")
    done = job.step("open", pg_url=dsn)
    assert done.code == 0, done.log
    assert "title=The database has no table::" in done.log
    assert "[migrations]" in done.log
    assert job.step("close").outputs["changed"] == "false"


def test_a_directory_of_migrations_that_is_not_there(tmp_path: Path, dsn: str) -> None:
    """Both ways to make that mistake are in the hint: another name, and no checkout."""
    job = Job.make(tmp_path, config='[migrations]\ndirectory = "sql"\n')
    done = job.step("open", pg_url=dsn)
    assert done.code == 2
    assert "correct directory in .github/vibey-state.toml, or check the repository out" in done.log


def test_a_filled_branch_and_a_job_that_changes_nothing(tmp_path: Path, database: Callable[[], str]) -> None:
    """The branch's rows are there, its commit is an output; unchanged, nothing is exported, pushed or left behind."""
    job = Job.make(tmp_path)
    seed(job, database(), TWO)
    before = head(job)
    done = job.step("open", pg_url=database())
    assert (done.outputs["commit"], done.outputs["rows"]) == (before, "2")
    names = execute(done.variables["VIBEY_PG_URL"], "SELECT name FROM customer ORDER BY id")
    assert names == [("Ada",), ("<script>|",)]
    closed = job.step("close", push="true")
    assert closed.code == 0, closed.log
    assert closed.outputs["changed"] == "false"
    assert "export" not in closed.outputs
    assert "changed nothing" in closed.summary
    assert head(job) == before
    assert not job.place.exists()


def test_a_push_that_meets_a_conflict_keeps_the_work(tmp_path: Path, database: Callable[[], str]) -> None:
    """Two jobs change one row: the second fails naming table and key, and its work is an export, not lost."""
    job = Job.make(tmp_path)
    seed(job, database(), TWO)
    done = job.step("open", pg_url=database())
    quicker = job.again("quicker")
    theirs = quicker.step("open", pg_url=database()).variables["VIBEY_PG_URL"]
    execute(theirs, "UPDATE customer SET name = 'theirs' WHERE id = 1")
    execute(done.variables["VIBEY_PG_URL"], "UPDATE customer SET name = 'mine' WHERE id = 1")
    assert quicker.step("close", push="true").outputs["pushed"] == "true"
    before = head(job)
    closed = job.step("close", push="true")
    assert closed.code == 1
    assert closed.outputs["changed"] == "true"
    assert closed.outputs["export"].startswith("vibey-state-export-")
    assert (Path(closed.outputs["export-folder"]) / "state.export").exists()
    assert "pushed" not in closed.outputs
    assert "customer" in closed.summary
    assert "&#91;1&#93;" in closed.summary
    assert "::error title=vibey-actions close%3A conflict::" in closed.log
    assert head(job) == before
    assert servers(job) == []


def test_the_roles_have_the_rights_that_are_named(tmp_path: Path) -> None:
    """The application has rows and nothing else; neither role is a superuser or reaches the server's machine."""
    job = Job.make(tmp_path, migration=MIGRATION + "CREATE VIEW seen AS SELECT id FROM customer;")
    with opened(job) as done:
        app, owner = done.variables["VIBEY_PG_URL"], done.variables["VIBEY_STATE_PG_URL"]
        names = ("SELECT", "INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
        for table, rights in {
            "customer": set(names[:4]), "state_sync": set(), "schema_migration": {"SELECT"}, "seen": {"SELECT"},
        }.items():  # fmt: skip
            asked = ", ".join(f"has_table_privilege('{table}', '{name}')" for name in names)
            (found,) = execute(app, f"SELECT {asked}")
            assert {name for name, has in zip(names, found, strict=True) if has} == rights, table
        execute(app, "SELECT nextval('customer_serial_seq')", "CREATE TEMP TABLE mine (x int)")
        both = ["COPY customer TO PROGRAM 'true'", "SELECT pg_read_file('/etc/passwd')", "CREATE ROLE more",
                "ALTER SYSTEM SET fsync = on"]  # fmt: skip
        alone = ["CREATE TABLE more (x int)", "SELECT * FROM vibey_actions.agreement", "DROP TABLE customer",
                 "SELECT setval('customer_serial_seq', 1)", "CREATE DATABASE more", "CREATE SCHEMA more"]  # fmt: skip
        for dsn, statements in ((owner, both), (app, both + alone)):
            for statement in statements:
                with pytest.raises(psycopg.errors.InsufficientPrivilege):
                    execute(dsn, statement)
        for other in ("postgres", "template1"):
            with pytest.raises(psycopg.OperationalError, match="permission denied"):
                psycopg.connect(make_conninfo(app, dbname=other))
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(make_conninfo(app, user="vibey", password="wrong"))
        high = "rolsuper OR rolbypassrls OR rolreplication OR rolcreaterole"
        assert execute(owner, f"SELECT {high} FROM pg_roles WHERE rolname ^@ 'vibey_'") == [(False,), (False,)]


@pytest.mark.parametrize(("private", "key", "reason"), [(True, "", "no-key"), (False, None, "public")])
def test_a_closed_gate_is_green_and_does_nothing(
    tmp_path: Path, *, private: bool, key: str | None, reason: str
) -> None:
    """Without the key, or in a public repository: a notice, no database, no variable, and a close that does nothing."""
    job = Job.make(tmp_path, payload={"repository": {"private": private}})
    inputs = {} if key is None else {"key": key}
    done = job.step("open", **inputs)
    assert done.code == 0, done.log
    assert done.outputs == {"opened": "false", "reason": reason}
    assert done.variables == {}
    assert "::notice" in done.log
    assert "To open it" in done.summary
    assert list(job.temp.iterdir()) == []
    closed = job.step("close", **inputs)
    assert (closed.code, closed.outputs) == (0, {"changed": "false"})
    assert head(job) == ""


def test_a_closed_gate_may_fail_the_job(tmp_path: Path) -> None:
    """when-closed: fail makes the step fail with a code of its own."""
    done = Job.make(tmp_path).step("open", key="", when_closed="fail")
    assert done.code == 1
    assert "gate-closed" in done.log
    assert "gate-closed" in done.summary


def test_a_closed_gate_may_give_an_empty_database(tmp_path: Path, database: Callable[[], str]) -> None:
    """when-closed: empty gives a migrated database without the state, which no close ever exports."""
    job = Job.make(tmp_path)
    seed(job, database(), TWO)
    before = head(job)
    done = job.step("open", key="", when_closed="empty")
    assert done.outputs["opened"] == "false"
    execute(done.variables["VIBEY_PG_URL"], "INSERT INTO customer (id, name) VALUES (9, 'lost')")
    assert execute(done.variables["VIBEY_PG_URL"], "SELECT count(*) FROM customer") == [(1,)]
    closed = job.step("close", push="true")
    assert (closed.code, closed.outputs) == (0, {"changed": "false"})
    assert head(job) == before
    assert servers(job) == []


def test_a_key_that_is_none_ends_with_two(tmp_path: Path) -> None:
    """A hostile key is masked as far as it can be, refused without being repeated, and makes no command of its own."""
    job = Job.make(tmp_path)
    done = job.process("open", key="x\n::add-mask::y")
    assert done.code == 2
    commands = [line for line in done.log.splitlines() if line.startswith("::")]
    assert commands[0] == "::add-mask::::add-mask::y"
    assert all(line.startswith("::error title=") for line in commands[1:])
    assert "add-mask" not in done.everything
    assert done.variables == {}
    assert list(job.temp.iterdir()) == []


def test_a_declared_database_stays(tmp_path: Path, dsn: str) -> None:
    """With pg-url the application gets a role of its own, which close drops; the database itself is left as it is."""
    job = Job.make(tmp_path)
    done = job.step("open", pg_url=dsn)
    assert done.code == 0, done.log
    app = done.variables["VIBEY_PG_URL"]
    role = str(conninfo_to_dict(app)["user"])
    assert role.startswith("vibey_app_")
    assert conninfo_to_dict(done.variables["VIBEY_STATE_PG_URL"]) == conninfo_to_dict(dsn)
    execute(app, TWO)
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        execute(app, "SELECT * FROM state_sync")
    assert secrets_in(job, done) == []
    assert job.step("close", push="true").outputs["pushed"] == "true"
    assert execute(dsn, f"SELECT count(*) FROM pg_roles WHERE rolname = '{role}'") == [(0,)]
    assert execute(dsn, "SELECT count(*) FROM customer") == [(2,)]


def test_a_declared_role_that_may_make_none_is_used_and_said(tmp_path: Path, dsn: str) -> None:
    """Where pg-url's role may not make roles VIBEY_PG_URL is pg-url, and the step says so."""
    job = Job.make(tmp_path)
    name = f"plain_{conninfo_to_dict(dsn)['dbname']}"
    execute(dsn, f"CREATE ROLE {name} LOGIN PASSWORD 'plain-password'", f"GRANT CREATE ON SCHEMA public TO {name}",
            f"GRANT CREATE ON DATABASE {conninfo_to_dict(dsn)['dbname']} TO {name}")  # fmt: skip
    plain = make_conninfo(dsn, user=name, password="plain-password")
    try:
        done = job.step("open", pg_url=plain)
        assert done.code == 0, done.log
        assert conninfo_to_dict(done.variables["VIBEY_PG_URL"]) == conninfo_to_dict(plain)
        assert "::notice title=No application role::" in done.log
        assert "::add-mask::plain-password" in done.log
        assert job.step("close").code == 0
    finally:
        execute(dsn, f"DROP OWNED BY {name}", f"DROP ROLE {name}")


def test_a_state_that_cannot_be_opened_stops_the_job(tmp_path: Path) -> None:
    """A migration that fails: exit 1 with its cause, no variable, no server, no folder; close exports nothing."""
    job = Job.make(tmp_path, migration="CREATE TABLE broken (")
    done = job.step("open")
    assert done.code == 1
    assert done.outputs["opened"] == "false"
    assert done.variables == {}
    assert "0001_first" in done.summary
    assert [path for path in job.temp.rglob("*") if path.is_file()] == []
    closed = job.step("close")
    assert (closed.code, closed.outputs) == (0, {"changed": "false"})


def test_a_postgresql_that_does_not_start_may_be_brought(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever keeps the job's own from starting, the summary has the YAML of a service, and nothing is left."""

    def broken(*_: object) -> object:
        raise DatabaseFailed("initialising PostgreSQL failed: no room", "the command was: initdb")

    job = Job.make(tmp_path)
    monkeypatch.setattr(cluster, "start", broken)
    done = job.step("open")
    assert done.code == 1
    assert "the command was: initdb; or declare a service container" in done.summary
    assert "pg-url: postgresql://" in done.summary
    assert servers(job) == []


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "cancelled"])
def test_an_open_that_is_ended_leaves_nothing_in_the_end(tmp_path: Path, kind: signal.Signals) -> None:
    """Ended in the middle of its migrations, an open has handed nothing over, and close cleans up what it began."""
    job = Job.make(tmp_path, migration="SELECT pg_sleep(600);")
    env = job.environment({"key": job.key})
    command = [sys.executable, "-I", "-m", "vibey_actions", "action", "open"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("migrating"):
                break
        (folder,) = set(servers(job))
        assert (folder / "data").exists()
        process.send_signal(kind)
        process.communicate()
    assert job.read(env, process.returncode, "").variables == {}
    if kind is signal.SIGTERM:
        assert not folder.exists()
    closed = job.step("close")
    assert (closed.code, closed.outputs) == (0, {"changed": "false"})
    until(lambda: not folder.exists() and running(folder / "data") is None)
    assert not job.place.exists()


def test_close_reads_the_record_and_no_variable(tmp_path: Path, dsn: str) -> None:
    """A step that changed VIBEY_* does not change which database is exported."""
    job = Job.make(tmp_path)
    done = job.step("open")
    execute(done.variables["VIBEY_PG_URL"], TWO)
    job.env = {"VIBEY_STATE_PG_URL": dsn, "VIBEY_PG_URL": dsn, "VIBEY_STATE_KEY": "x", "VIBEY_STATE_KEY_FILE": "/x"}
    closed = job.step("close")
    assert closed.code == 0, closed.log
    assert "exported 2 rows" in closed.log


def test_close_hands_nothing_on_to_another_branch(tmp_path: Path, dsn: str) -> None:
    """A step that named another branch meanwhile does not make the job's rows that branch's."""
    job = Job.make(tmp_path)
    execute(job.step("open", pg_url=dsn).variables["VIBEY_PG_URL"], TWO)
    job.env = {"VIBEY_STATE_BRANCH": "elsewhere"}
    closed = job.step("close", push="true")
    assert closed.code == 1
    assert "step-refused" in closed.log
    assert "export" not in closed.outputs
    assert (
        subprocess.run(["git", "-C", str(job.repository), "for-each-ref"], check=True, capture_output=True).stdout
        == b""
    )


def test_close_without_the_key_says_that_work_is_lost(tmp_path: Path, dsn: str) -> None:
    """An opened state that cannot be sealed is a failure, and the job's database is ended nevertheless."""
    job = Job.make(tmp_path)
    execute(job.step("open", pg_url=dsn).variables["VIBEY_PG_URL"], TWO)
    closed = job.step("close", key="")
    assert closed.code == 1
    assert "key: ${{ secrets.VIBEY_STATE_KEY }}" in closed.summary
    assert "was not saved, so run the job again" in closed.summary
    assert not job.place.exists()


@pytest.mark.parametrize("push", ["false", "true"])
def test_github_being_away_loses_no_work(
    tmp_path: Path, database: Callable[[], str], monkeypatch: pytest.MonkeyPatch, push: str
) -> None:
    """Neither the repository, its configuration nor the branch can be read any more: the work is sealed all the same.

    What is exported is what the opening read of the configuration, and nothing is pushed.
    """
    job = Job.make(tmp_path, config='[migrations]\ndirectory = "db"\n[state]\nexclude = ["own"]\n',
                   migration=MIGRATION + "CREATE TABLE own (id integer PRIMARY KEY);")  # fmt: skip
    seed(job, database(), TWO)
    execute(job.step("open", pg_url=database()).variables["VIBEY_PG_URL"], "DELETE FROM customer WHERE id = 1")

    def away(*_: object) -> str:
        raise RemoteFailed("no answer", "")

    monkeypatch.setattr(declared, "text_at", away)
    monkeypatch.setattr(gate, "_ask_github", lambda *_: None)
    job.event_name, job.payload = "schedule", {}
    closed = job.step("close", push=push)
    assert closed.code == (1 if push == "true" else 0), closed.log
    assert (closed.outputs["reason"], closed.outputs["changed"]) == ("unknown", "true")
    assert ("gate-closed" in closed.summary) == (push == "true")
    assert "goes into the sealed artifact" in closed.summary
    reader = ExportReader(open_sealed(Path(closed.outputs["export-folder"]) / "state.export", parse_key(job.key)))
    assert {name: sum(map(len, batches)) for name, batches in reader.document.tables()} == {"customer": 1}


def test_a_branch_that_cannot_be_read_loses_no_work(tmp_path: Path, database: Callable[[], str]) -> None:
    """Whether the job changed anything cannot be told then: it is exported, and a push fails beside its export."""
    job = Job.make(tmp_path)
    seed(job, database(), TWO)
    for push in ("false", "true"):
        execute(job.step("open", pg_url=database()).variables["VIBEY_PG_URL"], "DELETE FROM customer WHERE id = 1")
        shutil.rmtree(job.place / "cache")
        away = job.repository.rename(tmp_path / "away")
        closed = job.step("close", push=push)
        assert closed.code == (1 if push == "true" else 0), closed.log
        assert (Path(closed.outputs["export-folder"]) / "state.export").exists()
        assert closed.outputs["changed"] == "true"
        shutil.rmtree(job.place)
        away.rename(job.repository)


@pytest.mark.parametrize("kinds", [(signal.SIGINT, signal.SIGTERM), (signal.SIGKILL,)], ids=["cancelled", "killed"])
def test_a_close_that_is_ended_loses_no_work(tmp_path: Path, dsn: str, kinds: tuple[signal.Signals, ...]) -> None:
    """Cancelled in the middle of its push it goes on to the end; killed there it has left the export, and says so."""
    job = Job.make(tmp_path)
    execute(job.step("open", pg_url=dsn).variables["VIBEY_PG_URL"], TWO)
    reached, go = tmp_path / "reached", tmp_path / "go"
    hook = job.repository / "hooks" / "pre-receive"
    hook.write_text(f"#!/bin/sh\ntouch '{reached}'; until [ -e '{go}' ]; do sleep 0.1; done\n")
    hook.chmod(0o755)
    env = job.environment({"key": job.key, "push": "true"})
    command = [sys.executable, "-I", "-m", "vibey_actions", "action", "close"]
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) as process:
        until(reached.exists)
        for kind in kinds:
            process.send_signal(kind)
        if signal.SIGKILL in kinds:
            process.wait()
        go.touch()
        said, _ = process.communicate()
    done = job.read(env, process.returncode, said)
    if signal.SIGKILL in kinds:
        assert done.outputs["export"].startswith("vibey-state-export-")
        assert (Path(done.outputs["export-folder"]) / "state.export").exists()
        job.step("close")
    else:
        assert (done.code, done.outputs["pushed"], done.outputs["export"]) == (0, "true", "")
        assert "SIGINT and SIGTERM came meanwhile" in said
        assert not job.place.exists()


def test_a_job_with_odd_folders_and_settings(tmp_path: Path) -> None:
    """Blanks, quotes, commas and letters in its folders, every PG variable set: the database is the job's own."""
    job = Job.make(tmp_path / "o'd, fôlder")
    job.env = {"PGOPTIONS": "-c no_such=x", "PGSSLMODE": "require", "PGCHANNELBINDING": "require", "PGPORT": "1",
               "PGHOST": "nowhere", "PGDATA": "/nonexistent", "PGSERVICE": "none", "LC_ALL": "xx_YY"}  # fmt: skip
    done = job.process("open")
    try:
        assert done.code == 0, done.log
        (count,) = execute(done.variables["VIBEY_PG_URL"], "SELECT count(*) FROM customer")
        assert count == (0,)
    finally:
        assert job.process("close").code == 0


@pytest.mark.parametrize("whole", [False, True], ids=["one of its processes", "the server"])
def test_a_killed_postgresql_keeps_what_was_committed(tmp_path: Path, *, whole: bool) -> None:
    """As on a machine short of memory: close waits for the server, or starts it again, and exports the rows."""
    job = Job.make(tmp_path)
    done = job.step("open")
    (folder,) = set(servers(job))
    postmaster = running(folder / "data")
    assert postmaster is not None
    with psycopg.connect(done.variables["VIBEY_PG_URL"], autocommit=True) as session:
        victim = postmaster if whole else session.info.backend_pid
        session.execute(TWO)
        os.kill(victim, signal.SIGKILL)
        closed = job.step("close")
    assert closed.code == 0, closed.log
    assert "exported 2 rows" in closed.log
    assert ("starting it again" in closed.log) == whole
    assert not folder.exists()


def test_a_postgresql_that_is_gone_is_told(tmp_path: Path) -> None:
    """One that does not start again: the failure says that the work is lost, and what to do."""
    job = Job.make(tmp_path)
    job.step("open")
    (folder,) = set(servers(job))
    pid = running(folder / "data")
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    (folder / "data" / "postmaster.opts").write_text("/nonexistent/postgres")
    closed = job.step("close")
    assert closed.code == 1
    assert "was ended by something else, and does not start again" in closed.summary
    assert "was not saved, so run the job again" in closed.summary
    assert not folder.exists()


def test_two_opens_at_once_leave_one_database(tmp_path: Path) -> None:
    """The later one waits, and is refused then: neither takes the other for one that was killed."""
    job = Job.make(tmp_path)
    command = [sys.executable, "-I", "-m", "vibey_actions", "action", "open"]
    env = job.environment({"key": job.key})
    pair = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [one.communicate()[0] for one in pair]
    try:
        assert sorted(one.returncode for one in pair) == [0, 1], said
        assert sum("starting a PostgreSQL" in one for one in said) == 1
        assert sum("step-refused" in one for one in said) == 1
    finally:
        assert job.step("close").code == 0
    assert servers(job) == []


def test_a_second_open_is_refused_and_harms_nothing(tmp_path: Path, database: Callable[[], str]) -> None:
    """While a state is open another open refuses, and the first database goes on; after close there may be one."""
    job = Job.make(tmp_path)
    with opened(job, pg_url=database()) as done:
        again = job.step("open")
        assert again.code == 1
        assert "step-refused" in again.log
        execute(done.variables["VIBEY_PG_URL"], TWO)
    with opened(job, pg_url=database()) as done:
        assert execute(done.variables["VIBEY_PG_URL"], "SELECT count(*) FROM customer") == [(0,)]


def test_the_server_is_the_runners_to_find(tmp_path: Path) -> None:
    """The server carries the runner's mark of the job, and nothing else of the job's environment."""
    job = Job.make(tmp_path)
    job.env = {"RUNNER_TRACKING_ID": "github_mark", "MY_SECRET": "a secret"}
    with opened(job):
        (folder,) = set(servers(job))
        pid = running(folder / "data")
        assert pid is not None
        if Path("/proc").is_dir():
            variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            assert b"RUNNER_TRACKING_ID=github_mark" in variables
            assert {one.split(b"=")[0] for one in variables if one} == {b"RUNNER_TRACKING_ID", b"PATH", b"LC_ALL"}
            assert os.stat(f"/proc/{pid}").st_uid != 0  # noqa: PTH116


def test_an_older_branch_is_lifted_by_the_owner(tmp_path: Path, dsn: str) -> None:
    """A branch at older migrations comes up to the job's, which takes the owner's right to make a scratch database."""
    job = Job.make(tmp_path)
    seed(job, dsn, TWO)
    job.commit({"db/0002_more.sql": "ALTER TABLE customer ADD COLUMN city text DEFAULT 'Paris';"})
    done = job.step("open")
    assert done.code == 0, done.log
    assert execute(done.variables["VIBEY_PG_URL"], "SELECT city FROM customer") == [("Paris",), ("Paris",)]
    closed = job.step("close", push="true")
    assert (closed.outputs["changed"], closed.outputs["pushed"]) == ("true", "true")
