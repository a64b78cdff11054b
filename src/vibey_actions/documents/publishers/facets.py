"""What in a text is a link, a tag or a mention, for Bluesky: found here, since the server takes texts as they are.

A facet names its place in bytes of UTF-8, not in characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Final

LINK: Final = "app.bsky.richtext.facet#link"
TAG: Final = "app.bsky.richtext.facet#tag"
MENTION: Final = "app.bsky.richtext.facet#mention"
MOST_TAG: Final = 64
MOST_MENTIONS: Final = 20
"""Different handles that are looked up for one text; more stay text."""

_LINK: Final = re.compile(r"(?<![\w@])https?://[^\s<>\"]+", re.I)
_TAG: Final = re.compile(r"(?<!\S)[#\uff03](\S+)")
_LABEL: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_MENTION: Final = re.compile(rf"(?<![\w@./])@({_LABEL}(?:\.{_LABEL})+)(?![\w-])", re.ASCII)
_AT_THE_END: Final = ".,;:!?'\")]}…"

Facet = dict[str, object]


def facets(text: str, resolve: Callable[[str], str | None]) -> list[Facet]:
    """The facets of ``text`` in their order; ``resolve`` gives the DID of a handle, None where it has none."""
    found: list[tuple[int, int, dict[str, str]]] = []
    for start, end, feature in (*_links(text), *_tags(text), *_mentions(text, resolve)):
        if all(end <= other_start or start >= other_end for other_start, other_end, _ in found):
            found.append((start, end, feature))
    found.sort(key=lambda each: each[0])
    return [_facet(text, *each) for each in found]


def _links(text: str) -> Iterator[tuple[int, int, dict[str, str]]]:
    for match in _LINK.finditer(text):
        uri = _trimmed(match[0])
        if len(uri.partition("://")[2]) > 0:
            yield match.start(), match.start() + len(uri), {"$type": LINK, "uri": uri}


def _tags(text: str) -> Iterator[tuple[int, int, dict[str, str]]]:
    for match in _TAG.finditer(text):
        tag = match[1]
        while tag and unicodedata.category(tag[-1]).startswith("P"):
            tag = tag[:-1]
        if tag and not tag.isdecimal() and len(tag) <= MOST_TAG and "#" not in tag:
            yield match.start(), match.start(1) + len(tag), {"$type": TAG, "tag": tag}


def _mentions(text: str, resolve: Callable[[str], str | None]) -> Iterator[tuple[int, int, dict[str, str]]]:
    known: dict[str, str | None] = {}
    for match in _MENTION.finditer(text):
        handle = match[1].lower()
        if handle not in known and len(known) < MOST_MENTIONS:
            known[handle] = resolve(handle)
        did = known.get(handle)
        if did is not None:
            yield match.start(), match.end(), {"$type": MENTION, "did": did}


def _trimmed(uri: str) -> str:
    """A link without the punctuation of the sentence around it; a closing bracket stays where the link opened it."""
    while uri and uri[-1] in _AT_THE_END:
        opening = {")": "(", "]": "[", "}": "{"}.get(uri[-1])
        if opening is not None and uri.count(opening) >= uri.count(uri[-1]):
            break
        uri = uri[:-1]
    return uri


def _facet(text: str, start: int, end: int, feature: dict[str, str]) -> Facet:
    first = len(text[:start].encode())
    index = {"byteStart": first, "byteEnd": first + len(text[start:end].encode())}
    return {"index": index, "features": [feature]}
