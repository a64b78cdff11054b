"""Platforms that mean no good, or are broken: what they say reaches no document, and how slowly ends no lane."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.github_server.faults import answer, refuse, server_error
from tests.support.github_server.replies import as_json
from tests.support.platforms import ENVIRONMENT, Platform, post, refusing, to_the_call
from tests.support.walking import Walk
from tests.support.webhook_server import SECRET
from vibey_actions.documents import moves
from vibey_actions.documents.lane import Lane
from vibey_actions.documents.masking import Masker
from vibey_actions.documents.publishers import calls
from vibey_actions.documents.publishers.base import Kind, Trouble, posted
from vibey_actions.documents.publishers.calls import Api
from vibey_actions.documents.report import What
from vibey_actions.documents.steps.publish import PublishStep
from vibey_actions.errors import MachineInvalid

Walker = Callable[..., Walk]
HOSTILE = "::error::boom\n##[error]x \x1b[31mred\x00 <script>alert(1)</script> \u202e"


@pytest.mark.parametrize("padding", [0, 190, 205, 215, 228, 236, 300])
@pytest.mark.parametrize("secret", sorted(set(ENVIRONMENT) - {"PATH"}))
def test_a_secret_that_is_cut_through_is_masked_first(secret: str, padding: int) -> None:
    """A reason is bounded; wherever the bound cuts, nothing is left of a secret that the platform repeats."""
    hidden = ENVIRONMENT[secret]
    masker = Masker(ENVIRONMENT)
    api = Api("https://x.example", masker, lambda _: f"{'x' * padding} {hidden} no {hidden}")
    trouble = api._refusal(calls.Reply(400, None, {}), Trouble)  # type: ignore[arg-type]
    assert hidden[:6] not in trouble.reason
    assert trouble.kind is Kind.FINAL


def test_hostile_words_of_a_platform_are_one_visible_line(platform: Platform, walk: Walker) -> None:
    """Its refusal is kept as text: no control character, no second line."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    words: object = {"message": HOSTILE, "code": 100} if platform.settings["publisher"] == "ig" else HOSTILE
    hostile = as_json({"message": HOSTILE, "error": words}, 400)
    platform.server.arm(answer(hostile), "POST", platform.posting)
    walker.tick()
    document = walker.read("post-1")
    said = str(document["lastError"])
    assert document["status"] == "error"
    assert said.isprintable()
    assert said.startswith("127.0.0.1:")


@pytest.mark.parametrize(
    ("media", "link"),
    [
        (f"m {SECRET}", f"https://x.example/?s={SECRET}"),
        ("m\n::error::x", "javascript:alert(1)"),
        ("m" * 513, "https://x.example/" + "x" * 2048),
        ("\x1b[31m", "https://x.example/\x1b[31m"),
        ("", "https://x.example/a b"),
        (7, {"a": 1}),
    ],
)
def test_an_answer_that_is_not_fit_is_left_out(webhook: Platform, walk: Walker, media: object, link: object) -> None:
    """The post stands and the document is done; a secret, a script's address or a text without end is not kept."""
    walker = walk(webhook.settings)
    post(walker)
    webhook.server.reply = as_json({"mediaId": media, "permalink": link})
    walker.tick()
    document = walker.read("post-1")
    assert (document["status"], document.get("mediaId"), document.get("permalink")) == ("done", None, None)


def test_what_is_fit_is_kept() -> None:
    """An id of any letters, and a web address."""
    kept = {"mediaId": "m-ü 1", "permalink": "https://x.example/p?q=1#f"}
    assert posted(Masker({}), kept["mediaId"], kept["permalink"]) == kept
    assert posted(Masker({}), None, None) == {}


def _drips(start: bytes, piece: bytes, until: threading.Event) -> Callable[[socket.socket], None]:
    def drip(peer: socket.socket) -> None:
        peer.sendall(start)
        while not until.wait(0.1):
            peer.sendall(piece)

    return drip


