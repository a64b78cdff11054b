"""The whole command line on real databases and a real git repository."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from vibey_actions.cli.main import main
from vibey_actions.keys import format_key

SCHEMA = """
CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL, updated_at timestamptz);
CREATE TABLE invoice (id int PRIMARY KEY, customer int NOT NULL REFERENCES customer, total numeric NOT NULL);
"""
KEY = format_key(bytes(range(32)))


@dataclass
class Outcome:
    """What a command left behind."""

    stdout: str
    stderr: str


@dataclass
class Machine:
    """One checkout with a database of its own; the branch is shared. Commands run in this process, as it would."""

    folder: Path
    dsn: str
    env: dict[str, str]
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, code: int = 0, **env: str) -> Outcome:
        """Run a command, which has to end with ``code``."""
        with self.monkeypatch.context() as process:
            process.setattr(os, "environ", {**self.env, **env})
            process.chdir(self.folder)
            self.capsys.readouterr()
            ended = main(arguments)
        captured = self.capsys.readouterr()
        assert ended == code, f"{arguments}: {captured.out}{captured.err}"
        assert "Traceback" not in captured.err
        return Outcome(captured.out, captured.err)

    def json(self, *arguments: str, code: int = 0, **env: str) -> Any:
        """Run a command with --json and return its one object."""
        lines = self.run(*arguments, "--json", code=code, **env).stdout.splitlines()
        assert len(lines) == 1
        return json.loads(lines[0])

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """Run SQL as an application would; the rows of a query."""
        with psycopg.connect(self.dsn) as connection:
            cursor = connection.execute(text)
            return cursor.fetchall() if cursor.description else []


@pytest.fixture
def machine(
    tmp_path: Path,
    database: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[[str], Machine]:
    """A factory of machines that share one branch in one repository."""
    subprocess.run(["git", "init", "--bare", "--quiet", str(tmp_path / "remote.git")], check=True)

    def make(name: str) -> Machine:
        folder = tmp_path / name
        (folder / "db").mkdir(parents=True)
        (folder / "db" / "0001_start.sql").write_text(SCHEMA)
        config = folder / "vibey.toml"
        config.write_text('[migrations]\ndirectory = "db"\n')
        dsn = database()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "VIBEY_STATE_PG_URL": dsn,
            "VIBEY_STATE_KEY": KEY,
            "VIBEY_STATE_CONFIG": str(config),
            "VIBEY_STATE_REMOTE": "../remote.git",
            "VIBEY_STATE_REPOSITORY": "example/app",
        }
        made = Machine(folder, dsn, env, monkeypatch, capsys)
        assert made.json("migrate") == {"applied": ["0001_start"], "versions": ["0001_start"]}
        return made

    return make


def test_two_machines(machine: Callable[[str], Machine]) -> None:
    """First push, second machine filled, changes at both ends merged, a conflict named and settled by a rule."""
    one, two = machine("one"), machine("two")
    one.sql("INSERT INTO customer VALUES (1, 'a'), (2, 'b'); INSERT INTO invoice VALUES (1, 1, 1.50)")
    first = one.run("state", "sync")
    assert (
        "pushed customer: 2 inserted\npushed invoice: 1 inserted\nin sync with example/app:vibey-state" in first.stdout
    )
    filled = two.json("state", "sync")
    assert (filled["state"], filled["pulled"], filled["pushed"]) == ("in-sync", 3, 0)
    assert two.sql("SELECT total FROM invoice") == one.sql("SELECT total FROM invoice")

    one.sql("UPDATE customer SET name = 'A' WHERE id = 1")
    two.sql("INSERT INTO customer VALUES (3, 'c')")
    one.run("state", "sync")
    would = two.json("state", "status")
    assert (would["state"], would["to_pull"], would["to_push"]) == ("both-changed", 1, 1)
    assert would["tables"]["customer"]["push"] == {"inserted": 1, "updated": 0, "deleted": 0}
    two.run("state", "sync")
    assert one.json("state", "sync")["pulled"] == 1
    level = one.json("state", "sync")
    assert (level["pulled"], level["pushed"], level["to_push"]) == (0, 0, 0)
    assert one.run("state", "status").stdout.startswith("in sync with example/app:vibey-state at ")

    one.sql("UPDATE customer SET name = 'here' WHERE id = 2")
    two.sql("UPDATE customer SET name = 'there' WHERE id = 2")
    two.run("state", "sync")
    refused = one.run("state", "sync", code=1)
    assert "conflict: customer [2]:" in refused.stderr
    assert "'here'" not in refused.stderr
    error = one.json("state", "sync", code=1)["error"]
    assert error["code"] == "conflict"
    assert [(row["table"], row["key"]) for row in error["conflicts"]] == [("customer", "[2]")]
    status = one.json("state", "status", code=1)
    assert status["state"] == "conflict"
    assert status["conflicts"] == error["conflicts"]
    one.run("state", "sync", VIBEY_STATE_CONFLICTS="customer=mine")
    two.run("state", "sync")
    assert two.sql("SELECT name FROM customer WHERE id = 2") == [("here",)]


def test_no_push_leaves_the_branch(machine: Callable[[str], Machine]) -> None:
    """--no-push brings this database level and says what is left to push."""
    one, two = machine("one"), machine("two")
    one.sql("INSERT INTO customer VALUES (1, 'a')")
    before = one.json("state", "sync")["commit"]
    two.sql("INSERT INTO customer VALUES (2, 'b')")
    done = two.json("state", "sync", "--no-push")
    assert (done["pulled"], done["pushed"], done["to_push"], done["commit"]) == (1, 0, 1, before)
    assert one.json("state", "status")["commit"] == before


def test_what_a_sealed_state_holds(machine: Callable[[str], Machine]) -> None:
    """Export, show, and import into a fresh database; a row's exact text comes through."""
    one, two = machine("one"), machine("two")
    one.sql("INSERT INTO customer VALUES (1, E'a\\u001b'); INSERT INTO invoice VALUES (1, 1, 1.50)")
    commit = one.json("state", "sync")["commit"]
    exported = one.json("state", "export", "--out", "out.vibey")
    assert (exported["rows"], exported["base"], exported["remote"]) == (2, commit, "example/app:vibey-state")
    file = str(one.folder / "out.vibey")
    assert one.json("state", "show", file)["tables"] == {"customer": 1, "invoice": 1}
    assert one.json("state", "show", "--at", commit)["tables"] == {"customer": 1, "invoice": 1}
    shown = one.run("state", "show", "--table", "invoice")
    assert shown.stdout == '{"customer":1,"id":1,"total":1.50}\n'
    assert '"name":"a\\u001b"' in one.run("state", "show", file, "--table", "customer").stdout
    assert one.json("state", "show", "--table", "invoice")["rows"] == [{"customer": 1, "id": 1, "total": 1.5}]
    assert one.json("state", "show", "--table", "nosuch", code=1)["error"]["code"] == "unreadable"
    imported = two.json("state", "import", file)
    assert imported == {"rows": 2, "base": commit, "tables": {"customer": 1, "invoice": 1}}
    assert two.json("state", "sync")["pulled"] == 0
    assert two.json("state", "import", file, code=1)["error"]["code"] == "import-refused"


