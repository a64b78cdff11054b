"""The machine that stands for a runner: its python3, its pip settings, and the action's environment made once."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

SYSTEM = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"


def python_folder(shared: Path) -> Path:
    """A folder with the ``python3`` that a runner has: this one, without what tests installed."""
    folder = shared / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    link = folder / "python3"
    if not link.is_symlink():
        aside = folder / f".python3-{os.getpid()}"
        aside.symlink_to(Path(getattr(sys, "_base_executable", sys.executable)).resolve())
        aside.replace(link)
    return folder


def pip_settings() -> dict[str, str]:
    """Where this machine's pip gets packages from, for steps, whose home is another."""
    done = subprocess.run([sys.executable, "-m", "pip", "config", "list"], capture_output=True, text=True, check=True)
    found = {}
    for line in done.stdout.splitlines():
        name, _, value = line.partition("=")
        option = name.rpartition(".")[2].upper().replace("-", "_")
        found[f"PIP_{option}"] = " ".join(value.strip("'\"").replace("\\n", " ").split())
    return found


def install(tool: Path, shared: Path, seed: Path) -> None:
    """Let a step of the action in ``tool`` install it in ``seed``, as in a RUNNER_TEMP. Several may do so at once."""
    seed.mkdir(parents=True, exist_ok=True)
    with seed.with_suffix(".lock").open("w") as lock:
        # The second one finds what the first one made.
        fcntl.flock(lock, fcntl.LOCK_EX)
        _install(tool, shared, seed)


def _install(tool: Path, shared: Path, seed: Path) -> None:
    env = {"PATH": f"{python_folder(shared)}:{SYSTEM}", "HOME": str(shared), "RUNNER_TEMP": str(seed), **pip_settings()}
    # Outside of a run the step itself refuses, after the install.
    command = ["sh", str(tool / "action" / "step.sh")]
    done = subprocess.run(
        command, env={**env, "VIBEY_INPUT_STEP": "open"}, cwd=shared, capture_output=True, text=True, check=False
    )
    assert list(seed.glob("*/*/bin/python")), done.stdout + done.stderr