@contextlib.contextmanager
def dripping(start: bytes, piece: bytes) -> Iterator[str]:
    """A server that takes a request and then answers bit by bit, for ever."""
    over = threading.Event()
    drip = _drips(start, piece, over)

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            peer, _ = server.accept()
            with peer:
                peer.recv(65_536)
                drip(peer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.getsockname()[1]}"
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize(
    ("start", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"y"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", b" "),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
        (b"HTTP/1.1 200 OK\r\n", b""),
    ],
    ids=["head", "body", "chunks", "continue", "nothing"],
)
def test_an_answer_bit_by_bit_is_cut(
    webhook: Platform, walk: Walker, monkeypatch: pytest.MonkeyPatch, start: bytes, piece: bytes
) -> None:
    """Each byte is in time, the answer never is: the request ends at its deadline, and its outcome is unknown."""
    monkeypatch.setattr(calls, "CONNECT_SECONDS", 0.5)
    walker = walk(webhook.settings)
    post(walker)
    publisher = next(iter(walker.lane()._steps.values()))._publishers["there"]  # type: ignore[attr-defined]
    with dripping(start, piece) as url:
        hasty = PublishStep({"there": replace(publisher, api=replace(publisher.api, root=url, seconds=1))})
        report = Lane(walker.machine, walker.store, {"publish-request": hasty}).tick()
    assert [event.what for event in report.events] == [What.UNKNOWN]
    assert walker.read("post-1")["lastError"] in {
        f"outcome unknown: {url.removeprefix('http://')} {how}"
        for how in ("did not answer in time", "sent an answer without end")
    }


def test_a_retry_is_delivered_to_who_remembers_keys(webhook: Platform, walk: Walker) -> None:
    """The receiver counts each key once. What it lost after it had noted the key comes with another one."""
    walker = walk(webhook.settings)
    post(walker)
    webhook.server.arm(server_error(after=True), "POST")
    walker.tick()
    assert (walker.read("post-1")["outcomeUnknown"], list(webhook.server.posts)) == (True, ["post-1:1"])
    back, writer = moves.retried(walker.machine, walker.read("post-1"), walker.clock.ms, again=True)
    walker.store.put(walker.machine.db, "post-1", back, writer=writer)
    webhook.server.arm(refuse(429, "slowly"), "POST")
    walker.tick()
    walker.tick()
    assert walker.read("post-1")["status"] == "done"
    assert list(webhook.server.posts) == ["post-1:1", "post-1:3"]
    assert webhook.server.posts["post-1:3"].keys() == webhook.server.posts["post-1:1"].keys()


def test_a_lost_answer_says_that_it_was_lost(platform: Platform, walk: Walker) -> None:
    """A connection that stood and was cut is not told as one that did not come about."""
    walker = walk(platform.settings)
    to_the_call(walker, platform)
    platform.server.arm(refusing(ConnectionResetError()), "POST", platform.posting)
    walker.tick()
    assert str(walker.read("post-1")["lastError"]).endswith(" cut the connection and gave no answer")


def test_a_lease_that_ends_while_a_platform_answers_is_refused(platform: Platform, walk: Walker) -> None:
    """A post that was made would be told as unknown; found when the lane starts, not by the first slow answer."""
    walker = walk(platform.settings)
    with pytest.raises(MachineInvalid, match="lease is too short") as refused:
        PublishStep.make(replace(walker.machine, lease_ms=60_000), walker.surroundings)
    assert "7m" in refused.value.hint
    PublishStep.make(replace(walker.machine, lease_ms=420_000), walker.surroundings)


def test_a_program_that_posts_may_have_a_short_lease(walk: Walker) -> None:
    """It has a deadline of its own within the lease."""
    walker = walk({"publisher": "command", "command": ["sh", "-c", "exit 75"]})
    PublishStep.make(replace(walker.machine, lease_ms=1000), walker.surroundings)


def test_a_program_that_cannot_be_started_posted_nothing(walk: Walker, tmp_path: Path) -> None:
    """It was there when the lane began and is gone now: nothing was sent, so nothing is unknown."""
    script = tmp_path / "post.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    walker = walk({"publisher": "command", "command": ["./post.sh"]})
    post(walker)
    lane = walker.lane()
    script.unlink()
    assert [event.what for event in lane.tick().events] == [What.AGAIN]
    assert "cannot be started" in str(walker.read("post-1")["lastError"])
