"""One step's way to speak to GitHub's runner: outputs, variables, masks, annotations and the summary.

Source: docs.github.com, "Workflow commands for GitHub Actions". Whatever text comes in, what goes out is one command or
one harmless line: no value ends a command, begins another, or ends a file's entry early. Outside a run nothing is
masked and no file is written.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vibey_actions.errors import FileFailed, SettingError
from vibey_actions.text import harmless, visible

SUMMARY_LIMIT: Final = 1 << 20
"""GitHub drops a step's summary that is larger."""
SHORTEST_MASK: Final = 8
"""A shorter text would be starred out wherever a log happens to hold it."""

_CUT: Final = "\n\n*The summary goes on in the step's log: GitHub takes no more than 1 MiB of it.*\n"
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def _to_stdout(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


@dataclass(frozen=True)
class Runner:
    """``env`` is the step's whole environment; ``write`` takes what goes to the log."""

    env: Mapping[str, str] = field(repr=False)
    write: Callable[[str], None] = _to_stdout

    @property
    def in_actions(self) -> bool:
        """Whether this is a step of a run."""
        return self.env.get("GITHUB_ACTIONS", "").strip().lower() == "true"

    @property
    def temp(self) -> Path:
        """RUNNER_TEMP, the job's own folder. Raises SettingError where there is none."""
        return self._folder("RUNNER_TEMP")

    @property
    def workspace(self) -> Path:
        """GITHUB_WORKSPACE, where the job's checkout is. Raises SettingError where there is none."""
        return self._folder("GITHUB_WORKSPACE")

    def _folder(self, name: str) -> Path:
        folder = Path(self.env.get(name, ""))
        if not folder.is_absolute() or not folder.is_dir():
            raise SettingError(
                f"{name} names no folder", "the action's steps run inside a GitHub Actions job, which sets it"
            )
        return folder

    def say(self, text: str) -> None:
        """One line of the log, whatever ``text`` holds."""
        self.write(harmless(text) + "\n")

    def notice(self, text: str, title: str = "") -> None:
        """Something worth knowing that changes no outcome, on the run's page."""
        self._annotate("notice", text, title)

    def warning(self, text: str, title: str = "") -> None:
        """Something that should be mended, on the run's page."""
        self._annotate("warning", text, title)

    def error(self, text: str, title: str = "") -> None:
        """Why the step failed, on the run's page."""
        self._annotate("error", text, title)

    def _annotate(self, command: str, text: str, title: str) -> None:
        if not self.in_actions:
            for line in f"{command}: {text}".splitlines():
                self.say(line)
            return
        shown = f" title={_property(visible(title))}" if title else ""
        # Lines stay lines here: GitHub draws them, and each is made visible by itself.
        message = "\n".join(visible(line) for line in text.splitlines())
        self.write(f"::{command}{shown}::{_data(message)}\n")

    def mask(self, *values: str) -> None:
        """Have the runner star out every line of ``values`` from here on; lines under 8 characters are left alone."""
        if not self.in_actions:
            return
        for line in dict.fromkeys(line.strip() for value in values for line in value.splitlines()):
            if len(line) >= SHORTEST_MASK:
                self.write(f"::add-mask::{_data(line)}\n")

    @contextmanager
    def group(self, title: str) -> Iterator[None]:
        """Fold the lines of the block under ``title``."""
        self.write(f"::group::{_data(visible(title))}\n" if self.in_actions else harmless(title) + "\n")
        try:
            yield
        finally:
            if self.in_actions:
                self.write("::endgroup::\n")

    @contextmanager
    def commands_off(self) -> Iterator[None]:
        """Within the block no line of the log is a command, whoever writes it."""
        if not self.in_actions:
            yield
            return
        token = secrets.token_hex(32)
        self.write(f"::stop-commands::{token}\n")
        try:
            yield
        finally:
            # A line of foreign output may have no end of its own.
            self.write(f"\n::{token}::\n")

    def output(self, name: str, value: str) -> None:
        """Set an output of the step."""
        self._file("GITHUB_OUTPUT", _entry(name, value))

    def variable(self, name: str, value: str) -> None:
        """Set an environment variable for the job's later steps."""
        self._file("GITHUB_ENV", _entry(name, value))

    def summary(self, markdown: str) -> None:
        """Add to the step's summary, which is cut before GitHub would drop it. ``markdown`` is escaped already."""
        path = self.env.get("GITHUB_STEP_SUMMARY", "")
        if not self.in_actions or not path:
            return
        try:
            size = Path(path).stat().st_size if Path(path).exists() else 0
        except OSError:
            size = 0
        self._file("GITHUB_STEP_SUMMARY", _fitting(markdown.rstrip("\n") + "\n\n", SUMMARY_LIMIT - size))

    def _file(self, name: str, text: str) -> None:
        path = self.env.get(name, "")
        if not self.in_actions or not path or not text:
            return
        try:
            with Path(path).open("a", encoding="utf-8", errors="backslashreplace", newline="") as file:
                file.write(text)
        except OSError as error:
            raise FileFailed(
                f"the runner's file {name} cannot be written: {error.strerror or 'unknown error'}",
                "let the step run as a user that may write it: in a container as root, or as the runner's own user"
                if isinstance(error, PermissionError)
                else "make room on the runner's disk",
            ) from None


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _entry(name: str, value: str) -> str:
    """A file's entry behind a delimiter that nobody can have guessed."""
    if not _NAME.fullmatch(name):
        raise ValueError(name)
    delimiter = f"vibey_{secrets.token_hex(16)}"
    return f"{name}<<{delimiter}{os.linesep}{value}{os.linesep}{delimiter}{os.linesep}"


def _fitting(text: str, room: int) -> str:
    """``text``, or as many of its lines as fit with a word on what is missing; nothing where not even that fits."""
    if len(text.encode("utf-8", "backslashreplace")) <= room:
        return text
    room -= len(_CUT.encode())
    kept: list[str] = []
    for line in text.splitlines(keepends=True):
        room -= len(line.encode("utf-8", "backslashreplace"))
        if room < 0:
            break
        kept.append(line)
    return "".join(kept) + _CUT if kept else ""
