"""Workflows, the action and the templates, read by the two linters that know GitHub's rules: they report nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(sys.executable).parent
WORKFLOWS = sorted([*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "workflows-templates").glob("*.yml")])
ACTION = ROOT / "action.yml"
ZIZMOR = ("--offline", "--strict-collection", "--no-progress", "--persona", "pedantic", "--no-online-audits")

BAD = """\
on: push
jobs:
  work:
    runs-on: ubuntu-24.04
    steps:
      - uses: actions/checkout@v4
      - run: echo ${{ github.event.head_commit.message }} ${{ matrix.missing }}
"""


def lint(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a linter in the repository, with nothing of this environment that could change what it reports."""
    env = {"PATH": os.environ["PATH"], "HOME": os.devnull, "NO_COLOR": "1"}
    command = [str(PROGRAMS / program), *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_actionlint_reports_nothing() -> None:
    """Workflows and templates are valid: keys, expressions, contexts, inputs of called workflows, shell scripts."""
    done = lint("actionlint", "-no-color", *map(str, WORKFLOWS))
    assert (done.returncode, done.stdout) == (0, "")


def test_zizmor_reports_nothing() -> None:
    """The strictest persona finds no risk: pins, permissions, injections, credentials, concurrency."""
    done = lint("zizmor", *ZIZMOR, str(ACTION), str(ROOT / ".github"), *map(str, WORKFLOWS))
    assert done.returncode == 0, done.stdout
    assert "No findings to report" in done.stdout + done.stderr


@pytest.mark.parametrize("program", ["actionlint", "zizmor"])
def test_the_linters_would_report(tmp_path: Path, program: str) -> None:
    """A workflow that asks for trouble is reported: the silence above means something."""
    bad = tmp_path / "bad.yml"
    bad.write_text(BAD, "utf-8")
    done = lint(program, *(ZIZMOR if program == "zizmor" else ()), str(bad))
    assert done.returncode != 0
    assert "matrix" in done.stdout if program == "actionlint" else "template-injection" in done.stdout
