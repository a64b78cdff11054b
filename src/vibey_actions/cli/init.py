"""``init``: the files a repository starts with, and what to do next."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from importlib import metadata, resources
from pathlib import Path
from typing import Annotated, Final

import typer

from vibey_actions.cli import console, session
from vibey_actions.config import DEFAULT_FILE
from vibey_actions.errors import FileFailed, VibeyError
from vibey_actions.keys import KeyStore
from vibey_actions.names import is_commit
from vibey_actions.settings import Settings, repository_root

WORKFLOW_FILE: Final = Path(".github/workflows/vibey-state.yml")
SECRET_COMMAND: Final = "vibey-actions state key --show | gh secret set VIBEY_STATE_KEY"  # noqa: S105
ANY_OWNER: Final = "OWNER/vibey-actions@v1"
"""The action as templates name it."""
THEIR_WORK: Final = "./scripts/work.sh"
FIRST_WORK: Final = "psql \"$VIBEY_PG_URL\" --command '\\dt'"
"""What the first workflow does in place of the work that is not there yet."""

_SOURCE: Final = re.compile(r"https://(?:[^@/]*@)?github\.com/(?P<name>[A-Za-z0-9_-]+/[A-Za-z0-9._-]+?)(?:\.git)?/?")

_VERSION: Final = re.compile(r"v[0-9]+(?:\.[0-9]+)*")


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the repository already; None where it cannot be asked."""

    key: str | None = None
    branch: bool | None = None
    public: bool | None = None


def init(
    *,
    public: Annotated[
        bool, typer.Option("--public", help="Declare that workflows of a public repository may open the state.")
    ] = False,
) -> None:
    """Write the configuration file and a first workflow, and say what to do next."""
    root = repository_root(session.working_folder())
    declared = "public = true" if public else "public = false"
    action = action_source()
    files = {
        DEFAULT_FILE: _template("vibey-state.toml").replace("public = false", declared, 1),
        WORKFLOW_FILE: _template("vibey-state.yml").replace(ANY_OWNER, action).replace(THEIR_WORK, FIRST_WORK),
    }
    kept = [name for name, text in files.items() if not _written(root, name, text)]
    _say_next(root, _known(), declared=public, named=action != ANY_OWNER)
    if kept:
        raise typer.Exit(1)


def _say_next(root: Path, known: Known, *, declared: bool, named: bool) -> None:
    console.out()
    console.out("next:")
    if not (root / ".git").exists():
        console.out(f"  - {root} is no git checkout: move the files to the top of your repository")
    console.out(f"  - say in {DEFAULT_FILE} where your SQL migrations are: they make the tables of a job's database")
    if not named:
        console.out(f"  - write the owner of the action's repository into {WORKFLOW_FILE}, in place of OWNER")
    _say_key(known)
    console.out("  - store the key as the repository's secret:")
    console.out(f"        {SECRET_COMMAND}")
    if known.public and not declared:
        console.out(
            "  - this repository is public, so its workflows leave the state closed until .github/vibey-state.toml"
        )
        console.out("    declares `public = true`; whatever their steps print of the state, anyone can read then")
    console.out(f"  - commit {DEFAULT_FILE} and {WORKFLOW_FILE}, and push them: that runs the workflow")
    console.out("  - see whether anything stands in the way:")
    console.out("        vibey-actions doctor")


def _say_key(known: Known) -> None:
    if known.key is not None:
        console.out(f"  - the key is in {known.key}; keep a copy of it where you keep your other secrets")
    elif known.branch:
        console.out(
            "  - the branch is there already: bring the key that sealed it to this machine (VIBEY_STATE_KEY, or the"
        )
        console.out("    key file); a new one does not open it")
    else:
        console.out("  - make the key, once for all machines, and keep a copy where you keep your other secrets:")
        console.out("        vibey-actions state key --new")


def _known() -> Known:
    """What can be found out without a fuss; what cannot is asked by `doctor`, which says why."""
    try:
        settings = session.settings()
    except VibeyError:
        return Known()
    try:
        found = KeyStore(settings, os.environ).find()
    except VibeyError:
        found = None
    branch, public = _repository(settings)
    return Known(found.where if found else None, branch, public)


def _repository(settings: Settings) -> tuple[bool | None, bool | None]:
    """Whether the branch exists, and whether the repository is public."""
    from vibey_actions.remotes.open import open_inspection, remote_of

    try:
        if settings.remote is None:
            inspection = open_inspection(env=os.environ, repository=settings.repository or "", folder=settings.cwd)
            if not inspection.has_token:
                return None, None
            public = not inspection.repository().private
        else:
            public = None
        return remote_of(settings, os.environ, wait_cap=0).head() is not None, public
    except VibeyError:
        return None, None


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


def action_source() -> str:
    """What a workflow writes behind ``uses:`` for the action at the very commit that this program was installed from.

    Where that is not known, the name that a person has to complete.
    """
    try:
        text = metadata.distribution("vibey-actions").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        text = None
    return _at_commit(text or "{}") or ANY_OWNER


def _at_commit(direct_url: str) -> str | None:
    """The repository on GitHub, the commit and the version asked for, as ``direct_url.json`` (PEP 610) records them."""
    recorded = json.loads(direct_url)
    place = _SOURCE.fullmatch(recorded.get("url", ""))
    asked = recorded.get("vcs_info", {})
    commit, revision = asked.get("commit_id", ""), asked.get("requested_revision", "")
    if place is None or not is_commit(commit):
        return None
    return f"{place['name']}@{commit}" + (f" # {revision}" if _VERSION.fullmatch(revision) else "")
