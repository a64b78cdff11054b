"""Rate limits: which refusal is one, how long it asks for, and when waiting ends."""

from __future__ import annotations

from email.utils import formatdate

import pytest

from vibey_actions.errors import RateLimited
from vibey_actions.remotes.limits import Limits

NOW = 1_800_000_000.0


class Clock:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = NOW
        self.slept: list[float] = []
        self.notices: list[str] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def limits(self, cap: float = 60) -> Limits:
        return Limits(self.notices.append, cap, self.sleep, lambda: self.now)


@pytest.mark.parametrize(
    ("status", "headers", "words", "seconds"),
    [
        (403, {"Retry-After": "3"}, "", 3),
        (429, {"Retry-After": "7"}, "", 7),
        (429, {}, "", 60),
        (403, {}, "You have exceeded a secondary rate limit.", 60),
        (403, {}, "You have triggered an abuse detection mechanism.", 60),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) + 20)}, "API rate limit exceeded", 21),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": str(int(NOW) - 20)}, "API rate limit exceeded", 1),
        (403, {"Retry-After": formatdate(NOW + 9, usegmt=True)}, "", 9),
    ],
)
def test_limits_that_are_waited_for(status: int, headers: dict[str, str], words: str, seconds: float) -> None:
    """Both kinds, by header or by text, wait as long as asked and say so."""
    clock = Clock()
    assert clock.limits().waited(status, headers, words)
    assert clock.slept == [seconds]
    assert len(clock.notices) == 1


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (403, {}, "Resource not accessible by integration"),
        (403, {"x-ratelimit-remaining": "17"}, "Must have admin rights to Repository."),
        (404, {"x-ratelimit-remaining": "0"}, "Not Found"),
        (401, {"Retry-After": "3"}, "Bad credentials"),
        (422, {}, "Reference already exists"),
    ],
)
def test_refusals_that_are_no_limits(status: int, headers: dict[str, str], words: str) -> None:
    """A refusal is not waited for."""
    clock = Clock()
    assert not clock.limits().waited(status, headers, words)
    assert clock.slept == []


def test_a_clock_that_is_wrong() -> None:
    """The reset is judged by the server's clock, however far off this machine's is."""
    clock = Clock()
    headers = {
        "Date": formatdate(NOW + 5000, usegmt=True),
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": str(int(NOW) + 5010),
    }
    clock.limits().waited(403, headers, "")
    assert clock.slept == [11]


def test_the_cap_is_a_total() -> None:
    """Several waits of one operation share the cap; the next operation has it anew."""
    clock = Clock()
    limits = clock.limits(cap=10)
    limits.waited(429, {"Retry-After": "6"}, "")
    with pytest.raises(RateLimited, match="2027-01-15 08:00:12 UTC"):
        limits.waited(429, {"Retry-After": "6"}, "")
    limits.begin()
    limits.waited(429, {"Retry-After": "6"}, "")
    assert clock.slept == [6, 6]


@pytest.mark.parametrize("after", ["99999999999999999999", "0", "-1", "soon", "1.5", "²"])
def test_odd_times(after: str) -> None:
    """A time that cannot be, or is absurd, neither crashes nor hangs."""
    clock = Clock()
    try:
        assert clock.limits().waited(429, {"Retry-After": after}, "")
    except RateLimited:
        assert after.startswith("9")
    assert sum(clock.slept) <= 60


def test_room_for_a_push() -> None:
    """With too few requests left it waits for the reset, or refuses before anything is sent."""
    clock = Clock()
    limits = clock.limits()
    limits.note({"x-ratelimit-remaining": "3", "x-ratelimit-reset": str(int(NOW) + 30)})
    limits.make_room(4)
    assert clock.slept == [30]
    limits.note({"x-ratelimit-remaining": "3", "x-ratelimit-reset": str(int(NOW) + 3000)})
    with pytest.raises(RateLimited, match="3 of 4"):
        limits.make_room(4)


def test_writes_of_a_minute() -> None:
    """Eighty writes go at once, the next wait until the first are a minute old."""
    clock = Clock()
    limits = clock.limits()
    for _ in range(20):
        limits.make_room(4)
    assert clock.slept == []
    clock.now += 10
    limits.make_room(4)
    assert clock.slept == [50]
