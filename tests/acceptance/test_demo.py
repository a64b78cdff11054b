"""The demonstration, as `make demo` runs it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import demo.__main__ as entry
from demo.stage import check

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "demo"]
SECONDS = 120


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder for temporary files that the server's own user may enter, which pytest's are not."""
    folder = Path(tempfile.mkdtemp(prefix="vibey-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def environment(scratch: Path) -> dict[str, str]:
    """What the demonstration is started with: nothing of the tests' own settings."""
    return {"PATH": os.environ["PATH"], "TMPDIR": str(scratch), "LANG": "C.UTF-8", "PYTHONUTF8": "1"}


def test_everything_is_as_told(scratch: Path) -> None:
    """It ends well and leaves nothing behind, and each scene checked at least one of its claims."""
    done = subprocess.run(
        COMMAND,
        cwd=ROOT,
        env=environment(scratch),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr
    scenes = re.split(r"^\d+\. ", done.stdout, flags=re.M)[1:]
    assert len(scenes) == 10
    assert all("✓" in scene for scene in scenes)
    assert "Traceback" not in done.stdout
    assert list(scratch.iterdir()) == []


def test_it_cleans_up_when_it_is_interrupted(scratch: Path) -> None:
    """Ctrl-C in the middle: exit code 1, one line, no server and no folder left."""
    process = subprocess.Popen(
        COMMAND, cwd=ROOT, env=environment(scratch), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("2. "):
            break
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    assert "Traceback" not in said
    deadline = time.monotonic() + SECONDS
    while list(scratch.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert list(scratch.iterdir()) == []


def test_a_claim_that_does_not_hold_ends_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checks are checks: a false one is exit code 1, and says which claim it was."""

    def perform() -> None:
        check("two is two", True)  # noqa: FBT003
        check("two is three", False)  # noqa: FBT003

    monkeypatch.setattr(entry, "perform", perform)
    monkeypatch.setattr(entry, "signal", SimpleNamespace(SIGTERM=15, signal=lambda *_: None))
    assert entry.main() == 1
    assert "this is not as told: two is three" in capsys.readouterr().err


def test_a_python_that_is_too_old_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    """`make demo PYTHON=...` names the interpreter that does not do, and leaves no environment behind."""
    make = shutil.which("make")
    if make is None:
        pytest.skip("NOT TESTED: the Makefile, because make is not on PATH")
    for name in ("Makefile", "requirements.txt", "requirements-build.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    old = tmp_path / "old-python"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    command = [make, "demo", f"PYTHON={old}"]
    env = environment(tmp_path)
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"Python 3.11 or newer is needed, which {old} is not" in done.stderr
    assert not (tmp_path / ".venv").exists()
