"""An HTTP session that ends at a moment: a socket's own time limit starts anew with every byte that comes."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import requests
from requests.adapters import HTTPAdapter


class Bounded(HTTPAdapter):
    """Connections that are cut ``seconds`` after this was made, whatever is sent or still comes; ``cut`` says so."""

    def __init__(self, seconds: float) -> None:
        self.cut = False
        self._handles: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        super().__init__()
        self._timer.start()

    def init_poolmanager(self, *arguments: Any, **named: Any) -> None:
        """As the library calls it; its connections are those that can be cut."""
        super().init_poolmanager(*arguments, **named)
        self._watch(self.poolmanager)

    def proxy_manager_for(self, proxy: str, **named: Any) -> Any:
        """As the library calls it, for the way over a proxy."""
        known = proxy in self.proxy_manager
        manager = super().proxy_manager_for(proxy, **named)
        if not known:
            self._watch(manager)
        return manager

    def close(self) -> None:
        """End the watch, and with it what was still open."""
        self._timer.cancel()
        super().close()
        with self._lock:
            while self._handles:
                self._handles.pop().close()

    def _watch(self, manager: Any) -> None:
        pools = manager.pool_classes_by_scheme
        manager.pool_classes_by_scheme = {scheme: self._watched(pool) for scheme, pool in pools.items()}

    def _watched(self, pool: Any) -> type[Any]:
        opened = self._opened

        class Connection(pool.ConnectionCls):  # type: ignore[misc]
            def _new_conn(self) -> socket.socket:
                found: socket.socket = super()._new_conn()
                opened(found)
                return found

        return type(pool.__name__, (pool,), {"ConnectionCls": Connection})

    def _opened(self, found: socket.socket) -> None:
        # A handle of its own: TLS takes the socket itself out of the hands that opened it.
        handle = found.dup()
        with self._lock:
            self._handles.append(handle)
            if self.cut:
                _end(handle)

    def _cut(self) -> None:
        with self._lock:
            self.cut = True
            for handle in self._handles:
                _end(handle)


@contextmanager
def session(seconds: float) -> Iterator[tuple[requests.Session, Bounded]]:
    """A session whose connections are over after ``seconds``, and what says whether they were cut."""
    adapter = Bounded(seconds)
    with requests.Session() as found:
        for scheme in ("https://", "http://"):
            found.mount(scheme, adapter)
        yield found, adapter


def _end(handle: socket.socket) -> None:
    with suppress(OSError):
        handle.shutdown(socket.SHUT_RDWR)
