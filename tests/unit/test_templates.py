"""The workflows that adopters copy: what GitHub finds only at the run, and what each of them has to say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.act import render

ROOT = Path(__file__).parents[2]
TEMPLATES = sorted((ROOT / "workflows-templates").glob("*.yml"))
OWN = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
CALLED = re.compile(rf"(?:{render.TOOL}/|\./)(?P<path>\.github/workflows/[a-z-]+\.yml)(?:@v1)?(?: .*)?")
WORKFLOWS = pytest.mark.parametrize("path", [*TEMPLATES, *OWN], ids=lambda path: f"{path.parent.name}/{path.name}")


def declared(path: Path) -> dict[str, Any]:
    """What a workflow that is called declares: its inputs and secrets."""
    called = render.load(path.read_text("utf-8"))["on"]["workflow_call"] or {}
    return {kind: called.get(kind) or {} for kind in ("inputs", "secrets")}


def uses(workflow: dict[str, Any]) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every step or job that uses the action or a workflow of ours, with what that declares."""
    action = render.load((ROOT / "action.yml").read_text("utf-8"))
    for job in workflow["jobs"].values():
        called = CALLED.fullmatch(job.get("uses", ""))
        if called:
            yield job, declared(ROOT / called["path"])
        for step in job.get("steps", ()):
            if step.get("uses") in {f"{render.TOOL}@v1", "./.vibey-actions"}:
                yield step, {"inputs": action["inputs"], "secrets": {}}


@WORKFLOWS
def test_every_input_is_declared(path: Path) -> None:
    """An input or secret of another name would be ignored with a warning, and one that is required fails the run."""
    for user, known in uses(render.load(path.read_text("utf-8"))):
        for kind, given in (("inputs", user.get("with", {})), ("secrets", user.get("secrets", {}))):
            assert set(given) <= set(known[kind])
            assert {name for name, one in known[kind].items() if (one or {}).get("required")} <= set(given)


@WORKFLOWS
def test_rights_are_the_least_and_have_their_reason(path: Path) -> None:
    """The workflow grants nothing by itself, and each right of a job says in a comment what it is for."""
    text = path.read_text("utf-8")
    assert render.load(text)["permissions"] == {}
    assert re.findall(r"^ +(?:contents|actions): (?:read|write)(?! # .)", text, re.M) == []


def test_lanes_elsewhere_are_walked_alike_and_with_less() -> None:
    """The workflow without the right to write differs from the other one in rights and credentials alone."""
    jobs = []
    for name in ("advance-docs.yml", "advance-docs-read.yml"):
        (job,) = render.load((ROOT / ".github" / "workflows" / name).read_text("utf-8"))["jobs"].values()
        jobs.append((job.pop("permissions"), job["steps"][-1].pop("env"), job["steps"][-1]["with"], job))
    (write, _, keyed, one), (read, _, _, other) = jobs
    assert (write, read) == ({"contents": "write", "actions": "read"}, {"contents": "read", "actions": "read"})
    assert {name for name in ("key", "token") if keyed.pop(name)} == {"key", "token"}
    assert jobs[1][2].pop("pg-url")
    assert one == other


@WORKFLOWS
def test_no_job_runs_for_ever(path: Path) -> None:
    """Every job has a deadline of its own, and a checkout leaves no token behind."""
    for job in render.load(path.read_text("utf-8"))["jobs"].values():
        assert "uses" in job or job["timeout-minutes"] <= 60
        for step in job.get("steps", ()):
            if "checkout" in step.get("uses", ""):
                assert step["with"]["persist-credentials"] is False


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_says_what_it_does_needs_and_costs(path: Path) -> None:
    """The head of the file is all that an adopter has to read."""
    head = path.read_text("utf-8").partition("\nname: ")[0]
    assert all(line.startswith("#") and len(line) <= 120 for line in head.splitlines())
    for label in ("What it does", "What it needs", "What it costs", "What to change"):
        assert f"# {label} " in head


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_a_template_uses_us_at_the_moving_tag_and_others_by_commit(path: Path) -> None:
    """What adopters copy follows our major version, and nothing else that can be moved."""
    for used in re.findall(r"uses: (\S+)", path.read_text("utf-8")):
        assert re.fullmatch(
            rf"{render.TOOL}(/\.github/workflows/[a-z-]+\.yml)?@v1|actions/[a-z-]+@[0-9a-f]{{40}}", used
        )


@WORKFLOWS
def test_a_pull_request_leaves_the_state_as_it_is(path: Path) -> None:
    """Where a workflow runs for pull requests too, it exports and pushes nothing in them."""
    workflow = render.load(path.read_text("utf-8"))
    closing = [step for step, _ in uses(workflow) if step.get("with", {}).get("step") == "close"]
    if "pull_request" in workflow["on"]:
        assert all("github.event_name != 'pull_request'" in step["if"] for step in closing)
