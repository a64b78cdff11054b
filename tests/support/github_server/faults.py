"""Faults to arm: each changes what happens to one request, before or after it had its effect."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.support.github_server.replies import Refusal, Reply, as_json


class Reset(Exception):
    """The connection is to be reset instead of answered."""


@dataclass
class Fault:
    """``before`` runs ahead of the effect: it may raise Refusal or Reset, or return a Reply in its place.

    ``after`` gets the reply of what happened and gives the one that is sent, or raises as well.
    ``cut`` sends that many bytes of the body and closes.
    """

    before: Callable[[], Reply | None] = lambda: None
    after: Callable[[Reply], Reply] = lambda reply: reply
    cut: int | None = None


@dataclass
class Armed:
    fault: Fault
    method: str
    path: re.Pattern[str]
    skip: int
    times: int


@dataclass
class Faults:
    """The armed faults. Each answers ``times`` requests that match, after letting ``skip`` of them pass."""

    armed: list[Armed] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, method: str, path: str) -> Fault:
        with self.lock:
            for one in self.armed:
                if one.times and one.method in {"*", method} and one.path.search(path):
                    if one.skip:
                        one.skip -= 1
                        continue
                    one.times -= 1
                    return one.fault
        return Fault()


def refuse(status: int, message: str, *, after: bool = False, **headers: str) -> Fault:
    """Answer with a refusal, before or after the effect. Header names take ``_`` for ``-``."""
    return _raising(lambda: Refusal(status, message, **headers), after=after)


def server_error(status: int = 502, *, after: bool = False) -> Fault:
    return refuse(status, "Server Error", after=after)


def reset(*, after: bool = False) -> Fault:
    """Reset the connection, before or after the effect."""
    return _raising(Reset, after=after)


def secondary_limit(retry_after: int | None = None, status: int = 403) -> Fault:
    message = "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
    if retry_after is None:
        return refuse(status, message)
    return refuse(status, message, Retry_After=str(retry_after))


def primary_limit(reset_in: float) -> Fault:
    def before() -> Reply | None:
        at = {"x_ratelimit_remaining": "0", "x_ratelimit_reset": str(int(time.time() + reset_in))}
        raise Refusal(403, "API rate limit exceeded for installation ID 1.", **at)

    return Fault(before)


def unauthorized() -> Fault:
    return refuse(401, "Bad credentials")


def not_permitted() -> Fault:
    return refuse(403, "Resource not accessible by integration")


def slow(seconds: float) -> Fault:
    def before() -> None:
        time.sleep(seconds)

    return Fault(before)


def cut(at: int) -> Fault:
    """Send only the first ``at`` bytes of the body, then close."""
    return Fault(cut=at)


def answer(reply: Reply) -> Fault:
    """Send ``reply`` whatever happened."""
    return Fault(after=lambda _: reply)


def stale(branch: str, commit: str | None) -> Fault:
    """Show ``branch`` at ``commit`` (None: absent) in a listing of references, as a lagging replica does."""
    name = f"refs/heads/{branch}"

    def after(reply: Reply) -> Reply:
        others = [one for one in reply.data if one["ref"] != name]
        shown = [] if commit is None else [{"ref": name, "object": {"type": "commit", "sha": commit}}]
        return as_json([*shown, *others])

    return Fault(after=after)


def _raising(make: Callable[[], Exception], *, after: bool) -> Fault:
    def before() -> Reply | None:
        raise make()

    def later(reply: Reply) -> Reply:
        raise make()

    return Fault(after=later) if after else Fault(before)
