"""What a person who reports something is asked for: all that mending it needs, and nothing that must stay secret."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

GITHUB = Path(__file__).parents[2] / ".github"
FORMS = sorted(path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
KINDS = {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def form(path: Path) -> dict[str, Any]:
    """An issue form as data."""
    data = yaml.safe_load(path.read_text("utf-8"))
    assert isinstance(data, dict)
    return data


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_a_form_is_one_that_github_takes(path: Path) -> None:
    """Every field has a known kind, a label and an id of its own, and something is required."""
    data = form(path)
    assert {"name", "description", "body"} <= set(data)
    fields = [field for field in data["body"] if field["type"] != "markdown"]
    assert {field["type"] for field in data["body"]} <= KINDS
    assert len({field["id"] for field in fields}) == len(fields)
    assert all(field["attributes"]["label"] for field in fields)
    assert any(field.get("validations", {}).get("required") for field in fields)


def test_a_fault_is_reported_with_what_mending_it_needs() -> None:
    """Doctor's report, the error's code and the versions are asked for, and whoever writes is warned of secrets."""
    data = form(GITHUB / "ISSUE_TEMPLATE" / "bug.yml")
    required = {field["id"] for field in data["body"] if field.get("validations", {}).get("required")}
    assert {"happened", "code", "doctor", "where"} <= required
    text = (GITHUB / "ISSUE_TEMPLATE" / "bug.yml").read_text("utf-8")
    assert "vibey-actions doctor --json" in text
    assert "Never paste a key" in text
    assert form(GITHUB / "ISSUE_TEMPLATE" / "config.yml")["blank_issues_enabled"] is False


def test_dependencies_of_every_kind_are_watched() -> None:
    """Pinned actions, those of the templates too, and the locks get their updates, after some days."""
    updates = form(GITHUB / "dependabot.yml")["updates"]
    assert {one["package-ecosystem"] for one in updates} == {"github-actions", "pip"}
    assert all(one["cooldown"]["default-days"] >= 7 for one in updates)
    assert {"/", "/workflows-templates"} == {folder for one in updates for folder in one.get("directories", ())}
