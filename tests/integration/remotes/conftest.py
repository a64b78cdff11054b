"""Places for remotes: git repositories of both object formats, and the local GitHub, all with the same handles."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.github_server import GitHubServer, Repository
from vibey_actions.remotes.base import Remote
from vibey_actions.remotes.cache import SealedCache
from vibey_actions.remotes.git import GitRemote
from vibey_actions.remotes.github import GitHubRemote

BRANCH = "vibey-state"
PATH = "state.vibey"


@dataclass
class Place:
    """Somewhere a state branch can be: ``repository`` to arrange and look by hand, ``open`` for the remote under test.

    ``slept`` collects the pauses, none of which are really made; ``notices`` what would have been shown; ``clock`` is
    GitHub's client's.
    """

    repository: Repository
    folder: Path
    github: GitHubServer | None = None
    url: str = ""
    slept: list[float] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    clock: Callable[[], float] = time.time

    def open(
        self, branch: str = BRANCH, path: str = PATH, cache: str = "cache", token: str | None = "", wait_cap: float = 60
    ) -> Remote:
        folder = self.folder / cache
        if self.github is None:
            place = self.url or str(self.repository.path)
            notice = self.notices.append
            return GitRemote(place, branch, path, cache_folder=folder, notice=notice, sleep=self.slept.append)
        return GitHubRemote(
            self.repository.name,
            branch,
            path,
            token=self.github.token if token == "" else token,
            api_url=self.github.url,
            cache=SealedCache(folder, f"{self.repository.name}:{branch}"),
            notice=self.notices.append,
            wait_cap=wait_cap,
            sleep=self.slept.append,
            clock=self.clock,
        )

    def sealed(self, content: bytes | int = 1000) -> Path:
        """A local file that looks sealed: of these bytes, or of so many random ones."""
        path = self.folder / f"sealed-{os.urandom(4).hex()}"
        path.write_bytes(content if isinstance(content, bytes) else b"VBYSTAT1" + os.urandom(content))
        return path


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    """The local GitHub, without a repository."""
    with GitHubServer(tmp_path / "github") as server:
        yield server


@pytest.fixture
def on_github(github: GitHubServer, tmp_path: Path) -> Place:
    """A repository with a first commit on the local GitHub."""
    return Place(github.add_repository("example/app"), tmp_path, github)


def _git_place(tmp_path: Path, object_format: str) -> Place:
    repository = Repository.create(tmp_path / "state.git", object_format=object_format)
    repository.commit_files("main", {"README.md": b"An example.\n"})
    return Place(repository, tmp_path)


@pytest.fixture
def on_git(tmp_path: Path) -> Place:
    """A bare git repository with a first commit."""
    return _git_place(tmp_path, "sha1")


@pytest.fixture
def on_distant_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The same, reached as over ssh: nothing is borrowed from it, and its server has git's own defaults."""
    place = _git_place(tmp_path, "sha1")
    programs = tmp_path / "programs"
    programs.mkdir()
    ssh = programs / "ssh"
    ssh.write_text('#!/bin/sh\nfor command; do :; done\nunset GIT_DIR\nexec sh -c "$command"\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    place.url = f"ssh://git@host.example{place.repository.path}"
    return place


@pytest.fixture(params=["git", "git-sha256", "git-ssh", "github"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Every kind of place, one after the other."""
    kinds: dict[str, Callable[[], Place]] = {
        "git": lambda: request.getfixturevalue("on_git"),
        "git-sha256": lambda: _git_place(tmp_path, "sha256"),
        "git-ssh": lambda: request.getfixturevalue("on_distant_git"),
        "github": lambda: request.getfixturevalue("on_github"),
    }
    return kinds[request.param]()
