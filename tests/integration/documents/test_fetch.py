"""What a document has fetched: over real TLS from a server on this machine, which only a declared list lets in."""

from __future__ import annotations

import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.certificates import make_authority
from tests.support.github_server.faults import cut, reset
from tests.support.github_server.replies import Reply
from tests.support.platform_server import Asked, PlatformServer
from vibey_actions.documents.fetch import Fetched, Fetcher, NotFetched

PICTURE = b"\x89PNG" + bytes(5000)
PNG = {"Content-Type": "image/png; charset=binary"}


class Pictures(PlatformServer):
    """A picture at every path but those in ``replies``."""

    def __init__(self, tls: ssl.SSLContext | None) -> None:
        super().__init__(tls)
        self.replies: dict[str, Reply] = {}

    def answer(self, asked: Asked) -> Reply:
        return self.replies.get(asked.path, Reply(200, PICTURE, PNG))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ssl.SSLContext]:
    return make_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def server(authority: tuple[Path, ssl.SSLContext]) -> Iterator[Pictures]:
    with Pictures(authority[1]) as server:
        yield server


@pytest.fixture
def fetcher(server: Pictures, authority: tuple[Path, ssl.SSLContext]) -> Fetcher:
    return Fetcher.allowing([f"127.0.0.1:{server.port}"], str(authority[0]))


def refused(fetcher: Fetcher, url: str) -> NotFetched:
    with pytest.raises(NotFetched) as caught:
        fetcher.fetch(url)
    return caught.value


def test_a_picture_comes_whole(server: Pictures, fetcher: Fetcher) -> None:
    """Its bytes and its type; the request names its host, asks for pictures and sends nothing of ours."""
    assert fetcher.fetch(f"{server.url}/a b/ü.png?q=1".replace(" ", "%20")) == Fetched("image/png", PICTURE)
    (asked,) = server.asked
    assert asked.headers.keys() == {"host", "accept", "accept-encoding", "user-agent", "connection"}
    assert (asked.headers["host"], asked.path) == (f"127.0.0.1:{server.port}", "/a%20b/%C3%BC.png")


def test_a_redirect_is_followed_within_the_rules(server: Pictures, fetcher: Fetcher) -> None:
    """To a relative address and to a whole one, but not for ever."""
    server.replies["/1"] = Reply(302, b"", {"Location": "/2"})
    server.replies["/2"] = Reply(301, b"", {"Location": f"{server.url}/3"})
    server.replies["/loop"] = Reply(307, b"", {"Location": "/loop"})
    assert fetcher.fetch(f"{server.url}/1").data == PICTURE
    assert "redirects more than 3 times" in refused(fetcher, f"{server.url}/loop").reason


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("https://localhost/x", "inside a network"),
        ("https://169.254.169.254/latest/meta-data", "inside a network"),
        ("https://[::1]/x", "inside a network"),
        ("https://0x7f.1/x", "inside a network"),
        ("https://127.0.0.1:1/x", "not on port 443"),
        ("http://127.0.0.1/x", "no address of the form https"),
        ("file:///etc/passwd", "no address of the form https"),
        ("//user:password@127.0.0.1/x", "no address of the form https"),
        ("https://[::1/x", "redirects to what is no address"),
    ],
)
def test_every_redirect_is_looked_at(server: Pictures, fetcher: Fetcher, target: str, reason: str) -> None:
    """A public server that points into this network, or out of https, gets nowhere."""
    server.replies["/1"] = Reply(302, b"", {"Location": target})
    trouble = refused(fetcher, f"{server.url}/1")
    assert reason in trouble.reason
    assert trouble.final
    assert "password" not in trouble.reason


@pytest.mark.parametrize(
    "url",
    [
        *("https://127.0.0.1/x", "https://localhost/x", "https://[::ffff:127.0.0.1]/x", "https://2130706433/x"),
        *("https://10.0.0.1/x", "https://192.168.1.1/x", "https://169.254.169.254/x", "https://[fe80::1]/x"),
        *("http://example.com/x", "https://example.com:8443/x", "https://a@example.com/x", "ftp://example.com/x"),
        *("https://exa mple.com/x", "https://example.com\\@127.0.0.1/x", "https://example.com/\r\nx", "https:///x", ""),
    ],
)
def test_what_no_document_may_have_fetched(url: str) -> None:
    """Private, loopback and link-local addresses in any writing, other ports and schemes, hidden parts: never asked."""
    fetcher = Fetcher()
    with socket.create_server(("127.0.0.1", 0)):
        assert refused(fetcher, url).final


def test_one_private_address_among_several_refuses_the_name() -> None:
    """A name that stands for a public and for a private address is not tried at all."""
    fetcher = Fetcher(resolve=lambda _host, _port: ["93.184.215.14", "10.0.0.1"])
    assert "inside a network" in refused(fetcher, "https://images.example/x").reason


