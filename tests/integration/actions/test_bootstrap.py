"""step.sh and bootstrap.py: a Python is found, and the action installs itself once, whole or not at all.

What pip itself does is executed with the whole action, in the acceptance tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[3]
HOSTILE = "x\n::error::y"


@pytest.fixture
def bootstrap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """bootstrap.py as a module, for a job with an empty RUNNER_TEMP."""
    spec = spec_from_file_location("bootstrap", ROOT / "action" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setenv("RUNNER_TEMP", str(tmp_path))
    return module


def maker(calls: list[Path]) -> Callable[[Path], None]:
    """An install that makes one file and writes down where."""

    def make(folder: Path) -> None:
        calls.append(folder)
        (folder / "file").write_text("whole")

    return make


def test_an_install_is_made_once(bootstrap: ModuleType, tmp_path: Path) -> None:
    """The second step of a job finds what the first one installed, and makes nothing."""
    calls: list[Path] = []
    first = bootstrap.installed("action-1", maker(calls))
    assert bootstrap.installed("action-1", maker(calls)) == first == tmp_path / bootstrap.FOLDER / "action-1"
    assert len(calls) == 1
    assert [path.name for path in (tmp_path / bootstrap.FOLDER).iterdir()] == ["action-1"]


def test_an_install_that_fails_leaves_nothing_to_be_found(bootstrap: ModuleType) -> None:
    """What was cut off is no install: the next step makes it anew, and it appears only whole."""

    def broken(folder: Path) -> None:
        (folder / "file").write_text("half")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bootstrap.installed("action-1", broken)
    assert (bootstrap.installed("action-1", maker([])) / "file").read_text() == "whole"


def test_two_installs_at_once_do_no_harm(bootstrap: ModuleType) -> None:
    """Whoever comes second throws its own away and uses the other's."""

    def slow(folder: Path) -> None:
        bootstrap.installed("action-1", maker([]))
        (folder / "file").write_text("late")

    assert (bootstrap.installed("action-1", slow) / "file").read_text() == "whole"


