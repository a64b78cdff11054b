"""Requests to GitHub's REST API: one session, bounded answers, bounded retries, limits that are waited for or named.

A token goes to the API's own host and nowhere else. Redirects are followed here, for reads alone, so that a write
is never repeated at a place nobody named. Certificate errors are final.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

import requests

from vibey_actions import __version__
from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.limits import Limits
from vibey_actions.remotes.network import CONNECT_TIMEOUT, AnswerLost, network
from vibey_actions.remotes.words import Notice
from vibey_actions.text import shown

READ_TIMEOUT = 30.0
SLOWEST = 100_000
"""Bytes a second below which a transfer is given up."""
JSON_TYPE = "application/vnd.github+json"
_ATTEMPTS = 4
_LARGEST_ANSWER = 16 << 20
_LARGEST_REFUSAL = 64 << 10
_REDIRECTS = {301, 302, 303, 307, 308}
_MOST_REDIRECTS = 3
_NO_CONTENT = 204
_RANDOM = secrets.SystemRandom()

Body = Callable[[], Iterable[bytes]]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer: its status, its JSON and its headers. ``redirected`` says it came from another address."""

    status: int
    data: Any
    headers: Mapping[str, str]
    redirected: bool = False


class Refused(Exception):
    """An answer of 3xx or 4xx that is neither a rate limit nor a redirect that is followed, with the server's words."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"{status}: {words}")
        self.status = status
        self.words = words


@dataclass(frozen=True, slots=True)
class _Ask:
    """One request: ``body`` makes what is sent anew for each try, ``size`` is how much goes either way."""

    method: str
    url: str
    params: Mapping[str, str | int] | None = None
    body: Body | None = None
    size: int = 0
    accept: str = JSON_TYPE


class Api:
    """The API below ``root``. ``token`` None asks without one.

    ``wait_cap`` bounds the seconds one operation waits for rate limits in total; ``sleep`` and ``clock`` (seconds of
    the epoch) are the time it goes by.
    """

    def __init__(
        self,
        root: str,
        token: str | None,
        *,
        notice: Notice,
        wait_cap: float,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.root = root.rstrip("/")
        self.has_token = token is not None
        self.limits = Limits(notice, wait_cap, sleep, clock)
        self._token = token
        self._sleep = sleep
        self._session = requests.Session()
        self._session.headers.clear()
        self._host = urlsplit(self.root).netloc

    def begin(self) -> None:
        """Start an operation: what it may wait for rate limits is counted from here."""
        self.limits.begin()

    def get(self, path: str, params: Mapping[str, str | int] | None = None) -> Answer:
        """The JSON at ``path``. Raises Refused, AnswerLost after bounded retries, RateLimited, RemoteFailed."""
        return self._retried(lambda: self._json(_Ask("GET", self._url(path), params)))

    def send(self, method: str, path: str, body: Body, *, size: int = 0, again: bool) -> Answer:
        """Send JSON made by ``body`` (anew for each try); ``again`` says that doing it twice does no harm.

        ``size`` is how much goes out, for the time it may take. Raises as ``get`` does.
        """
        ask = _Ask(method, self._url(path), body=body, size=size)
        return self._retried(lambda: self._json(ask)) if again else self._json(ask)

    @contextmanager
    def stream(self, path: str, accept: str, size: int) -> Iterator[tuple[str, Iterator[bytes]]]:
        """The content type and the bytes at ``path``, in pieces, for something of ``size`` bytes.

        Raises as ``get`` does, and AnswerLost where the bytes end early or come too slowly.
        """
        ask = _Ask("GET", self._url(path), accept=accept, size=size)
        response, _ = self._retried(lambda: self._answered(ask))
        with response:
            yield response.headers.get("Content-Type", ""), _pieces(response, patience(size))

    def _url(self, path: str) -> str:
        return f"{self.root}/{path}"

    def _retried(self, ask: Callable[[], T]) -> T:
        for attempt in range(1, _ATTEMPTS):
            try:
                return ask()
            except AnswerLost:
                self.pause(attempt)
        return ask()

    def pause(self, attempt: int) -> None:
        """Wait before the next try: half a second, doubled each time, with jitter."""
        base = 0.5 * 2.0 ** (attempt - 1)
        self._sleep(base + _RANDOM.uniform(0, base / 2))

    def _json(self, ask: _Ask) -> Answer:
        response, redirected = self._answered(ask)
        with response:
            raw = _bounded(response, _LARGEST_ANSWER)
        if response.status_code == _NO_CONTENT:
            return Answer(response.status_code, None, response.headers, redirected)
        try:
            data = json.loads(raw)
        except ValueError as error:
            raise RemoteFailed(
                f"{self._host} answered {response.status_code} with something that is not JSON",
                "check GITHUB_API_URL, and a proxy in between",
            ) from error
        return Answer(response.status_code, data, response.headers, redirected)

    def _answered(self, ask: _Ask) -> tuple[requests.Response, bool]:
        """The response to read from, redirects followed and rate limits waited for, and whether it was redirected."""
        redirects = 0
        while True:
            response = self._exchange(ask)
            status = response.status_code
            if status < 300:  # noqa: PLR2004
                self.limits.note(response.headers)
                return response, redirects > 0
            with response:
                words = _words(_bounded(response, _LARGEST_REFUSAL))
                location = response.headers.get("Location", "")
            if status in _REDIRECTS and ask.method == "GET" and location and redirects < _MOST_REDIRECTS:
                redirects += 1
                ask = replace(ask, url=self._redirected(ask.url, location), params=None)
            elif status >= 500:  # noqa: PLR2004
                raise AnswerLost(f"{self._host} answered {status}{': ' if words else ''}{words}", "run again")
            elif not self.limits.waited(status, response.headers, words):
                raise Refused(status, words)

    def _redirected(self, url: str, location: str) -> str:
        target = urljoin(url, location)
        if urlsplit(target).scheme != "https" and urlsplit(self.root).scheme == "https":
            raise RemoteFailed(f"{self._host} redirects to a place without encryption", "check GITHUB_API_URL")
        return target

    def _exchange(self, ask: _Ask) -> requests.Response:
        headers = {
            "Accept": ask.accept,
            "Accept-Encoding": "gzip" if ask.accept == JSON_TYPE else "identity",
            "User-Agent": f"vibey-actions/{__version__}",
            "X-GitHub-Api-Version": "2022-11-28",
        }
        if ask.body is not None:
            headers["Content-Type"] = "application/json"
        with network(self._host):
            return self._session.request(
                ask.method,
                ask.url,
                params=ask.params,
                data=ask.body() if ask.body is not None else None,
                headers=headers,
                auth=self._sign,
                timeout=(CONNECT_TIMEOUT, patience(ask.size)),
                stream=True,
                allow_redirects=False,
            )

    def _sign(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        """Add the token, to the API's own host alone (and keep requests from reading a .netrc)."""
        if self._token is not None and urlsplit(request.url or "").netloc == self._host:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def patience(size: int) -> float:
    """Seconds to wait for an answer about ``size`` bytes."""
    return READ_TIMEOUT + size / SLOWEST


