"""Threads in a time of their own: one runs at a time, and who sleeps is woken in the order of the moments it named.

A race that takes minutes is over in a moment, and the same seed gives the same race.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from itertools import count


class VirtualTime:
    """Its ``now`` is in seconds. Functions given to ``spawn`` run in ``run``, and pass time only by ``sleep``."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self.now = now
        self._order = count()
        self._waiting: list[tuple[float, int, threading.Semaphore]] = []
        self._idle = threading.Semaphore(0)
        self._threads: list[threading.Thread] = []
        self._failures: list[BaseException] = []

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def spawn(self, work: Callable[[], object], delay: float = 0.0) -> None:
        """Let ``work`` begin ``delay`` seconds from now, once ``run`` is called or while it runs."""
        turn = self._enter(delay)
        thread = threading.Thread(target=self._begin, args=(turn, work), daemon=True)
        self._threads.append(thread)
        thread.start()

    def sleep(self, seconds: float) -> None:
        """Let the others run until the moment comes."""
        turn = self._enter(seconds)
        self._idle.release()
        turn.acquire()

    def run(self) -> None:
        """Until nobody waits for anything. Raises what the first of the threads raised."""
        while self._waiting:
            self.now, _, turn = heapq.heappop(self._waiting)
            turn.release()
            self._idle.acquire()
        for thread in self._threads:
            thread.join()
        if self._failures:
            raise self._failures[0]

    def _enter(self, seconds: float) -> threading.Semaphore:
        turn = threading.Semaphore(0)
        heapq.heappush(self._waiting, (self.now + seconds, next(self._order), turn))
        return turn

    def _begin(self, turn: threading.Semaphore, work: Callable[[], object]) -> None:
        turn.acquire()
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - told to the test by run
            self._failures.append(error)
        finally:
            self._idle.release()
