"""Running a program for a lane: bounded in time and in output, its files nameless, nothing left behind.

Input and output are regular files, not pipes: a client that writes to a pipe and exits can lose what did not fit in it,
and a child that keeps a pipe open would hold the lane. The files are in memory where the system can do that, and have
no name anywhere.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

from vibey_actions.errors import StoreFailed
from vibey_actions.text import shown

LOOK_EVERY: Final = 0.5
"""Seconds between two looks at a program that runs."""
MOST_OUTPUT: Final = 128 * 1024 * 1024
"""More is not read: no answer to a lane is that long."""

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
    """Run ``command`` in ``folder`` with exactly ``environment``; its whole process group is killed after ``deadline``
    seconds, when ``alive``, asked now and then, says that nobody waits for it any more, or when the caller is
    interrupted.

    Raises StoreFailed, naming ``what`` is run, where it cannot be started or says more than 128 MiB.
    """
    with ExitStack() as stack:
        given, out, err = (stack.enter_context(_nameless()) for _ in range(3))
        given.write(stdin)
        given.seek(0)
        try:
            process = subprocess.Popen(
                list(command), stdin=given, stdout=out, stderr=err, cwd=folder, env=environment, start_new_session=True
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else "its arguments hold a NUL"
            raise StoreFailed(f"{what} cannot be started: {shown(reason)}", f"check {shown(command[0])}") from None
        code = _wait(process, deadline, lambda: alive() and not (_too_long(out) or _too_long(err)))
        return Ended(code, _content(out, what), _content(err, what))


def _wait(process: subprocess.Popen[bytes], deadline: float, alive: Callable[[], bool]) -> int | None:
    end = time.monotonic() + deadline
    try:
        while (left := end - time.monotonic()) > 0:
            with suppress(subprocess.TimeoutExpired):
                return process.wait(min(left, LOOK_EVERY))
            if not alive():
                break
        return None
    finally:
        # The group is named after the program, so it is ours as long as anyone is in it.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


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
