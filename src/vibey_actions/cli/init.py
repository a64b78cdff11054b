"""``init``: the files a repository starts with, and how its secret is stored."""

from __future__ import annotations

import json
import re
from importlib import metadata, resources
from pathlib import Path
from typing import Final

import typer

from vibey_actions import __version__
from vibey_actions.cli import console, session
from vibey_actions.config import DEFAULT_FILE
from vibey_actions.errors import FileFailed
from vibey_actions.settings import repository_root

WORKFLOW_FILE: Final = Path(".github/workflows/vibey-state.yml")
SECRET_COMMAND: Final = "vibey-actions state key --show | gh secret set VIBEY_STATE_KEY"  # noqa: S105

_SOURCE: Final = re.compile(r"https://(?:[^@/]*@)?(?P<place>[A-Za-z0-9.-]+(?::[0-9]+)?/[A-Za-z0-9._/~-]+)")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def init() -> None:
    """Write the configuration file and a first workflow, and say how the key becomes the repository's secret."""
    root = repository_root(session.working_folder())
    files = {
        DEFAULT_FILE: _template("vibey-state.toml"),
        WORKFLOW_FILE: _template("vibey-state.yml").replace("@PACKAGE@", package_source()),
    }
    kept = [name for name, text in files.items() if not _written(root, name, text)]
    console.out()
    console.out("next, make the key once if there is none yet, and store it as the repository's secret:")
    console.out("    vibey-actions state key --new")
    console.out(f"    {SECRET_COMMAND}")
    if kept:
        raise typer.Exit(1)


def _written(root: Path, name: Path, text: str) -> bool:
    """Whether the file could be made; one that exists is left as it is."""
    path = root / name
    try:
        if path.exists() or path.is_symlink():
            console.err(f"error: {path} exists already and was left as it is")
            return False
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise FileFailed(
            f"{path} cannot be written: {error.strerror}", "run init in a checkout that this user can write"
        ) from error
    console.out(f"wrote {path}")
    return True


def _template(name: str) -> str:
    return resources.files("vibey_actions.cli").joinpath("templates", name).read_text("utf-8")


def package_source() -> str:
    """What pip installs to get this program: the commit it was installed from where that is known, else its version."""
    try:
        text = metadata.distribution("vibey-actions").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    return _git_source(text or "{}") or f"vibey-actions=={__version__}"


def _git_source(direct_url: str) -> str | None:
    """The git place and commit that ``direct_url.json`` (PEP 610) records, without a user or password."""
    recorded = json.loads(direct_url)
    place = _SOURCE.fullmatch(recorded.get("url", ""))
    commit = recorded.get("vcs_info", {}).get("commit_id", "")
    if place is None or not _COMMIT.fullmatch(commit):
        return None
    return f"git+https://{place['place']}@{commit}"