def test_what_is_given_up_on_purpose(machine: Callable[[str], Machine]) -> None:
    """`forget` drops the base once; `forget-table` takes an excluded table off the branch."""
    one = machine("one")
    one.sql("INSERT INTO customer VALUES (1, 'a'); CREATE TABLE old (id int PRIMARY KEY); INSERT INTO old VALUES (1)")
    commit = one.json("state", "sync")["commit"]
    assert one.run("state", "forget").stdout.startswith(f"forgot {commit}")
    assert one.run("state", "forget").stdout.startswith("nothing to forget")
    one.run("state", "sync")
    config = one.folder / "vibey.toml"
    config.write_text('[state]\nexclude = ["old"]\n' + config.read_text())
    assert one.json("state", "sync", code=1)["error"]["code"] == "table-refused"
    assert "pushed old: 1 deleted" in one.run("state", "forget-table", "old").stdout
    assert one.json("state", "sync")["tables"] == {}
    assert one.json("state", "show")["tables"] == {"customer": 1}


def test_what_cannot_be_used(machine: Callable[[str], Machine]) -> None:
    """Another key, no key, no database and a server that is not there: their codes, and no password in sight."""
    one = machine("one")
    one.sql("INSERT INTO customer VALUES (1, 'a')")
    one.run("state", "sync")
    other = format_key(bytes(32))
    wrong = one.json("state", "show", code=1, VIBEY_STATE_KEY=other)["error"]
    assert wrong["code"] in {"wrong-key", "unreadable"}
    assert other not in str(wrong)
    assert one.json("state", "sync", code=2, VIBEY_STATE_KEY="")["error"]["code"] == "key-missing"
    assert one.json("state", "sync", code=2, VIBEY_STATE_KEY="short")["error"]["code"] == "key-unusable"
    assert one.json("state", "sync", code=2, VIBEY_STATE_PG_URL="")["error"]["code"] == "setting"
    away = "postgresql://me:hunter2@127.0.0.1:1/none"
    down = one.run("state", "sync", "--json", code=1, VIBEY_STATE_PG_URL=away)
    assert json.loads(down.stdout)["error"]["code"] == "database"
    assert "hunter2" not in down.stdout + down.stderr
    many = one.json("state", "sync", code=2, VIBEY_STATE_CONFLICTS="nosuch=mine")["error"]
    assert "nosuch" in many["message"]


def test_a_loop_ends_between_its_rounds(machine: Callable[[str], Machine]) -> None:
    """`--every --json`: one object a round, and SIGTERM ends the sleep with exit code 0."""
    one = machine("one")
    one.sql("INSERT INTO customer VALUES (1, 'a')")
    command = [sys.executable, "-m", "vibey_actions", "state", "sync", "--every", "1", "--json"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=one.env, cwd=one.folder
    ) as loop:
        assert loop.stdout is not None
        first, second = json.loads(loop.stdout.readline()), json.loads(loop.stdout.readline())
        loop.send_signal(signal.SIGTERM)
        _, said = loop.communicate(timeout=120)
    assert (first["pushed"], second["pushed"], second["pulled"]) == (1, 0, 0)
    assert first["time"] < second["time"]
    assert (loop.returncode, said) == (0, "")
