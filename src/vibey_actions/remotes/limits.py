"""GitHub's rate limits: told apart from refusals, waited for up to a cap, else named with the time they end.

Source: docs.github.com, "Rate limits for the REST API" and "Best practices for using the REST API".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from vibey_actions.errors import RateLimited
from vibey_actions.remotes.words import Notice

_SECONDARY_WAIT = 60.0
"""What GitHub asks for where a secondary limit comes without a time."""
_WRITES_A_MINUTE = 80
_MINUTE = 60.0
_LONGEST_WAIT = 366 * 86_400.0


class Limits:
    """What is known of the limits, and the seconds that one operation may still wait for them."""

    def __init__(
        self, notice: Notice, wait_cap: float, sleep: Callable[[float], None], clock: Callable[[], float]
    ) -> None:
        self._notice = notice
        self._cap = wait_cap
        self._left = wait_cap
        self._sleep = sleep
        self._clock = clock
        self._remaining: int | None = None
        self._reset = 0.0
        self._writes: deque[float] = deque()

    def begin(self) -> None:
        """Start an operation with the whole cap."""
        self._left = self._cap

    def note(self, headers: Mapping[str, str]) -> None:
        """Remember what a successful answer says of the hourly limit."""
        self._remaining = _number(headers.get("x-ratelimit-remaining"))
        self._reset = float(_number(headers.get("x-ratelimit-reset")) or 0) - self._skew(headers)

    def make_room(self, writes: int) -> None:
        """Before ``writes`` content-creating requests: wait where they would not fit, or raise RateLimited.

        The hourly limit and the 80 writes a minute are checked here, so that no upload is made in vain.
        """
        now = self._clock()
        if self._remaining is not None and self._remaining < writes and self._reset > now:
            self._wait(self._reset - now, f"only {self._remaining} of {writes} requests are left in this hour")
        while self._writes and self._writes[0] <= now - _MINUTE:
            self._writes.popleft()
        if len(self._writes) + writes > _WRITES_A_MINUTE:
            oldest = self._writes[len(self._writes) + writes - _WRITES_A_MINUTE - 1]
            self._wait(oldest + _MINUTE - now, f"GitHub takes {_WRITES_A_MINUTE} writes a minute")
        self._writes.extend([self._clock()] * writes)

    def waited(self, status: int, headers: Mapping[str, str], words: str) -> bool:
        """Whether the refusal was a rate limit, which then has been waited for. Raises RateLimited beyond the cap."""
        seconds, why = self._asked_to_wait(status, headers, words)
        if seconds is None:
            return False
        self._wait(seconds, why)
        return True

    def _asked_to_wait(self, status: int, headers: Mapping[str, str], words: str) -> tuple[float | None, str]:
        if status not in {403, 429}:
            return None, ""
        after = self._retry_after(headers)
        lower = words.lower()
        secondary = "secondary rate limit" in lower or "abuse detection" in lower
        if headers.get("x-ratelimit-remaining") == "0" and not secondary and after is None:
            reset = float(_number(headers.get("x-ratelimit-reset")) or 0) - self._skew(headers)
            return max(0.0, reset - self._clock()) + 1, "GitHub's hourly rate limit is used up"
        if secondary or after is not None or status == 429:  # noqa: PLR2004
            return _SECONDARY_WAIT if after is None else after, "GitHub's secondary rate limit was reached"
        return None, ""

    def _retry_after(self, headers: Mapping[str, str]) -> float | None:
        text = headers.get("Retry-After", "").strip()
        if text.isdecimal():
            return float(text)
        try:
            return max(0.0, parsedate_to_datetime(text).timestamp() - self._skew(headers) - self._clock())
        except ValueError:
            return None

    def _skew(self, headers: Mapping[str, str]) -> float:
        """How far the server's clock is ahead of this machine's."""
        try:
            return parsedate_to_datetime(headers.get("Date", "")).timestamp() - self._clock()
        except ValueError:
            return 0.0

    def _wait(self, seconds: float, why: str) -> None:
        seconds = min(seconds, _LONGEST_WAIT)
        until = datetime.fromtimestamp(self._clock() + seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
        if seconds > self._left:
            raise RateLimited(
                f"{why}; it is open again at {until}, in {seconds:.0f} seconds, longer than a run waits",
                "nothing is lost: run again after that time",
            )
        self._left -= seconds
        self._notice(f"{why}: waiting {seconds:.0f} seconds, until {until}")
        self._sleep(seconds)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
