"""A command of somebody's, run apart from the job: what the step gives the process around it, and hears from it.

That process is ``isolated``, root's where the command has to be another user. It is ours to end only by its input:
where this step ends in any way, it ends the command, gives the workspace back, and ends itself.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from vibey_actions.actions.isolated import Order
from vibey_actions.errors import StepRefused
from vibey_actions.text import shown

SYSTEM: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REFUSED_HINT: Final = (
    "use a runner whose user is root or has sudo without a password, as GitHub's own have; or, for commands that you "
    "would trust with everything this job has, isolation: process"
)
_LOOK: Final = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended: its exit code as a shell gives it, and ``how``: exit, deadline or gone.

    ``missing`` says why there was no wall but the user, ``left`` that a process could not be ended, ``unreached`` how
    many entries of the workspace still belong to the command's user.
    """

    code: int
    how: str
    missing: str = ""
    left: bool = False
    unreached: int = 0


def elevation(path: str = SYSTEM) -> tuple[str, ...]:
    """What goes before a command line to run it as root, nothing for root. Raises StepRefused without a way."""
    if os.geteuid() == 0:
        return ()
    sudo = shutil.which("sudo", path=path)
    if sudo is not None:
        found = (sudo, "-n", "--")
        asked = subprocess.run([*found, "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False)
        if asked.returncode == 0:
            return found
    raise StepRefused("the command cannot run as another user: this step is not root and has no sudo", REFUSED_HINT)


def run_apart(order: Order, take: Callable[[bytes], None], elevated: Sequence[str] = ()) -> Ended:
    """Run what ``order`` says, its output going to ``take`` piece by piece, and return how it ended.

    Raises StepRefused where nothing was started. When an exception passes through here the command has been ended.
    """
    # -B: root would leave files in the action's folders that the job's user cannot delete.
    command = [*elevated, sys.executable, "-I", "-B", "-X", "utf8", "-m", "vibey_actions.actions.isolated"]
    process = subprocess.Popen(
        command,
        env={"PATH": SYSTEM, "LC_ALL": "C.UTF-8"},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    with process:
        assert process.stdin is not None  # noqa: S101 - it is a pipe
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        try:
            with suppress(BrokenPipeError):
                process.stdin.write(order.to_line())
                process.stdin.flush()
            _pump(process, take)
        except BaseException:
            with suppress(BrokenPipeError):
                process.stdin.close()
            _pump(process, lambda _: None)
            raise
        said = process.stderr.read().decode("utf-8", "replace")
        with suppress(BrokenPipeError):
            process.stdin.close()
    return _ended(said)


def _pump(process: subprocess.Popen[bytes], take: Callable[[bytes], None]) -> None:
    """Hand on what comes until it ends, or nothing more comes and the process has ended."""
    assert process.stdout is not None  # noqa: S101 - it is a pipe
    descriptor = process.stdout.fileno()
    while True:
        if select.select([descriptor], [], [], _LOOK)[0]:
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                return
            take(piece)
        elif process.poll() is not None:
            return


def _ended(said: str) -> Ended:
    lines = said.strip().splitlines()
    try:
        answer: dict[str, Any] = json.loads(lines[-1])
    except (IndexError, ValueError):
        raise StepRefused(
            f"the process around the command ended without an answer: {shown(said) or 'it said nothing'}",
            "run the job again; what the command did to the workspace may be undone only by a new checkout",
        ) from None
    if "refused" in answer:
        raise StepRefused(f"the command was not started: {shown(str(answer['refused']))}", REFUSED_HINT)
    missing, left = str(answer.get("missing", "")), bool(answer.get("left"))
    return Ended(int(answer["code"]), str(answer["ended"]), missing, left, int(answer.get("unreached", 0)))
