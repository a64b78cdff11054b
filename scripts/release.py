"""Say what a release tag publishes: ``release.py vX.Y.Z NOTES`` writes the changelog's part for it to NOTES.

The major tag that has to follow is an output for the workflow, empty where a newer release of that line exists already.
Refuses a tag that does not name the version of this tree, or that the changelog does not describe.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
_TAG = re.compile(r"v(\d+)\.(\d+)\.(\d+)")


def version_of(tag: str) -> tuple[int, int, int]:
    """The version that a tag names. Exits where it names none."""
    found = _TAG.fullmatch(tag)
    if found is None:
        sys.exit(f"error: {tag} is no release: tag it vX.Y.Z")
    major, minor, patch = map(int, found.groups())
    return major, minor, patch


def check(tag: str, source: str) -> None:
    """Exit where ``tag`` is not the version that ``source``, the package's first file, states."""
    stated = re.search(r'__version__ = "([^"]+)"', source)
    version = stated[1] if stated else "nowhere to be found"
    if f"v{version}" != tag:
        sys.exit(f"error: the tag is {tag}, and the package's version {version}: make them equal")


def notes(tag: str, changelog: str) -> str:
    """What the changelog says of the version. Exits where it says nothing."""
    found = re.search(rf"^## \[?{re.escape(tag[1:])}\]?(?!\S)[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.M | re.S)
    if found is None or not found[1].strip():
        sys.exit(f"error: CHANGELOG.md has no section {tag[1:]}: rename [Unreleased] and say what changed")
    return found[1].strip() + "\n"


def major_tag(tag: str, tags: list[str]) -> str:
    """The major tag to move to ``tag``; nothing where a newer release of that major version is among ``tags``."""
    version = version_of(tag)
    line = [version_of(one) for one in tags if _TAG.fullmatch(one) and version_of(one)[0] == version[0]]
    return f"v{version[0]}" if version >= max(line, default=version) else ""


def main() -> None:
    """Check the tag, write the notes, set the output ``major``."""
    tag, target = sys.argv[1:]
    version_of(tag)
    check(tag, (ROOT / "src" / "vibey_actions" / "__init__.py").read_text("utf-8"))
    Path(target).write_text(notes(tag, (ROOT / "CHANGELOG.md").read_text("utf-8")), "utf-8")
    tags = subprocess.run(["git", "tag", "--list"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as outputs:
        outputs.write(f"major={major_tag(tag, tags)}\n")


if __name__ == "__main__":
    main()
