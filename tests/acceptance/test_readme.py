"""The README's five-minute start, run as it stands there against a real server and a real repository."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.conftest import Machine

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
DSN = '"postgresql://USER:PASSWORD@HOST/DATABASE"'
REMOTE = '"ssh://git@HOST/state.git"'
SCHEMA = "CREATE TABLE pet (name text PRIMARY KEY, weight numeric NOT NULL)"
SHELL = shutil.which("bash") or "/bin/sh"


def block(name: str) -> str:
    """The shell block that the README marks with ``<!-- run: NAME -->``."""
    found = re.findall(rf"^<!-- run: {name} -->\n```sh\n(.*?)^```$", README, re.M | re.S)
    assert len(found) == 1
    return str(found[0])


@pytest.fixture
def databases(database: Callable[[], str]) -> list[str]:
    """Two databases with the same table, the first with rows."""
    dsns = [database(), database()]
    for dsn in dsns:
        with psycopg.connect(dsn) as connection:
            connection.execute(SCHEMA)
    with psycopg.connect(dsns[0]) as connection:
        connection.execute("INSERT INTO pet VALUES ('Ünal', 4.20), ('Rex', 31)")
    return dsns


def test_the_five_minute_start_works_as_written(databases: list[str], tmp_path: Path, bare_repository: Path) -> None:
    """Key, first push, second machine: every command of the README succeeds, and both databases are equal."""
    machines = [Machine(tmp_path / "first"), Machine(tmp_path / "second")]
    for name, machine, dsn in zip(("first machine", "second machine"), machines, databases, strict=True):
        script = block(name)
        assert script.count(DSN) == script.count(REMOTE) == 1
        script = script.replace(DSN, shlex.quote(dsn)).replace(REMOTE, shlex.quote(str(bare_repository)))
        done = machine.start([SHELL, "-euc", script])
        assert done.returncode == 0, done.stdout + done.stderr
        machines[1].env["VIBEY_STATE_KEY"] = machines[0].run("state", "key", "--show").strip()
    rows = []
    for dsn in databases:
        with psycopg.connect(dsn) as connection:
            rows.append(connection.execute("SELECT name, weight::text FROM pet ORDER BY name").fetchall())
    assert rows[0] == rows[1] == [("Rex", "31"), ("Ünal", "4.20")]


def test_every_option_the_readme_names_is_there(tmp_path: Path) -> None:
    """Commands and options in the README's text and blocks are known to the command line."""
    machine = Machine(tmp_path / "reader")
    named = set(re.findall(r"(?:^|`)(?:vibey-actions )?(state [a-z-]+|migrate|init)\b((?: --[a-z-]+)*)", README, re.M))
    assert len(named) > 8
    for command, options in named:
        help_text = machine.run(*command.split(), "--help")
        assert [option for option in options.split() if option not in help_text] == []


def test_the_workflow_to_paste_is_the_template() -> None:
    """The README's first workflow is workflows-templates/push-directly.yml, which other tests execute."""
    template = (Path(__file__).parents[2] / "workflows-templates" / "push-directly.yml").read_text("utf-8")
    found = re.findall(r"^```yaml\n(name: .*?)^```$", README, re.M | re.S)
    assert found == [template[template.index("name: ") :]]
