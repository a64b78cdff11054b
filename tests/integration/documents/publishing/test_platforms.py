"""Each publisher's own ways, against a server of ours that answers as its platform documents."""

from __future__ import annotations

import hashlib
import hmac
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.bsky_server import DID, xrpc_error
from tests.support.certificates import make_authority
from tests.support.github_server.faults import cut, refuse, reset, server_error
from tests.support.ig_server import graph_error
from tests.support.lanes import NOON, PUBLISH
from tests.support.platforms import ENVIRONMENT, IMAGE, ImageServer, Platform, post, refusing, to_the_call
from tests.support.walking import Walk, with_settings
from tests.support.webhook_server import SECRET
from vibey_actions.documents.model import iso
from vibey_actions.documents.publishers.webhook import header_key
from vibey_actions.documents.report import What
from vibey_actions.errors import MachineInvalid

# Instagram


def test_two_images_walk_through_their_containers(ig: Platform, walk: Callable[..., Walk]) -> None:
    """Items in one tick, the carousel in the next, the post in a third: each part is named on the claim."""
    walker = walk(ig.settings)
    post(walker, images=3)
    statuses = []
    for _ in range(3):
        walker.tick()
        statuses.append(walker.read("post-1")["status"])
    assert statuses == ["items-created", "carousel-created", "done"]
    document = walker.read("post-1")
    carousel = ig.server.containers[document["carouselId"]]
    assert carousel["children"].split(",") == document["children"]
    handed_on = [container["image_url"] for container in ig.server.containers.values() if "image_url" in container]
    assert handed_on == [IMAGE.format(number) for number in range(3)]
    assert (carousel["caption"], document["attempts"]) == ("Hello", 3)
    assert document["permalink"] == ig.server.media[document["mediaId"]]["permalink"]


def test_one_image_needs_no_carousel(ig: Platform, walk: Callable[..., Walk]) -> None:
    """It goes straight to carousel-created, with the caption on its own container."""
    walker = walk(ig.settings)
    post(walker, images=1)
    walker.tick()
    document = walker.read("post-1")
    assert document["status"] == "carousel-created"
    assert ig.server.containers[document["carouselId"]]["caption"] == "Hello"


def test_a_container_in_progress_is_waited_for(ig: Platform, walk: Callable[..., Walk]) -> None:
    """Asked for again after a pause; one that takes longer than a try leaves the post for a later tick."""
    ig.server.slow = 3
    walker = walk(ig.settings)
    post(walker, images=1)
    walker.tick()
    walker.tick()
    assert (walker.read("post-1")["status"], walker.pauses) == ("done", [5.0, 5.0, 5.0])
    ig.server.slow = 50
    post(walker, 1, "post-2")
    walker.tick()
    assert [event.what for event in walker.tick().events] == [What.AGAIN]
    assert "still being processed" in str(walker.read("post-2")["lastError"])
    assert ig.posts() == 1


@pytest.mark.parametrize(
    ("state", "status", "unknown"),
    [("ERROR", "error", False), ("EXPIRED", "error", False), ("PUBLISHED", "error", True), ("ODD", None, False)],
)
def test_a_container_that_cannot_be_published(
    ig: Platform, walk: Callable[..., Walk], state: str, status: str | None, unknown: object
) -> None:
    """Broken and expired ones fail; one that somebody published already is an unknown outcome; an odd state waits."""
    walker = walk(ig.settings)
    to_the_call(walker, ig)
    ig.server.containers[walker.read("post-1")["carouselId"]]["status_code"] = state
    walker.tick()
    document = walker.read("post-1")
    assert document["status"] == (status or "carousel-created")
    assert document.get("outcomeUnknown", False) is unknown
    assert ig.posts() == 0


def test_troubles_before_the_call_prove_nothing_was_posted(ig: Platform, walk: Callable[..., Walk]) -> None:
    """A lost answer to a container or to a look at its status is tried again, whatever it was."""
    walker = walk(ig.settings)
    post(walker, images=2)
    for fault, path in ((reset(after=True), "/media$"), (server_error(after=True), "/media$"), (cut(4), r"/\d+$")):
        ig.server.arm(fault, "*", path)
    for _ in range(6):
        walker.tick()
    assert (walker.read("post-1")["status"], walker.read("post-1")["attempts"], ig.posts()) == ("done", 6, 1)


def test_the_platforms_own_codes_of_passing_troubles(ig: Platform, walk: Callable[..., Walk]) -> None:
    """A 400 with the code of a rate limit, or marked transient, is tried again; another 400 is final."""
    walker = walk(ig.settings)
    to_the_call(walker, ig)
    for refusal in (graph_error(400, 9, "too many posts"), graph_error(400, 100, "try later", is_transient=True)):
        ig.server.arm(refusing(refusal), "POST", "media_publish")
        assert [event.what for event in walker.tick().events] == [What.AGAIN]
    walker.tick()
    assert walker.read("post-1")["status"] == "done"


