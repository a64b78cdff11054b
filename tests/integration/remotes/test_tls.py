"""Certificates and proxies: C12, for GitHub and for git over https."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.remotes.conftest import BRANCH, PATH, Place
from tests.support.certificates import make_authority
from tests.support.git_https import GitOverHttps
from tests.support.github_server import GitHubServer, Repository
from vibey_actions.errors import RemoteDenied, RemoteFailed
from vibey_actions.remotes.network import AnswerLost


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Path, ssl.SSLContext]:
    """An authority that no machine knows, and a server's context under it."""
    return make_authority(tmp_path)


@pytest.fixture
def github_tls(tmp_path: Path, authority: tuple[Path, ssl.SSLContext]) -> Iterator[Place]:
    """A repository on a local GitHub that speaks https."""
    with GitHubServer(tmp_path / "github", tls=authority[1]) as server:
        yield Place(server.add_repository("example/app"), tmp_path, server)


def test_an_unknown_authority_is_refused_once(github_tls: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The certificate is checked, the error names the setting, and nothing is tried again."""
    for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RemoteFailed, match="certificate") as caught:
        github_tls.open().head()
    assert not isinstance(caught.value, AnswerLost)
    assert "REQUESTS_CA_BUNDLE" in caught.value.hint
    assert github_tls.slept == []


def test_an_authority_of_ones_own(
    github_tls: Place, authority: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With REQUESTS_CA_BUNDLE it works, uploads included."""
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(authority[0]))
    source = github_tls.sealed(300_000)
    commit = github_tls.open().push({PATH: source}, None)
    assert github_tls.open(cache="other").fetch(commit).read_bytes() == source.read_bytes()


def test_a_proxy_is_used(on_github: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY is honoured: where none listens, the proxy is what the error names."""
    monkeypatch.setenv("HTTP_PROXY", "http://someone:secret@127.0.0.1:9")
    monkeypatch.setenv("http_proxy", "http://someone:secret@127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RemoteFailed, match="proxy") as caught:
        on_github.open().head()
    assert "secret" not in f"{caught.value.message} {caught.value.hint}"
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert on_github.open().head() is None


@pytest.fixture
def git_tls(tmp_path: Path, authority: tuple[Path, ssl.SSLContext]) -> Iterator[GitOverHttps]:
    """git's smart HTTP server with a password."""
    (tmp_path / "served").mkdir()
    with GitOverHttps(tmp_path / "served", authority[1], "someone", "p@ss:word") as server:
        yield server


def git_place(tmp_path: Path, server: GitOverHttps, userinfo: str) -> Place:
    repository = Repository.create(server.folder / "state.git")
    repository.git("config", "http.receivepack", "true")
    repository.commit_files("main", {"README.md": b"x"})
    return Place(repository, tmp_path, url=f"https://{userinfo}{server.netloc}/state.git")


def test_git_over_https(
    tmp_path: Path, git_tls: GitOverHttps, authority: tuple[Path, ssl.SSLContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The password of the URL opens the server; it is in no name and nothing that is kept."""
    monkeypatch.setenv("GIT_SSL_CAINFO", str(authority[0]))
    place = git_place(tmp_path, git_tls, "someone:p%40ss%3Aword@")
    remote = place.open()
    source = place.sealed(3_000_000)
    first = remote.push({PATH: source}, remote.head())
    second = remote.push({PATH: place.sealed()}, first)
    fresh = place.open(cache="other")
    assert fresh.head() == second
    assert fresh.fetch(first).read_bytes() == source.read_bytes()
    assert fresh.is_ancestor(first, second)
    assert remote.name == f"https://{git_tls.netloc}/state.git:{BRANCH}"


@pytest.mark.parametrize("userinfo", ["", "someone:wrong-one@", "someone@"])
def test_git_over_https_without_the_password(
    tmp_path: Path,
    git_tls: GitOverHttps,
    authority: tuple[Path, ssl.SSLContext],
    monkeypatch: pytest.MonkeyPatch,
    userinfo: str,
) -> None:
    """A missing or wrong password is a refusal, without a question at the terminal, and is not shown."""
    monkeypatch.setenv("GIT_SSL_CAINFO", str(authority[0]))
    place = git_place(tmp_path, git_tls, userinfo)
    with pytest.raises(RemoteDenied) as caught:
        place.open().head()
    assert "wrong-one" not in f"{caught.value.message} {caught.value.hint}"
    assert git_tls.refused <= 3


def test_git_over_https_with_an_unknown_authority(tmp_path: Path, git_tls: GitOverHttps) -> None:
    """git checks the certificate as well."""
    assert "GIT_SSL_NO_VERIFY" not in os.environ
    place = git_place(tmp_path, git_tls, "someone:p%40ss%3Aword@")
    with pytest.raises(RemoteFailed, match="certificate"):
        place.open().head()