def test_an_install_is_named_after_all_that_goes_into_it(
    bootstrap: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another source or lock file is another install; compiled files and the same bytes are not."""
    monkeypatch.setattr(bootstrap, "ROOT", tmp_path)
    source, lock = tmp_path / "src", tmp_path / "lock.txt"
    source.mkdir()
    (source / "a.py").write_text("1")
    lock.write_text("x")
    names = [bootstrap.identity(source, lock)]
    (source / "__pycache__").mkdir()
    (source / "__pycache__" / "a.pyc").write_text("2")
    assert bootstrap.identity(source, lock) == names[0]
    for path, text in ((source / "a.py", "2"), (source / "b.py", "1"), (lock, "y")):
        path.write_text(text)
        names.append(bootstrap.identity(source, lock))
    assert len(set(names)) == 4


def test_pip_sees_no_secret_and_no_orders(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip is told how to reach an index, and neither a key nor what else to install, nor where to."""
    for name in ("VIBEY_INPUT_KEY", "VIBEY_INPUT_TOKEN", "GITHUB_TOKEN", "VIBEY_STATE_KEY", "PIP_TARGET", "PIP_USER",
                 "PIP_REQUIREMENT", "PIP_CONSTRAINT", "PYTHONPATH", "BASH_ENV", "ACTIONS_RUNTIME_TOKEN"):  # fmt: skip
        monkeypatch.setenv(name, "secret")
    monkeypatch.setenv("PIP_INDEX_URL", "https://index.example.com")
    found = bootstrap.pip_environment()
    assert found["PIP_INDEX_URL"] == "https://index.example.com"
    assert "secret" not in found.values()


def test_a_step_becomes_the_program(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The step is our package alone: isolated from the job's Python settings, in an environment under RUNNER_TEMP."""
    started: list[list[str]] = []
    monkeypatch.setattr(bootstrap, "make_tool", maker([]))
    monkeypatch.setattr(os, "execve", lambda _path, argv, _env: started.append(argv))
    assert bootstrap.main(["open"]) == 0
    ((python, *arguments),) = started
    assert Path(python).is_relative_to(tmp_path)
    assert arguments == ["-I", "-X", "utf8", "-m", "vibey_actions", "action", "open"]


@pytest.mark.parametrize("name", ["", "opne", HOSTILE])
def test_an_unknown_step_is_one_annotation(
    bootstrap: ModuleType,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    name: str,
) -> None:
    """A misspelt step is named with those there are, in one command, and in the summary."""
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    assert bootstrap.main([name]) == 1
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert said.startswith("::error title=vibey-actions::")
    assert "open, close, write-back, run" in (tmp_path / "summary").read_text()


def test_a_failed_command_says_how_to_go_on(bootstrap: ModuleType) -> None:
    """The end of what pip said, and the YAML that mends a machine without pip."""
    with pytest.raises(bootstrap.Failed) as caught:
        bootstrap.run([sys.executable, "-c", "import sys; sys.exit('ERROR: no such index')"], "installing")
    assert "installing failed: ERROR: no such index" in caught.value.what
    assert "actions/setup-python@" in caught.value.cure


@pytest.mark.parametrize(
    ("said", "what", "cure"),
    [
        ("WARNING: a\nERROR: OSError: [Errno 28] No space left on device\nWARNING: b", "No space left", "make room"),
        ("Traceback\nImportError: x.so: failed to map segment", "failed to map", "noexec"),
        ("WARNING: a\nERROR: No matching distribution", "No matching", "reach a package index"),
    ],
)
def test_a_failed_command_is_told_by_its_error(bootstrap: ModuleType, said: str, what: str, cure: str) -> None:
    """Warnings around the error are left out, and the cure is for what happened."""
    with pytest.raises(bootstrap.Failed) as caught:
        bootstrap.run([sys.executable, "-c", f"import sys; sys.exit({said!r})"], "installing")
    assert what in caught.value.what
    assert "WARNING" not in caught.value.what
    assert cure in caught.value.cure


def test_a_full_disk_is_no_traceback(
    bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where not even a folder can be made, nor the summary written, there is one annotation that says so."""

    def full(*_: object, **__: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bootstrap.tempfile, "mkdtemp", full)
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "/nonexistent/summary")
    assert bootstrap.main(["open"]) == 1
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert "No space left on device" in said


def test_what_cannot_be_loaded_is_no_install(bootstrap: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was installed is started once before it counts as installed."""
    started: list[list[str]] = []
    folder = bootstrap.tool_folder() / "x"
    (folder / "lib" / "python3" / "site-packages").mkdir(parents=True)
    monkeypatch.setattr(bootstrap, "new_environment", lambda _: ["pip"])
    monkeypatch.setattr(bootstrap, "run", lambda command, _: started.append(command))
    bootstrap.make_tool(folder)
    assert started[-1][-2:] == ["-c", bootstrap.PROOF]
    exec(bootstrap.PROOF, {})  # noqa: S102 - its names are ours


def test_another_users_folder_is_not_used(bootstrap: ModuleType, tmp_path: Path) -> None:
    """A link where installs go could be anybody's."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / bootstrap.FOLDER).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(bootstrap.Failed, match="cannot be used"):
        bootstrap.installed("action-1", maker([]))


def shell(tmp_path: Path, programs: dict[str, str], **env: str) -> subprocess.CompletedProcess[str]:
    """Run step.sh on a machine that has ``programs`` besides the few that any has."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "uname", "dirname"):
        (folder / name).symlink_to(
            next(path for path in (Path("/bin") / name, Path("/usr/bin") / name) if path.exists())
        )
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    variables = {"PATH": str(folder), "RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    return subprocess.run(
        ["/bin/sh", str(ROOT / "action" / "step.sh")],
        env={**variables, "VIBEY_INPUT_STEP": "open", "RUNNER_OS": "Linux", **env},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_first_python_that_is_new_enough_is_taken(tmp_path: Path) -> None:
    """One that is too old is passed over; the step gets its name as one argument, isolated."""
    good = 'case "$2" in -c) exit 0;; esac; printf "%s|" "$@"'
    done = shell(tmp_path, {"python3": "exit 1", "python3.12": good})
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == f"-I|-X|utf8|{ROOT}/action/bootstrap.py|open|"


@pytest.mark.parametrize(
    ("programs", "env", "words"),
    [
        ({}, {}, "no Python 3.11 or newer"),
        ({"python3": "exit 1"}, {}, "actions/setup-python@"),
        ({}, {"RUNNER_OS": "Windows"}, "Windows runners are not supported"),
        ({}, {"RUNNER_TEMP": "/nonexistent"}, "RUNNER_TEMP names no folder"),
    ],
)
def test_a_machine_that_will_not_do_is_told_in_one_line(
    tmp_path: Path, programs: dict[str, str], env: dict[str, str], words: str
) -> None:
    """No Python, Windows, no job: one annotation with the cure, the same in the summary, exit 1."""
    done = shell(tmp_path, programs, **env)
    assert done.returncode == 1
    assert words in done.stdout
    assert done.stdout.count("\n") == 1
    assert words in (tmp_path / "summary").read_text()
