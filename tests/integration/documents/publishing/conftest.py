"""Platforms on this machine, and a lane of posts that leads to one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.bsky_server import HANDLE, BskyServer, xrpc_error
from tests.support.ig_server import ACCOUNT, IgServer, graph_error
from tests.support.lanes import PUBLISH
from tests.support.platforms import ENVIRONMENT, Platform
from tests.support.walking import Walk, with_settings
from tests.support.webhook_server import WebhookServer


@pytest.fixture
def ig() -> Iterator[Platform]:
    with IgServer() as server:
        settings: dict[str, object] = {"publisher": "ig", "account": ACCOUNT, "token": "IG_TOKEN", "api": server.url}
        yield Platform(
            server, settings, "media_publish", lambda: len(server.media), lambda status: graph_error(status, 100, "Bad")
        )


@pytest.fixture
def bsky() -> Iterator[Platform]:
    with BskyServer() as server:
        settings: dict[str, object] = {
            "publisher": "bsky",
            "identifier": HANDLE,
            "password": "BSKY_PASSWORD",
            "service": server.url,
        }
        yield Platform(
            server,
            settings,
            "createRecord",
            lambda: len(server.records),
            lambda status: xrpc_error(status, "InvalidRequest", "Bad"),
        )


@pytest.fixture
def webhook() -> Iterator[Platform]:
    with WebhookServer() as server:
        settings: dict[str, object] = {"publisher": "webhook", "url": server.url, "secret": "HOOK_SECRET"}
        yield Platform(server, settings, "", lambda: len(server.posts), lambda status: graph_error(status, 0, "Bad"))


@pytest.fixture(params=["ig", "bsky", "webhook"])
def platform(request: pytest.FixtureRequest) -> Platform:
    found: Platform = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def walk(tmp_path: Path) -> Callable[..., Walk]:
    def make(settings: dict[str, object], hosts: list[str] | None = None, **environment: str) -> Walk:
        machine = with_settings(PUBLISH, platforms={"there": settings}, hosts=hosts or [])
        return Walk(machine, tmp_path, {**ENVIRONMENT, **environment})

    return make
