"""`service` with stand-ins of systemctl, journalctl and launchctl: files, modes, what they are asked, what is said."""

from __future__ import annotations

import json
import os
import plistlib
import shlex
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

from vibey_actions.cli.main import main
from vibey_actions.errors import SettingError
from vibey_actions.keys import format_key
from vibey_actions.service import environment

KEY = format_key(bytes(range(32)))

SYSTEMCTL = """#!/bin/sh
here=$(dirname "$0")
echo "systemctl $*" >> "$here/calls"
env >> "$here/environment"
[ -e "$here/refuses" ] && { echo "Failed to connect to bus: No medium found" >&2; exit 1; }
[ "$2" = show ] && cat "$here/shows"
exit 0
"""
JOURNALCTL = """#!/bin/sh
printf '2026-01-02T03:04:05Z in sync\\n\\033[2Jhostile\\n'
"""
LAUNCHCTL = """#!/bin/sh
here=$(dirname "$0")
echo "launchctl $*" >> "$here/calls"
case "$1" in
bootout) [ -e "$here/loaded" ] || { echo "Boot-out failed: 3: No such process" >&2; exit 3; }; rm "$here/loaded" ;;
bootstrap) [ -e "$here/loaded" ] && { echo "Bootstrap failed: 5: I/O error" >&2; exit 5; }; : > "$here/loaded" ;;
print) [ -e "$here/loaded" ] || { echo "Could not find service" >&2; exit 113; }; cat "$here/shows" ;;
esac
"""


