"""``doctor`` against a local GitHub, real git repositories and real databases: each fault is found and has a cure."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.github_server import GitHubServer, Repository, faults
from tests.support.pooler import Pooler
from vibey_actions.checks import branch
from vibey_actions.checks.doctor import CHECKS, examine, exit_code
from vibey_actions.checks.facts import Facts
from vibey_actions.checks.finding import Finding, Level
from vibey_actions.checks.github import rules
from vibey_actions.cli.main import main
from vibey_actions.keys import format_key

KEY = format_key(bytes(range(32)))
OTHER_KEY = format_key(bytes(range(1, 33)))
TABLE = "CREATE TABLE customer (id int PRIMARY KEY, name text)"


@dataclass
class Patient:
    """A checkout with a database, and the place of its branch."""

    folder: Path
    dsn: str
    env: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    clock: Callable[[], float] = field(default=time.time)

    def findings(self, **env: str) -> list[Finding]:
        with Facts({**self.env, **env}, self.folder, self.clock) as facts:
            return list(examine(facts))

    def found(self, check: str, level: Level, **env: str) -> list[Finding]:
        """The findings of one check, at least one of which is of ``level`` and, unless all is well, has a cure."""
        of_check = [finding for finding in self.findings(**env) if finding.check == check]
        assert level in [finding.level for finding in of_check], of_check
        assert all(finding.cure for finding in of_check if finding.level is Level.PROBLEM)
        return [finding for finding in of_check if finding.level is level]

    def problems(self, **env: str) -> dict[str, str]:
        """By check, the text of every problem."""
        return {one.check: one.text for one in self.findings(**env) if one.level is Level.PROBLEM}

    def run(self, *arguments: str, **env: str) -> int:
        """Run a command as the checkout's user would."""
        with self.monkeypatch.context() as process:
            process.setattr(os, "environ", {**self.env, **env})
            process.chdir(self.folder)
            return main(arguments)

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def configure(self, text: str) -> None:
        file = self.folder / ".github" / "vibey-state.toml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)

    def workflow(self, text: str) -> None:
        file = self.folder / ".github" / "workflows" / "state.yml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        yield server


@pytest.fixture
def repository(github: GitHubServer) -> Repository:
    return github.add_repository("example/app")


@pytest.fixture
def patient(
    tmp_path: Path, dsn: str, github: GitHubServer, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> Patient:
    """One whose branch is in the repository on the local GitHub, and whose database is migrated."""
    folder = tmp_path / "checkout"
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    env = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "GITHUB_API_URL": github.url,
        "GH_TOKEN": github.token,
        "VIBEY_STATE_REPOSITORY": repository.name,
        "VIBEY_STATE_PG_URL": dsn,
        "VIBEY_STATE_KEY": KEY,
    }
    made = Patient(folder, dsn, env, monkeypatch)
    made.sql(TABLE, "INSERT INTO customer VALUES (1, 'a')")
    assert made.run("migrate") == 0
    return made


@pytest.fixture
def synced(patient: Patient) -> Patient:
    """One that has synced once."""
    assert patient.run("state", "sync") == 0
    return patient


def rule(kind: str) -> dict[str, Any]:
    return {"type": kind, "ruleset_id": 3, "ruleset_source": "example/app", "ruleset_source_type": "Repository"}


def test_a_healthy_end_before_and_after_its_first_sync(
    patient: Patient, github: GitHubServer, repository: Repository
) -> None:
    """Nothing stops a sync and every check was made; nothing is written, neither at GitHub nor in the database."""
    patient.run("doctor")
    assert patient.run("state", "sync") == 0
    github.forget()
    everything = (repository.refs("refs/"), repository.text("count-objects", "-v"))
    found = patient.findings()
    assert {finding.level for finding in found} <= {Level.OK, Level.NOTE}, found
    assert {"python", "settings", "configuration", "key", "token", "sealed", "size", "growth", "rights"} <= {
        finding.check for finding in found if finding.level is Level.OK
    }
    assert exit_code(found) == 0
    assert (repository.refs("refs/"), repository.text("count-objects", "-v")) == everything
    assert [(one.method, one.status) for one in github.seen if one.method != "GET"] == [("POST", 422)]
    with psycopg.connect(patient.dsn) as connection:
        assert connection.execute("SELECT count(*) FROM state_sync").fetchone() == (1,)


