"""From settings to a remote: which kind, under which name, with which token."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.remotes.git import GitRemote
from vibey_actions.remotes.github import GitHubRemote
from vibey_actions.remotes.open import find_token, open_remote, parse_api_url
from vibey_actions.remotes.origin import repository_of

API = "https://api.github.com"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment with the system's programs, without gh."""
    programs = tmp_path / "programs"
    programs.mkdir()
    git = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (programs / "git").symlink_to(git)
    return {"PATH": str(programs), "HOME": str(tmp_path)}


def checkout(folder: Path, origin: str) -> Path:
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    subprocess.run(["git", "-C", str(folder), "remote", "add", "origin", origin], check=True)
    return folder


def gh(env: dict[str, str], script: str) -> None:
    program = Path(env["PATH"]) / "gh"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def test_a_repository_is_on_github(env: dict[str, str]) -> None:
    """VIBEY_STATE_REPOSITORY alone means the REST API; defaults are the spec's."""
    remote = open_remote(env=env, repository="example/app")
    assert isinstance(remote, GitHubRemote)
    assert remote.name == "example/app:vibey-state"


def test_a_remote_wins_over_a_repository(env: dict[str, str], tmp_path: Path) -> None:
    """VIBEY_STATE_REMOTE is the place, the repository then only names it."""
    remote = open_remote(env=env, remote="/srv/state.git", repository="example/app", branch="b")
    assert isinstance(remote, GitRemote)
    assert remote.name == "example/app:b"
    assert open_remote(env=env, remote="state.git", folder=tmp_path).name == f"{tmp_path}/state.git:vibey-state"


def test_no_password_in_a_name(env: dict[str, str]) -> None:
    """What goes into watermarks holds neither user nor password."""
    remote = open_remote(env=env, remote="https://someone:secret@host.example/x.git")
    assert remote.name == "https://host.example/x.git:vibey-state"


@pytest.mark.parametrize("setting", [{"branch": "a..b"}, {"path": "/x"}, {"repository": "x"}, {"remote": "http://x/y"}])
def test_settings_that_cannot_be_used(env: dict[str, str], setting: dict[str, str]) -> None:
    """Each wrong setting is exit code 2, before anything is asked."""
    with pytest.raises(SettingError):
        open_remote(**{"env": env, "repository": "example/app", **setting})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "origin",
    [
        "https://github.com/example/app.git",
        "https://github.com/example/app",
        "https://x-access-token:secret@github.com/example/app.git/",
        "git@github.com:example/app.git",
        "ssh://git@github.com/example/app.git",
        "ssh://git@ssh.github.com:443/example/app.git",
    ],
)
def test_the_checkouts_repository(env: dict[str, str], tmp_path: Path, origin: str) -> None:
    """Without any name it is the repository of the checkout's origin, in every form of its URL."""
    assert open_remote(env=env, folder=checkout(tmp_path / "work", origin)).name == "example/app:vibey-state"


def test_a_checkout_at_an_enterprise_server(env: dict[str, str], tmp_path: Path) -> None:
    """The origin has to be where the API is."""
    folder = checkout(tmp_path / "work", "git@github.example.com:team/app.git")
    assert open_remote(env=env, folder=folder, api_url="https://github.example.com/api/v3").name.startswith("team/app")
    with pytest.raises(SettingError, match=r"github\.example\.com"):
        open_remote(env=env, folder=folder)
    assert repository_of("https://team.ghe.com/a/b.git", "https://api.team.ghe.com") == "a/b"


@pytest.mark.parametrize(
    "origin", ["https://gitlab.example/a/b.git", "/srv/a/b.git", "https://github.com/a", "https://github.com/a/b/c"]
)
def test_a_checkout_of_something_else(origin: str) -> None:
    """A repository elsewhere is not looked for under the same name on GitHub."""
    with pytest.raises(SettingError):
        repository_of(origin, API)