@dataclass
class Host:
    """A machine: its home, a checkout, and the stand-ins of its programs."""

    home: Path
    checkout: Path
    programs: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run `service ...`, which has to end with ``code``; what it said on both streams."""
        with self.monkeypatch.context() as process:
            path = f"{self.programs}:/usr/bin:/bin"
            process.setattr(os, "environ", {"PATH": path, "HOME": str(self.home), "GH_TOKEN": "token-of-the-tests"})
            process.chdir(self.checkout)
            self.capsys.readouterr()
            ended = main(["service", *arguments])
        said = "".join(self.capsys.readouterr())
        assert ended == code, said
        assert "Traceback" not in said
        return said

    @property
    def env_file(self) -> Path:
        return self.home / ".config" / "vibey" / "state-sync.env"

    @property
    def unit(self) -> Path:
        return self.home / ".config" / "systemd" / "user" / "vibey-state-sync.service"

    @property
    def agent(self) -> Path:
        return self.home / "Library" / "LaunchAgents" / "dev.vibey.state-sync.plist"

    def calls(self) -> list[str]:
        """What the stand-ins were asked since the last look."""
        file = self.programs / "calls"
        found = file.read_text().splitlines() if file.exists() else []
        file.unlink(missing_ok=True)
        return found

    def shows(self, text: str) -> None:
        (self.programs / "shows").write_text(text)

    def fill_in(self, line: str = "VIBEY_STATE_PG_URL=postgresql://o:hunter2@db.example/x") -> None:
        with self.env_file.open("a") as file:
            file.write(f"{line}\n")


def _host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], **programs: str) -> Host:
    host = Host(tmp_path / "home", tmp_path / "my checkout", tmp_path / "bin", monkeypatch, capsys)
    for folder in (host.home, host.checkout / ".git", host.programs):
        folder.mkdir(parents=True)
    for name, text in programs.items():
        (host.programs / name).write_text(text)
        (host.programs / name).chmod(0o755)
    return host


@pytest.fixture
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Host:
    monkeypatch.setattr(sys, "platform", "linux")
    return _host(tmp_path, monkeypatch, capsys, systemctl=SYSTEMCTL, journalctl=JOURNALCTL)


@pytest.fixture
def mac(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Host:
    monkeypatch.setattr(sys, "platform", "darwin")
    return _host(tmp_path, monkeypatch, capsys, launchctl=LAUNCHCTL)


def test_the_first_install_makes_files_and_starts_nothing(linux: Host) -> None:
    """The environment file is made for its owner alone, all in it commented but PATH; without a database no start."""
    said = linux.run("install")
    assert "not started yet" in said
    assert linux.calls() == []
    assert stat.S_IMODE(linux.env_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(linux.env_file.parent.stat().st_mode) == 0o700
    assert list(environment.read(linux.env_file)) == ["PATH"]
    assert linux.unit.exists()


def test_an_install_with_a_database_starts_it(linux: Host) -> None:
    """The second install keeps the file to the byte, and has systemd take up the unit, now and at every login."""
    linux.run("install")
    linux.fill_in()
    before = linux.env_file.read_bytes()
    said = linux.run("install", "--every", "5")
    assert linux.env_file.read_bytes() == before
    assert linux.calls() == [
        "systemctl --user daemon-reload",
        "systemctl --user enable vibey-state-sync.service",
        "systemctl --user restart vibey-state-sync.service",
    ]
    text = linux.unit.read_text()
    assert f'"service" "run" "{linux.env_file}" "--every" "5"' in text
    assert f"WorkingDirectory={linux.checkout}\n" in text
    assert "hunter2" not in said + text
    assert "token-of-the-tests" not in text + (linux.programs / "environment").read_text()
    assert sorted(path.name for path in linux.unit.parent.iterdir()) == [linux.unit.name]


def test_an_environment_file_in_the_way_is_kept(linux: Host) -> None:
    """A link is neither followed nor replaced; a file that others may read is refused before anything is started."""
    linux.env_file.parent.mkdir(parents=True)
    aim = linux.home / "aim"
    linux.env_file.symlink_to(aim)
    assert "there is no" in linux.run("install", code=2)
    assert not aim.exists()
    linux.env_file.unlink()
    linux.env_file.write_text("VIBEY_STATE_PG_URL=postgresql://o:hunter2@db.example/x\n")
    linux.env_file.chmod(0o640)
    said = linux.run("install", code=2)
    assert "open to others (mode 0640)" in said
    assert "hunter2" not in said
    assert linux.calls() == []


def test_a_setting_that_cannot_be_used_is_said_before_the_start(linux: Host) -> None:
    """What would end the service at once ends the install."""
    linux.run("install")
    linux.fill_in()
    linux.fill_in("VIBEY_STATE_BRANCH=a b")
    assert "VIBEY_STATE_BRANCH" in linux.run("install", code=2)
    assert linux.calls() == []


def test_status_on_linux(linux: Host) -> None:
    """Not installed, running with its process and last lines, ended: 1 unless it runs; nothing is shown raw."""
    assert "not installed" in linux.run("status", code=1)
    linux.run("install")
    linux.shows("ActiveState=active\nSubState=running\nMainPID=4711\nExecMainStatus=0\n")
    said = linux.run("status")
    assert "running: active (running), process 4711" in said
    assert "    2026-01-02T03:04:05Z in sync\n    \\x1b[2Jhostile\n" in said
    found = json.loads(linux.run("status", "--json"))
    assert (found["running"], found["process"], len(found["lines"])) == (True, 4711, 2)
    linux.shows("ActiveState=failed\nSubState=failed\nMainPID=0\nExecMainStatus=2\n")
    assert "not running: failed (failed), ended with 2" in linux.run("status", code=1)
    (linux.programs / "journalctl").unlink()
    linux.run("status", code=1)


def test_uninstall_leaves_the_environment_file(linux: Host) -> None:
    """The unit is stopped and gone, what its owner wrote stays and is named; a second time says there is none."""
    linux.run("install")
    linux.calls()
    said = linux.run("uninstall")
    assert linux.calls() == [
        "systemctl --user disable --now vibey-state-sync.service",
        "systemctl --user daemon-reload",
    ]
    assert not linux.unit.exists()
    assert linux.env_file.exists()
    assert f"rm {shlex.quote(str(linux.env_file))}" in said
    assert "there is no" in linux.run("uninstall")


def test_a_manager_that_refuses_is_said(linux: Host) -> None:
    """systemctl's own words, and what to do without it; the same where there is no such program."""
    linux.run("install")
    linux.fill_in()
    (linux.programs / "refuses").touch()
    said = linux.run("install", code=1)
    assert "systemctl refused to daemon-reload: Failed to connect to bus" in said
    assert "state sync --every 60" in said
    assert f"delete {linux.unit} by hand" in linux.run("uninstall", code=1)
    assert linux.unit.exists()
    (linux.programs / "systemctl").unlink()
    linux.monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert "no systemctl on PATH" in linux.run("install", code=1)


