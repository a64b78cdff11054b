"""Bluesky over XRPC: a session, a blob for each image, one record with facets, which is the post."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from vibey_actions.documents.addresses import address
from vibey_actions.documents.declare import Part
from vibey_actions.documents.fetch import Fetched, Fetcher, NotFetched
from vibey_actions.documents.masking import Masker
from vibey_actions.documents.model import iso
from vibey_actions.documents.publishers.base import Direct, Post, Trouble, final, in_time, passing, posted
from vibey_actions.documents.publishers.calls import JSON, Api, Reply, json_bytes, may_pass
from vibey_actions.documents.publishers.facets import facets
from vibey_actions.documents.steps.base import Work
from vibey_actions.documents.steps.surroundings import Surroundings

SERVICE: Final = "https://bsky.social"
WEB: Final = "https://bsky.app"
MOST_IMAGES: Final = 4
MOST_IMAGE: Final = 1_000_000
"""Bytes of an image, by the lexicon app.bsky.embed.images."""
MOST_TEXT: Final = 3000
"""Bytes of a text, by the lexicon app.bsky.feed.post. Its limit of 300 graphemes is the server's to count."""
POST: Final = "app.bsky.feed.post"

_SETTINGS: Final = ("publisher", "identifier", "password", "service", "web")
_URI: Final = re.compile(rf"at://(did:[a-z]+:[A-Za-z0-9._:%-]+)/{re.escape(POST)}/([A-Za-z0-9._~:-]+)")
_DID: Final = re.compile(r"did:[a-z]+:[A-Za-z0-9._:%-]+")
_NOT_NOW: Final = frozenset({"ExpiredToken", "InvalidToken", "AuthFactorTokenRequired", "RateLimitExceeded"})


@dataclass(frozen=True)
class Bluesky(Direct):
    """One account on one service."""

    api: Api
    identifier: str
    password: str = field(repr=False)
    fetcher: Fetcher
    web: str = WEB

    @classmethod
    def make(cls, part: Part, surroundings: Surroundings, fetcher: Fetcher) -> Bluesky:
        """From the settings ``identifier``, ``password`` (the name of a variable that holds an app password),
        ``service``, ``web``. Raises MachineInvalid."""
        part.known(_SETTINGS)
        password = surroundings.secret(part, "password")
        masker = Masker(surroundings.environment, (password,))
        api = Api(address(part, "service", SERVICE).rstrip("/"), masker, _words, _may_pass)
        web = address(part, "web", WEB).rstrip("/")
        return cls(api, part.text("identifier"), password, fetcher, web)

    def problem(self, post: Post) -> str | None:
        if not post.caption.strip() and not post.images:
            return "it has neither a caption nor an image"
        if len(post.images) > MOST_IMAGES:
            return f"bsky takes at most {MOST_IMAGES} images"
        if len(post.caption.encode()) > MOST_TEXT:
            return f"bsky takes at most {MOST_TEXT} bytes of text"
        try:
            for image in post.images:
                self.fetcher.check(image)
        except NotFetched as error:
            return error.reason
        return None

    def publish(self, post: Post, work: Work) -> Mapping[str, str]:
        images = [self._fetched(image) for image in post.images]
        did, token = self._session()
        signed = {"Authorization": f"Bearer {token}"}
        record: dict[str, object] = {"$type": POST, "text": post.caption, "createdAt": iso(work.now_ms())}
        found = facets(post.caption, self._did)
        if found:
            record["facets"] = found
        if images:
            blobs = [{"alt": "", "image": self._blob(image, signed)} for image in images]
            record["embed"] = {"$type": "app.bsky.embed.images", "images": blobs}
        in_time(work)
        body = json_bytes({"repo": did, "collection": POST, "record": record})
        headers = {**signed, "Content-Type": JSON}
        made = self.api.send("/xrpc/com.atproto.repo.createRecord", body, headers, once=True, accept=_has_uri)
        uri = made.text("uri") or ""
        return posted(self.api.masker, uri, self._permalink(uri))

    def _fetched(self, image: str) -> Fetched:
        try:
            found = self.fetcher.fetch(image)
        except NotFetched as error:
            raise (final if error.final else passing)(error.reason) from None
        if len(found.data) > MOST_IMAGE:
            raise final(f"an image has {len(found.data)} bytes, and bsky takes at most {MOST_IMAGE}")
        return found

    def _session(self) -> tuple[str, str]:
        """The account's DID, and the token of a session."""
        body = json_bytes({"identifier": self.identifier, "password": self.password})
        reply = self.api.send("/xrpc/com.atproto.server.createSession", body, {"Content-Type": JSON})
        did, token = reply.text("did"), reply.text("accessJwt")
        if did is None or token is None or not (token.isascii() and token.isprintable()):
            raise passing(f"{self.api.host} gave no session")
        return did, token

    def _blob(self, image: Fetched, signed: Mapping[str, str]) -> object:
        path = "/xrpc/com.atproto.repo.uploadBlob"
        reply = self.api.send(path, image.data, {**signed, "Content-Type": image.kind})
        blob = reply.data.get("blob") if isinstance(reply.data, dict) else None
        if not isinstance(blob, dict):
            raise passing(f"{self.api.host} took an image, but its answer cannot be read")
        return blob

    def _did(self, handle: str) -> str | None:
        """Whom a mention means; one that cannot be told stays plain text."""
        try:
            reply = self.api.get("/xrpc/com.atproto.identity.resolveHandle", {}, {"handle": handle})
        except Trouble:
            return None
        did = reply.text("did")
        return did if did is not None and _DID.fullmatch(did) else None

    def _permalink(self, uri: str) -> str:
        match = _URI.fullmatch(uri)
        return f"{self.web}/profile/{match[1]}/post/{match[2]}" if match is not None else ""


def _has_uri(reply: Reply) -> bool:
    return _URI.fullmatch(reply.text("uri") or "") is not None


def _words(reply: Reply) -> str:
    return ": ".join(part for part in (reply.text("error"), reply.text("message")) if part is not None)


def _may_pass(reply: Reply) -> bool:
    return may_pass(reply) or reply.text("error") in _NOT_NOW
