"""Any server that takes a post as one request: the document as JSON, its signature, and a key for its effects."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, urlsplit

from vibey_actions.documents.addresses import address, checked_address
from vibey_actions.documents.declare import Part
from vibey_actions.documents.fetch import Fetcher
from vibey_actions.documents.guard import RESERVED
from vibey_actions.documents.masking import Masker
from vibey_actions.documents.model import ID, REV, STATUS, UPDATED, dump
from vibey_actions.documents.publishers.base import Direct, Post, in_time, posted
from vibey_actions.documents.publishers.calls import JSON, Api, Reply
from vibey_actions.documents.steps.base import Work
from vibey_actions.documents.steps.surroundings import Surroundings

SIGNATURE: Final = "X-Hub-Signature-256"
KEY: Final = "Idempotency-Key"
OF_THE_LANE: Final = RESERVED - {STATUS, UPDATED} | {REV}
"""Bookkeeping of the lane, which says nothing about the post."""
_SETTINGS: Final = ("publisher", "url", "url-from", "secret")
_PLAIN: Final = "".join(chr(code) for code in range(0x21, 0x7F) if chr(code) != "%")


@dataclass(frozen=True)
class Webhook(Direct):
    """One address. Any 2xx is an acceptance; where its answer is JSON with ``mediaId`` and ``permalink``, they are
    kept."""

    api: Api
    secret: bytes = field(repr=False)

    @classmethod
    def make(cls, part: Part, surroundings: Surroundings, fetcher: Fetcher) -> Webhook:  # noqa: ARG003
        """From the settings ``url`` (or ``url-from``, the name of a variable that holds it) and ``secret`` (the name of
        a variable). Raises MachineInvalid."""
        part.known(_SETTINGS)
        secret = surroundings.secret(part, "secret")
        kept_secret = "url-from" in part.values
        url = surroundings.secret(part, "url-from") if kept_secret else address(part, "url")
        masker = Masker(surroundings.environment, (secret, *(_parts(url) if kept_secret else ())))
        called = f"the address in {part.text('url-from')}" if kept_secret else ""
        return cls(Api(checked_address(part, "url-from", url), masker, _words, called=called), secret.encode())

    def problem(self, post: Post) -> str | None:
        return None if post.caption.strip() or post.images else "it has neither a caption nor an image"

    def publish(self, post: Post, work: Work) -> Mapping[str, str]:
        body = dump({ID: post.identifier, **_content(post)})
        headers = {"Content-Type": JSON, SIGNATURE: signature(self.secret, body), KEY: header_key(work.key)}
        in_time(work)
        reply = self.api.send("", body, headers, once=True)
        return posted(self.api.masker, reply.text("mediaId"), reply.text("permalink"))


def signature(secret: bytes, body: bytes) -> str:
    """How a body is signed."""
    return f"sha256={hmac.new(secret, body, hashlib.sha256).hexdigest()}"


def header_key(key: str) -> str:
    """``id:attempt`` as a header can carry it: what is no visible ASCII, and ``%``, is percent-encoded as UTF-8."""
    return quote(key, safe=_PLAIN)


def _parts(url: str) -> tuple[str, ...]:
    """An address that is a secret, and what of it a server may name."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return (url,)
    return (url, parts.netloc, parts.path, parts.query, *parts.path.split("/"))


def _content(post: Post) -> Mapping[str, object]:
    return {name: value for name, value in post.document.items() if name not in OF_THE_LANE}


def _words(reply: Reply) -> str:
    return reply.text("message") or reply.text("error", "message") or reply.text("error") or ""