def test_the_command_says_it_in_lines_and_in_json(patient: Patient, capsys: pytest.CaptureFixture[str]) -> None:
    """A line a finding with its cure under it, or one object; the exit code is 0 where nothing stops a sync, else 1."""
    capsys.readouterr()
    assert patient.run("doctor") == 0
    assert "nothing that was checked stops a sync" in capsys.readouterr().out
    patient.sql("DROP TABLE state_sync")
    assert patient.run("doctor") == 1
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("problem  watermark: the table state_sync is missing")
    assert lines[at + 1].strip() == "-> run `vibey-actions migrate`"
    assert patient.run("doctor", "--json") == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert {
        "check": "watermark",
        "level": "problem",
        "text": "the table state_sync is missing",
        "cure": "run `vibey-actions migrate`",
    } in json.loads(line)["findings"]


def test_one_bad_setting_keeps_no_other_check_from_its_answer(patient: Patient) -> None:
    """Where the settings cannot be used every check says so and the exit code is 2; Python is still looked at."""
    found = patient.findings(VIBEY_STATE_BRANCH="a b")
    assert exit_code(found) == 2
    assert [finding.check for finding in found] == [name for name, _ in CHECKS]
    assert [finding.check for finding in found if finding.level is Level.OK] == ["python"]
    assert all("not checked" in finding.text for finding in found if finding.level is Level.UNKNOWN)


def test_what_does_not_answer_is_said_once(patient: Patient) -> None:
    """Without key, token and database each is one problem; what needs them says that it was not checked."""
    nowhere = make_conninfo(patient.dsn, port=1, password="hunter2-of-the-tests")
    found = patient.findings(VIBEY_STATE_KEY="", GH_TOKEN="", VIBEY_STATE_PG_URL=nowhere)
    assert [one.check for one in found if one.level is Level.PROBLEM] == ["key", "repository", "database"]
    assert {"token", "rules", "tables", "migrations", "watermark"} <= {
        one.check for one in found if one.level is Level.UNKNOWN
    }
    assert exit_code(found) == 2


def test_a_variable_that_nothing_reads_is_said(patient: Patient) -> None:
    """A slip in a setting's name is named with the name that was meant; it stops nothing."""
    (found,) = patient.found("settings", Level.NOTE, VIBEY_STATE_ATEMPTS="3")
    assert "VIBEY_STATE_ATEMPTS" in found.text
    assert "VIBEY_STATE_ATTEMPTS" in found.cure
    assert exit_code(patient.findings(VIBEY_STATE_ATEMPTS="3")) == 0


def test_a_folder_without_a_repository_is_said_once(patient: Patient) -> None:
    """Where nothing names a repository, that is one problem, and what needs the branch was not checked."""
    found = patient.findings(VIBEY_STATE_REPOSITORY="")
    assert [one.check for one in found if one.level is Level.PROBLEM] == ["repository"]


def test_no_secret_is_shown(synced: Patient, github: GitHubServer, capfd: pytest.CaptureFixture[str]) -> None:
    """Neither the key, nor the token, nor a password is in any finding, whatever is wrong."""
    nowhere = make_conninfo(synced.dsn, port=1, password="hunter2-of-the-tests")
    capfd.readouterr()
    for env in ({}, {"VIBEY_STATE_KEY": OTHER_KEY}, {"VIBEY_STATE_PG_URL": nowhere}, {"GH_TOKEN": "wrong-token"}):
        synced.run("doctor", **env)
        synced.run("doctor", "--json", **env)
    said = "".join(capfd.readouterr())
    assert "Traceback" not in said
    assert [secret for secret in (KEY, OTHER_KEY, github.token, "wrong-token", "hunter2") if secret in said] == []


def test_a_token_that_may_not_write(patient: Patient, github: GitHubServer) -> None:
    """GitHub's refusal is shown with the permission that is missing; a wrong token stops at the repository."""
    (found,) = patient.found("token", Level.PROBLEM, GH_TOKEN="read-token-of-the-tests")
    assert "Resource not accessible by integration" in found.text
    assert "contents: write" in found.cure
    assert "wrong or has expired" in patient.problems(GH_TOKEN="nobody")["repository"]