def test_a_checkout_elsewhere_says_where_github_was_looked_for() -> None:
    """Who has set no GITHUB_API_URL is told the host that was meant, and when to set it."""
    with pytest.raises(SettingError, match=r"at gitlab\.example, not at github\.com$") as caught:
        repository_of("https://gitlab.example/a/b.git", "https://api.github.com")
    assert "GITHUB_API_URL" in caught.value.hint


def test_no_checkout(env: dict[str, str], tmp_path: Path) -> None:
    """Outside a checkout, or without an origin, the setting to give is named."""
    with pytest.raises(SettingError) as caught:
        open_remote(env=env, folder=tmp_path)
    assert "VIBEY_STATE_REPOSITORY" in caught.value.hint
    with pytest.raises(SettingError, match="there is no git on PATH"):
        open_remote(env={"PATH": "/nonexistent"}, folder=tmp_path)


def test_the_order_of_tokens(env: dict[str, str]) -> None:
    """GH_TOKEN, else GITHUB_TOKEN, else gh; an empty one does not count."""
    gh(env, "echo from-gh")
    assert find_token({**env, "GH_TOKEN": "first", "GITHUB_TOKEN": "second"}) == "first"
    assert find_token({**env, "GH_TOKEN": "", "GITHUB_TOKEN": "second"}) == "second"
    assert find_token({**env, "GH_TOKEN": " \n", "GITHUB_TOKEN": ""}) == "from-gh"


def test_gh_is_asked_for_the_right_host(env: dict[str, str], tmp_path: Path) -> None:
    """The host is that of the API, and gh gets no secret of ours."""
    gh(env, f'echo "$*" > "{tmp_path}/asked"; export -p > "{tmp_path}/env"; echo token')
    assert find_token({**env, "VIBEY_STATE_KEY": "do-not-pass-on"}, "https://api.github.com") == "token"
    assert (tmp_path / "asked").read_text() == "auth token --hostname github.com\n"
    assert "do-not-pass-on" not in (tmp_path / "env").read_text()
    find_token(env, "https://github.example.com/api/v3")
    assert "--hostname github.example.com" in (tmp_path / "asked").read_text()


@pytest.mark.parametrize("script", ["exit 1", "echo", "echo not logged in >&2; exit 4"])
def test_gh_without_a_token(env: dict[str, str], script: str) -> None:
    """gh that has none, or is not there, means no token."""
    assert find_token(env) is None
    gh(env, script)
    assert find_token(env) is None


@pytest.mark.parametrize("token", ["two words", "line\nbreak", "grün", "a\x00b", "a\r\nX-Header: b"])
def test_a_token_that_is_none(env: dict[str, str], token: str) -> None:
    """What cannot be in a header is refused without showing it."""
    with pytest.raises(SettingError, match="GH_TOKEN") as caught:
        find_token({**env, "GH_TOKEN": token})
    assert token not in f"{caught.value.message}{caught.value.hint}"


@pytest.mark.parametrize("url", ["https://api.github.com", "https://api.github.com/", "http://127.0.0.1:8080/api/v3"])
def test_roots_of_an_api(url: str) -> None:
    """With or without a slash at the end, with a port and a path."""
    assert parse_api_url(url) == url.rstrip("/")


NO_ROOTS = ["api.github.com", "ftp://x", "https://", "https://u:p@x", "https://x?y", "https://x:0", "https://x\n/"]


@pytest.mark.parametrize("url", NO_ROOTS)
def test_no_roots_of_an_api(url: str) -> None:
    """Anything else is a setting that cannot be used."""
    with pytest.raises(SettingError, match="GITHUB_API_URL"):
        parse_api_url(url)


def test_opening_asks_nothing_and_starts_fast(env: dict[str, str]) -> None:
    """The GitHub client is not loaded for a git remote."""
    script = (
        "import sys; from vibey_actions.remotes.open import open_remote; "
        "open_remote(env={}, remote='/srv/x.git'); assert 'requests' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
