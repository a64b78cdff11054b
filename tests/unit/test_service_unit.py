"""What systemd and launchd are told: every value arrives as it was, whatever it holds."""

from __future__ import annotations

import plistlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.service.unit import LABEL, Unit, launchd_plist, systemd_unit

FOLDERS = [
    "plain",
    "with space",
    'quo"te',
    "it's",
    "100% $HOME ${x}",
    "back\\slash",
    "Größe 日本",
    "a;b & <c>",
    "[x]*?",
    "%h",
]


def unit(folder: Path, every: int = 60) -> Unit:
    return Unit(Path(sys.executable), folder, folder / "state-sync.env", every, folder / "sync.log")


def words(line: str) -> list[str]:
    """The words of an ExecStart line as systemd.syntax(7) reads them, specifiers and variables put in."""
    program, line = line[1:].split('" ', 1)
    quoted = re.findall(r'"((?:[^"\\]|\\.)*)"', line)
    assert " ".join(f'"{word}"' for word in quoted) == line
    plain = [re.sub(r"\\(.)", r"\1", word) for word in quoted]
    assert not any(re.search(r"(?<!%)%(?:%%)*(?!%)|(?<!\$)\$(?:\$\$)*(?!\$)", word) for word in plain)
    return [program.replace("%%", "%"), *(word.replace("%%", "%").replace("$$", "$") for word in plain)]


def setting(text: str, name: str) -> str:
    (found,) = re.findall(rf"^{name}=(.*)$", text, re.M)
    return str(found)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_systemd_unit_says_what_was_meant(name: str) -> None:
    """The command and the folder survive quotes, specifiers, variables and backslashes."""
    meant = unit(Path("/srv") / name)
    text = systemd_unit(meant)
    assert words(setting(text, "ExecStart")) == meant.command
    assert setting(text, "WorkingDirectory").replace("%%", "%") == str(meant.folder)
    assert setting(text, "RestartPreventExitStatus") == "2"
    assert all(line.startswith(("#", "[")) or "=" in line or not line for line in text.splitlines())


@pytest.mark.parametrize("name", FOLDERS)
def test_a_launchd_agent_says_what_was_meant(name: str) -> None:
    """The property list reads back as the command, the folder, the log; it holds no variable."""
    meant = unit(Path("/srv") / name, every=5)
    found = plistlib.loads(launchd_plist(meant))
    assert (found["Label"], found["ProgramArguments"]) == (LABEL, meant.command)
    assert (found["WorkingDirectory"], found["StandardErrorPath"]) == (str(meant.folder), str(meant.log))
    assert (found["RunAtLoad"], found["KeepAlive"], found["Umask"]) == (True, {"SuccessfulExit": False}, 0o077)
    assert "EnvironmentVariables" not in found


def test_modules_of_the_folder_are_not_the_programs() -> None:
    """Python is told to keep the working folder out of its path."""
    assert unit(Path("/srv")).command[1:4] == ["-P", "-m", "vibey_actions"]


@pytest.mark.parametrize("name", ["a\nb", "a\x1b", "a\udcff", "a\\", "a ", "a\x85b"])
def test_a_path_that_no_unit_can_name_is_refused(name: str) -> None:
    """A line break would be another line of the unit."""
    with pytest.raises(SettingError, match="no service can name the path"):
        unit(Path("/srv") / name)


@pytest.mark.parametrize("name", ['quo"te', "it's", "back\\slash"])
def test_a_program_that_systemd_starts_under_no_name_is_refused(name: str) -> None:
    """systemd has no way of writing quotes in a program's path; launchd has."""
    odd = Unit(Path("/srv") / name / "python", Path("/srv"), Path("/srv/x.env"), 60, Path("/srv/log"))
    with pytest.raises(SettingError, match="systemd starts no program"):
        systemd_unit(odd)
    assert plistlib.loads(launchd_plist(odd))["ProgramArguments"][0] == str(odd.python)


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
@pytest.mark.parametrize("name", FOLDERS)
def test_systemd_itself_understands_the_unit(tmp_path: Path, name: str) -> None:
    """`systemd-analyze verify` finds the program behind every way of writing, and warns of nothing."""
    folder = tmp_path / name
    folder.mkdir()
    program = tmp_path / re.sub(r"[\"'\\]", "", f"{name} python")
    program.symlink_to(sys.executable)
    file = tmp_path / "vibey-state-sync.service"
    file.write_text(systemd_unit(Unit(program, folder, folder / "x.env", 60, folder / "log")))
    env = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(tmp_path)}
    done = subprocess.run(
        ["systemd-analyze", "verify", "--user", "--man=no", str(file)],
        capture_output=True,
        text=True,
        env=env,
        check=False,
    )
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "")
