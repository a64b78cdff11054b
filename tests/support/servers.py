"""Which PostgreSQL the tests run on, and which others this machine has, for the head of a test run."""

from __future__ import annotations

import re
import subprocess
from importlib.util import find_spec
from pathlib import Path

import psycopg

from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres.binaries import EMBEDDED_PACKAGE, PLACES, find_binaries
from vibey_actions.postgres.unprivileged import account

_VERSION = re.compile(r"\(PostgreSQL\) (\S+)")


def version_of(folder: Path) -> str:
    """The version of the server programs in ``folder``."""
    done = subprocess.run([str(folder / "postgres"), "--version"], capture_output=True, text=True, check=False)
    match = _VERSION.search(done.stdout)
    return match[1] if match else "unknown"


def running(url: str | None, binaries: str | None) -> str:
    """The server that the tests use."""
    if url:
        try:
            with psycopg.connect(url) as connection:
                return f"{connection.info.parameter_status('server_version')}, given by VIBEY_TEST_PG_URL"
        except psycopg.Error:
            return "unreachable, given by VIBEY_TEST_PG_URL"
    if binaries:
        return f"{version_of(Path(binaries))}, given by VIBEY_TEST_PG_BIN"
    try:
        return f"{version_of(find_binaries(account()))}, the newest found"
    except DatabaseFailed:
        # An embedded package that the server's user cannot reach is copied when the server starts.
        return "the embedded one"


def others() -> list[str]:
    """The versions of all server programs that are found on this machine."""
    folders = [folder for place in PLACES for folder in Path("/").glob(place.lstrip("/"))]
    spec = find_spec(EMBEDDED_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        folders += Path(location).glob("pginstall*/bin")
    return sorted(version_of(folder) for folder in folders if (folder / "postgres").exists())
