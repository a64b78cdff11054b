"""What the step ``publish-request`` asks of a platform.

A publisher says which of its troubles prove that nothing was posted. Whatever it cannot prove that of is a lost answer,
and no second post is ever made by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from vibey_actions.documents.masking import Masker
from vibey_actions.documents.model import Document
from vibey_actions.documents.steps.base import Work
from vibey_actions.text import visible

_MOST_MEDIA_ID: Final = 512
_MOST_LINK: Final = 2048
_LINK: Final = re.compile(r"https?://[\x21-\x7e]+")


class Kind(str, Enum):
    """What a trouble means for the post."""

    AGAIN = "again"
    """Nothing was posted, and another try may help."""
    FINAL = "final"
    """Nothing was posted, and another try would not help."""
    LOST = "lost"
    """It may have been posted."""


class Trouble(Exception):
    """A publisher could not do what was asked. ``reason`` is fit to be shown."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason


def passing(reason: str) -> Trouble:
    """Nothing was posted; try again."""
    return Trouble(Kind.AGAIN, reason)


def final(reason: str) -> Trouble:
    """Nothing was posted, nor will it be."""
    return Trouble(Kind.FINAL, reason)


def lost(reason: str) -> Trouble:
    """It may have been posted."""
    return Trouble(Kind.LOST, reason)


@dataclass(frozen=True, slots=True)
class Post:
    """What a publish request asks for, read from its document."""

    identifier: str
    caption: str
    images: tuple[str, ...]
    children: tuple[str, ...]
    """The containers of the images, where they were made in an earlier tick."""
    container: str | None
    """The container of the whole post, where it was made in an earlier tick."""
    document: Document = field(repr=False)


def in_time(work: Work) -> None:
    """Keep the claim for as long as a request may take; always called right before the one that cannot be taken back.

    Raises Trouble where the claim no longer stands.
    """
    if work.until_ms - work.now_ms() < work.machine.lease_ms // 2 and not work.renew():
        raise passing("its claim was lost before anything was posted")


def posted(masker: Masker, media: str | None, link: str | None) -> Mapping[str, str]:
    """``mediaId`` and ``permalink`` of a post, as far as what the platform says of them is fit for a document.

    What is too long, no web address, or holds a secret is left out: the post stands all the same.
    """
    found = {}
    for name, value, most in (("mediaId", media, _MOST_MEDIA_ID), ("permalink", link, _MOST_LINK)):
        fit = value and len(value) <= most and value == visible(value) == masker.hide(value)
        if value and fit and (name == "mediaId" or _LINK.fullmatch(value)):
            found[name] = value
    return found


class Publisher(Protocol):
    """One platform. Every method but ``problem`` raises Trouble."""

    @property
    def staged(self) -> bool:
        """Whether a post is built up in containers before it is published."""
        ...

    def problem(self, post: Post) -> str | None:
        """Why the platform cannot take this post at all; asked before anything is spent, from the post alone."""
        ...

    def items(self, post: Post, work: Work) -> Sequence[str]:
        """Make a container for each image; what is made and never published does no harm. Staged platforms only."""
        ...

    def container(self, post: Post, work: Work) -> str:
        """Make the container of the whole post from its children, its one image, or its text. Staged ones only."""
        ...

    def publish(self, post: Post, work: Work) -> Mapping[str, str]:
        """Post it, once, and return ``mediaId`` and ``permalink`` as far as they are known.

        ``in_time`` is called right before the one request that cannot be taken back. A lost answer to that is a Trouble
        of the kind LOST; to any other it is not.
        """
        ...


class Direct:
    """The parts of a publisher that has no containers."""

    staged = False

    def items(self, post: Post, work: Work) -> Sequence[str]:  # noqa: ARG002
        """Not asked of such a platform."""
        raise final(f"{post.identifier} is for a platform without containers")

    def container(self, post: Post, work: Work) -> str:  # noqa: ARG002
        """Not asked of such a platform."""
        raise final(f"{post.identifier} is for a platform without containers")
