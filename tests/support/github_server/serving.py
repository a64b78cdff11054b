"""An HTTP server on this machine that answers requests of ours, with faults that can be armed."""

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
from typing import Any, ClassVar, Self
from urllib.parse import parse_qsl, urlsplit

from tests.support.github_server.faults import Armed, Fault, Faults, Reset
from tests.support.github_server.replies import Reply


class Served:
    """A server on a free port (or ``port``) while its ``with`` block runs; with ``tls`` it speaks https."""

    def __init__(self, handler: type[BaseHTTPRequestHandler], tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        self._http = _Server(("127.0.0.1", port), handler)
        self._http.owner = self
        self._scheme = "http" if tls is None else "https"
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True, do_handshake_on_connect=False)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def port(self) -> int:
        return self._http.server_port

    @property
    def origin(self) -> str:
        return f"{self._scheme}://127.0.0.1:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    owner: Any

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away, or does not like our certificate, is nothing to report."""


@dataclass(frozen=True)
class Asked:
    """A request as it came in, its path below the server's prefix."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def data(self) -> Any:
        return json.loads(self.body)


class FaultyServer(Served):
    """A server whose answers are made by ``happen``; ``arm`` lets a fault meet some of the requests."""

    prefix: ClassVar[str] = ""

    def __init__(self, tls: ssl.SSLContext | None = None, port: int = 0) -> None:
        super().__init__(_Handler, tls, port)
        self.faults = Faults()

    @property
    def url(self) -> str:
        return self.origin + self.prefix

    def arm(self, fault: Fault, method: str = "*", path: str = "", *, times: int = 1, skip: int = 0) -> None:
        """Let ``fault`` meet the next ``times`` requests of ``method`` whose path matches the pattern ``path``."""
        self.faults.armed.append(Armed(fault, method, re.compile(path), skip, times))

    def happen(self, asked: Asked) -> tuple[Reply, int | None]:
        """The reply and, for a cut one, how many bytes of it are sent. Raises Reset."""
        raise NotImplementedError


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        owner: FaultyServer = self.server.owner
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        parts = urlsplit(self.path)
        asked = Asked(self.command, parts.path.removeprefix(owner.prefix), dict(parse_qsl(parts.query)), headers, body)
        try:
            reply, cut = owner.happen(asked)
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

    do_POST = do_PATCH = do_PUT = do_DELETE = do_GET  # noqa: N815

    def _reset(self) -> None:
        """Close so that the peer sees a reset, not an end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True
        self.wfile.flush()
        self.rfile.close()
        self.connection.close()

    def log_message(self, *_: Any) -> None:
        """Quiet: tests read what the server noted."""
