"""Posts on their way: what holds for every platform, against servers of ours that answer as the platforms document.

Whatever happens to the publishing call, the platform has at most one post, and a document whose post may stand is never
sent again by itself.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support import ig_server
from tests.support.bsky_server import PASSWORD
from tests.support.certificates import make_authority
from tests.support.github_server.faults import Fault, answer, cut, refuse, reset, server_error
from tests.support.github_server.replies import Reply, as_json
from tests.support.lanes import NOON
from tests.support.machines import until
from tests.support.platforms import Platform, post, refusing, to_the_call
from tests.support.walking import Walk
from tests.support.webhook_server import SECRET, WebhookServer
from vibey_actions.documents import moves
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.model import iso
from vibey_actions.documents.report import What
from vibey_actions.documents.steps.publish import PublishStep
from vibey_actions.errors import DocumentDenied


def test_a_post_is_made_once_and_named(platform: Platform, walk: Callable[..., Walk]) -> None:
    """It ends done with the platform's id and address, and further ticks send nothing."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    walker.tick()
    document = walker.read("post-1")
    assert document["status"] == "done"
    assert document["mediaId"]
    assert str(document["permalink"]).startswith("https://")
    assert "claimId" not in document
    asked = len(platform.server.asked)
    walker.tick()
    assert (platform.posts(), len(platform.server.asked)) == (1, asked)


def unreadable() -> Fault:
    """An acceptance that says nothing, after the effect."""
    return answer(Reply(200, b"<html>", {"Content-Type": "text/html"}))


LOST = {
    "reset-before": (reset(), 0),
    "reset-after": (reset(after=True), 1),
    "cut": (cut(3), 1),
    "502-before": (server_error(), 0),
    "502-after": (server_error(after=True), 1),
    "503-with-a-time": (refuse(503, "later", Retry_After="30"), 0),
    "redirect": (refuse(302, "elsewhere", Location="/elsewhere"), 0),
}


@pytest.mark.parametrize("fault", LOST)
def test_a_lost_answer_to_the_call_is_an_unknown_outcome(
    platform: Platform, walk: Callable[..., Walk], fault: str
) -> None:
    """Whether the platform has the post or not, the document says "outcome unknown", and no tick ever sends again."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    happening, stands = LOST[fault]
    platform.server.arm(happening, "POST", platform.posting)
    report = walker.tick()
    assert [event.what for event in report.events] == [What.UNKNOWN]
    document = walker.read("post-1")
    assert (document["status"], document["outcomeUnknown"]) == ("error", True)
    assert str(document["lastError"]).startswith("outcome unknown: 127.0.0.1:")
    for _ in range(2):
        walker.clock.pass_ms(24 * 3_600_000)
        walker.tick()
    assert platform.posts() == stands
    with pytest.raises(DocumentDenied, match="may do it twice"):
        moves.retried(walker.machine, document, NOON)


def test_an_answer_that_comes_too_late_is_an_unknown_outcome(platform: Platform, walk: Callable[..., Walk]) -> None:
    """The platform may post after we stopped waiting: nothing tells, so nothing is sent again."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    given_up = threading.Event()

    def wait() -> None:
        given_up.wait(120)

    platform.server.arm(Fault(before=wait), "POST", platform.posting)
    publisher = next(iter(walker.lane()._steps.values()))._publishers["there"]  # type: ignore[attr-defined]
    hasty = PublishStep({"there": replace(publisher, api=replace(publisher.api, seconds=2))})
    Lane(walker.machine, walker.store, {"publish-request": hasty}).tick()
    document = walker.read("post-1")
    assert (document["status"], document["outcomeUnknown"]) == ("error", True)
    assert "did not answer in time" in str(document["lastError"])
    given_up.set()
    walker.tick()
    until(lambda: platform.posts() == 1)


def test_an_acceptance_that_cannot_be_read_is_an_unknown_outcome(platform: Platform, walk: Callable[..., Walk]) -> None:
    """The platform took it, so it is not sent again; a webhook has accepted with any 2xx, whatever it says."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    platform.server.arm(unreadable(), "POST", platform.posting)
    walker.tick()
    taken = platform.settings["publisher"] == "webhook"
    assert walker.read("post-1")["status"] == ("done" if taken else "error")
    assert walker.read("post-1").get("outcomeUnknown") is (None if taken else True)
    assert platform.posts() == 1


@pytest.mark.parametrize("status", [401, 403, 408, 425, 429])
def test_a_refusal_that_may_pass_is_tried_again(platform: Platform, walk: Callable[..., Walk], status: int) -> None:
    """The document keeps its status and says why; the next tick posts, once."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    before = walker.read("post-1")
    platform.server.arm(refusing(platform.error(status)), "POST", platform.posting)
    assert [event.what for event in walker.tick().events] == [What.AGAIN]
    document = walker.read("post-1")
    assert (document["status"], document["attempts"]) == (before["status"], int(str(before["attempts"])) + 1)
    assert f"answered {status}: " in str(document["lastError"])
    walker.tick()
    assert (walker.read("post-1")["status"], platform.posts()) == ("done", 1)


