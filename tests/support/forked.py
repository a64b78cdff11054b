"""Work done in a forked child, so that it can be killed, limited and measured without a new interpreter's start."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from vibey_actions.errors import VibeyError

_LONGEST = 240


@dataclass(frozen=True)
class Ended:
    """How the child ended: ``value`` it returned, ``error`` it raised (a VibeyError's code, else a traceback).

    ``killed`` says that a signal ended it; ``peak`` is its largest resident size in bytes.
    """

    value: Any = None
    error: str = ""
    message: str = ""
    killed: bool = False
    peak: int = 0

    @property
    def ok(self) -> bool:
        return not self.error and not self.killed


@dataclass
class Child:
    """A running child."""

    pid: int
    pipe: int

    def join(self) -> Ended:
        with os.fdopen(self.pipe, "rb") as pipe:
            data = pipe.read()
        _, status, usage = os.wait4(self.pid, 0)
        killed = os.WIFSIGNALED(status)
        value, error, message = pickle.loads(data) if data else (None, "" if killed else "ended silently", "")  # noqa: S301
        return Ended(value, error, message, killed, usage.ru_maxrss * 1024)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)


def start(work: Callable[[], Any]) -> Child:
    """Run ``work`` in a forked child; its result has to be picklable."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The test runner's own thread holds nothing that the child needs.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid:
        os.close(writing)
        return Child(pid, reading)
    os.close(reading)
    # What never ends is to fail, not to hang whoever waits.
    signal.alarm(_LONGEST)
    gc.disable()
    try:
        ended: tuple[Any, str, str] = (work(), "", "")
    except VibeyError as error:
        ended = (None, error.code, f"{error.message} / {error.hint}")
    except BaseException:  # noqa: BLE001 - the parent judges it
        ended = (None, "traceback", traceback.format_exc())
    try:
        with os.fdopen(writing, "wb") as pipe:
            pickle.dump(ended, pipe)
    finally:
        os._exit(0)


def run(work: Callable[[], Any]) -> Ended:
    """Run ``work`` in a forked child and wait for it."""
    return start(work).join()
