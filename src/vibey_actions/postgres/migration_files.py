"""A directory of plain SQL migrations, read whole and checked before any of it runs."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibey_actions.errors import MigrationFailed, SettingError
from vibey_actions.postgres.script import problem
from vibey_actions.text import visible

_SUFFIX: Final = ".sql"


@dataclass(frozen=True, slots=True)
class MigrationFile:
    """One file: ``version`` is its name without ``.sql``, ``checksum`` the SHA-256 of its bytes."""

    version: str
    checksum: str
    sql: str


def read_migrations(directory: Path) -> list[MigrationFile]:
    """Every ``.sql`` file of ``directory`` in the order of the names' bytes; hidden files and folders are left out.

    Raises SettingError where there is no such directory, MigrationFailed for a file that is no UTF-8 text or whose name
    ends in ``.SQL`` (one that would silently not be applied).
    """
    try:
        with os.scandir(directory) as entries:
            names = sorted((entry.name for entry in entries if _is_migration(entry)), key=os.fsencode)
    except OSError as error:
        raise SettingError(
            f"the migrations directory {visible(str(directory))} cannot be read: {error.strerror}",
            "correct directory in [migrations] of .github/vibey-state.toml",
        ) from None
    return [_read(directory / name) for name in names]


def check_runnable(file: MigrationFile) -> None:
    """Raise MigrationFailed for what would leave the file's transaction, or what only psql understands."""
    found = problem(file.sql)
    if found is not None:
        raise MigrationFailed(
            f"migration {visible(file.version)} cannot be applied: {visible(found)}",
            "remove it from the file; nothing of this file was applied",
        )


def _is_migration(entry: os.DirEntry[str]) -> bool:
    name = entry.name
    if name.startswith(".") or not name.lower().endswith(_SUFFIX) or entry.is_dir():
        return False
    if not name.endswith(_SUFFIX):
        raise MigrationFailed(
            f"the migration {visible(name)} does not end in {_SUFFIX} in lower case", f"rename it to end in {_SUFFIX}"
        )
    return True


def _read(path: Path) -> MigrationFile:
    try:
        content = path.read_bytes()
        version = path.name.removesuffix(_SUFFIX)
        version.encode("utf-8")
        sql = content.decode("utf-8-sig")
    except OSError as error:
        raise MigrationFailed(f"the migration {visible(path.name)} cannot be read: {error.strerror}") from None
    except UnicodeError:
        raise MigrationFailed(
            f"the migration {visible(path.name)} is not UTF-8 (its content or its name)", "save it as UTF-8"
        ) from None
    if "\0" in sql:
        raise MigrationFailed(f"the migration {visible(path.name)} holds a NUL character", "save it as UTF-8 text")
    return MigrationFile(version, hashlib.sha256(content).hexdigest(), sql)