def test_a_permalink_that_cannot_be_read_costs_nothing(ig: Platform, walk: Callable[..., Walk]) -> None:
    """The post stands, so the document is done with the id alone."""
    walker = walk(ig.settings)
    to_the_call(walker, ig)
    ig.server.arm(server_error(), "GET", r"/\d+$", skip=1, times=2)
    walker.tick()
    document = walker.read("post-1")
    assert (document["status"], "mediaId" in document, "permalink" in document) == ("done", True, False)


def test_images_that_ig_is_not_asked_to_fetch(ig: Platform, walk: Callable[..., Walk]) -> None:
    """None, too many, without https, or inside a network: the document fails before anything is made."""
    walker = walk(ig.settings)
    bad = [[], [IMAGE.format(0)] * 11, ["http://images.example/1.jpg"], ["https://169.254.169.254/latest"]]
    for number, images in enumerate(bad):
        walker.add(f"post-{number}", platform="there", caption="x", images=images)
    walker.tick()
    assert {walker.read(f"post-{number}")["status"] for number in range(len(bad))} == {"error"}
    assert ig.server.asked == []


# Bluesky


def test_a_text_becomes_a_record_with_facets(bsky: Platform, walk: Callable[..., Walk]) -> None:
    """Links, tags and mentions are named by their bytes; an unknown handle stays text."""
    walker = walk(bsky.settings)
    caption = "Grüße 🎉 @friend.example.com (see https://example.com/ä?x=1). #neu @nobody.example.com"
    walker.add("post-1", platform="there", caption=caption, images=[])
    walker.tick()
    (record,) = bsky.server.records
    raw = caption.encode()
    found = {
        raw[facet["index"]["byteStart"] : facet["index"]["byteEnd"]].decode(): facet["features"][0]
        for facet in record["facets"]
    }
    assert {text: feature["$type"].partition("#")[2] for text, feature in found.items()} == {
        "@friend.example.com": "mention",
        "https://example.com/ä?x=1": "link",
        "#neu": "tag",
    }
    assert found["@friend.example.com"]["did"] == "did:plc:friendfriendfriendfriend"
    assert record["createdAt"] == iso(NOON)
    document = walker.read("post-1")
    assert document["permalink"] == f"https://bsky.app/profile/{DID}/post/3k00000000001"


def test_pictures_are_fetched_and_uploaded(bsky: Platform, walk: Callable[..., Walk], tmp_path: Path) -> None:
    """Each one from its https address, by its declared host alone; one that is too large for the platform fails."""
    authority, tls = make_authority(tmp_path)
    with ImageServer(tls) as images:
        host = f"127.0.0.1:{images.port}"
        walker = walk(bsky.settings, hosts=[host], REQUESTS_CA_BUNDLE=str(authority))
        walker.add(
            "post-1", platform="there", caption="x", images=[f"https://{host}/1.jpg", f"https://{host}/2.jpg?size=3000"]
        )
        walker.add("post-2", platform="there", caption="x", images=[f"https://{host}/3.jpg?size=1000001"])
        walker.tick()
    (record,) = bsky.server.records
    uploaded = [image["image"] for image in record["embed"]["images"]]
    assert [(blob["mimeType"], blob["size"]) for blob in uploaded] == [("image/jpeg", 2000), ("image/jpeg", 3000)]
    assert walker.read("post-1")["status"] == "done"
    assert "bsky takes at most 1000000" in str(walker.read("post-2")["lastError"])


def test_bsky_troubles_before_the_record(bsky: Platform, walk: Callable[..., Walk]) -> None:
    """A lost session answer, a wrong password and a token that ended are tried again: no record was made."""
    walker = walk(bsky.settings)
    post(walker)
    bsky.server.arm(reset(after=True), "POST", "createSession")
    bsky.server.arm(refusing(xrpc_error(401, "AuthenticationRequired", "no")), "POST", "createSession")
    bsky.server.arm(refusing(xrpc_error(400, "ExpiredToken", "old")), "POST", "createRecord")
    for _ in range(3):
        assert [event.what for event in walker.tick().events] == [What.AGAIN]
    walker.tick()
    assert (walker.read("post-1")["status"], bsky.posts()) == ("done", 1)


# Webhook


