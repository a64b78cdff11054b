"""The harness that runs workflows: it finds what a run leaks or leaves, and keeps GitHub's rules for artifacts."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from tests.support.act import Act, Outcome
from tests.support.act.adopter import UPLOAD
from tests.support.github_server import GitHubServer

LEFT = "setsid --fork sh -c 'touch up; sleep 300; true'"
SECRET = "a-secret-of-the-tests"
FLOW = """\
on: push
permissions: {{}}
jobs:
  work:
    runs-on: ubuntu-24.04
    steps:
      - run: |
{script}
"""
UPLOADS = f"""\
on: push
permissions: {{}}
jobs:
  work:
    runs-on: ubuntu-24.04
    steps:
      - run: mkdir "$RUNNER_TEMP/files" && cd "$RUNNER_TEMP/files" && echo seen >seen && echo hidden >.hidden
      - id: first
        uses: {UPLOAD}
        with: {{ name: files, path: "${{{{ runner.temp }}}}/files" }}
      - id: again
        if: always()
        uses: {UPLOAD}
        with: {{ name: files, path: "${{{{ runner.temp }}}}/files" }}
      - id: missing
        if: always()
        uses: {UPLOAD}
        with: {{ name: other, path: "${{{{ runner.temp }}}}/nowhere", if-no-files-found: error }}
      - id: name
        if: always()
        uses: {UPLOAD}
        with: {{ name: "a:b", path: "${{{{ runner.temp }}}}/files" }}
      - id: days
        if: always()
        uses: {UPLOAD}
        with: {{ name: late, path: "${{{{ runner.temp }}}}/files", retention-days: 91 }}
"""


@pytest.fixture(scope="module")
def act(tmp_path_factory: pytest.TempPathFactory, github: GitHubServer, shared_folder: Path) -> Act:
    """Runs that have no use for the action."""
    return Act(tmp_path_factory.mktemp("harness"), github, shared_folder, installed=False)


def run(act: Act, name: str, *script: str) -> Outcome:
    """Run a script as the only step of a workflow that has a secret."""
    lines = "\n".join(f"          {line}" for line in script)
    app = act.adopter(name, {".github/workflows/state.yml": FLOW.format(script=lines)})
    return app.run(secrets={"SECRET": SECRET})


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("log", 'echo "it is {secret}"'),
        ("output", 'echo "x={secret}" >>"$GITHUB_OUTPUT"'),
        ("variable", 'echo "x={secret}" >>"$GITHUB_ENV"'),
        ("summary", 'echo "{secret}" >>"$GITHUB_STEP_SUMMARY"'),
        ("annotation", 'echo "::error title={secret}::x"'),
        ("masked", 'echo "::add-mask::{secret}"; echo "{secret}"'),
    ],
)
def test_a_secret_in_a_run_is_found(act: Act, name: str, line: str) -> None:
    """Wherever a run shows a secret, and whether it masked it before, the run's test fails."""
    with pytest.raises(AssertionError, match="a secret stands"):
        run(act, f"example/leak-{name}", line.format(secret="${{ secrets.SECRET }}"))


def test_a_mask_alone_is_no_leak(act: Act) -> None:
    """The line that masks a secret is the one place where it may stand."""
    outcome = run(act, "example/mask", 'echo "::add-mask::a-secret-""of-the-tests"')
    assert outcome.masks() == [SECRET]


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_process_that_is_left_is_found(act: Act) -> None:
    """A job's process that outlives its run makes the run's test fail, and is ended."""
    with pytest.raises(AssertionError, match="left processes"):
        run(act, "example/leaving", f"{LEFT} </dev/null >/dev/null 2>&1", "until [ -e up ]; do sleep 0.1; done")


def test_artifacts_have_githubs_rules(act: Act) -> None:
    """A name once a run, no hidden files, no odd names, no retention beyond 90 days, and missing files are an error."""
    outcome = act.adopter("example/artifacts", {".github/workflows/state.yml": UPLOADS}).run()
    results = {step: outcome.step(step) for step in ("first", "again", "missing", "name", "days")}
    assert results == {"first": "success", **dict.fromkeys(("again", "missing", "name", "days"), "failure")}
    assert re.search(r"\(409\) Conflict", " ".join(one.text for one in outcome.annotations("error")))
    (artifact,) = act.github.artifacts.all("example/artifacts")
    assert list(artifact.files) == ["seen"]
    assert artifact.facts["attempt"] == 1
