"""This repository's own workflows, run for real: the checks with the tools that they call replaced, a release whole."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.act import Act, Adopter
from tests.support.act.render import ROOT
from tests.support.github_server import GitHubServer

CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [{version}] - 2026-01-01\n\n- What changed in {version}.\n"
RECORD = '#!/bin/sh\necho "$(basename "$0") $* pg=$VIBEY_TEST_PG_BIN" >>"$RECORDED"\n'


class Programs:
    """Programs that come first on the PATH and only write down how they were called."""

    def __init__(self, folder: Path, *names: str) -> None:
        folder.mkdir()
        self.folder = folder
        self._calls = folder / "calls"
        for name in names:
            program = folder / name
            program.write_text(RECORD.replace("$RECORDED", str(self._calls)), "utf-8")
            program.chmod(0o755)

    @property
    def calls(self) -> list[str]:
        """Every call so far."""
        return self._calls.read_text("utf-8").splitlines() if self._calls.exists() else []


@pytest.fixture(scope="module")
def act(tmp_path_factory: pytest.TempPathFactory, github: GitHubServer, shared_folder: Path) -> Act:
    """Runs that have no use for the action."""
    return Act(tmp_path_factory.mktemp("own"), github, shared_folder, installed=False)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    """``make``, ``sudo`` and ``gh`` that do nothing."""
    return Programs(tmp_path / "programs", "make", "sudo", "gh")


def own_files(version: str) -> dict[str, str]:
    """The files of this repository that its workflows use, as of a release."""
    workflows = {f".github/workflows/{name}.yml": "" for name in ("ci", "release")}
    files = {name: (ROOT / name).read_text("utf-8") for name in (*workflows, "scripts/release.py")}
    files["src/vibey_actions/__init__.py"] = f'__version__ = "{version}"\n'
    return {**files, "CHANGELOG.md": CHANGELOG.format(version=version)}


def tag(app: Adopter, name: str) -> str:
    """Tag the checkout's commit, as a maintainer does."""
    app.git("tag", name)
    app.git("push", "--quiet", "origin", name)
    return app.git("rev-parse", "HEAD")


def release(app: Adopter, name: str, programs: Programs) -> str:
    """Run the release workflow for a pushed tag; the results of its jobs."""
    outcome = app.run("push", "release.yml", ref=f"refs/tags/{name}", programs=programs.folder)
    assert set(outcome.jobs) <= {"test", "macos", "done", "publish"}, outcome.explain()
    return outcome.result("publish")


def test_every_pair_of_versions_is_checked(act: Act, programs: Programs) -> None:
    """The matrix runs `make test` once a pair, with that PostgreSQL's programs, and all results are looked at."""
    app = act.adopter("example/ci", own_files("0.1.0"))
    outcome = app.run("push", "ci.yml", programs=programs.folder)
    assert outcome.jobs == {"test": ["success"] * 5, "macos": ["success"], "done": ["success"]}, outcome.explain()
    made = sorted(call for call in programs.calls if call.startswith("make"))
    assert [call.rpartition("=")[2] for call in made if "ARGS" not in call] == [
        f"/usr/lib/postgresql/{major}/bin" for major in (14, 15, 16, 17, 18)
    ]
    asked = [line for line in outcome.log().splitlines() if line.startswith("setup-python")]
    assert sorted(set(asked)) == [f"setup-python 3.{minor}" for minor in (11, 12, 13, 14)]


def test_a_failed_check_is_no_release(act: Act, programs: Programs) -> None:
    """Where one check fails nothing is published and the major tag stays."""
    app = act.adopter("example/broken", own_files("1.0.0"))
    tag(app, "v1.0.0")
    (programs.folder / "make").write_text("#!/bin/sh\nexit 1\n", "utf-8")
    assert release(app, "v1.0.0", programs) == "skipped"
    assert app.repository.text("tag", "--list") == "v1.0.0"
    assert [call for call in programs.calls if call.startswith("gh")] == []


def test_a_release_is_published_and_moves_the_major_tag(act: Act, programs: Programs) -> None:
    """The tag that adopters use follows the newest release, and stays where it is for an older line's fix."""
    app = act.adopter("example/releases", own_files("1.0.0"))
    tag(app, "v1.0.0")
    assert release(app, "v1.0.0", programs) == "success"
    app.write(own_files("1.1.0"))
    newest = tag(app, "v1.1.0")
    assert release(app, "v1.1.0", programs) == "success"
    assert app.repository.text("rev-parse", "v1^{commit}") == newest
    app.write(own_files("1.0.1"))
    tag(app, "v1.0.1")
    assert release(app, "v1.0.1", programs) == "success"
    assert app.repository.text("rev-parse", "v1^{commit}") == newest
    published = [call.split()[3] for call in programs.calls if call.startswith("gh release create")]
    assert published == ["v1.0.0", "v1.1.0", "v1.0.1"]


def test_a_tag_that_is_not_the_version_is_not_published(act: Act, programs: Programs) -> None:
    """A mistyped tag stops before anything is published."""
    app = act.adopter("example/mistyped", own_files("1.0.0"))
    tag(app, "v1.0.1")
    assert release(app, "v1.0.1", programs) == "failure"
    assert [call for call in programs.calls if call.startswith("gh")] == []
    assert subprocess.run(
        ["git", "--git-dir", str(app.repository.path), "rev-parse", "--verify", "--quiet", "v1"], check=False
    ).returncode
