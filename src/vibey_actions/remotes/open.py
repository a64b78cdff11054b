"""From plain settings to a remote: a git repository where VIBEY_STATE_REMOTE names one, else GitHub."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from vibey_actions.errors import SettingError
from vibey_actions.names import DEFAULT_BRANCH, DEFAULT_PATH, parse_branch, parse_repository, parse_tree_path
from vibey_actions.remotes.base import Remote
from vibey_actions.remotes.cache import SealedCache, default_cache_folder
from vibey_actions.remotes.origin import discover_repository
from vibey_actions.remotes.places import parse_place, watermark_name
from vibey_actions.remotes.words import Notice, silent

if TYPE_CHECKING:
    from vibey_actions.remotes.inspection import Inspection


class Where(Protocol):
    """The part of the settings that says where the branch is."""

    @property
    def remote(self) -> str | None: ...
    @property
    def repository(self) -> str | None: ...
    @property
    def branch(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def cwd(self) -> Path: ...


DEFAULT_API = "https://api.github.com"
_TOKEN_NAMES = ("GH_TOKEN", "GITHUB_TOKEN")


def remote_of(where: Where, env: Mapping[str, str], *, notice: Notice = silent, wait_cap: float = 60) -> Remote:
    """The remote that settings and environment mean; see ``open_remote``."""
    return open_remote(
        env=env,
        remote=where.remote or "",
        repository=where.repository or "",
        branch=where.branch,
        path=where.path,
        api_url=env.get("GITHUB_API_URL", ""),
        folder=where.cwd,
        notice=notice,
        wait_cap=wait_cap,
    )


def open_remote(
    *,
    env: Mapping[str, str],
    remote: str = "",
    repository: str = "",
    branch: str = "",
    path: str = "",
    api_url: str = "",
    cache_folder: Path | None = None,
    folder: Path | None = None,
    notice: Notice = silent,
    wait_cap: float = 60,
) -> Remote:
    """The remote that the settings mean; empty ones have their defaults. Nothing is asked of it yet.

    ``remote`` is VIBEY_STATE_REMOTE, ``repository`` VIBEY_STATE_REPOSITORY (it names the remote where both are set;
    where neither is, the repository is the one of the checkout at ``folder``), ``branch`` VIBEY_STATE_BRANCH,
    ``path`` VIBEY_STATE_PATH, ``api_url`` GITHUB_API_URL. ``env`` gives the token, PATH and the place of the cache.
    ``wait_cap`` is how many seconds an operation may wait for GitHub's rate limits in total. Raises SettingError for
    a setting that cannot be used.
    """
    branch = parse_branch(branch or DEFAULT_BRANCH)
    path = parse_tree_path(path or DEFAULT_PATH)
    cache_folder = cache_folder or default_cache_folder(env)
    repository = parse_repository(repository) if repository.strip() else ""
    if remote.strip():
        from vibey_actions.remotes.git import GitRemote

        place = parse_place(remote, folder)
        name = watermark_name(branch, repository, place)
        return GitRemote(place, branch, path, cache_folder=cache_folder, name=name, notice=notice, env=env)
    from vibey_actions.remotes.github import GitHubRemote

    api_url = parse_api_url(api_url or DEFAULT_API)
    repository = repository or discover_repository(folder or Path.cwd(), api_url, env)
    return GitHubRemote(
        repository,
        branch,
        path,
        token=find_token(env, api_url),
        api_url=api_url,
        cache=SealedCache(cache_folder, watermark_name(branch, repository)),
        notice=notice,
        wait_cap=wait_cap,
    )


def open_inspection(
    *,
    env: Mapping[str, str],
    repository: str = "",
    folder: Path | None = None,
    notice: Notice = silent,
    clock: Callable[[], float] = time.time,
) -> Inspection:
    """Questions about the GitHub repository that ``open_remote`` would keep the branch in. Raises SettingError.

    Nothing is waited for: a rate limit is an answer as well, and what fails is asked again at once.
    """
    from vibey_actions.remotes.http import Api
    from vibey_actions.remotes.inspection import Inspection

    api_url = parse_api_url(env.get("GITHUB_API_URL", "") or DEFAULT_API)
    name = parse_repository(repository) if repository else discover_repository(folder or Path.cwd(), api_url, env)
    api = Api(api_url, find_token(env, api_url), notice=notice, wait_cap=0, sleep=lambda _: None, clock=clock)
    return Inspection(name, api, clock)


def parse_api_url(text: str) -> str:
    """GITHUB_API_URL without a slash at its end. Raises SettingError where it is no http(s) URL, or holds a user."""
    url = text.strip().rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment or not url.isprintable():
        raise SettingError(
            "GITHUB_API_URL is not the root of an API",
            "for example https://api.github.com, or https://HOST/api/v3 for GitHub Enterprise Server",
        )
    return url


def find_token(env: Mapping[str, str], api_url: str = DEFAULT_API) -> str | None:
    """GH_TOKEN, else GITHUB_TOKEN, else what ``gh auth token`` prints where gh is installed; None without any.

    Raises SettingError, never showing it, for a token that cannot be sent in a header.
    """
    for name in _TOKEN_NAMES:
        token = env.get(name, "").strip()
        if token:
            return _sendable(token, name)
    token = _ask_gh(env, api_url)
    return _sendable(token, "the token of gh") if token else None


def _sendable(token: str, name: str) -> str:
    if not token.isascii() or not token.isprintable() or " " in token:
        raise SettingError(f"{name} is not a token: it holds spaces, line ends or other characters", "set it again")
    return token


def _ask_gh(env: Mapping[str, str], api_url: str) -> str:
    host = urlsplit(api_url).hostname or ""
    host = host.removeprefix("api.")
    passed = ("PATH", "HOME", "XDG_CONFIG_HOME", "GH_CONFIG_DIR", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")
    try:
        asked = subprocess.run(
            ["gh", "auth", "token", "--hostname", host],
            env={name: env[name] for name in passed if name in env} | {"GH_PROMPT_DISABLED": "1"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=15,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.decode("ascii", "replace").strip() if asked.returncode == 0 else ""
