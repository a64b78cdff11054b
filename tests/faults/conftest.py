"""Two machines and a branch, at a git repository or at GitHub's test server, and the cases in which things go wrong."""

from __future__ import annotations

import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from tests.faults.cases import CONFIG, FIRST_MIGRATION, SCENARIOS, Case, prepared
from tests.support.github_server import GitHubServer
from tests.support.machines import BRANCH, Branch, Machine
from vibey_actions.keys import format_key, parse_key
from vibey_actions.remotes.git import GitRemote
from vibey_actions.remotes.github import GitHubRemote

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, Path]]:
    """API root, token and the folder of repositories of a test server in a process of its own."""
    folder = tmp_path_factory.mktemp("github")
    names = [f"example/app{number}" for number in range(40)]
    command = [sys.executable, "-m", "tests.support.github_server", "--folder", str(folder), *names]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url, token = server.stdout.readline().strip(), server.stdout.readline().strip()
        yield url, token, folder
        server.send_signal(signal.SIGTERM)


@pytest.fixture(scope="session")
def github_numbers() -> Iterator[int]:
    """Numbers of repositories of the test server that no test has used."""
    return iter(range(40))


@pytest.fixture
def key_text() -> str:
    return format_key(secrets.token_bytes(32))


@pytest.fixture
def git_branch(tmp_path: Path, key_text: str) -> Branch:
    """A branch of an empty bare repository on this machine."""
    path = tmp_path / "state.git"
    subprocess.run(["git", "init", "--quiet", "--bare", "--template=", "-b", "main", str(path)], check=True)
    return Branch(path, parse_key(key_text), {"VIBEY_STATE_REMOTE": str(path), "VIBEY_STATE_BRANCH": BRANCH})


@pytest.fixture
def github_here(tmp_path: Path) -> Iterator[GitHubServer]:
    """The test server in this process, where faults can be armed and requests counted."""
    with GitHubServer(tmp_path / "github") as server:
        server.add_repository("example/app")
        yield server


def _at(server: GitHubServer, key_text: str) -> Branch:
    settings = {"VIBEY_STATE_REPOSITORY": "example/app", "GITHUB_API_URL": server.url, "GH_TOKEN": server.token}
    return Branch(server.repositories["example/app"].path, parse_key(key_text), settings)


@pytest.fixture
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries do not wait."""
    for remote in (GitRemote, GitHubRemote):
        monkeypatch.setitem(cast(Any, remote.__init__).__kwdefaults__, "sleep", lambda _: None)


@pytest.fixture(params=["git", "github"])
def branch(request: pytest.FixtureRequest, key_text: str) -> Branch:
    """A branch at either kind of remote."""
    if request.param == "git":
        found: Branch = request.getfixturevalue("git_branch")
        return found
    if request.param == "github-here":
        return _at(request.getfixturevalue("github_here"), key_text)
    url, token, folder = request.getfixturevalue("github")
    name = f"app{next(request.getfixturevalue('github_numbers'))}"
    settings = {"VIBEY_STATE_REPOSITORY": f"example/{name}", "GITHUB_API_URL": url, "GH_TOKEN": token}
    return Branch(folder / f"example--{name}.git", parse_key(key_text), settings)


@pytest.fixture
def machines(database: Callable[[], str], tmp_path: Path, key_text: str) -> Callable[..., Machine]:
    """A factory of machines at a branch: ``machines(branch, "a")``, migrated unless told otherwise."""

    def make(branch: Branch, name: str, *, rows: str = "", config: str = CONFIG, migrated: bool = True) -> Machine:
        machine = Machine.make(database(), tmp_path / name, branch, key_text, config)
        (machine.folder / "migrations").mkdir()
        (machine.folder / "migrations" / "0001_first.sql").write_text(FIRST_MIGRATION)
        if migrated:
            machine.operations.migrate()
        if rows:
            machine.execute(rows)
        return machine

    return make


@pytest.fixture
def case(
    request: pytest.FixtureRequest,
    machines: Callable[..., Machine],
    branch: Branch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Case:
    name: str = request.param
    if name in {"fill", "import-fill"}:
        monkeypatch.setattr("vibey_actions.state.cycle.LARGE_FILL", 1)
        monkeypatch.setattr("vibey_actions.operations.LARGE_FILL", 1)
    return prepared(SCENARIOS[name], machines, branch, tmp_path)