@pytest.mark.parametrize("status", [400, 404, 413, 422])
def test_a_refusal_for_good_ends_the_document(platform: Platform, walk: Callable[..., Walk], status: int) -> None:
    """It fails with the platform's words, nothing was posted, and an operator may retry it without more ado."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    platform.server.arm(refusing(platform.error(status)), "POST", platform.posting)
    walker.tick()
    document = walker.read("post-1")
    assert (document["status"], "outcomeUnknown" in document, platform.posts()) == ("error", False, 0)
    assert str(document["lastError"]).endswith("Bad") or "Bad" in str(document["lastError"])
    assert moves.retried(walker.machine, document, NOON)[0]["status"] == "pending"


def test_a_refused_connection_proves_that_nothing_was_posted(platform: Platform, walk: Callable[..., Walk]) -> None:
    """Nobody listens there: tried again within the attempts, and an error once they are used up."""
    address = {"ig": "api", "bsky": "service", "webhook": "url"}[str(platform.settings["publisher"])]
    # Bound and not listening: nobody else can take the port meanwhile.
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        walker = walk({**platform.settings, address: f"http://127.0.0.1:{held.getsockname()[1]}"})
        post(walker, images=1 if address == "api" else 0)
        assert [event.what for event in walker.tick().events] == [What.AGAIN]
        assert "could not be reached" in str(walker.read("post-1")["lastError"])
        for _ in range(14):
            walker.tick()
    document = walker.read("post-1")
    assert (document["status"], document["attempts"], "outcomeUnknown" in document) == ("error", 15, False)


def test_a_certificate_that_is_not_trusted_proves_that_nothing_was_posted(
    walk: Callable[..., Walk], tmp_path: Path
) -> None:
    """The connection never stood, so the post is tried again, and the server saw no request."""
    with WebhookServer(make_authority(tmp_path)[1]) as server:
        walker = walk({"publisher": "webhook", "url": server.url, "secret": "HOOK_SECRET"})
        post(walker)
        assert [event.what for event in walker.tick().events] == [What.AGAIN]
        assert "could not be reached securely" in str(walker.read("post-1")["lastError"])
        assert server.asked == []


def test_nothing_is_sent_once_the_claim_is_lost(platform: Platform, walk: Callable[..., Walk]) -> None:
    """A worker that took so long that its lease ran out and was taken back does not post any more."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    step = next(iter(walker.lane()._steps.values()))
    work = walker.work("post-1", step="publish")
    late = type(work)(work.machine, work.document, work.key, NOON + 1, work.now_ms, lambda: False)
    result = step.run(late)
    assert (result.outcome.value, result.reason) == ("again", "its claim was lost before anything was posted")
    assert platform.posts() == 0


def test_no_secret_reaches_a_document(platform: Platform, walk: Callable[..., Walk]) -> None:
    """A platform that repeats a credential in its refusal finds it masked in lastError."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    secret = {"ig": ig_server.TOKEN, "bsky": PASSWORD, "webhook": SECRET}[str(platform.settings["publisher"])]
    words = as_json({"error": {"message": f"no such token {secret}"}, "message": f"no such token {secret}"}, 400)
    platform.server.arm(Fault(before=lambda: words), "POST", platform.posting)
    walker.tick()
    said = str(walker.read("post-1")["lastError"])
    assert "no such token ***" in said
    assert secret not in said


def test_a_wrong_platform_or_an_empty_post_spends_nothing(platform: Platform, walk: Callable[..., Walk]) -> None:
    """It fails with the reason before any claim, and no server is asked."""
    walker = walk(platform.settings)
    walker.add("elsewhere", platform="myspace", caption="x", images=[])
    walker.add("empty", platform="there", caption=" ", images=[])
    walker.add("odd", platform="there", caption={"a": 1}, images=[])
    walker.add("odder", platform="there", caption="x", images="https://images.example/1.jpg")
    walker.tick()
    documents = [walker.read(name) for name in ("elsewhere", "empty", "odd", "odder")]
    assert {(one["status"], one["attempts"]) for one in documents} == {("error", 0)}
    assert [str(one["lastError"])[:14] for one in documents[2:]] == ["its caption is", "its images are"]
    assert platform.server.asked == []


def test_a_time_to_post_at_is_kept(platform: Platform, walk: Callable[..., Walk]) -> None:
    """Held until then, saying so once; a time that cannot be read counts as due, and the report says so."""
    walker = walk(platform.settings)
    images = 1 if platform.settings["publisher"] == "ig" else 0
    post(walker, images, postAt=iso(NOON + 60_000))
    post(walker, images, "post-2", postAt="tomorrow")
    report = walker.tick()
    assert report.due.held == 1
    assert any("cannot be read, so it counts as due" in note for note in report.notes)
    held = walker.read("post-1")
    assert str(held["heldReason"]).startswith("it is to be posted at 2026-01-01T12:01")
    assert [event.what for event in walker.tick().of(What.HELD)] == []
    walker.clock.pass_ms(60_001)
    for _ in range(3):
        walker.tick()
    assert {walker.read(name)["status"] for name in ("post-1", "post-2")} == {"done"}
    assert platform.posts() == 2
