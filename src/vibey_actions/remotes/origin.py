"""OWNER/NAME of the checkout, for an empty VIBEY_STATE_REPOSITORY."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from vibey_actions.errors import SettingError
from vibey_actions.names import parse_repository
from vibey_actions.remotes.places import Place, parse_place

_HINT = "set VIBEY_STATE_REPOSITORY to OWNER/NAME, or VIBEY_STATE_REMOTE to a git repository's URL or path"
_SERVER = "; on a GitHub Enterprise Server set GITHUB_API_URL"
_PASSED_ON = ("PATH", "HOME", "XDG_CONFIG_HOME")


def discover_repository(folder: Path, api_url: str, env: Mapping[str, str]) -> str:
    """OWNER/NAME from the remote ``origin`` of the checkout at ``folder``.

    Raises SettingError where there is no checkout, no origin, or an origin on another host than the API's: a
    repository of the same name elsewhere is another repository.
    """
    try:
        asked = subprocess.run(
            ["git", "-C", str(folder), "remote", "get-url", "origin"],
            env={name: env[name] for name in _PASSED_ON if name in env} | {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=30,
            check=False,
        )
    except FileNotFoundError as error:
        raise SettingError(
            "no repository is named, and there is no git on PATH to ask for the checkout's", f"install git, or {_HINT}"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SettingError("no repository is named, and git cannot be asked for the checkout's", _HINT) from error
    if asked.returncode != 0:
        raise SettingError("no repository is named, and this folder is no checkout with a remote origin", _HINT)
    return repository_of(asked.stdout.decode("utf-8", "replace").strip(), api_url)


def repository_of(origin: str, api_url: str) -> str:
    """OWNER/NAME from a remote's URL. Raises SettingError where it is not on the API's host or not of that form."""
    place = parse_place(origin.replace("http://", "https://", 1), setting="the checkout's origin")
    host, path = _host_and_path(place)
    api_host = urlsplit(api_url).hostname or ""
    if not _same_service(host, api_host):
        github = api_host.removeprefix("api.")
        raise SettingError(f"the checkout's origin is at {host or place.url}, not at {github}", _HINT + _SERVER)
    return parse_repository(path.strip("/").removesuffix(".git"), "the checkout's origin")


def _host_and_path(place: Place) -> tuple[str, str]:
    if place.scheme == "file":
        return "", ""
    if "://" in place.url:
        parts = urlsplit(place.url)
        return parts.hostname or "", parts.path
    host, _, path = place.url.partition(":")
    return host.lower(), path


def _same_service(host: str, api_host: str) -> bool:
    if not host:
        return False
    if api_host in {"localhost", "::1"} or api_host.startswith("127."):
        return True
    return host.removeprefix("ssh.") == api_host.removeprefix("api.")
