"""docs/steps.md says what the steps take: its examples load, and its tables name every setting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.walking import Walk
from vibey_actions.documents.client import VibesClient
from vibey_actions.documents.declare import parse
from vibey_actions.documents.publishers import bsky, command, ig, webhook
from vibey_actions.documents.steps import build, daily, publish
from vibey_actions.documents.steps import command as commands

DOCUMENT = Path(__file__).parents[3] / "docs" / "steps.md"
TEXT = DOCUMENT.read_text("utf-8")
EXAMPLES = re.findall(r"```yaml\n(machines:\n.*?)```", TEXT, re.S)
MODULES = (bsky, command, ig, webhook, build, daily, publish, commands)


def _module(module: object) -> str:
    return str(getattr(module, "__name__", "")).removeprefix("vibey_actions.documents.")


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_loads(number: int, tmp_path: Path) -> None:
    """As the adopter's file, with its variables set and a client at hand: a lane can be made of each machine in it."""
    declared = parse(EXAMPLES[number], "vibey-docs.yml")
    secrets = dict.fromkeys(("IG_TOKEN", "BSKY_APP_PASSWORD", "HOOK_SECRET", "IMAGE_SERVICE_TOKEN"), "a-secret")
    client = VibesClient(("vibes-diy",), "maker/hub", {})
    (name,) = declared.named
    Walk(declared.machines[name], tmp_path, {"PATH": "/usr/bin:/bin", **secrets}, client).lane()


@pytest.mark.parametrize("module", MODULES, ids=_module)
def test_every_setting_is_described(module: object) -> None:
    """No setting of a step or publisher is missing from the document."""
    settings = getattr(module, "_SETTINGS")  # noqa: B009 - not a part of the module's interface
    assert [name for name in settings if f"`{name}`" not in TEXT and f"{name}: " not in TEXT] == []


def test_there_are_examples() -> None:
    """One for each kind of step; otherwise the checks above would say nothing."""
    assert len(EXAMPLES) == 3
