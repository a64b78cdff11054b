"""Instagram over the Graph API: item containers, a carousel container, their status, the publishing call, a permalink.

Containers that are never published vanish after a day and do no harm. Instagram fetches the images itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from vibey_actions.documents.addresses import address
from vibey_actions.documents.declare import Part
from vibey_actions.documents.fetch import Fetcher, NotFetched
from vibey_actions.documents.masking import Masker
from vibey_actions.documents.publishers.base import Post, Trouble, final, in_time, lost, passing, posted
from vibey_actions.documents.publishers.calls import JSON, Api, Reply, json_bytes, may_pass
from vibey_actions.documents.steps.base import Work
from vibey_actions.documents.steps.surroundings import Surroundings
from vibey_actions.text import shown

API: Final = "https://graph.facebook.com/v23.0"
MOST_ITEMS: Final = 10
MOST_CAPTION: Final = 2200
LOOKS: Final = 12
"""How often a container's status is asked for in one try, ``PAUSE`` seconds apart."""
PAUSE: Final = 5.0

_SETTINGS: Final = ("publisher", "account", "token", "api")
_ID: Final = re.compile(r"[0-9A-Za-z_]{1,64}", re.ASCII)
_NOT_NOW: Final = frozenset({1, 2, 4, 9, 17, 32, 341, 613, 9007, 80002})
"""The platform's own error codes of rate limits, quotas, passing faults and media that are not ready yet."""


@dataclass(frozen=True)
class Instagram:
    """One professional account. ``fetcher`` says which addresses of images may be handed on."""

    api: Api
    account: str
    token: str = field(repr=False)
    fetcher: Fetcher
    sleep: Callable[[float], None]

    staged = True

    @classmethod
    def make(cls, part: Part, surroundings: Surroundings, fetcher: Fetcher) -> Instagram:
        """From the settings ``account``, ``token`` (the name of a variable), ``api``. Raises MachineInvalid."""
        part.known(_SETTINGS)
        account = part.text("account")
        if not _ID.fullmatch(account):
            raise part.wrong(
                "account", "is no id of an account", "write the number of the professional account, in quotes"
            )
        token = surroundings.secret(part, "token")
        masker = Masker(surroundings.environment, (token,))
        return cls(
            Api(address(part, "api", API).rstrip("/"), masker, _words, _may_pass),
            account,
            token,
            fetcher,
            surroundings.sleep,
        )

    def problem(self, post: Post) -> str | None:
        if not post.images:
            return "ig needs an image"
        if len(post.images) > MOST_ITEMS:
            return f"ig takes at most {MOST_ITEMS} images"
        if len(post.caption) > MOST_CAPTION:
            return f"ig takes at most {MOST_CAPTION} characters of caption"
        try:
            for image in post.images:
                self.fetcher.check(image)
        except NotFetched as error:
            return error.reason
        return None

    def items(self, post: Post, work: Work) -> Sequence[str]:
        return [self._make({"image_url": image, "is_carousel_item": True}, work) for image in post.images]

    def container(self, post: Post, work: Work) -> str:
        if not post.children:
            return self._make({"image_url": post.images[0], "caption": post.caption}, work)
        self._all_finished(post.children, work)
        carousel = {"media_type": "CAROUSEL", "children": ",".join(post.children), "caption": post.caption}
        return self._make(carousel, work)

    def publish(self, post: Post, work: Work) -> Mapping[str, str]:
        container = post.container or ""
        self._all_finished((container,), work)
        in_time(work)
        body = json_bytes({"creation_id": container})
        path = f"/{self.account}/media_publish"
        media = self.api.send(path, body, self._headers, once=True, accept=_has_id).text("id") or ""
        return posted(self.api.masker, media, self._permalink(media))

    @property
    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}", "Content-Type": JSON}

    def _make(self, fields: Mapping[str, object], work: Work) -> str:
        in_time(work)
        made = self.api.send(f"/{self.account}/media", json_bytes(fields), self._headers, accept=_has_id)
        return made.text("id") or ""

    def _all_finished(self, containers: Sequence[str], work: Work) -> None:
        """Wait until the platform has processed them. Raises Trouble where it has not in this try, or never will."""
        pending = list(containers)
        for look in range(LOOKS):
            if look:
                self.sleep(PAUSE)
            while pending and self._finished(pending[0], work):
                pending.pop(0)
            if not pending:
                return
        raise passing(f"the container {pending[0]} is still being processed")

    def _finished(self, container: str, work: Work) -> bool:
        if not _ID.fullmatch(container):
            raise final("it names a container by something that is no id")
        in_time(work)
        reply = self.api.get(f"/{container}", self._headers, {"fields": "status_code,status"})
        status = reply.text("status_code") or "unknown"
        if status not in ("FINISHED", "IN_PROGRESS"):
            raise self._unusable(container, status)
        return status == "FINISHED"

    def _unusable(self, container: str, status: str) -> Trouble:
        match status:
            case "PUBLISHED":
                return lost(
                    f"the container {container} was published already, so its post is there without our record of it"
                )
            case "EXPIRED":
                return final(f"the container {container} has expired; a retry makes new ones")
            case "ERROR":
                return final(f"ig could not process the container {container}; look at its image")
            case _:
                return passing(f"the status of the container {container} is {shown(status, 40)}")

    def _permalink(self, media: str) -> str | None:
        """The post's address; it stands already, so nothing that goes wrong here matters to it."""
        for _ in range(2):
            try:
                return self.api.get(f"/{media}", self._headers, {"fields": "permalink"}).text("permalink")
            except Trouble:
                continue
        return None


def _has_id(reply: Reply) -> bool:
    return _ID.fullmatch(reply.text("id") or "") is not None


def _error(reply: Reply) -> Mapping[str, object]:
    error = reply.data.get("error") if isinstance(reply.data, dict) else None
    return error if isinstance(error, dict) else {}


def _words(reply: Reply) -> str:
    error = _error(reply)
    parts = [error.get("message"), error.get("error_user_msg")]
    code = error.get("code")
    said = [part for part in parts if isinstance(part, str) and part]
    return "; ".join([*said, *([f"code {code}"] if isinstance(code, int) else [])])


def _may_pass(reply: Reply) -> bool:
    error = _error(reply)
    return may_pass(reply) or error.get("is_transient") is True or error.get("code") in _NOT_NOW
