"""SIGINT and SIGTERM: they end a command with one line, and a loop between two of its rounds. SIGCHLD: it is heard."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal asked for the end. No Exception, so that nothing on the way takes it for a failure of its own."""

    def __init__(self, number: int) -> None:
        self.name = signal.Signals(number).name
        super().__init__(self.name)


class Stopped(BaseException):
    """A loop was asked to end, and its work stands between two steps. No Exception, for the same reason."""


def _raise(number: int, _frame: FrameType | None) -> None:
    raise Interrupted(number)


@contextmanager
def _handling(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)


@contextmanager
def raising() -> Iterator[None]:
    """Within the block a signal raises Interrupted, and it is known how programs end that are run."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        # What started this one ignores it, and so a program that fails, git for one, would seem to succeed.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with _handling(_raise):
        yield


class Stop:
    """Whether a signal has asked a loop to end: between two steps of its work. The second one raises Interrupted."""

    def __init__(self) -> None:
        self.asked = False
        self._read, self._write = os.pipe()

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            _raise(number, frame)
        self.asked = True
        os.write(self._write, b"x")

    def step(self, _text: str) -> None:
        """As a Progress: raise Stopped at the first step after a signal."""
        if self.asked:
            raise Stopped

    def advance(self, done: int, total: int | None) -> None:
        """As a Progress: a step that has begun is finished."""

    def wait(self, seconds: float) -> None:
        """Sleep, until a signal comes."""
        # A pipe: a handler may not set a threading.Event that the same thread waits for.
        select.select([self._read], [], [], seconds)

    @classmethod
    @contextmanager
    def listening(cls) -> Iterator[Stop]:
        """A Stop that the signals of the block reach."""
        stop = cls()
        try:
            with _handling(stop._ask):
                yield stop
        finally:
            os.close(stop._read)
            os.close(stop._write)
