"""A small HTTP server on this machine that plays a platform: routes, armed faults, and what came in."""

from __future__ import annotations

import json
import re
import socket
import ssl
import struct
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from tests.support.github_server.faults import Armed, Fault, Faults, Reset
from tests.support.github_server.replies import Refusal, Reply


@dataclass(frozen=True)
class Asked:
    """A request as it came in."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class PlatformServer:
    """Use it in a ``with`` block; ``url`` is its root. Subclasses say in ``answer`` what a request does.

    ``asked`` lists the requests in their order; ``arm`` lets a fault meet some of them. With ``tls`` it speaks https.
    """

    prefix: ClassVar[str] = ""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.asked: list[Asked] = []
        self.faults = Faults()
        self._http = _Server(("127.0.0.1", 0), _Handler)
        self._http.platform = self
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        return self._http.server_port

    @property
    def url(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}{self.prefix}"

    def __enter__(self) -> Any:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def arm(self, fault: Fault, method: str = "*", path: str = "", *, times: int = 1, skip: int = 0) -> None:
        """Let ``fault`` meet the next ``times`` requests of ``method`` whose path matches the pattern ``path``."""
        self.faults.armed.append(Armed(fault, method, re.compile(path), skip, times))

    def answer(self, asked: Asked) -> Reply:
        """What a request does and is answered. Raises Refusal."""
        raise NotImplementedError

    def happen(self, asked: Asked) -> tuple[Reply, int | None]:
        """The reply and, for a cut one, how many bytes of it are sent. Raises Reset."""
        self.asked.append(asked)
        fault = self.faults.take(asked.method, asked.path)
        try:
            return fault.before() or fault.after(self._effect(asked)), fault.cut
        except Refusal as refusal:
            return refusal.reply, fault.cut

    def _effect(self, asked: Asked) -> Reply:
        try:
            return self.answer(asked)
        except Refusal as refusal:
            return refusal.reply


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    platform: PlatformServer

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        parts = urlsplit(self.path)
        path = parts.path.removeprefix(self.server.platform.prefix)
        asked = Asked(self.command, path, dict(parse_qsl(parts.query)), headers, body)
        try:
            reply, cut = self.server.platform.happen(asked)
        except Reset:
            self._reset()
            return
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.body if cut is None else reply.body[:cut])
        if cut is not None:
            self.close_connection = True

    do_POST = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _reset(self) -> None:
        """Close so that the peer sees a reset, not an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.wfile.flush()
        self.rfile.close()
        self.connection.close()

    def log_message(self, *_: Any) -> None:
        """Quiet: tests read ``asked``."""
