"""A copy of workflows and of this repository as act understands them, and nothing else changed.

act has no ``queue:`` of a concurrency group, leaves ``job.workflow_*`` empty, takes ``./x`` of a called workflow for
the caller's, and knows one token for a whole run. So in the copy ``queue:`` is left out; our own action and workflows,
which on GitHub are found by their repository and commit, are called ``OWNER/vibey-actions@self``; and ``github.token``
becomes a token of the job's own, of which the local GitHub knows what the job's ``permissions`` allow.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[3]
TOOL = "OWNER/vibey-actions"
SELF = f"{TOOL}@self"
JOB_TOKEN = "format('{0}-{1}', github.token, github.job)"
SEED = """for made in "@SEED@"/*/*; do
  folder="$RUNNER_TEMP/$(basename "$(dirname "$made")")"
  mkdir -p "$folder" && ln -s "$made" "$folder/"
done"""
TAKEN = ("action.yml", "action", "src", ".github/workflows", "pyproject.toml", "LICENSE", "README.md")

_TOKEN = re.compile(r"github\.token\b|secrets\.GITHUB_TOKEN\b")
_CONTEXTS = ("actions", "artifact-metadata", "attestations", "checks", "contents", "deployments", "issues", "packages")
_LEVELS = ("none", "read", "write")


class _Loader(yaml.SafeLoader):
    """YAML as GitHub reads it: ``on`` is no boolean."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, form) for tag, form in forms if tag != "tag:yaml.org,2002:bool"]
    for first, forms in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("true|false"), list("tf"))


def load(text: str) -> dict[str, Any]:
    """A workflow as data."""
    data = yaml.load(text, _Loader)  # noqa: S506 - a SafeLoader
    assert isinstance(data, dict)
    return data


def permissions(workflow: Mapping[str, Any], job: Mapping[str, Any]) -> dict[str, str]:
    """What a job's token may do, as GitHub reads ``permissions``; nothing said is the restricted default."""
    said = job.get("permissions", workflow.get("permissions", {"contents": "read"}))
    if isinstance(said, str):
        level = said.removesuffix("-all")
        return dict.fromkeys(_CONTEXTS, level)
    return {scope: level for scope, level in said.items() if level != "none"}


def exceeds(asked: Mapping[str, str], granted: Mapping[str, str]) -> list[str]:
    """The scopes that a called workflow asks for beyond its caller's: GitHub does not start such a run."""
    rank = _LEVELS.index
    return [scope for scope, level in asked.items() if rank(level) > rank(granted.get(scope, "none"))]


def workflow(text: str, seed: Path | None) -> str:
    """A workflow for act. ``seed`` is a folder whose files every job finds in its RUNNER_TEMP."""
    data = load(text)
    _unqueue(data)
    for job in data["jobs"].values():
        _unqueue(job)
        if "uses" in job:
            job["uses"] = re.sub(r"^\./(.+)$", rf"{TOOL}/\1@self", job["uses"])
        else:
            job["steps"] = _steps(job["steps"], seed)
    return yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=1000)


def _unqueue(part: dict[str, Any]) -> None:
    if isinstance(part.get("concurrency"), dict):
        part["concurrency"].pop("queue", None)


def _steps(steps: list[dict[str, Any]], seed: Path | None) -> list[dict[str, Any]]:
    kept = [_own(step) for step in steps if "workflow_repository" not in str(step.get("with", {}).get("repository"))]
    own = _TOKEN.sub(JOB_TOKEN, yaml.safe_dump(kept, sort_keys=False, allow_unicode=True, width=1000))
    first = {"name": "Seed RUNNER_TEMP", "shell": "bash", "run": SEED.replace("@SEED@", str(seed))}
    return [*([first] if seed else []), *yaml.safe_load(own)]


def _own(step: dict[str, Any]) -> dict[str, Any]:
    return {**step, "uses": SELF} if step.get("uses") == "./.vibey-actions" else step


def tool(target: Path, seed: Path | None) -> Path:
    """A copy of this working tree's action and workflows."""
    target.mkdir()
    for name in (*TAKEN, *(one.name for one in ROOT.glob("requirements*.txt"))):
        source, copy = ROOT / name, target / name
        if source.is_dir():
            shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"), symlinks=True)
        elif source.exists():
            shutil.copy2(source, copy)
    for path in (target / ".github" / "workflows").glob("*.yml"):
        path.write_text(workflow(path.read_text("utf-8"), seed), "utf-8")
    action = target / "action.yml"
    action.write_text(_tokens(action.read_text("utf-8")), "utf-8")
    return target


def _tokens(text: str) -> str:
    """The action with the job's own token where it would take ``github.token`` by default."""
    own = f"${{{{ inputs.token == github.token && {JOB_TOKEN} || inputs.token }}}}"
    rendered = text.replace("${{ inputs.token }}", own).replace("${{ github.token }} #", f"${{{{ {JOB_TOKEN} }}}} #")
    assert rendered != text, "the action takes no token"
    return rendered
