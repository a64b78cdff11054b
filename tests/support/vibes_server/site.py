"""One vibe and workers on it, in a time that passes only by their calls and pauses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.lanes import MACHINES
from tests.support.vibes_server.client import DirectClient
from tests.support.vibes_server.vibe import Vibe
from vibey_actions.documents.stores.vibes import VibesStore

CALL = 3.0
SETTLE = 20.0


@dataclass
class Time:
    """Seconds; ``pausing`` is what others do while a worker pauses, ``pauses`` how long it did."""

    now: float = 1_767_268_800.0
    pausing: Callable[[], object] = lambda: None
    pauses: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)

    def sleep(self, seconds: float) -> None:
        end = self.now + seconds
        self.pauses.append(seconds)
        meanwhile, self.pausing = self.pausing, lambda: None
        meanwhile()
        self.now = max(self.now, end)


class Site:
    """``worker`` gives a store and its client: each call takes three seconds, the settling pause is twenty."""

    def __init__(self) -> None:
        self.vibe, self.time = Vibe(), Time()
        self.call = CALL

    def worker(self) -> tuple[VibesStore, DirectClient]:
        client = DirectClient(self.vibe, self._pass)
        time = self.time
        store = VibesStore(client, MACHINES, settle=SETTLE, clock=time, monotonic=time.monotonic, sleep=time.sleep)
        return store, client

    def _pass(self, _kind: str, _deadline: float | None) -> None:
        self.time.now += self.call
