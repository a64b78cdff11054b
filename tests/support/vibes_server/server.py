"""The WebSocket server: one reply to each request of the client, unless a fault meets it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from types import TracebackType
from typing import Any

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from tests.support.vibes_server.faults import ERRORS, Fault, Faults
from tests.support.vibes_server.vibe import Body, Forbidden, Vibe

KINDS = {"put-doc": "put", "get-doc": "get", "query-docs": "query", "delete-doc": "delete"}
WHEN = "2026-01-02T03:04:05.000Z"


class _Dropped(Exception):
    """The connection is to be closed instead of answered."""


class _Unanswered(Exception):
    """No reply is sent."""


class VibesServer:
    """A server of one vibe on a free port. Use it in a ``with`` block; ``url`` is what ``--api-url`` takes.

    ``requests`` are the payloads that came in, with the kind as type; ``refuses`` is a status that refuses every
    upgrade.
    """

    def __init__(self, vibe: Vibe | None = None, handle: str = "maker", slug: str = "hub") -> None:
        self.vibe = vibe or Vibe()
        self.handle, self.slug = handle, slug
        self.faults = Faults()
        self.requests: list[Body] = []
        self.refuses: HTTPStatus | None = None
        self._server = serve(
            self._converse, "127.0.0.1", 0, max_size=None, compression=None, process_request=self._upgrade
        )
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.socket.getsockname()[1]}/api"

    @property
    def name(self) -> str:
        return f"{self.handle}/{self.slug}"

    def __enter__(self) -> VibesServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()

    def asked(self, kind: str) -> list[Body]:
        """The payloads of the requests of one kind so far."""
        return [one for one in self.requests if one["type"] == kind]

    def _upgrade(self, connection: ServerConnection, _request: Request) -> Response | None:
        return None if self.refuses is None else connection.respond(self.refuses, "no\n")

    def _converse(self, connection: ServerConnection) -> None:
        try:
            for message in connection:
                request = json.loads(message)
                try:
                    payload = self._reply(request["payload"])
                except _Unanswered:
                    continue
                reply = {"tid": request["tid"], "src": request["dst"], "dst": request["src"], "ttl": 10}
                connection.send(json.dumps({**reply, "payload": payload}).encode())
        except (_Dropped, ConnectionClosed):
            connection.close_socket()

    def _reply(self, payload: Body) -> Body:
        kind = payload["type"].removeprefix("vibes.diy.req-")
        self.requests.append({**payload, "type": KINDS.get(kind, kind)})
        fault = self.faults.take(KINDS.get(kind, kind))
        if fault is Fault.SILENT:
            raise _Unanswered
        if fault is Fault.CLOSES:
            raise _Dropped
        if fault in ERRORS:
            return _error(ERRORS[fault])
        try:
            reply = self._answers()[kind](payload, late=fault is Fault.LATE)
        except Forbidden as error:
            return _error(str(error))
        if fault is Fault.APPLIES_THEN_SILENT:
            raise _Unanswered
        if fault is Fault.APPLIES_THEN_CLOSES:
            raise _Dropped
        return {"type": f"vibes.diy.res-{kind}", **reply}

    def _answers(self) -> dict[str, Callable[..., Body]]:
        return {
            "ensure-user-settings": self._settings,
            "list-user-slug-bindings": self._bindings,
            "put-doc": self._put,
            "get-doc": self._get,
            "query-docs": self._query,
            "delete-doc": self._delete,
            "list-db-names": self._names,
        }

    def _settings(self, _payload: Body, **_: bool) -> Body:
        settings = [{"type": "defaultHandle", "ownerHandle": self.handle}]
        return {"userId": "user-of-the-tests", "settings": settings, "updated": WHEN, "created": WHEN}

    def _bindings(self, _payload: Body, **_: bool) -> Body:
        return {"items": [{"ownerHandle": self.handle, "tenant": "tenant", "created": WHEN, "appSlugCount": 1}]}

    def _put(self, payload: Body, *, late: bool) -> Body:
        document_id = str(payload.get("docId") or payload["doc"].get("_id"))
        self.vibe.put(payload["dbName"], document_id, payload["doc"], late=late)
        return {"status": "ok", "id": document_id}

    def _get(self, payload: Body, **_: bool) -> Body:
        found = self.vibe.get(payload["dbName"], payload["docId"])
        if found is None:
            return {"status": "not-found", "id": payload["docId"]}
        return {"status": "ok", "id": payload["docId"], "doc": found}

    def _query(self, payload: Body, **_: bool) -> Body:
        rows, following = self.vibe.query(payload["dbName"])
        return {"status": "ok", "docs": rows} | ({} if following is None else {"next": following})

    def _delete(self, payload: Body, **_: bool) -> Body:
        self.vibe.delete(payload["dbName"], payload["docId"])
        return {"status": "ok", "id": payload["docId"]}

    def _names(self, _payload: Body, **_: bool) -> Body:
        return {"status": "ok", "dbNames": self.vibe.names()}


def _error(message: str) -> dict[str, Any]:
    return {"type": "vibes.diy.res-error", "error": {"message": message}}
