"""A small HTTP server on this machine that plays a platform: routes, armed faults, and what came in."""

from __future__ import annotations

import ssl

from tests.support.github_server.replies import Refusal, Reply
from tests.support.github_server.serving import Asked, FaultyServer

__all__ = ["Asked", "PlatformServer"]


class PlatformServer(FaultyServer):
    """Use it in a ``with`` block; ``url`` is its root. Subclasses say in ``answer`` what a request does.

    ``asked`` lists the requests in their order.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.asked: list[Asked] = []

    def answer(self, asked: Asked) -> Reply:
        """What a request does and is answered. Raises Refusal."""
        raise NotImplementedError

    def happen(self, asked: Asked) -> tuple[Reply, int | None]:
        self.asked.append(asked)
        fault = self.faults.take(asked.method, asked.path)
        try:
            return fault.before() or fault.after(self._effect(asked)), fault.cut
        except Refusal as refusal:
            return refusal.reply, fault.cut

    def _effect(self, asked: Asked) -> Reply:
        try:
            return self.answer(asked)
        except Refusal as refusal:
            return refusal.reply