def json_body(data: object) -> Body:
    """``data`` as a body that can be sent again."""
    raw = json.dumps(data).encode("ascii")
    return lambda: _Whole(raw)


class _Whole:
    """Bytes with a known length that requests sends as they are."""

    def __init__(self, raw: bytes) -> None:
        self._raw = raw

    def __len__(self) -> int:
        return len(self._raw)

    def __iter__(self) -> Iterator[bytes]:
        yield self._raw


def _pieces(response: requests.Response, seconds: float) -> Iterator[bytes]:
    deadline = time.monotonic() + seconds
    host = urlsplit(response.url).netloc
    with network(host):
        for piece in response.iter_content(1 << 17):
            if time.monotonic() > deadline:
                raise AnswerLost(f"{host} sent too slowly: {seconds:.0f} seconds were not enough", "run again")
            yield piece


def _bounded(response: requests.Response, limit: int) -> bytes:
    found = bytearray()
    for piece in _pieces(response, READ_TIMEOUT + limit / SLOWEST):
        found += piece
        if len(found) > limit:
            raise RemoteFailed(
                f"an answer of {urlsplit(response.url).netloc} is larger than {limit} bytes", "run again"
            )
    return bytes(found)


def _words(raw: bytes) -> str:
    """The message of a refusal, and of its parts, as one line."""
    try:
        data = json.loads(raw)
    except ValueError:
        return ""
    if not isinstance(data, dict):
        return ""
    parts = [data.get("message")]
    errors = data.get("errors")
    for error in errors if isinstance(errors, list) else []:
        parts.append(error.get("message") if isinstance(error, dict) else error)
    return shown("; ".join(part for part in parts if isinstance(part, str) and part))
