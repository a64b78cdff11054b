"""The client of vibes that a job installs: by the lock file, once, whole or not at all, and with little to see."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from vibey_actions.actions.client import with_client
from vibey_actions.actions.runner import Runner
from vibey_actions.errors import SettingError, StoreFailed
from vibey_actions.lanes.setup import Setup, read_setup

ROOT = Path(__file__).parents[3]
NPM = f"""#!{sys.executable}
import json, os, pathlib, sys
notes = {{"arguments": sys.argv[1:], "variables": sorted(os.environ), "files": sorted(os.listdir("."))}}
with open("@NOTES@", "a") as file:
    file.write(json.dumps(notes) + "\\n")
@THEN@
script = pathlib.Path("node_modules/vibes-diy/cli/run.js")
script.parent.mkdir(parents=True)
script.write_text("")
node = pathlib.Path("node_modules/.bin/node")
node.parent.mkdir()
node.write_text("#!/bin/sh")
node.chmod(0o755)
"""


class Machine:
    """A runner whose PATH holds an npm of ours and nothing else."""

    def __init__(self, folder: Path, then: str = "") -> None:
        self.notes = folder / "notes"
        for name in ("bin", "temp", "checkout"):
            (folder / name).mkdir()
        npm = folder / "bin" / "npm"
        npm.write_text(NPM.replace("@NOTES@", str(self.notes)).replace("@THEN@", then))
        npm.chmod(0o755)
        self.said: list[str] = []
        env = {"PATH": str(folder / "bin"), "RUNNER_TEMP": str(folder / "temp"), "VIBEY_ACTION_ROOT": str(ROOT)}
        env |= {
            "VIBES_DEVICE_ID": "secret",
            "VIBEY_INPUT_KEY": "secret",
            "GH_TOKEN": "secret",
            "npm_config_cache": "/c",
        }
        self.runner = Runner(env, self.said.append)
        self.setup = read_setup({"VIBEY_DOCS_VIBE": "maker/hub"}, folder / "checkout")

    def client(self) -> Setup:
        return with_client(self.setup, self.runner)

    @property
    def calls(self) -> list[str]:
        return self.notes.read_text().splitlines() if self.notes.exists() else []


def test_the_client_is_installed_by_the_lock_file_once(tmp_path: Path) -> None:
    """npm ci without any package's own script, in a folder with the two files; a second step finds it there."""
    machine = Machine(tmp_path)
    found = machine.client().client
    assert found is not None
    assert Path(found).is_relative_to(tmp_path / "temp")
    assert Path(found).name == "run.js"
    assert machine.client().client == found
    (call,) = machine.calls
    assert '"ci", "--ignore-scripts"' in call
    assert '"files": ["package-lock.json", "package.json"]' in call


def test_npm_sees_no_secret(tmp_path: Path) -> None:
    """How the registry is reached, and nothing of the job's."""
    machine = Machine(tmp_path)
    machine.client()
    (call,) = machine.calls
    assert "npm_config_cache" in call
    assert "DEVICE" not in call
    assert "VIBEY" not in call
    assert "TOKEN" not in call


def test_an_install_that_fails_leaves_nothing_and_is_tried_again(tmp_path: Path) -> None:
    """The words of npm are said in one line; the next step starts anew."""
    machine = Machine(tmp_path, 'sys.exit("the registry is\\n::error::away")')
    with pytest.raises(StoreFailed) as caught:
        machine.client()
    assert "the registry is ::error::away" in caught.value.message
    assert [path for path in (tmp_path / "temp").rglob("*") if path.is_file()] == []
    with pytest.raises(StoreFailed):
        machine.client()
    assert len(machine.calls) == 2


def test_what_is_there_is_not_installed(tmp_path: Path) -> None:
    """A client on PATH is used; a declared one that is missing is a mistake to say, not to work around."""
    machine = Machine(tmp_path)
    program = tmp_path / "bin" / "vibes-diy"
    program.write_text("#!/bin/sh")
    program.chmod(0o755)
    assert machine.client() == machine.setup
    program.unlink()
    machine.setup = read_setup({"VIBEY_DOCS_VIBE": "maker/hub", "VIBEY_DOCS_CLIENT": "gone"}, tmp_path / "checkout")
    with pytest.raises(SettingError, match="was not found at"):
        machine.client()
    assert machine.calls == []


def test_without_npm_it_says_what_to_do(tmp_path: Path) -> None:
    """A runner without Node.js gets a sentence."""
    machine = Machine(tmp_path)
    (tmp_path / "bin" / "npm").unlink()
    with pytest.raises(SettingError, match="no npm"):
        machine.client()
