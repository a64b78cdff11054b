"""A server that takes posts as signed requests: it checks the signature and makes each key's effect once."""

from __future__ import annotations

import hashlib
import hmac
import ssl
from typing import Any

from tests.support.github_server.replies import Refusal, Reply, as_json
from tests.support.platform_server import Asked, PlatformServer

SECRET = "secret-of-the-tests-for-webhooks"


class WebhookServer(PlatformServer):
    """``posts`` by their idempotency key. ``reply`` is what an acceptance answers."""

    prefix = "/hook"

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.posts: dict[str, Any] = {}
        self.reply = as_json({"mediaId": "m-1", "permalink": "https://site.example/posts/1"}, 201)

    def answer(self, asked: Asked) -> Reply:
        expected = hmac.new(SECRET.encode(), asked.body, hashlib.sha256).hexdigest()
        if asked.headers.get("x-hub-signature-256") != f"sha256={expected}":
            raise Refusal(403, "the signature is wrong")
        self.posts.setdefault(asked.headers["idempotency-key"], asked.data)
        return self.reply
