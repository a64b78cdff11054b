"""The step ``publish-request``: a post walks through a platform's containers to its one publishing call.

Which part is done follows from the status: items, carousel or publish, written onto the claim as ``step``. Publishing
is the one that is never repeated after an unknown outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from vibey_actions.documents.declare import Part
from vibey_actions.documents.fetch import Fetcher
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import ID, STATUS, STEP, Document, text_of, time_ms
from vibey_actions.documents.publishers.base import Kind, Post, Publisher, Trouble
from vibey_actions.documents.publishers.bsky import Bluesky
from vibey_actions.documents.publishers.command import CommandPublisher
from vibey_actions.documents.publishers.ig import Instagram
from vibey_actions.documents.publishers.webhook import Webhook
from vibey_actions.documents.steps.base import (
    Decision,
    Hold,
    Invalid,
    Ready,
    StepResult,
    Work,
    again,
    done,
    failed,
    unknown,
)
from vibey_actions.documents.steps.surroundings import Surroundings, settings_of
from vibey_actions.errors import MachineInvalid
from vibey_actions.text import shown

ITEMS: Final = "items"
CAROUSEL: Final = "carousel"
PUBLISH: Final = "publish"
MOST_IMAGES: Final = 20
PUBLISHERS: Final[Mapping[str, Callable[[Part, Surroundings, Fetcher], Publisher]]] = {
    "ig": Instagram.make,
    "bsky": Bluesky.make,
    "webhook": Webhook.make,
    "command": CommandPublisher.make,
}
SHORTEST_MS: Final = 420_000
"""The least lease. Half of it, which stands when the post is sent, holds that request and two looks at what came of it:
a post whose lease ends meanwhile would be taken for one whose outcome is unknown."""
_SETTINGS: Final = ("platforms", "hosts")


class PublishStep:
    """``publishers`` by the name that a document gives as its platform."""

    def __init__(self, publishers: Mapping[str, Publisher]) -> None:
        self._publishers = publishers

    @classmethod
    def make(cls, machine: Machine, surroundings: Surroundings) -> PublishStep:
        """The step with the platforms that the machine declares under ``with``. Raises MachineInvalid."""
        part = settings_of(machine)
        part.known(_SETTINGS)
        fetcher = _fetcher(part, surroundings)
        platforms = part.part("platforms")
        if not platforms.values:
            raise part.wrong("platforms", "is missing", "name each platform with its publisher and account")
        publishers = {name: _publisher(platforms.part(name), surroundings, fetcher) for name in platforms.values}
        asked = any(not isinstance(publisher, CommandPublisher) for publisher in publishers.values())
        if asked and machine.lease_ms < SHORTEST_MS:
            raise MachineInvalid(
                f"{part.file}: its lease is too short for a platform that answers slowly",
                f"write lease: {SHORTEST_MS // 60_000}m or more, or leave it out",
            )
        return cls(publishers)

    def decide(self, document: Document, now_ms: int) -> Decision:
        problem = _malformed(document)
        if problem is not None:
            return Invalid(problem)
        platform = text_of(document, "platform") or ""
        publisher = self._publishers.get(platform)
        if publisher is None:
            return Invalid(f"there is no publisher for the platform {shown(platform, 60) or 'that it does not name'}")
        post = post_of(document)
        problem = publisher.problem(post)
        if problem is not None:
            return Invalid(problem)
        at = document.get("postAt")
        due = time_ms(at)
        if due is not None and due > now_ms:
            return Hold(f"it is to be posted at {shown(str(at), 40)}")
        note = "its postAt cannot be read, so it counts as due" if at is not None and due is None else ""
        return Ready(_part(publisher, document, post), note)

    def run(self, work: Work) -> StepResult:
        publisher = self._publishers[text_of(work.document, "platform") or ""]
        post = post_of(work.document)
        try:
            match text_of(work.document, STEP):
                case "items":
                    return done({"children": list(publisher.items(post, work))}, "items-created")
                case "carousel":
                    return done({"carouselId": publisher.container(post, work)}, "carousel-created")
                case _:
                    return done(publisher.publish(post, work), "done")
        except Trouble as trouble:
            return _RESULTS[trouble.kind](trouble.reason)


_RESULTS: Final[Mapping[Kind, Callable[[str], StepResult]]] = {
    Kind.AGAIN: again,
    Kind.FINAL: failed,
    Kind.LOST: unknown,
}


def post_of(document: Document) -> Post:
    """What the document asks for."""
    return Post(
        identifier=text_of(document, ID) or "",
        caption=text_of(document, "caption") or "",
        images=_texts(document.get("images")),
        children=_texts(document.get("children")),
        container=text_of(document, "carouselId"),
        document=document,
    )


def _part(publisher: Publisher, document: Document, post: Post) -> str:
    """What is to be done next for a document in its status."""
    match text_of(document, STATUS):
        case "pending" if publisher.staged:
            return ITEMS if len(post.images) > 1 else CAROUSEL
        case "items-created":
            return CAROUSEL
        case _:
            return PUBLISH


def _malformed(document: Document) -> str | None:
    caption, images = document.get("caption"), document.get("images")
    if caption is not None and not isinstance(caption, str):
        return "its caption is no text"
    if images is not None and not (isinstance(images, list) and all(isinstance(each, str) and each for each in images)):
        return "its images are no list of addresses"
    if isinstance(images, list) and len(images) > MOST_IMAGES:
        return f"it has more than {MOST_IMAGES} images"
    children, expected = document.get("children"), text_of(document, STATUS) == "items-created"
    if expected and not (isinstance(children, list) and len(children) == len(images or [])):
        return "it has not a container for each image"
    return None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()


def _publisher(part: Part, surroundings: Surroundings, fetcher: Fetcher) -> Publisher:
    kind = part.text("publisher")
    make = PUBLISHERS.get(kind)
    if make is None:
        known = ", ".join(PUBLISHERS)
        raise part.wrong("publisher", f"is {shown(kind, 60)}, which there is not", f"the publishers are {known}")
    return make(part, surroundings, fetcher)


def _fetcher(part: Part, surroundings: Surroundings) -> Fetcher:
    environment = surroundings.environment
    authorities = environment.get("REQUESTS_CA_BUNDLE") or environment.get("SSL_CERT_FILE") or None
    try:
        return Fetcher.allowing(part.texts("hosts", optional=True), authorities)
    except ValueError as error:
        raise part.wrong(
            "hosts",
            f"holds {shown(str(error), 80)}, which is no host",
            "write HOST, or HOST:PORT for another port than 443",
        ) from None
