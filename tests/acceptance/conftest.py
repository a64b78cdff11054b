"""Machines that run the installed command, each with a home of its own."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.act import Act
from tests.support.github_server import GitHubServer
from vibey_actions.keys import format_key

PROGRAMS = Path(sys.executable).parent


@dataclass
class Machine:
    """A home, a working folder and an environment for ``vibey-actions``."""

    folder: Path
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / "home").mkdir(parents=True)
        path = f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}"
        self.env = {"PATH": path, "HOME": str(self.folder / "home"), "LANG": "C.UTF-8", **self.env}

    def run(self, *arguments: str, expect: int = 0, settings: Mapping[str, str] | None = None) -> str:
        """What ``vibey-actions ARGUMENTS`` prints on stdout; it has to exit with ``expect``."""
        done = self.start([str(PROGRAMS / "vibey-actions"), *arguments], settings)
        assert done.returncode == expect, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def start(self, command: list[str], settings: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run any command here."""
        env = {**self.env, **(settings or {})}
        return subprocess.run(
            command, env=env, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )


@pytest.fixture
def key() -> str:
    """A new key, as text."""
    return format_key(secrets.token_bytes(32))


@pytest.fixture
def machine(tmp_path: Path, key: str) -> Callable[..., Machine]:
    """A factory of machines that hold the key; keywords are settings without their VIBEY_STATE_."""

    def make(name: str, **settings: str) -> Machine:
        env = {"VIBEY_STATE_KEY": key, **{f"VIBEY_STATE_{one.upper()}": value for one, value in settings.items()}}
        return Machine(tmp_path / name, env)

    return make


@pytest.fixture
def bare_repository(tmp_path: Path) -> Path:
    """An empty bare git repository."""
    path = tmp_path / "state.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
    return path


@pytest.fixture(scope="session")
def github(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitHubServer]:
    """The local GitHub that all runs of this process share."""
    with GitHubServer(tmp_path_factory.mktemp("github")) as server:
        yield server


@pytest.fixture(scope="session")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run share."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "shared"


@pytest.fixture(scope="session")
def act(tmp_path_factory: pytest.TempPathFactory, github: GitHubServer, shared_folder: Path) -> Act:
    """Workflows run for real; the action's environment is installed already in every job's RUNNER_TEMP."""
    return Act(tmp_path_factory.mktemp("act"), github, shared_folder)
