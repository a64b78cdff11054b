"""What a clone has to hold: locks without machine paths, links that lead somewhere, a changelog of this version."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

import vibey_actions

ROOT = Path(__file__).parents[2]
LOCKS = ("requirements.txt", "requirements-build.txt", "requirements-dev.txt")
PINNED = re.compile(r"([a-z0-9][a-z0-9.-]*)==[^ ]+(?: ; [^\\]+)? \\")
COMMENT = re.compile(r" *#.*")
HASH = re.compile(r" {4}--hash=sha256:[0-9a-f]{64}(?: \\)?")
LINK = re.compile(r"\]\((?!https?://|mailto:)([^)#\s]*)(?:#([^)\s]+))?\)")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])


def pinned(lock: str) -> set[str]:
    """The names a lock file pins."""
    return {m[1] for line in (ROOT / lock).read_text("utf-8").splitlines() if (m := PINNED.fullmatch(line))}


def declared(requirements: list[str]) -> set[str]:
    """The normalised names of requirements."""
    return {re.sub(r"[-_.]+", "-", re.split(r"[\[<>=!~; ]", one)[0]).lower() for one in requirements}


def anchors(page: Path) -> set[str]:
    """The anchors GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text("utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_is_pins_with_hashes_and_nothing_else(lock: str) -> None:
    """No index, link or path stands in a lock: it installs the same from any mirror."""
    lines = (ROOT / lock).read_text("utf-8").splitlines()
    odd = [line for line in lines if not any(form.fullmatch(line) for form in (PINNED, HASH, COMMENT))]
    assert odd == []


def test_the_locks_hold_what_is_declared() -> None:
    """Every dependency of pyproject.toml is pinned in the lock it belongs to."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    runtime = [*project["project"]["dependencies"], *project["project"]["optional-dependencies"]["embedded"]]
    assert declared(runtime) <= pinned("requirements.txt")
    assert declared(project["dependency-groups"]["build"]) <= pinned("requirements-build.txt")
    assert declared(project["dependency-groups"]["dev"]) <= pinned("requirements-dev.txt")


def test_the_locks_agree() -> None:
    """A package that two locks pin has one version: installing the second does not undo the first."""
    versions: dict[str, set[str]] = {}
    for lock in LOCKS:
        for name, version in re.findall(r"^([a-z0-9.-]+)==([^ ;]+)", (ROOT / lock).read_text("utf-8"), re.M):
            versions.setdefault(name, set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """Every relative link names a file of the repository, and its anchor a heading there."""
    broken = []
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        file = (page.parent / target).resolve() if target else page
        if not file.exists() or (anchor and anchor not in anchors(file)):
            broken.append(f"{target}#{anchor}")
    assert broken == []


def test_the_changelog_begins_with_this_version_or_what_comes_next() -> None:
    """A release cannot be cut without saying what changed in it."""
    first = re.search(r"^## \[?([^\]\s]+)", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.M)
    assert first is not None
    assert first[1] in {"Unreleased", vibey_actions.__version__}


def test_the_entry_points_can_be_run() -> None:
    """.ci/run is executable, and the Makefile has every target that the README names."""
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    makefile = (ROOT / "Makefile").read_text("utf-8")
    named = set(re.findall(r"\bmake ([a-z]+)`", (ROOT / "README.md").read_text("utf-8")))
    assert {target for target in named if not re.search(rf"^{target}:", makefile, re.M)} == set()
    assert {"demo", "test"} <= named