def test_install_on_a_mac(mac: Host) -> None:
    """The agent is loaded, and loaded anew by another install; what the log holds last is in the status."""
    mac.run("install")
    assert mac.calls() == []
    mac.fill_in()
    mac.run("install")
    domain = f"gui/{os.getuid()}"
    loading = [f"launchctl bootout {domain}/dev.vibey.state-sync", f"launchctl bootstrap {domain} {mac.agent}"]
    assert mac.calls() == loading
    mac.run("install", "--every", "7")
    assert mac.calls() == loading
    assert plistlib.loads(mac.agent.read_bytes())["ProgramArguments"][-1] == "7"
    assert "hunter2" not in mac.agent.read_text()
    log = mac.home / "Library" / "Logs" / "vibey-state-sync.log"
    log.parent.mkdir(parents=True)
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    mac.shows("gui/501/dev.vibey.state-sync = {\n\tstate = running\n\tpid = 12\n\tlast exit code = (never exited)\n}\n")
    said = mac.run("status")
    assert "running: running, process 12" in said
    assert said.splitlines()[-1] == "    line 99"
    assert "line 89\n" not in said
    mac.shows("\tstate = not running\n\tlast exit code = 1\n")
    assert "not running: not running, ended with 1" in mac.run("status", code=1)
    mac.run("uninstall")
    assert not mac.agent.exists()
    assert mac.env_file.exists()
    assert not (mac.programs / "loaded").exists()


def test_other_systems_are_refused(linux: Host) -> None:
    """What is no Linux and no macOS is told what to run there."""
    linux.monkeypatch.setattr(sys, "platform", "sunos5")
    assert "state sync --every 60" in linux.run("status", code=2)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("# A=1\n\n A = x y \nB='x' \nC=\"a#b\"\nD=\nE='a\n", {"A": "x y", "B": "x", "C": "a#b", "D": "", "E": "'a"}),
        ("A=$HOME%h\\n", {"A": "$HOME%h\\n"}),
        ("A=b=c", {"A": "b=c"}),
    ],
)
def test_the_environment_file(tmp_path: Path, text: str, values: dict[str, str]) -> None:
    """Values are taken as they stand, without a pair of quotes around them; nothing is expanded."""
    file = tmp_path / "x.env"
    file.write_text(text)
    file.chmod(0o600)
    assert environment.read(file) == values


@pytest.mark.parametrize("text", ["hunter2", "export A=hunter2", "A=1\nA=hunter2", "1A=hunter2", "=hunter2"])
def test_a_line_that_is_no_variable_is_not_quoted(tmp_path: Path, text: str) -> None:
    """It may be a piece of a password: its number is enough."""
    file = tmp_path / "x.env"
    file.write_text(text)
    file.chmod(0o600)
    with pytest.raises(SettingError, match=r"line \d") as caught:
        environment.read(file)
    assert "hunter2" not in caught.value.message + caught.value.hint


def test_the_service_syncs_until_it_is_ended(tmp_path: Path, database: Callable[[], str]) -> None:
    """What the unit runs, run: it takes all from its file, says a line a round, and SIGTERM ends it with 0."""
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "state.git")], check=True)
    dsn = database()
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE t (id int PRIMARY KEY)")
    variables = {"VIBEY_STATE_PG_URL": dsn, "VIBEY_STATE_REMOTE": str(tmp_path / "state.git"), "VIBEY_STATE_KEY": KEY}
    file = tmp_path / "state-sync.env"
    file.write_text("".join(f"{name}={value}\n" for name, value in {**variables, "PATH": os.environ["PATH"]}.items()))
    file.chmod(0o600)
    base = {"HOME": str(tmp_path)}
    program = [sys.executable, "-P", "-m", "vibey_actions"]
    subprocess.run([*program, "migrate"], env={**base, **variables, "PATH": os.environ["PATH"]}, check=True)
    with subprocess.Popen(
        [*program, "service", "run", str(file), "--every", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=base,
        cwd=tmp_path,
    ) as service:
        assert service.stdout is not None
        lines = [service.stdout.readline() for _ in range(2)]
        service.send_signal(signal.SIGTERM)
        _, said = service.communicate(timeout=120)
    assert all("in sync with" in line for line in lines), lines
    assert (service.returncode, said) == (0, "")
