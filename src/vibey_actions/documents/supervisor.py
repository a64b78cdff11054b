"""The process around a program of a lane, on Linux: what the program started ends with it, and it ends with the lane.

``python -I -S supervisor.py ORDER ANSWER``, two descriptors: the order is JSON with ``command``, ``environment`` and
``parent``, the lane; the answer is ``s`` and the program's process id, or ``e`` and the error number of why it was not
started. It ends as the program did. A signal that asks it to end, and so the end of the lane, ends the program first.

A child that begins a session of its own leaves every process group; but an orphan belongs to its nearest ancestor that
takes orphans in, and that is this process. Nothing of the package is imported here: it has to start at once.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

PATIENCE = 5.0
"""Seconds for what was killed to be gone; what hangs in the kernel for longer is left."""

_DEATH_SIGNAL, _DUMPABLE, _SUBREAPER = 1, 4, 36
_ENDING = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_SIGNALS = {signal.SIGCHLD, *_ENDING}
_NOT_STARTED = 127


def main(order_at: int, answer_at: int) -> int:
    """Run what the order says; returns the status that the program ended with, as ``os.wait`` gives it."""
    with open(order_at, "rb") as file:
        order = json.load(file)
    os.set_inheritable(answer_at, False)  # noqa: FBT003 - it takes no name
    libc = ctypes.CDLL(None)
    libc.prctl(_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(_DUMPABLE, 0, 0, 0, 0)
    libc.prctl(_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    if os.getppid() != order["parent"]:
        return 0  # the lane ended before it could be heard that it did
    child = _start(order, answer_at, libc, before)
    if child is None:
        return 0
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
        if signal.sigwait(_SIGNALS) in _ENDING:
            break
    return _end(child)


def _start(order: Any, answer_at: int, libc: Any, mask: Any) -> int | None:
    """The program's process id, once it runs; None where it could not be started, which the answer says."""
    heard, said = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            libc.prctl(_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(order["command"][0], order["command"], order["environment"])  # noqa: S606 - as declared
        except (OSError, ValueError) as error:
            os.write(said, str(getattr(error, "errno", errno.EINVAL)).encode())
        finally:
            os._exit(_NOT_STARTED)
    os.close(said)
    failure = os.read(heard, 16)
    os.write(answer_at, b"e" + failure if failure else b"s%d" % child)
    return None if failure else child


def _end(child: int) -> int:
    """Kill and reap everything below; returns the status of ``child``."""
    status, end = 0, time.monotonic() + PATIENCE
    with suppress(OSError):
        os.killpg(child, signal.SIGKILL)
    while time.monotonic() < end:
        for process in _children():
            with suppress(OSError):
                os.kill(process, signal.SIGKILL)
        try:
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == child:
                    status = reaped[1]
        except ChildProcessError:
            break
        time.sleep(0.002)
    return status


def _children() -> list[int]:
    """Our children, those among them that have ended too."""
    with suppress(OSError), open("/proc/thread-self/children", "rb") as file:  # noqa: PTH123 - fewer imports
        return [int(each) for each in file.read().split()]
    return [int(name) for name in os.listdir("/proc") if name.isdecimal() and _parent(name) == os.getpid()]  # noqa: PTH208


def _parent(process: str) -> int:
    with suppress(OSError, ValueError, IndexError), open(f"/proc/{process}/stat", "rb") as file:  # noqa: PTH123
        return int(file.read().rpartition(b")")[2].split()[1])
    return 0


def _end_alike(status: int) -> None:
    """End as a program did that ended with ``status``."""
    if os.WIFSIGNALED(status):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        number = os.WTERMSIG(status)
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status) & 0xFF)


if __name__ == "__main__":
    _end_alike(main(int(sys.argv[1]), int(sys.argv[2])))
