"""One request to a platform's API, and whether it may have had an effect.

What proves that a request had none: no connection came about, its body was never asked for, or the platform refused it
with a 4xx. Nothing is sent twice and no redirect is followed: a post is not a read.
"""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

import requests

from vibey_actions import __version__
from vibey_actions.documents.masking import Masker
from vibey_actions.documents.publishers.base import Trouble, final, lost, passing
from vibey_actions.documents.publishers.bounded import session
from vibey_actions.text import shown

CONNECT_SECONDS: Final = 10.0
ANSWER_SECONDS: Final = 60.0
MOST_ANSWER: Final = 1 << 20
JSON: Final = "application/json"

_NOT_FINAL: Final = frozenset({401, 403, 407, 408, 421, 423, 425, 429})
"""4xx that say "not now" or "not with this credential", which is ours to mend, and nothing about the post."""
_MOST_WORDS: Final = 240


@dataclass(frozen=True, slots=True)
class Reply:
    """A platform's answer. ``data`` is its JSON, None where it is none."""

    status: int
    data: object
    headers: Mapping[str, str]

    def text(self, *path: str) -> str | None:
        """The text at a path in the JSON; None where there is none that is not empty."""
        value = self.data
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        return value if isinstance(value, str) and value else None


def may_pass(reply: Reply) -> bool:
    """Whether a refusal may be another one next time."""
    return reply.status in _NOT_FINAL


@dataclass(frozen=True)
class Api:
    """The API below ``root``, from the configuration. ``words`` reads the platform's reason out of a refusal.

    ``called`` is what an address that is a secret is called; left out: its host.
    """

    root: str
    masker: Masker
    words: Callable[[Reply], str]
    may_pass: Callable[[Reply], bool] = may_pass
    seconds: float = ANSWER_SECONDS
    called: str = ""

    @property
    def host(self) -> str:
        """What the platform is called in a reason."""
        return self.called or urlsplit(self.root).netloc

    def send(
        self,
        path: str,
        body: bytes,
        headers: Mapping[str, str],
        *,
        once: bool = False,
        method: str = "POST",
        accept: Callable[[Reply], bool] = lambda _: True,
    ) -> Reply:
        """Send ``body`` and return the answer, of a status 2xx and accepted.

        ``once``: the request that cannot be taken back. An answer to it that is lost, or is neither an acceptance nor a
        refusal, is a Trouble of the kind LOST; of another request it is one that another try may mend.
        """
        sending = _Sending(body)
        unclear = lost if once else passing
        try:
            reply = self._exchange(method, path, sending, headers)
        except requests.RequestException as error:
            reason = f"{self.host} {_what_happened(error, sent=sending.asked)}"
            raise (unclear if sending.asked else passing)(reason) from None
        if 200 <= reply.status < 300:  # noqa: PLR2004
            if not accept(reply):
                raise unclear(f"{self.host} accepted it, but its answer cannot be read")
            return reply
        raise self._refusal(reply, unclear)

    def get(self, path: str, headers: Mapping[str, str], params: Mapping[str, str] | None = None) -> Reply:
        """Read. Raises Trouble, never of the kind LOST."""
        try:
            reply = self._exchange("GET", path, None, headers, params)
        except requests.RequestException as error:
            raise passing(f"{self.host} {_what_happened(error)}") from None
        if reply.status == 200:  # noqa: PLR2004
            return reply
        raise self._refusal(reply, passing)

    def _refusal(self, reply: Reply, unclear: Callable[[str], Trouble]) -> Trouble:
        # Masked before it is cut: of a secret that is cut through, no mask would find the rest.
        said = shown(self.masker.hide(self.words(reply)), _MOST_WORDS)
        reason = f"{self.host} answered {reply.status}{f': {said}' if said else ''}"
        if not 400 <= reply.status < 500:  # noqa: PLR2004
            return unclear(reason)
        if not self.may_pass(reply):
            return final(reason)
        wait = reply.headers.get("Retry-After", "")
        return passing(f"{reason} (it asks for {wait} seconds)" if wait.isdecimal() and len(wait) < 7 else reason)  # noqa: PLR2004

    def _exchange(
        self,
        method: str,
        path: str,
        body: _Sending | None,
        headers: Mapping[str, str],
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        seconds = CONNECT_SECONDS + self.seconds
        end = time.monotonic() + seconds
        # A connection of its own each time: one that is kept can be closed under a request, which then looks sent.
        with session(seconds) as (connection, bound):
            try:
                with connection.request(
                    method,
                    f"{self.root}{path}",
                    params=params,
                    data=body,
                    headers={"Accept": JSON, "User-Agent": f"vibey-actions/{__version__}", **headers},
                    auth=unsigned,
                    timeout=(CONNECT_SECONDS, self.seconds),
                    stream=True,
                    allow_redirects=False,
                ) as response:
                    reply = Reply(response.status_code, _json(_bounded(response, end)), response.headers)
            except requests.RequestException:
                if not bound.cut:
                    raise
            if bound.cut:  # what came until then may look whole
                raise requests.exceptions.ReadTimeout
            return reply


def json_bytes(data: object) -> bytes:
    """``data`` as the body of a request."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode()


class _Sending(io.BytesIO):
    """A body that notes whether it was asked for: that happens after the connection stands and the head is out."""

    asked = False

    def __len__(self) -> int:
        return self.getbuffer().nbytes

    def read(self, size: int | None = -1, /) -> bytes:
        self.asked = True
        return super().read(size)


def unsigned(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Keeps requests from reading a .netrc in the place of the platform's credential."""
    return request


def _bounded(response: requests.Response, end: float) -> bytes:
    found = bytearray()
    for piece in response.iter_content(1024):
        found += piece
        if len(found) > MOST_ANSWER or time.monotonic() > end:
            raise requests.exceptions.ContentDecodingError("an answer without end")
    return bytes(found)


def _json(text: bytes) -> object:
    try:
        data: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return data


def _what_happened(error: requests.RequestException, *, sent: bool = False) -> str:
    """What became of a request, in plain words: never the address, which may hold a secret."""
    if sent and type(error) is requests.exceptions.ConnectionError:
        return "cut the connection and gave no answer"
    for kind, words in (
        (requests.exceptions.ConnectTimeout, "could not be reached in time"),
        (requests.exceptions.Timeout, "did not answer in time"),
        (requests.exceptions.SSLError, "could not be reached securely"),
        (requests.exceptions.ProxyError, "could not be reached, because the proxy on the way failed"),
        (requests.exceptions.ContentDecodingError, "sent an answer without end"),
        (requests.exceptions.ConnectionError, "could not be reached, or cut the connection"),
        (requests.exceptions.ChunkedEncodingError, "cut the connection"),
    ):
        if isinstance(error, kind):
            return words
    return f"could not be asked ({type(error).__name__})"