def test_no_token_at_all(github: GitHubServer, patient: Patient, repository: Repository) -> None:
    """A public repository can be read without one, and nothing can be pushed."""
    repository.private = False
    (found,) = patient.found("token", Level.PROBLEM, GH_TOKEN="")
    assert "no token" in found.text
    assert "public" in patient.found("repository", Level.NOTE)[0].text


def test_what_cannot_be_known_is_said_so(patient: Patient, github: GitHubServer) -> None:
    """Where GitHub fails at one question the others are asked, and this one is unknown, not well and not ill."""
    github.arm(faults.server_error(), "POST", "git/refs", times=10)
    patient.found("token", Level.UNKNOWN)
    github.arm(faults.refuse(404, "Not Found"), "GET", "rules/branches", times=1)
    assert "could not be asked" in patient.found("rules", Level.UNKNOWN)[0].text


RULES = {
    "update": Level.PROBLEM,
    "pull_request": Level.PROBLEM,
    "required_status_checks": Level.PROBLEM,
    "a_rule_of_tomorrow": Level.PROBLEM,
    "creation": Level.PROBLEM,
    "commit_message_pattern": Level.NOTE,
    "deletion": Level.OK,
    "non_fast_forward": Level.OK,
    "required_linear_history": Level.OK,
}


def test_rules_on_the_branch(patient: Patient, repository: Repository) -> None:
    """A rule that refuses a push stops a sync, one that may is a note, those that a push keeps are nothing."""
    with Facts(patient.env, patient.folder) as facts:
        for kind, level in RULES.items():
            repository.arranged["rules"] = {"vibey-state": [rule(kind)], "main": [rule("update")]}
            (found,) = rules(facts)
            assert found.level is level, kind
            if level is not Level.OK:
                assert f"the rule {kind} of the Repository ruleset 3 of example/app" in found.text
                assert "exclude the branch vibey-state" in found.cure


def test_rules_that_do_not_count(synced: Patient, repository: Repository) -> None:
    """A rule against new branches says nothing of one that is there; one that the token may pass is a note."""
    repository.arranged["rules"] = {"vibey-state": [rule("creation")]}
    synced.found("rules", Level.OK)
    repository.arranged |= {
        "rules": {"vibey-state": [rule("update")]},
        "rulesets": {3: {"id": 3, "current_user_can_bypass": "always"}},
    }
    assert "may go past it" in synced.found("rules", Level.NOTE)[0].text
    repository.arranged["rulesets"] = {3: {"id": 3, "current_user_can_bypass": "never"}}
    synced.found("rules", Level.PROBLEM)


def test_classic_protection(synced: Patient, repository: Repository) -> None:
    """What of it refuses a push is named; a protection that the token is not told of is unknown."""
    repository.arranged["protections"] = {"vibey-state": {"required_pull_request_reviews": {"x": 1}}}
    assert "required_pull_request_reviews" in synced.found("rules", Level.PROBLEM)[0].text
    repository.arranged["protections"] = {"vibey-state": {"lock_branch": {"enabled": False}}}
    synced.found("rules", Level.OK)
    repository.arranged["protections"] = {"vibey-state": None}
    assert "not told by what" in synced.found("rules", Level.UNKNOWN)[0].text


def test_the_wrong_repository(patient: Patient, github: GitHubServer, repository: Repository) -> None:
    """The default branch is no state branch; a renamed repository is said with its new name."""
    assert "default branch" in patient.problems(VIBEY_STATE_BRANCH="main")["repository"]
    github.rename("example/app", "example/moved")
    assert "example/moved" in patient.found("repository", Level.NOTE)[0].cure


def test_the_key_and_what_is_sealed(synced: Patient) -> None:
    """Another key than the one that sealed the head is a problem, and the migrations there stay unknown."""
    found = synced.findings(VIBEY_STATE_KEY=OTHER_KEY)
    assert [one.check for one in found if one.level is Level.PROBLEM] == ["sealed"]
    assert [one.check for one in found if one.level is Level.UNKNOWN] == ["migrations"]


def test_clocks_that_differ(patient: Patient) -> None:
    """Ten minutes are said of GitHub's clock and of the database's, with the direction."""
    patient.configure('[tables.customer]\nconflict = "newest"\nnewest-by = "id"\n')
    patient.clock = lambda: time.time() - 600
    assert "seconds behind GitHub" in patient.found("clock", Level.NOTE)[0].text
    (found,) = patient.found("database-clock", Level.NOTE)
    assert "seconds ahead of this machine" in found.text
    assert "newest" in found.text


