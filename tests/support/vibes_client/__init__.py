"""The real client, installed from npm by the action's lock file: once for each version of it, and kept between runs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from vibey_actions.documents.client import find_client

HERE = Path(__file__).parents[3] / "action" / "vibes-client"
FILES = ("package.json", "package-lock.json")


def installed() -> tuple[str, ...]:
    """How the real client is started. Skips the test where there is no npm; fails it where npm does."""
    if shutil.which("npm") is None:
        pytest.skip("NOT TESTED: the real vibes-diy client, because npm is not on PATH")
    content = b"".join((HERE / name).read_bytes() for name in FILES)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vibey-actions-tests"
    folder = cache / f"vibes-client-{hashlib.sha256(content).hexdigest()[:16]}"
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "complete").exists():
            _install(folder)
    return find_client(str(folder / "node_modules" / "vibes-diy" / "cli" / "run.js"), os.environ)


def _install(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in FILES:
        shutil.copy(HERE / name, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    ended = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if ended.returncode:
        pytest.fail(f"npm could not install the real client: {ended.stderr[-2000:]}")
    (folder / "complete").touch()
