"""Platforms that a test can post to: their servers, the settings that lead there, and posts on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support import ig_server
from tests.support.bsky_server import PASSWORD
from tests.support.github_server.faults import Fault
from tests.support.github_server.replies import Reply
from tests.support.platform_server import Asked, PlatformServer
from tests.support.walking import Walk
from tests.support.webhook_server import SECRET
from vibey_actions.documents.model import Document

IMAGE = "https://images.example/slide-{}.jpg"
ENVIRONMENT = {"IG_TOKEN": ig_server.TOKEN, "BSKY_PASSWORD": PASSWORD, "HOOK_SECRET": SECRET, "PATH": "/usr/bin:/bin"}


class ImageServer(PlatformServer):
    """Pictures over https, for the platforms that are given bytes."""

    def answer(self, asked: Asked) -> Reply:
        size = int(asked.query.get("size", "2000"))
        return Reply(200, b"\xff\xd8" + b"x" * (size - 2), {"Content-Type": "image/jpeg"})


@dataclass
class Platform:
    """One platform: its server, the settings that lead to it, the call that posts, and the posts that stand."""

    server: Any
    settings: dict[str, object]
    posting: str
    posts: Callable[[], int]
    error: Callable[[int], Any]


def post(walk: Walk, images: int = 0, identifier: str = "post-1", **fields: Any) -> Document:
    """A publish request for the one platform there is."""
    pictures = [IMAGE.format(number) for number in range(images)]
    return walk.add(identifier, platform="there", slug="my-post", caption="Hello", images=pictures, **fields)


def to_the_call(walk: Walk, platform: Platform) -> None:
    """A post that has only the publishing call before it."""
    staged = platform.settings["publisher"] == "ig"
    post(walk, images=1 if staged else 0)
    if staged:
        walk.tick()
        assert walk.read("post-1")["status"] == "carousel-created"


def refusing(error: Exception) -> Fault:
    """A fault that answers with a refusal, before any effect."""

    def refuse() -> Reply | None:
        raise error

    return Fault(before=refuse)
