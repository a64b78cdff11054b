"""action.yml: every input reaches Python through the environment, and what it names is what the program knows."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Any

import yaml

from vibey_actions.actions.exports import MOST
from vibey_actions.actions.inputs import Inputs, variable_of
from vibey_actions.actions.step import STEPS

UPLOADED = (
    "steps.upload.outcome == 'success' && steps.step.outputs.export || "
    "steps.again.outcome == 'success' && steps.step.outputs.export-again || ''"
)
ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "action.yml").read_text("utf-8")
MANIFEST: dict[str, Any] = yaml.safe_load(TEXT)
PINNED = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9-]+@[0-9a-f]{40}")


def test_every_input_is_handed_over_by_its_variable() -> None:
    """The step's environment has each input under its variable and nothing else but the run's token."""
    env = MANIFEST["runs"]["steps"][0]["env"]
    expected = {variable_of(name): f"${{{{ inputs.{name} }}}}" for name in MANIFEST["inputs"]}
    assert env == {**expected, "VIBEY_INPUT_RUN_TOKEN": "${{ github.token }}"}


def test_no_script_has_an_expression_in_it() -> None:
    """What a workflow gives is never a part of a script."""
    for step in MANIFEST["runs"]["steps"]:
        assert "${{" not in step.get("run", "")
        assert ("run" in step) == (step.get("shell") == "sh")


def test_what_is_used_is_pinned_by_its_commit() -> None:
    """Every action of somebody else stands at a full commit, with its version beside it."""
    used = re.findall(r"uses: (\S+)(.*)", TEXT)
    assert used
    assert all(PINNED.fullmatch(action) and re.fullmatch(r" # v\d+\.\d+\.\d+", version) for action, version in used)


def test_the_defaults_are_the_programs_own() -> None:
    """The inputs as action.yml leaves them are the inputs that were not given."""
    defaults = {variable_of(name): str(given.get("default", "")) for name, given in MANIFEST["inputs"].items()}
    del defaults[variable_of("token")]
    assert Inputs.from_env(defaults) == Inputs()


def test_the_steps_are_known_everywhere() -> None:
    """bootstrap.py takes the steps that the program has, and the input's description names them."""
    tree = ast.parse((ROOT / "action" / "bootstrap.py").read_text("utf-8"))
    (steps,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "STEPS"
    )
    assert set(steps) == set(STEPS)
    assert all(step in MANIFEST["inputs"]["step"]["description"] for step in STEPS)


def test_outputs_come_from_the_step() -> None:
    """Each output of the action is the step's output of the same name."""
    for name, given in MANIFEST["outputs"].items():
        expected = UPLOADED if name == "export" else f"steps.step.outputs.{name}"
        assert given["value"] == f"${{{{ {expected} }}}}"


def test_what_may_be_missing_is_an_empty_output() -> None:
    """Each upload that fails goes on to a step that deals with it, whatever became of the job."""
    steps = {step["id"]: step for step in MANIFEST["runs"]["steps"] if "upload-artifact" in step.get("uses", "")}
    assert set(steps) == {"upload", "again", *(f"mark-{number}" for number in range(1, MOST + 1))}
    assert all(step["continue-on-error"] is True and "always()" in step["if"] for step in steps.values())
    said = [step["env"]["UPLOADED"] for step in MANIFEST["runs"]["steps"] if "uploads.sh" in step.get("run", "")]
    assert re.findall(r"steps\.([\w-]+)\.outcome", " ".join(said)) == [name for name in steps if name != "upload"]
