"""The configuration file as the run's own commit has it, and whether the work tree is that commit.

In a run the declaration is read from GITHUB_SHA: from git's objects in the workspace, else over the API. A file that a
step wrote into the work tree declares nothing.
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from vibey_actions.actions.event import FOREIGN_CODE, Event
from vibey_actions.config import DEFAULT_FILE, Config, parse_config
from vibey_actions.errors import RemoteFailed, SettingError
from vibey_actions.remotes.http import Api, Refused
from vibey_actions.text import shown

_GIT_SECONDS: Final = 60
_LARGEST: Final = 1 << 20
_NAME: Final = DEFAULT_FILE.as_posix()


class _NotHere(Exception):
    """The workspace's git does not have the commit."""


def text_at(event: Event, workspace: Path, api: Api) -> str:
    """The configuration's text at the run's commit, nothing where it has no such file.

    Raises SettingError for a file that cannot be used, RemoteFailed where it cannot be read.
    """
    try:
        raw = _from_git(event.sha, workspace)
    except _NotHere:
        raw = _from_api(event, api)
    try:
        return (raw or b"").decode("utf-8")
    except UnicodeDecodeError as error:
        raise SettingError(f"{_where(event)} is not UTF-8 text (byte {error.start})", "save it as UTF-8") from None


def parsed(text: str, event: Event, workspace: Path) -> Config:
    """The configuration in what ``text_at`` gave; relative paths in it start from ``workspace``.

    Raises SettingError where it cannot be used.
    """
    return parse_config(text, _where(event), workspace)


def _where(event: Event) -> str:
    return f"{_NAME} at {event.sha[:12]}"


def check_work_tree(event: Event, workspace: Path) -> None:
    """Refuse a checkout of other code where somebody outside may have caused a run that has secrets.

    Migrations are run from the work tree. Raises SettingError naming the event and both commits.
    """
    if event.name not in FOREIGN_CODE or not (workspace / ".git").exists():
        return
    head = _git(workspace, "rev-parse", "--verify", "HEAD^{commit}")
    found = head.stdout.decode("ascii", "replace").strip() if head.returncode == 0 else "no commit that can be read"
    if found != event.sha:
        raise SettingError(
            f"this run of {event.name} has secrets, and its work tree is at {shown(found, 64)} instead of {event.sha}",
            "check out the run's own commit before this step (actions/checkout without ref:), and what a pull request "
            "brought in a job that has no key",
        )


def check_migrations(config: Config, workspace: Path) -> None:
    """Refuse a directory of migrations that is not in the work tree. Raises SettingError."""
    migrations = config.migrations
    if migrations is not None and migrations.directory is not None and not migrations.directory.is_dir():
        raise SettingError(
            f"[migrations] names the directory {migrations.directory.relative_to(workspace)}, which is not there",
            "correct directory in .github/vibey-state.toml, or check the repository out before this step, with all "
            "folders that its migrations are in",
        )


def _git(workspace: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    # A job's container may see a workspace of another user; only objects are read, so nothing of its settings is run.
    command = ["git", "-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C", str(workspace), *arguments]
    environment = {
        "PATH": os.environ.get("PATH", os.defpath),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CEILING_DIRECTORIES": str(workspace.parent),
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    try:
        return subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return subprocess.CompletedProcess(command, 127, b"", b"")


def _from_git(sha: str, workspace: Path) -> bytes | None:
    if _git(workspace, "cat-file", "-e", f"{sha}^{{commit}}").returncode != 0:
        raise _NotHere
    listed = _git(workspace, "ls-tree", "-z", "--full-tree", sha, "--", _NAME)
    if listed.returncode != 0:
        raise _NotHere
    if not listed.stdout:
        return None
    mode, kind, blob = listed.stdout.split(b"\t", 1)[0].split()
    if kind != b"blob" or not mode.startswith(b"100"):
        raise _no_file(sha)
    size = _git(workspace, "cat-file", "-s", blob.decode("ascii"))
    if size.returncode != 0:
        raise _NotHere
    if int(size.stdout) > _LARGEST:
        raise _too_large(sha)
    content = _git(workspace, "cat-file", "blob", blob.decode("ascii"))
    if content.returncode != 0:
        raise _NotHere
    return content.stdout


def _from_api(event: Event, api: Api) -> bytes | None:
    path = f"repos/{event.repository}/contents/{quote(_NAME)}"
    try:
        answer = api.get(path, {"ref": event.sha}).data
    except Refused as refused:
        if refused.status == 404 and _commit_is_there(event, api):  # noqa: PLR2004
            return None
        raise _unreadable(event, refused.words) from None
    if not isinstance(answer, Mapping) or answer.get("type") != "file":
        raise _no_file(event.sha)
    if not isinstance(answer.get("size"), int) or answer["size"] > _LARGEST:
        raise _too_large(event.sha)
    try:
        return base64.b64decode(str(answer.get("content", "")).replace("\n", ""), validate=True)
    except ValueError:
        raise _unreadable(event, "the answer holds no base64") from None


def _commit_is_there(event: Event, api: Api) -> bool:
    """Whether this token sees the commit at all: only then does "not found" speak of the file."""
    try:
        api.get(f"repos/{event.repository}/git/commits/{event.sha}")
    except Refused:
        return False
    return True


def _unreadable(event: Event, words: str) -> RemoteFailed:
    return RemoteFailed(
        f"{_NAME} at {event.sha[:12]} of {event.repository} cannot be read: {words}",
        "check the repository out before this step, or give the job `permissions: contents: read`",
    )


def _no_file(sha: str) -> SettingError:
    return SettingError(f"{_NAME} at {sha[:12]} is no plain file", "commit it as a file, not as a link or a folder")


def _too_large(sha: str) -> SettingError:
    return SettingError(f"{_NAME} at {sha[:12]} is larger than {_LARGEST} bytes", "keep it to what it declares")