def test_the_connection_goes_to_the_address_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name is resolved once for each request: a second, private answer is never asked for."""
    answers = iter([["93.184.215.14"], ["127.0.0.1"]])
    connected: list[tuple[str, int]] = []

    def connect(address: tuple[str, int], timeout: float) -> socket.socket:
        connected.append(address)
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(socket, "create_connection", connect)
    fetcher = Fetcher(resolve=lambda _host, _port: next(answers))
    assert not refused(fetcher, "https://rebind.example/x").final
    assert connected == [("93.184.215.14", 443)]
    assert next(answers) == ["127.0.0.1"]


def test_the_certificate_has_to_name_the_host(server: Pictures, fetcher: Fetcher) -> None:
    """Neither a trusted certificate of another name nor one of an unknown authority is taken."""
    other = replace(
        fetcher, allowed=frozenset({("images.example", server.port)}), resolve=lambda _host, _port: ["127.0.0.1"]
    )
    assert "certificate of images.example" in refused(other, f"https://images.example:{server.port}/x").reason
    unknown = replace(fetcher, authorities=None)
    assert "certificate of 127.0.0.1" in refused(unknown, f"{server.url}/x").reason
    assert server.asked == []


@pytest.mark.parametrize(
    ("reply", "reason", "final"),
    [
        (Reply(200, b"<svg/>", {"Content-Type": "image/svg+xml"}), "sent image/svg+xml", True),
        (Reply(200, b"<html>", {}), "sent no content type", True),
        (Reply(200, PICTURE, {**PNG, "Content-Encoding": "gzip"}), "sent image/png", True),
        (Reply(200, b"x" * 6001, PNG), "sent more than 6000 bytes", True),
        (Reply(200, PICTURE, {**PNG, "Content-Length": "10000000000"}), "sent more than 6000 bytes", True),
        (Reply(404, b"", {}), "answered 404", True),
        (Reply(204, b"", {}), "answered 204", True),
        (Reply(302, b"", {}), "answered 302", True),
        (Reply(429, b"", {}), "answered 429", False),
        (Reply(503, b"", {}), "answered 503", False),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_taken(server: Pictures, fetcher: Fetcher, reply: Reply, reason: str, final: object) -> None:
    """Another type, too many bytes, a refusal: for good; what may pass is said to."""
    server.replies["/x"] = reply
    trouble = refused(replace(fetcher, most_bytes=6000), f"{server.url}/x")
    assert reason in trouble.reason
    assert trouble.final is final


def test_a_stream_without_a_length_is_bounded_too(server: Pictures, fetcher: Fetcher) -> None:
    """Chunks are counted as they come."""
    body = b"1000\r\n" + b"x" * 4096 + b"\r\n"
    server.replies["/x"] = Reply(200, body * 3 + b"0\r\n\r\n", {**PNG, "Transfer-Encoding": "chunked"})
    assert fetcher.fetch(f"{server.url}/x").data == b"x" * 12_288
    assert "more than 6000" in refused(replace(fetcher, most_bytes=6000), f"{server.url}/x").reason


def test_a_picture_that_ends_early_is_no_picture(server: Pictures, fetcher: Fetcher) -> None:
    """A cut or reset connection is a trouble that may pass, never a shorter picture."""
    server.arm(cut(100))
    server.arm(reset())
    for _ in range(2):
        assert not refused(fetcher, f"{server.url}/x").final


@pytest.mark.parametrize("stage", ["handshake", "head", "body"])
def test_a_server_that_drips_is_left(authority: tuple[Path, ssl.SSLContext], stage: str) -> None:
    """A byte now and then keeps a socket's own time limit from running out, but not the whole fetch's."""
    with dripping(authority[1], stage) as port:
        fetcher = replace(Fetcher.allowing([f"127.0.0.1:{port}"], str(authority[0])), seconds=1.0)
        trouble = refused(fetcher, f"https://127.0.0.1:{port}/x")
    assert trouble.reason.endswith("took too long")
    assert not trouble.final


@pytest.mark.parametrize(
    "entry", ["", "a b", "https://x.example", "x.example/path", "u@x.example", "x.example:0x", "x:99999"]
)
def test_a_list_of_hosts_is_checked(entry: str) -> None:
    """An entry that is no host would silently allow nothing, or too much."""
    with pytest.raises(ValueError, match=f"^{re.escape(entry)}$"):
        Fetcher.allowing([entry])


def test_the_list_is_exact() -> None:
    """A host is allowed on the port that is named, 443 where none is."""
    fetcher = Fetcher.allowing(["10.0.0.1", "[::1]:8443", "Images.Example:8443"])
    assert fetcher.allowed == {("10.0.0.1", 443), ("::1", 8443), ("images.example", 8443)}
    fetcher.check("https://10.0.0.1/x")
    fetcher.check("https://images.example:8443/x")
    for url in ("https://10.0.0.1:8443/x", "https://[::1]/x", "https://images.example:1/x", "https://10.0.0.2/x"):
        with pytest.raises(NotFetched):
            fetcher.check(url)


class dripping:  # noqa: N801 - used like a function
    """A TLS server on a free port that sends a byte every tenth of a second from ``stage`` on."""

    def __init__(self, context: ssl.SSLContext, stage: str) -> None:
        self._context, self._stage = context, stage
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        port: int = self._listening.getsockname()[1]
        return port

    def __exit__(self, *_: object) -> None:
        self._over.set()
        # A close alone would not wake the thread where nobody came.
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError), self._listening.accept()[0] as peer:
            if self._stage == "handshake":
                self._drip(peer.sendall, b"\x16\x03\x03\x3f\xff")
                return
            with self._context.wrap_socket(peer, server_side=True) as secure:
                secure.recv(65_536)
                head = b"HTTP/1.1 200 OK\r\nContent-Type: image/png\r\n"
                if self._stage == "body":
                    secure.sendall(head + b"Content-Length: 100000\r\n\r\n")
                    head = b""
                self._drip(secure.sendall, head)

    def _drip(self, send: Callable[[bytes], object], first: bytes) -> None:
        for number in range(100_000):
            send(first[number : number + 1] or b"x")
            if self._over.wait(0.1):
                return