def test_sizes(synced: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sealed file against GitHub's limits, and the branch's commits times its size."""
    synced.sql("INSERT INTO customer VALUES (2, 'b')")
    assert synced.run("state", "sync") == 0
    assert "2 commits" in synced.found("growth", Level.OK)[0].text
    monkeypatch.setattr(branch, "LARGE_BRANCH", 10)
    assert "advises" in synced.found("growth", Level.NOTE)[0].text
    monkeypatch.setattr(branch, "RISKY_BLOB", 10)
    synced.found("size", Level.NOTE)
    monkeypatch.setattr(branch, "LARGEST_BLOB", 10)
    synced.found("size", Level.PROBLEM)


def test_a_database_that_takes_no_writes(patient: Patient) -> None:
    """A role that may only read is told before a sync would fail."""
    name = psycopg.conninfo.conninfo_to_dict(patient.dsn)["dbname"]
    patient.sql(f'ALTER DATABASE "{name}" SET default_transaction_read_only TO on')
    assert "read-only" in patient.problems()["database"]


def test_a_role_without_rights(patient: Patient) -> None:
    """Every table that the role may not sync is named with the rights it lacks; the watermark's as well."""
    name = psycopg.conninfo.conninfo_to_dict(patient.dsn)["dbname"]
    role = f"role_{name}"
    patient.sql(f"CREATE ROLE {role} LOGIN PASSWORD 'none-of-the-tests'", f"GRANT SELECT ON customer TO {role}")
    as_role = make_conninfo(patient.dsn, user=role, password="none-of-the-tests")
    try:
        found = patient.findings(VIBEY_STATE_PG_URL=as_role)
        texts = [one.text for one in found if one.level is Level.PROBLEM]
        assert "this role lacks INSERT, UPDATE, DELETE on the table customer" in texts
        assert any("state_sync" in text for text in texts)
        patient.sql(
            f"GRANT ALL ON customer TO {role}",
            "ALTER TABLE customer ENABLE ROW LEVEL SECURITY",
            "CREATE POLICY all_rows ON customer USING (true)",
        )
        texts = [one.text for one in patient.findings(VIBEY_STATE_PG_URL=as_role) if one.level is Level.PROBLEM]
        assert any("row-level security hides rows of customer" in text for text in texts)
    finally:
        patient.sql(f"DROP OWNED BY {role}", f"DROP ROLE {role}")


def test_tables_that_cannot_be_synced(patient: Patient) -> None:
    """A table without a primary key is the tables' problem, and the other checks go on."""
    patient.sql('CREATE TABLE "key\nless" (a int)')
    found = patient.findings()
    (text,) = [one.text for one in found if one.level is Level.PROBLEM]
    assert "primary key" in text
    assert "key\\x0aless" in text
    assert {"migrations", "watermark"} <= {one.check for one in found if one.level is Level.OK}


def test_extensions_are_listed(patient: Patient) -> None:
    """Other machines need those that rows use."""
    patient.sql("CREATE EXTENSION pg_trgm")
    assert "pg_trgm" in patient.found("extensions", Level.NOTE)[0].text


def test_migrations(patient: Patient) -> None:
    """Files not applied, a database ahead of the branch, level with it, behind it: each with what to run."""
    folder = patient.folder / "db"
    folder.mkdir()
    (folder / "0.sql").write_text(TABLE)
    patient.sql("INSERT INTO schema_migration (version) VALUES ('0')")
    assert patient.run("state", "sync") == 0
    patient.configure('[migrations]\ndirectory = "db"\n')
    assert "same 1 migration" in patient.found("migrations", Level.OK)[0].text
    (folder / "1.sql").write_text("ALTER TABLE customer ADD COLUMN x int")
    assert "not applied yet: 1" in patient.found("migrations", Level.NOTE)[0].text
    assert patient.run("migrate") == 0
    assert "ahead of the branch by 1" in patient.found("migrations", Level.NOTE)[0].text
    assert patient.run("state", "sync") == 0
    patient.sql("DELETE FROM schema_migration WHERE version = '1'", "ALTER TABLE customer DROP COLUMN x")
    assert "lacks the migration(s) 1" in patient.problems()["migrations"]


def test_the_watermark_against_the_branch(synced: Patient, repository: Repository) -> None:
    """A branch that moved on is well; one that was put elsewhere or is gone is a problem with the way out."""
    head = repository.ref("vibey-state")
    assert head is not None
    sealed = repository.read(head, "state.vibey")
    repository.commit_files("vibey-state", {"state.vibey": sealed})
    assert "moved on" in synced.found("watermark", Level.OK)[0].text
    repository.set_ref("vibey-state", None)
    assert "the branch is gone" in synced.found("watermark", Level.PROBLEM)[0].text
    repository.commit_files("vibey-state", {"state.vibey": sealed})
    assert "no ancestor" in synced.found("watermark", Level.PROBLEM)[0].text


def test_the_age_of_the_last_sync(synced: Patient, repository: Repository) -> None:
    """Weeks are said; they are a note only where the branch has moved since."""
    synced.sql("UPDATE state_sync SET synced_at = now() - interval '30 days'")
    assert "30 days ago" in synced.found("last-sync", Level.OK)[0].text
    head = repository.ref("vibey-state")
    assert head is not None
    repository.commit_files("vibey-state", {"state.vibey": repository.read(head, "state.vibey")})
    assert "30 days ago" in synced.found("last-sync", Level.NOTE)[0].text


@pytest.mark.parametrize("shared", [True, False])
def test_a_connection_pooler(patient: Patient, *, shared: bool) -> None:
    """One that shares sessions is refused before anything is set in one; another is a note."""
    with Pooler(patient.dsn, shared=shared) as pooler:
        through = make_conninfo(patient.dsn, host="127.0.0.1", port=pooler.port, sslmode="disable")
        found = patient.findings(VIBEY_STATE_PG_URL=through)
        with psycopg.connect(through, autocommit=True, prepare_threshold=None) as connection:
            (path,) = connection.execute("SHOW search_path").fetchone() or ("",)
    assert "public" in path
    said = {one.check: one for one in found if "connection pooler" in one.text}
    assert set(said) == ({"database"} if shared else {"pooler"})
    assert said.popitem()[1].level is (Level.PROBLEM if shared else Level.NOTE)


def test_workflows_and_their_secret(patient: Patient, repository: Repository) -> None:
    """What workflows forget, a schedule that GitHub ended, and whether the secret is stored."""
    assert "init" in patient.found("workflows", Level.NOTE)[0].cure
    repository.private = False
    repository.arranged |= {
        "workflows": {".github/workflows/state.yml": "disabled_inactivity"},
        "secrets": ["VIBEY_STATE_KEY"],
    }
    patient.workflow(
        "on:\n  schedule:\n    - cron: x\njobs:\n  a:\n    steps:\n      - run: vibey-actions state sync\n"
    )
    texts = " ".join(one.text for one in patient.found("workflows", Level.NOTE))
    for word in ("contents: write", "secret VIBEY_STATE_KEY", "60 days", "disabled_inactivity"):
        assert word in texts
    patient.found("secret", Level.OK)
    repository.arranged["secrets"] = []
    assert "gh secret set" in patient.found("secret", Level.NOTE)[0].cure
    repository.arranged["secrets"] = None
    patient.found("secret", Level.UNKNOWN)


def test_the_workflow_of_init_is_well(patient: Patient, capsys: pytest.CaptureFixture[str]) -> None:
    """What `init` writes passes the checks of workflows and of the configuration."""
    assert patient.run("init") == 0
    file = patient.folder / ".github" / "workflows" / "vibey-state.yml"
    assert "in place of OWNER" in patient.found("workflows", Level.NOTE)[0].cure
    file.write_text(file.read_text().replace("OWNER/", "acme/"))
    assert {one.level for one in patient.findings() if one.check == "workflows"} == {Level.OK}
    assert "can be used" in patient.found("configuration", Level.OK)[0].text


def test_a_git_repository_as_the_place(patient: Patient, tmp_path: Path) -> None:
    """Nothing of GitHub is asked; the branch, the key and the database are checked as ever."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "state.git")], check=True)
    patient.env |= {"VIBEY_STATE_REMOTE": str(tmp_path / "state.git"), "GITHUB_API_URL": "http://127.0.0.1:1"}
    patient.run("state", "sync")
    found = patient.findings()
    assert exit_code(found) == 0
    assert not {"repository", "token", "rules", "clock"} & {one.check for one in found}
    assert {"sealed", "size", "watermark"} <= {one.check for one in found if one.level is Level.OK}
