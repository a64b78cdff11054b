"""git's own smart HTTP server behind TLS and a password, for tests."""

from __future__ import annotations

import base64
import os
import ssl
import subprocess
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.github_server.serving import Served


class GitOverHttps(Served):
    """Serves the repositories under ``folder`` to ``user`` with ``password``. Use it in a ``with`` block."""

    def __init__(self, folder: Path, context: ssl.SSLContext, user: str, password: str) -> None:
        super().__init__(_Handler, context)
        self.folder = folder
        self.expected = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.refused = 0

    @property
    def netloc(self) -> str:
        return f"127.0.0.1:{self.port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Any

    def do_GET(self) -> None:
        body = self._body()
        if self.headers.get("Authorization") != self.server.owner.expected:
            self.server.owner.refused += 1
            self._answer(401, [("WWW-Authenticate", 'Basic realm="git"')], b"")
            return
        raw = subprocess.run(["git", "http-backend"], input=body, env=self._cgi(body), capture_output=True, check=True)
        head, _, content = raw.stdout.partition(b"\r\n\r\n")
        headers = [(name, value) for name, _, value in (line.partition(": ") for line in head.decode().splitlines())]
        status = next((int(value.split()[0]) for name, value in headers if name == "Status"), 200)
        self._answer(status, [pair for pair in headers if pair[0] != "Status"], content)

    do_POST = do_GET  # noqa: N815

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _cgi(self, body: bytes) -> dict[str, str]:
        parts = urlsplit(self.path)
        return {
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(self.server.owner.folder),
            "GIT_HTTP_EXPORT_ALL": "1",
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "REMOTE_USER": "someone",
            "REMOTE_ADDR": "127.0.0.1",
            "REQUEST_METHOD": self.command,
            "PATH_INFO": parts.path,
            "QUERY_STRING": parts.query,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
        }

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(content)))]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Quiet."""