def test_a_webhook_is_signed_and_keyed(webhook: Platform, walk: Callable[..., Walk]) -> None:
    """The body is the document without the lane's bookkeeping; its signature and key are those of the rule."""
    walker = walk(webhook.settings)
    walker.add("at://a/ü\n%1", platform="there", slug="s", caption="Hello", images=[], extra={"n": 1})
    walker.tick()
    (asked,) = webhook.server.asked
    expected = hmac.new(SECRET.encode(), asked.body, hashlib.sha256).hexdigest()
    assert asked.headers["x-hub-signature-256"] == f"sha256={expected}"
    assert asked.headers["idempotency-key"] == "at://a/%C3%BC%0A%251:1"
    assert asked.data.keys() == {
        *("_id", "kind", "platform", "slug", "caption", "images", "extra", "status", "createdAt", "updatedAt")
    }
    assert asked.data["_id"] == "at://a/ü\n%1"


def test_each_attempt_has_a_key_of_its_own(webhook: Platform, walk: Callable[..., Walk]) -> None:
    """``id:attempt``, so that the other end can tell a new attempt from a repeated request."""
    walker = walk(webhook.settings)
    post(walker)
    webhook.server.arm(refuse(429, "slowly"), "POST")
    walker.tick()
    walker.tick()
    assert [asked.headers["idempotency-key"] for asked in webhook.server.asked] == ["post-1:1", "post-1:2"]
    assert header_key("a b:c/d~'\":1") == "a%20b:c/d~'\":1"


def test_a_webhook_whose_address_is_a_secret(webhook: Platform, walk: Callable[..., Walk]) -> None:
    """It comes from a variable, and no message names it or a part of it, its host included."""
    settings = {"publisher": "webhook", "url-from": "HOOK_URL", "secret": "HOOK_SECRET"}
    walker = walk(settings, HOOK_URL=f"{webhook.server.url}/T0123456/secret-part")
    post(walker)
    named = f"{webhook.server.url}/T0123456/secret-part"
    webhook.server.arm(refuse(400, f"no {named}, nor /T0123456/secret-part or T0123456 alone"), "POST")
    walker.tick()
    assert webhook.server.asked[0].path == "/T0123456/secret-part"
    said = str(walker.read("post-1")["lastError"])
    assert said == "the address in HOOK_URL answered 400: no ***, nor /***/*** or *** alone"


# A program


def program(tmp_path: Path, body: str) -> dict[str, object]:
    script = tmp_path / "post.py"
    script.write_text(f"import json, os, pathlib, sys\nresult = pathlib.Path(os.environ['VIBEY_RESULT'])\n{body}\n")
    return {"publisher": "command", "command": [sys.executable, str(script)]}


@pytest.mark.parametrize(
    ("body", "status", "unknown"),
    [
        (
            "result.write_text(json.dumps({'mediaId': 'm', 'permalink': 'https://x.example/m', 'status': 'odd'}))",
            "done",
            False,
        ),
        ("sys.exit(75)", "pending", False),
        ("sys.exit('it broke')", "error", True),
        ("os.kill(os.getpid(), 9)", "error", True),
        ("pass", "error", True),
    ],
    ids=["result", "again", "fails", "killed", "no-result"],
)
def test_a_program_posts(tmp_path: Path, walk: Callable[..., Walk], body: str, status: str, unknown: object) -> None:
    """A result is done, 75 says that nothing was posted; after any other end nobody knows, so it is never run again."""
    walker = walk(program(tmp_path, body))
    post(walker)
    walker.tick()
    document = walker.read("post-1")
    assert (document["status"], document.get("outcomeUnknown", False)) == (status, unknown)
    assert document.get("mediaId") == ("m" if status == "done" else None)


# Declarations


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "with.platforms is missing"),
        (
            {"platforms": {"ig": {"publisher": "mastodon"}}},
            "with.platforms.ig.publisher is mastodon, which there is not",
        ),
        ({"platforms": {"ig": {"publisher": "ig", "account": "1", "token": "NOT_SET"}}}, "names the variable NOT_SET"),
        ({"platforms": {"ig": {"publisher": "ig", "acount": "1"}}}, "with.platforms.ig.acount is no key here"),
        (
            {"platforms": {"w": {"publisher": "webhook", "url": "http://hook.example/", "secret": "HOOK_SECRET"}}},
            "with.platforms.w.url is no address of the form https",
        ),
        ({"platforms": {"w": {"publisher": "command", "command": ["no-such-program"]}}}, "no program no-such-program"),
        ({"platforms": {"w": {}}, "hosts": ["a b"]}, "with.hosts holds a b, which is no host"),
    ],
)
def test_settings_that_cannot_work_are_found_when_the_lane_starts(
    tmp_path: Path, settings: dict[str, object], words: str
) -> None:
    """Before any document is touched, naming the setting."""
    walker = Walk(with_settings(PUBLISH, **settings), tmp_path, ENVIRONMENT)
    with pytest.raises(MachineInvalid, match=words.replace(".", r"\.")):
        walker.lane()
