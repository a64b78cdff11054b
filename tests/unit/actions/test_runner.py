"""What goes to GitHub's runner: one command or one harmless line, whatever comes in."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.jobs import entries
from vibey_actions.actions.runner import SUMMARY_LIMIT, Runner
from vibey_actions.errors import FileFailed, SettingError
from vibey_actions.text import harmless

HOSTILE = ["x\n::add-mask::y", "<script>|", "::error::x", "  ::set-output name=a::b", "a ##[error]b",
           "a\r\n::notice::b", "%0A::x", "\x1b[2K::x", "\u2028::x", "::stop-commands::t"]  # fmt: skip


def made(tmp_path: Path, **env: str) -> tuple[Runner, list[str]]:
    """A runner in Actions with its files, and what it wrote to the log."""
    written: list[str] = []
    files = {f"GITHUB_{name}": str(tmp_path / name) for name in ("OUTPUT", "ENV", "STEP_SUMMARY")}
    return Runner({"GITHUB_ACTIONS": "true", **files, **env}, written.append), written


def is_command(line: str) -> bool:
    """Whether the runner takes a line for a command (its own rule, both syntaxes)."""
    return line.lstrip().startswith("::") or "##[" in line


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_a_line_is_one_line_and_no_command(text: str) -> None:
    """Nothing said in the log is a command, and nothing of it begins a second line."""
    line = harmless(text)
    assert not is_command(line)
    assert line.isprintable()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_an_annotation_is_one_command(tmp_path: Path, text: str) -> None:
    """Text and title of an annotation cannot end it: one line, one command, and no property of the text's own."""
    runner, written = made(tmp_path)
    runner.error(text, title=text)
    (line,) = "".join(written).splitlines()
    head, _, message = line.removeprefix("::error title=").partition("::")
    assert line.startswith("::error title=")
    assert ":" not in head
    assert "," not in head
    assert "\x1b" not in message


def test_lines_of_an_annotation_stay_lines(tmp_path: Path) -> None:
    """A message of several lines reaches GitHub as such, percent signs as they are."""
    runner, written = made(tmp_path)
    runner.notice("first\nsecond 5%")
    assert written == ["::notice::first%0Asecond 5%25\n"]


def test_masks_are_one_line_each_and_never_short(tmp_path: Path) -> None:
    """Every line of a secret is masked by itself, once; a short one would star out the whole log (F10)."""
    runner, written = made(tmp_path)
    runner.mask("x\n::add-mask::y", "a secret of 100%\n", "", "a secret of 100%")
    assert written == ["::add-mask::::add-mask::y\n", "::add-mask::a secret of 100%25\n"]


@pytest.mark.parametrize("value", ["", "one", "two\nlines", "vibey_0\nEOF\nname=x", "name<<E\nx\nE"])
def test_outputs_and_variables_hold_what_was_given(tmp_path: Path, value: str) -> None:
    """A value ends where it ends: its delimiter cannot be guessed, and GitHub reads back exactly what was written."""
    runner, _ = made(tmp_path)
    runner.output("first", value)
    runner.output("second", "after")
    runner.variable("VIBEY_PG_URL", value)
    assert entries((tmp_path / "OUTPUT").read_text()) == {"first": value, "second": "after"}
    assert entries((tmp_path / "ENV").read_text()) == {"VIBEY_PG_URL": value}


def test_no_name_from_elsewhere_becomes_an_output(tmp_path: Path) -> None:
    """A name with a line end in it is a fault of ours, not another entry."""
    runner, _ = made(tmp_path)
    with pytest.raises(ValueError, match="x"):
        runner.output("x\ny<<E", "1")


def test_foreign_output_is_between_tokens(tmp_path: Path) -> None:
    """Commands are off around foreign output, behind a token that is another one each time and ends on its own line."""
    runner, written = made(tmp_path)
    for _ in range(2):
        with suppress(RuntimeError), runner.commands_off():
            runner.write("no end of line")
            raise RuntimeError
    stop, _, end, *_ = written
    token = stop.removeprefix("::stop-commands::").strip()
    assert len(token) == 64
    assert end == f"\n::{token}::\n"
    assert written[3] != stop


def test_a_summary_is_cut_before_github_drops_it(tmp_path: Path) -> None:
    """Both a long text and the sum of several stay under the limit, cut between lines, and say so."""
    runner, _ = made(tmp_path)
    runner.summary("ä" * 80 + "\n" + "row of a table\n" * (SUMMARY_LIMIT // 15))
    runner.summary("another\n" * 100)
    text = (tmp_path / "STEP_SUMMARY").read_bytes()
    assert len(text) <= SUMMARY_LIMIT
    assert "goes on in the step's log" in text.decode()[-200:]


def test_outside_a_run_nothing_is_masked_or_written(tmp_path: Path) -> None:
    """Without GITHUB_ACTIONS=true no command goes out and no file is touched."""
    runner, written = made(tmp_path, GITHUB_ACTIONS="false")
    runner.mask("a long enough secret")
    runner.output("a", "b")
    runner.variable("a", "b")
    runner.summary("text")
    runner.error("what failed\nwhat to do")
    with runner.group("title"), runner.commands_off():
        runner.say("line")
    assert written == ["error: what failed\n", "what to do\n", "title\n", "line\n"]
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_error(tmp_path: Path) -> None:
    """A file of the runner's that cannot be written is named."""
    runner, _ = made(tmp_path, GITHUB_OUTPUT=str(tmp_path))
    with pytest.raises(FileFailed, match="GITHUB_OUTPUT cannot be written: Is a directory"):
        runner.output("a", "b")


@pytest.mark.parametrize("value", ["", "relative", "/nonexistent"])
def test_a_job_has_its_folders(tmp_path: Path, value: str) -> None:
    """Without RUNNER_TEMP and GITHUB_WORKSPACE this is no job, which is said by the variable's name."""
    runner, _ = made(tmp_path, RUNNER_TEMP=value, GITHUB_WORKSPACE=value)
    with pytest.raises(SettingError, match="RUNNER_TEMP"):
        _ = runner.temp
    with pytest.raises(SettingError, match="GITHUB_WORKSPACE"):
        _ = runner.workspace
