"""Running a program for a lane: bounded in time and in output, its files nameless, nothing left behind.

Input and output are regular files, not pipes: a client that writes to a pipe and exits can lose what did not fit in it,
and a child that keeps a pipe open would hold the lane. The files are in memory where the system can do that, and have
no name anywhere. On Linux a process around the program (``documents/supervisor.py``) ends what left its process group.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from vibey_actions.errors import StoreFailed
from vibey_actions.text import shown

SUPERVISED: Final = sys.platform == "linux" and bool(sys.executable)
SUPERVISOR: Final = Path(__file__).with_name("supervisor.py")
PATIENCE: Final = 8.0
"""Seconds that the process around a program has to end it: more than it takes itself."""
LOOK_EVERY: Final = 0.5
"""Seconds between two looks at a program that runs."""
MOST_OUTPUT: Final = 128 * 1024 * 1024
"""More is not read: no answer to a lane is that long."""

_ANSWER: Final = re.compile(rb"s(?P<process>\d+)(?:e(?P<error>\d+))?(?P<over>\.?)")

PASSED_ON: Final = (
    "PATH",
    "LANG",
    "TMPDIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "NODE_USE_ENV_PROXY",
    "RUNNER_TRACKING_ID",
    *(name for lower in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (lower, lower.upper())),
)
"""The system's basics that every program gets; a runner ends what it finds with its own tracking id after a job."""


class NotStarted(StoreFailed):
    """A program that was never begun, so nothing was done."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a program ended. ``code`` is None where it was killed here (deadline, ``alive``), negative for a signal."""

    code: int | None
    out: bytes
    err: bytes

    @property
    def ok(self) -> bool:
        return self.code == 0


def basics(environment: Mapping[str, str]) -> dict[str, str]:
    """What any program may see of ``environment``: no secret is among it."""
    return {name: environment[name] for name in PASSED_ON if name in environment}


def run(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    deadline: float,
    stdin: bytes = b"",
    what: str,
    alive: Callable[[], bool] = lambda: True,
) -> Ended:
    """Run ``command`` in ``folder`` with exactly ``environment``; it is killed, with all that it started, after
    ``deadline`` seconds, when ``alive``, asked now and then, says that nobody waits for it any more, or when the caller
    is interrupted. What it left running at its end is killed as well.

    Raises NotStarted, naming ``what`` is run, where it cannot be started, and StoreFailed where it says more than
    128 MiB.
    """
    with ExitStack() as stack:
        given, out, err = (stack.enter_context(_nameless()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        begin = _Supervised if SUPERVISED else _Plain
        try:
            process = begin(stack, command, environment, folder, (given, out, err))
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "its arguments hold a NUL"
            raise _not_started(what, reason, command) from None
        code = _wait(process, deadline, lambda: alive() and not (_too_long(out) or _too_long(err)))
        reason = process.not_started() if code is not None else ""
        if reason:
            raise _not_started(what, reason, command)
        return Ended(code, _content(out, what), _content(err, what))


def _not_started(what: str, reason: str, command: Sequence[str]) -> NotStarted:
    return NotStarted(f"{what} cannot be started: {shown(reason)}", f"check {shown(command[0])}")


def _wait(process: _Plain, deadline: float, alive: Callable[[], bool]) -> int | None:
    end = time.monotonic() + deadline
    try:
        while (left := end - time.monotonic()) > 0:
            with suppress(subprocess.TimeoutExpired):
                return process.popen.wait(min(left, LOOK_EVERY))
            if not alive():
                break
        return None
    finally:
        process.end()


class _Plain:
    """A program in a process group of its own."""

    def __init__(
        self,
        stack: ExitStack,  # noqa: ARG002
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        files: tuple[BinaryIO, BinaryIO, BinaryIO],
    ) -> None:
        self.popen = self._begin(list(command), environment, folder, files)

    @staticmethod
    def _begin(
        command: list[str],
        environment: Mapping[str, str],
        folder: Path,
        files: tuple[BinaryIO, BinaryIO, BinaryIO],
        handed: tuple[int, ...] = (),
    ) -> subprocess.Popen[bytes]:
        given, out, err = files
        return subprocess.Popen(
            command,
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=folder,
            env=environment,
            start_new_session=True,
            pass_fds=handed,
        )

    def end(self) -> None:
        """Kill what is left of the group, which is named after the program, so ours as long as anyone is in it."""
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.popen.pid, signal.SIGKILL)
        self.popen.wait()

    def not_started(self) -> str:
        """Why the program never ran; empty where it did."""
        return ""


class _Supervised(_Plain):
    """A program inside the process around it, which ends as the program does."""

    def __init__(
        self,
        stack: ExitStack,
        command: Sequence[str],
        environment: Mapping[str, str],
        folder: Path,
        files: tuple[BinaryIO, BinaryIO, BinaryIO],
    ) -> None:
        if any("\x00" in text for text in (*command, *environment, *environment.values())):
            raise ValueError("NUL")
        order = stack.enter_context(_nameless())
        variables = {_as_bytes(name): _as_bytes(value) for name, value in environment.items()}
        said_to_it = {"command": [*map(_as_bytes, command)], "environment": variables, "parent": os.getpid()}
        order.write(json.dumps(said_to_it).encode())
        order.seek(0)
        heard, said = os.pipe()
        self._answer = stack.enter_context(os.fdopen(heard, "rb"))
        # Nothing of the program's variables is for the interpreter; what this one needs to be found, that one needs.
        needed = {name: os.environ[name] for name in ("LD_LIBRARY_PATH",) if name in os.environ}
        around = [sys.executable, "-I", "-S", "-B", "-X", "utf8", str(SUPERVISOR), str(order.fileno()), str(said)]
        try:
            self.popen = self._begin(around, needed, folder, files, (order.fileno(), said))
        finally:
            os.close(said)
        self._said: bytes | None = None

    def end(self) -> None:
        """Have the process around it end what is left; where that does not answer or was killed, end what is in their
        groups."""
        try:
            self.popen.terminate()
            self.popen.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            super().end()
        heard = self._heard()
        if heard is not None and not heard["over"]:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(int(heard["process"]), signal.SIGKILL)

    def not_started(self) -> str:
        heard = self._heard()
        if heard is not None:
            return os.strerror(int(heard["error"])) if heard["error"] else ""
        # One that was killed may have started the program and not come to say so.
        return "" if self.popen.returncode < 0 else "the process around it did not start"

    def _heard(self) -> re.Match[bytes] | None:
        """What the process around it answered, once that has ended; None where it never came to begin the program."""
        if self._said is None:
            self._said = self._answer.read(64)
        return _ANSWER.fullmatch(self._said)


def _as_bytes(text: str) -> str:
    """``text`` as the system has it, each byte one character; UTF-8 where a locale has no bytes for it."""
    try:
        return os.fsencode(text).decode("latin-1")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _nameless() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        with suppress(OSError):
            return os.fdopen(os.memfd_create("vibey-actions", os.MFD_CLOEXEC), "w+b")
    return tempfile.TemporaryFile(prefix="vibey-actions-")


def _too_long(file: BinaryIO) -> bool:
    return os.fstat(file.fileno()).st_size > MOST_OUTPUT


def _content(file: BinaryIO, what: str) -> bytes:
    file.seek(0)
    content = file.read(MOST_OUTPUT + 1)
    if len(content) > MOST_OUTPUT:
        raise StoreFailed(f"{what} wrote more than {MOST_OUTPUT >> 20} MiB", "remove the document that is that large")
    return content
