"""The pure parts of steps: which addresses are public, slugs, facets, masks."""

from __future__ import annotations

import pytest

from vibey_actions.documents.fetch import is_public
from vibey_actions.documents.masking import MASK, Masker
from vibey_actions.documents.publishers.facets import facets
from vibey_actions.documents.steps.build import hashed_slug, holds, short_slug


@pytest.mark.parametrize(
    "address",
    [
        *("127.0.0.1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "169.254.169.254", "100.64.0.1", "0.0.0.0"),  # noqa: S104
        *("224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "192.0.0.8", "240.0.0.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1", "fec0::1", "2001:db8::1"),
        *("::ffff:10.0.0.1", "::10.0.0.1", "64:ff9b::10.0.0.1", "64:ff9b:1::1", "2002:7f00:1::1", "2001:0:7f00:1::1"),
        *("", "localhost", "1.2.3"),
    ],
)
def test_an_address_inside_a_network_is_not_public(address: str) -> None:
    """Nor is one of IPv6 that carries one of IPv4, or what is no address at all."""
    assert not is_public(address)


@pytest.mark.parametrize("address", ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "64:ff9b::8.8.8.8"])
def test_an_address_of_the_internet_is_public(address: str) -> None:
    """The plain ones, and what a translating network writes for them."""
    assert is_public(address)


@pytest.mark.parametrize(
    ("identifier", "slug"),
    [
        ("at://did:plc:abc/app.bsky.feed.post/3kabcdefgh2y7", "m-3kabcdefgh2y7"),
        ("mention:3kabcdefgh2y7", "m-3kabcdefgh2y7"),
        ("3kabcdefgh2y7", "m-3kabcdefgh2y7"),
        ("mention:3kabcdefgh2y8", None),
        ("mention:3Kabcdefgh2y7", None),
        ("mention:3kabcdefgh2y", None),
        ("mention:x3kabcdefgh2y7", None),
        ("mention:3kabcdefgh2y7\n", None),
    ],
)
def test_the_slug_of_a_record_key(identifier: str, slug: str | None) -> None:
    """The id's last part where it is 13 characters of a-z2-7; no other id has a short slug."""
    assert short_slug(identifier) == slug


def test_the_slug_of_any_other_id() -> None:
    """``m-`` and 16 hex digits of SHA-256("abc"), which is a known value."""
    assert hashed_slug("abc") == "m-ba7816bf8f01cfea"


@pytest.mark.parametrize(
    ("other", "held"),
    [
        ({"_id": "b:3kabcdefgh2y7", "attempts": 1, "appSlug": "m-3kabcdefgh2y7"}, True),
        ({"_id": "elsewhere", "attempts": 1, "appSlug": "m-3kabcdefgh2y7"}, True),
        ({"_id": "b:3kabcdefgh2y7", "attempts": 1}, True),
        ({"_id": "b:3kabcdefgh2y7", "attempts": 0}, False),
        ({"_id": "b:3kabcdefgh2y7", "attempts": 1, "appSlug": "m-0123456789abcdef"}, False),
        ({"_id": "b:3kabcdefgh2z7", "attempts": 1}, False),
        ({"_id": "a:3kabcdefgh2y7", "attempts": 1, "appSlug": "m-3kabcdefgh2y7"}, False),
    ],
)
def test_who_holds_a_slug(other: dict[str, object], held: object) -> None:
    """A document that says so, or one that was claimed with the same short form and says nothing; never itself."""
    assert holds(other, "a:3kabcdefgh2y7", "m-3kabcdefgh2y7") is held


FACETS = {
    "a link's sentence": (
        "See https://example.com/a(b), or (http://x.example).",
        ["https://example.com/a(b)", "http://x.example"],
    ),
    "a tag's end": ("#one, #two! #3 # ##four a#five", ["#one", "#two"]),
    "wide letters": ("日本 #日本語 🎉https://example.com", ["#日本語", "https://example.com"]),
    "mentions": ("@a.example me@b.example @c @d.example.", ["@a.example", "@d.example"]),
    "a tag in a link": ("https://example.com/#top @a.example/x", ["https://example.com/#top", "@a.example"]),
    "nothing": ("plain text, 5 > 3", []),
}


@pytest.mark.parametrize("case", FACETS)
def test_facets_name_their_bytes(case: str) -> None:
    """Links without the sentence's punctuation, tags that are not numbers, mentions that are no mail addresses."""
    text, expected = FACETS[case]
    found = facets(text, lambda handle: f"did:plc:{handle.partition('.')[0]}")
    raw = text.encode()
    named = []
    for facet in found:
        index = facet["index"]
        assert isinstance(index, dict)
        named.append(raw[index["byteStart"] : index["byteEnd"]].decode())
    assert named == expected


def test_a_handle_without_a_did_is_no_facet() -> None:
    """It stays text, and the rest of the text keeps its facets."""
    found = facets("@nobody.example #tag", lambda _: None)
    assert [each["features"] for each in found] == [[{"$type": "app.bsky.richtext.facet#tag", "tag": "tag"}]]


def test_a_handle_is_looked_up_once_and_only_so_many_are() -> None:
    """A text of many mentions costs no more than twenty look-ups."""
    asked: list[str] = []
    text = " ".join(f"@a{number % 30}.example" for number in range(60))
    found = facets(text, lambda handle: asked.append(handle) or "did:plc:x")  # type: ignore[func-returns-value]
    assert (len(asked), len(set(asked)), len(found)) == (20, 20, 40)


def test_masks_hide_every_form_of_a_secret() -> None:
    """Given values, values of variables that sound secret, their single lines and address forms, known token forms."""
    masker = Masker({"API_KEY": "abc def/12", "NAME": "plain-name", "PEM_CERT": "line-one\nline-two"}, ["given-value"])
    said = masker.hide("abc def/12 abc%20def%2F12 abc+def%2F12 line-two given-value plain-name")
    assert said == f"{MASK} {MASK} {MASK} {MASK} {MASK} plain-name"
    assert masker.hide("postgres://u:pw@h/d Bearer abcdefghij ghp_0123456789abcdefghij") == (
        f"postgres://{MASK}@h/d Bearer {MASK} {MASK}"
    )


def test_a_secret_within_a_longer_one_leaves_nothing_of_it() -> None:
    """The longer one is looked for first."""
    assert Masker({}, ["secret", "secret-and-more"]).hide("a secret-and-more b") == f"a {MASK} b"


def test_a_tail_is_the_end_of_an_output() -> None:
    """The last lines on one line, cut at the front, whatever the bytes are."""
    masker = Masker({})
    assert masker.tail(b"one\n\n two \r\nthree\xff\n") == "one | two | three\\ufffd" or masker.tail(b"one\n") == "one"
    assert masker.tail(b"") == ""
    long = masker.tail(b"\n".join(b"line %d" % number + b"." * 60 for number in range(100)))
    assert long.startswith("…")
    assert long.endswith("line 99" + "." * 60)
    assert len(long) <= 440
