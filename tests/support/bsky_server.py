"""A Bluesky service, as the lexicons describe it: sessions, blobs, records, handles."""

from __future__ import annotations

import hashlib
import ssl
from typing import Any

from tests.support.github_server.replies import Refusal, Reply, as_json
from tests.support.platform_server import Asked, PlatformServer

HANDLE = "hub.example.com"
PASSWORD = "abcd-efgh-ijkl-mnop"
DID = "did:plc:abcdefghijklmnopqrstuvwx"
_TOKEN = "eyJhbGciOiJFUzI1NksifQ.session.of-the-tests"


class BskyServer(PlatformServer):
    """``records`` are the posts that stand, ``blobs`` what was uploaded, ``handles`` whom mentions can mean."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls)
        self.records: list[dict[str, Any]] = []
        self.blobs: dict[str, bytes] = {}
        self.handles = {"friend.example.com": "did:plc:friendfriendfriendfriend"}

    def answer(self, asked: Asked) -> Reply:
        method = asked.path.removeprefix("/xrpc/")
        if method == "com.atproto.identity.resolveHandle":
            did = self.handles.get(asked.query.get("handle", ""))
            if did is None:
                raise xrpc_error(400, "InvalidRequest", "Unable to resolve handle")
            return as_json({"did": did})
        if method == "com.atproto.server.createSession":
            if asked.data != {"identifier": HANDLE, "password": PASSWORD}:
                raise xrpc_error(401, "AuthenticationRequired", "Invalid identifier or password")
            return as_json({"did": DID, "handle": HANDLE, "accessJwt": _TOKEN, "refreshJwt": "eyJ.refresh"})
        if asked.headers.get("authorization") != f"Bearer {_TOKEN}":
            raise xrpc_error(401, "AuthMissing", "Authentication Required")
        if method == "com.atproto.repo.uploadBlob":
            return self._upload(asked)
        if method == "com.atproto.repo.createRecord":
            return self._create(asked.data)
        raise xrpc_error(501, "MethodNotImplemented", "Method Not Implemented")

    def _upload(self, asked: Asked) -> Reply:
        cid = f"bafkrei{hashlib.sha256(asked.body).hexdigest()[:52]}"
        self.blobs[cid] = asked.body
        kind = asked.headers["content-type"]
        blob = {"$type": "blob", "ref": {"$link": cid}, "mimeType": kind, "size": len(asked.body)}
        return as_json({"blob": blob})

    def _create(self, data: dict[str, Any]) -> Reply:
        record = data["record"]
        if data["repo"] != DID or record["$type"] != "app.bsky.feed.post" or len(record["text"]) > 300:
            raise xrpc_error(400, "InvalidRequest", "Invalid app.bsky.feed.post record")
        for image in record.get("embed", {}).get("images", []):
            if image["image"]["ref"]["$link"] not in self.blobs:
                raise xrpc_error(400, "BlobNotFound", "Could not find blob")
        self.records.append(record)
        return as_json({"uri": f"at://{DID}/app.bsky.feed.post/3k{len(self.records):011d}", "cid": "bafyreia"})


def xrpc_error(status: int, error: str, message: str) -> Refusal:
    """A refusal in the protocol's form."""
    refusal = Refusal(status, message)
    refusal.reply = as_json({"error": error, "message": message}, status)
    return refusal
