"""The process around a program of a lane, on Linux: what the program started ends with it, and it ends with the lane.

``python -I -S supervisor.py ORDER ANSWER``, two descriptors: the order is JSON with ``command``, ``environment`` and
``parent``, the lane, each text as bytes that stand for themselves (Latin-1); the answer is ``s`` and the program's
process id, then ``e`` and the error number where it could not be started, and ``.`` once nothing is left. It ends as
the program did. A signal that asks it to end, and so the end of the lane, ends the program first.

A child that begins a session of its own leaves every process group; but an orphan belongs to its nearest ancestor that
takes orphans in, and that is this process. Nothing of the package is imported here: it has to start at once.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
import time
from collections.abc import Callable
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
    prctl = _prctl()
    prctl(_SUBREAPER, 1, 0, 0, 0)
    prctl(_DUMPABLE, 0, 0, 0, 0)
    prctl(_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    # Ignored, as some that start programs leave it, it would not be heard, nor how a child ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    if os.getppid() != order["parent"]:
        return 0  # the lane ended before it could be heard that it did
    child = _start(order, answer_at, prctl, before)
    _wait(child)
    status = _end(child)
    _say(answer_at, b".")
    return status


def _prctl() -> Callable[..., Any]:
    """What sets up a process. Where an interpreter cannot call it, a program runs all the same, in its group alone."""
    try:
        import ctypes

        found: Callable[..., Any] = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError, MemoryError):
        return lambda *_: -1
    return found


def _start(order: Any, answer_at: int, prctl: Callable[..., Any], mask: Any) -> int:
    """The process id of the program, which says so itself before it can do anything."""
    command = [each.encode("latin-1") for each in order["command"]]
    environment = {name.encode("latin-1"): value.encode("latin-1") for name, value in order["environment"].items()}
    around = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            prctl(_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
            if os.getppid() != around:
                os._exit(_NOT_STARTED)  # it ended before that could be heard, and nobody would end the program
            _say(answer_at, b"s%d" % os.getpid())
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            os.execvpe(command[0], command, environment)  # noqa: S606 - as declared
        except (OSError, ValueError) as error:
            _say(answer_at, b"e%d" % (getattr(error, "errno", None) or errno.EINVAL))
        finally:
            os._exit(_NOT_STARTED)
    return child


def _say(answer_at: int, answer: bytes) -> None:
    with suppress(OSError):  # the lane has ended, which a signal says
        os.write(answer_at, answer)


def _wait(child: int) -> None:
    """Until ``child`` has ended, which is left to be reaped, or a signal asks for the end. Others are reaped at once:
    they would use up the processes that there may be."""
    while (ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None or ended.si_pid != child:
        if ended is None:
            heard = signal.sigwait(_SIGNALS)
        else:
            os.waitpid(ended.si_pid, 0)
            asked = signal.sigtimedwait(_ENDING, 0)
            heard = signal.SIGCHLD if asked is None else signal.Signals(asked.si_signo)
        if heard in _ENDING:
            return


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
    with suppress(OSError):
        return [int(name) for name in os.listdir("/proc") if name.isdecimal() and _parent(name) == os.getpid()]  # noqa: PTH208
    return []


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
