"""Fixtures for tests that need the real things: a PostgreSQL server and fresh databases on it.

The server is our own, one per test process, started at first use. VIBEY_TEST_PG_URL names another one instead (a
superuser's DSN), VIBEY_TEST_PG_BIN the programs of another version.
"""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg.conninfo import make_conninfo

from tests.support.servers import others, running
from vibey_actions.postgres.server import Server
from vibey_actions.postgres.sql import identifier

settings.register_profile(
    "repository",
    # The same examples on every run, however slow the machine is that makes them.
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def pytest_configure() -> None:
    """Hear an interrupt: a suite that a shell started in the background would ignore it, and its programs too."""
    settings.load_profile("repository")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    """The version that the tests run on, and those that they could run on."""
    used = running(os.environ.get("VIBEY_TEST_PG_URL"), os.environ.get("VIBEY_TEST_PG_BIN"))
    return f"PostgreSQL: {used}; on this machine: {', '.join(others()) or 'none'}"


class GivenServer:
    """A server that runs already, with the part of Server's interface that tests use."""

    def __init__(self, url: str) -> None:
        self._url = url

    def dsn(self, database: str = "postgres") -> str:
        return make_conninfo(self._url, dbname=database)


@pytest.fixture(scope="session")
def server() -> Iterator[Server | GivenServer]:
    """A PostgreSQL server; ``server.dsn(database)`` is its superuser's DSN."""
    url = os.environ.get("VIBEY_TEST_PG_URL")
    if url:
        yield GivenServer(url)
        return
    binaries = os.environ.get("VIBEY_TEST_PG_BIN")
    with Server(binaries=Path(binaries) if binaries else None, durable=False) as own:
        yield own


@pytest.fixture
def database(server: Server | GivenServer) -> Iterator[Callable[[], str]]:
    """A factory of fresh, empty databases: each call gives a DSN. All are dropped at the test's end."""
    made: list[str] = []

    def make() -> str:
        name = f"vibey_test_{secrets.token_hex(6)}"
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {identifier(name)} TEMPLATE template0")
        made.append(name)
        return server.dsn(name)

    yield make
    if made:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            for name in made:
                connection.execute(f"DROP DATABASE IF EXISTS {identifier(name)} WITH (FORCE)")


@pytest.fixture
def dsn(database: Callable[[], str]) -> str:
    """The DSN of one fresh, empty database."""
    return database()
