"""The action's own installation in a job: once, locked, and out of reach of what the job sets up for itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.act import Act
from tests.support.act.example import Shop, template, work
from tests.support.github_server import GitHubServer

TWO = "INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace');"
FIRST = "      - id: state\n"
TAMPER = """\
      - name: Tamper
        run: |
          mkdir evil evil/vibey_actions
          echo 'import os; open(os.environ["MARK"], "a").write("python")' >evil/startup.py
          cp evil/startup.py evil/sitecustomize.py
          cp evil/startup.py evil/vibey_actions/__init__.py
          echo 'test -z "${VIBEY_INPUT_KEY:-}" || echo shell >>"$MARK"' >evil/shell.sh
          cp -r evil/vibey_actions vibey_actions
          {
            echo "MARK=$RUNNER_TEMP/mark"
            echo "PYTHONPATH=$PWD/evil"
            echo "PYTHONSTARTUP=$PWD/evil/startup.py"
            echo "PYTHONHOME=$PWD/evil"
            echo "BASH_ENV=$PWD/evil/shell.sh"
            echo "ENV=$PWD/evil/shell.sh"
            echo "PIP_TARGET=$PWD/evil"
            echo "PIP_PREFIX=$PWD/evil"
            echo "PIP_REQUIREMENT=$PWD/evil/shell.sh"
            echo "PGHOST=nowhere.example.com"
            echo "PGPORT=1"
            echo "PGDATABASE=other"
            echo "LC_ALL=xx_YY.UTF-8"
            echo "VIBEY_STATE_CONFIG=$PWD/evil/shell.sh"
            echo "VIBEY_STATE_KEY_FILE=$PWD/evil/shell.sh"
            echo "VIBEY_STATE_PG_URL=postgresql://nowhere.example.com/other"
          } >>"$GITHUB_ENV"
"""
LAST = """\
      - name: Look
        if: always()
        run: |
          test ! -e "$RUNNER_TEMP/mark" && test "$(ls evil | wc -l)" = 4
          test -z "$(find "$RUNNER_TEMP" -name record.json -o -name PG_VERSION -o -name '*.export' -o -name '*.vibey')"
"""


@pytest.fixture(scope="module")
def act(tmp_path_factory: pytest.TempPathFactory, github: GitHubServer, shared_folder: Path) -> Act:
    """Runs in which nothing is installed before."""
    return Act(tmp_path_factory.mktemp("install"), github, shared_folder, installed=False)


def test_a_job_installs_the_action_once_whatever_it_set_up_for_itself(act: Act) -> None:
    """Nothing that the job sets up changes anything of ours; the second step installs nothing, and nothing is left."""
    text = template("push-directly.yml").replace(FIRST, TAMPER + FIRST) + LAST
    shop = Shop.make(act, "example/install", text, files=work(TWO))
    outcome = shop.run()
    assert outcome.step("Push what changed") == "success", outcome.explain()
    assert outcome.log().count("installed vibey-actions") == 1
    assert outcome.step("Look") == "success", outcome.explain()
    assert shop.commits == 1


def test_a_runner_without_a_python_is_told_what_to_add(act: Act, tmp_path: Path) -> None:
    """Where python3 is too old and there is no other, the step says which step has to come before it."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("python3", "python3.14", "python3.13", "python3.12", "python3.11", "python"):
        (programs / name).write_text("#!/bin/sh\nexit 1\n", "utf-8")
        (programs / name).chmod(0o755)
    shop = Shop.make(act, "example/old-python", "push-directly.yml", files=work(TWO))
    outcome = shop.run(programs=programs)
    assert outcome.result("work") == "failure"
    assert "actions/setup-python@" in outcome.summary()
    assert "actions/setup-python@" in outcome.annotations("error")[0].text
