"""Instagram's part of the Graph API, as its documentation describes it: containers, their status, publishing, media."""

from __future__ import annotations

import itertools
import re
import ssl
from typing import Any

from tests.support.github_server.replies import Refusal, Reply, as_json
from tests.support.platform_server import Asked, PlatformServer

ACCOUNT = "17841400000000000"
TOKEN = "token-of-the-tests-for-ig"


class IgServer(PlatformServer):
    """``containers`` by id, ``media`` what is published. ``slow`` is how many looks a container stays in progress."""

    prefix = "/v23.0"

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.containers: dict[str, dict[str, Any]] = {}
        self.media: dict[str, dict[str, Any]] = {}
        self.slow = 0
        self._ids = itertools.count(1_000)

    def answer(self, asked: Asked) -> Reply:
        if asked.headers.get("authorization") != f"Bearer {TOKEN}":
            raise graph_error(401, 190, "Error validating access token: Session has expired")
        if asked.method == "POST" and asked.path == f"/{ACCOUNT}/media":
            return self._make(asked.data)
        if asked.method == "POST" and asked.path == f"/{ACCOUNT}/media_publish":
            return self._publish(asked.data)
        node = asked.path.lstrip("/")
        if asked.method == "GET" and re.fullmatch(r"\d+", node):
            return self._read(node, asked.query.get("fields", ""))
        raise graph_error(404, 803, "Some of the aliases you requested do not exist")

    def _make(self, data: dict[str, Any]) -> Reply:
        children = [child for child in str(data.get("children", "")).split(",") if child]
        if data.get("media_type") == "CAROUSEL":
            if not 2 <= len(children) <= 10 or any(child not in self.containers for child in children):
                raise graph_error(400, 100, "Invalid parameter")
        elif not str(data.get("image_url", "")).startswith("https://"):
            raise graph_error(400, 9004, "The media could not be fetched from this URI")
        identifier = str(next(self._ids))
        self.containers[identifier] = {**data, "looks": self.slow, "status_code": "FINISHED"}
        return as_json({"id": identifier})

    def _publish(self, data: dict[str, Any]) -> Reply:
        container = self.containers.get(str(data.get("creation_id")))
        if container is None or container["status_code"] != "FINISHED":
            raise graph_error(400, 9007, "Media ID is not available")
        container["status_code"] = "PUBLISHED"
        identifier = str(next(self._ids))
        self.media[identifier] = {**container, "permalink": f"https://www.instagram.example/p/C{identifier}/"}
        return as_json({"id": identifier})

    def _read(self, node: str, fields: str) -> Reply:
        if node in self.media and "permalink" in fields:
            return as_json({"permalink": self.media[node]["permalink"], "id": node})
        container = self.containers.get(node)
        if container is None or "status_code" not in fields:
            raise graph_error(400, 100, "Unsupported get request")
        if container["looks"]:
            container["looks"] -= 1
            return as_json({"status_code": "IN_PROGRESS", "id": node})
        return as_json({"status_code": container["status_code"], "status": "Finished", "id": node})


def graph_error(status: int, code: int, message: str, **more: Any) -> Refusal:
    """A refusal in the platform's form."""
    refusal = Refusal(status, message)
    error = {"message": message, "type": "OAuthException", "code": code, "fbtrace_id": "A1b2", **more}
    refusal.reply = as_json({"error": error}, status)
    return refusal
