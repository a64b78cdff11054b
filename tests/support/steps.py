"""Every effect of an operation as a numbered step, at which a test can let something happen.

A step is met just before the effect: an exchange with PostgreSQL ("sql"), a file that is made, renamed or removed
("file"), a git process that starts ("git") or that runs by now ("git-runs"), a request that is sent ("http") or whose
answer is about to be read ("http-sent"). What holds before the next effect holds after the last one, so a test that
goes through all steps has seen every state in between.
"""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any
from unittest import mock

import psycopg

_OURS = f"{os.sep}vibey_actions{os.sep}"
_FILE_EVENTS = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate"}
_CREATING = os.O_CREAT
ALL_KINDS = frozenset({"sql", "file", "git", "git-runs", "http", "http-sent"})

Action = Callable[[Any], None]


@dataclass
class Steps:
    """Counts the steps of ``kinds`` and lets ``action`` happen at number ``at`` (0: never).

    The action gets what the step is about: a psycopg connection, a path, a process or an HTTP connection.
    """

    kinds: frozenset[str] = ALL_KINDS
    at: int = 0
    action: Action = lambda _: None
    seen: list[str] = field(default_factory=list)
    acting: bool = False

    @property
    def count(self) -> int:
        return len(self.seen)

    def meet(self, kind: str, subject: Any) -> None:
        if kind not in self.kinds or self.acting:
            return
        self.seen.append(f"{kind} {_place()}")
        if len(self.seen) == self.at:
            self.acting = True
            try:
                self.action(subject)
            finally:
                self.acting = False


_watching: Steps | None = None
_hooked = False


def _meet(kind: str, subject: Any) -> None:
    if _watching is not None:
        _watching.meet(kind, subject)


def _place() -> str:
    """The innermost function of ours that is running."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and _OURS not in frame.f_code.co_filename:
        frame = frame.f_back
    if frame is None:
        return "?"
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_code.co_name}"


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _watching is None:
        return
    if event in _FILE_EVENTS:
        # A folder that is removed as a whole is one effect, met at its start.
        within_tree = event in {"os.remove", "os.rmdir"} and arguments[-1] != -1
        if not within_tree:
            _meet("file", arguments[0])
    elif event == "shutil.rmtree":
        _meet("file", arguments[0])
    elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _CREATING:
        if isinstance(arguments[0], (str, bytes)):
            _meet("file", arguments[0])
    elif event == "subprocess.Popen":
        _meet("git", arguments[1])
    elif event == "http.client.send":
        _meet("http", arguments[0])


@contextmanager
def watching(steps: Steps) -> Iterator[Steps]:
    """Have ``steps`` meet every step inside the block."""
    global _watching, _hooked  # noqa: PLW0603 - an audit hook is for ever
    if not _hooked:
        sys.addaudithook(_audit)
        _hooked = True
    wait, communicate = psycopg.Connection.wait, subprocess.Popen.communicate
    answer = http.client.HTTPConnection.getresponse

    def met_wait(self: psycopg.Connection, *arguments: Any, **named: Any) -> Any:
        _meet("sql", self)
        return wait(self, *arguments, **named)

    def met_communicate(self: subprocess.Popen[bytes], *arguments: Any, **named: Any) -> Any:
        _meet("git-runs", self)
        return communicate(self, *arguments, **named)

    def met_answer(self: http.client.HTTPConnection) -> Any:
        _meet("http-sent", self)
        return answer(self)

    with (
        mock.patch.object(psycopg.Connection, "wait", met_wait),
        mock.patch.object(subprocess.Popen, "communicate", met_communicate),
        mock.patch.object(http.client.HTTPConnection, "getresponse", met_answer),
    ):
        _watching = steps
        try:
            yield steps
        finally:
            _watching = None
