"""A connection pooler: answers logins itself and passes queries on, each client's or all clients' to one session."""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress

import psycopg

_SSL_REQUEST, _GSS_REQUEST = 80877103, 80877104


class Pooler:
    """On a free port of this machine, in front of the database at ``dsn``; use it in a ``with`` block.

    ``shared``: as in transaction mode, every client works in the same session of the server.
    """

    def __init__(self, dsn: str, *, shared: bool) -> None:
        self._dsn = dsn
        self._shared = shared
        self._sessions: list[psycopg.Connection] = []
        self._turn = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [threading.Thread(target=self._accept, daemon=True)]

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def __enter__(self) -> Pooler:
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        # A close alone would not wake the thread that waits in accept.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join()
        for session in self._sessions:
            session.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(client,), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _session(self) -> psycopg.Connection:
        with self._turn:
            if not self._sessions or not self._shared:
                self._sessions.append(psycopg.connect(self._dsn, autocommit=True))
            return self._sessions[-1]

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(EOFError, OSError):
            self._log_in(client)
            session = self._session()
            with socket.socket(fileno=socket.dup(session.fileno())) as server:
                server.setblocking(True)  # noqa: FBT003
                while True:
                    self._one_query(client, server)

    def _log_in(self, client: socket.socket) -> None:
        while True:
            (length,) = struct.unpack("!i", _exactly(client, 4))
            (code,) = struct.unpack("!i", _exactly(client, length - 4)[:4])
            if code not in {_SSL_REQUEST, _GSS_REQUEST}:
                break
            client.sendall(b"N")
        info = self._session().info
        told = {name: info.parameter_status(name) or "" for name in ("server_version", "server_encoding")}
        told |= {"client_encoding": "UTF8", "standard_conforming_strings": "on"}
        answer = _message(b"R", struct.pack("!i", 0))
        for name, value in told.items():
            answer += _message(b"S", f"{name}\0{value}\0".encode())
        answer += _message(b"K", struct.pack("!ii", 7, 7)) + _message(b"Z", b"I")
        client.sendall(answer)

    def _one_query(self, client: socket.socket, server: socket.socket) -> None:
        """Pass on what the client asks up to its end, and what the server answers, in one turn."""
        asked = b""
        while True:
            kind, whole = _read(client)
            if kind == b"X":
                raise EOFError
            asked += whole
            if kind in {b"Q", b"S"}:
                break
        with self._turn:
            server.sendall(asked)
            while True:
                kind, whole = _read(server)
                client.sendall(whole)
                if kind == b"Z":
                    return


def _message(kind: bytes, body: bytes) -> bytes:
    return kind + struct.pack("!i", len(body) + 4) + body


def _read(peer: socket.socket) -> tuple[bytes, bytes]:
    head = _exactly(peer, 5)
    (length,) = struct.unpack("!i", head[1:])
    return head[:1], head + _exactly(peer, length - 4)


def _exactly(peer: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        piece = peer.recv(size - len(found))
        if not piece:
            raise EOFError
        found += piece
    return found
