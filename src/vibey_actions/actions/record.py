"""What `open` leaves for `close`: which database this job has, and how far the opening came.

A file of mode 0600 in a folder of mode 0700 under RUNNER_TEMP, written whole or not at all. The variables that `open`
gives to later steps may have been changed by any of them, so nothing is ever read back from those.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final

from vibey_actions.errors import FileFailed

FOLDER: Final = "vibey-actions"
EXPORT_FILE: Final = "state.export"
SHAPES_FILE: Final = "state.shapes"
_FILE: Final = "record.json"
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_-]+")
_LARGEST: Final = 8 << 20


class Phase(str, Enum):
    """How far the job's opening came. Only ``OPENED`` is ever exported."""

    OPENING = "opening"
    OPENED = "opened"
    EMPTY = "empty"
    """A migrated database without the state, because the gate stayed closed."""


@dataclass(frozen=True, slots=True)
class Record:
    """One job's database.

    ``cluster`` is the folder of a server of our own, ``extra`` further folders of it, ``pid`` its process; without a
    cluster the database is a declared one. ``role`` is an application role that was made in a declared database.
    ``commit`` is the branch's head that the database was filled from, ``declaration`` the configuration's text.
    """

    phase: Phase = Phase.OPENING
    dsn: str = field(default="", repr=False)
    app_dsn: str = field(default="", repr=False)
    cluster: str = ""
    extra: tuple[str, ...] = ()
    pid: int = 0
    role: str = ""
    commit: str = ""
    remote: str = ""
    rows: int = 0
    declaration: str = ""

    def replace(self, **changes: Any) -> Record:
        """The same record with ``changes``."""
        return replace(self, **changes)


@dataclass(frozen=True, slots=True)
class Place:
    """The job's folder, where the record, the cache of sealed files and the export are."""

    folder: Path

    @classmethod
    def of(cls, temp: Path, env: Mapping[str, str]) -> Place:
        """The place of the job that ``env`` describes, under RUNNER_TEMP; nothing is made yet."""
        names = (env.get(name, "") for name in ("GITHUB_JOB", "GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT"))
        name = "-".join(_UNSAFE.sub("-", part)[:60] for part in names if part)
        return cls(temp / FOLDER / (name or "job"))

    @property
    def cache(self) -> Path:
        """Where this job keeps sealed files."""
        return self.folder / "cache"

    @property
    def export(self) -> Path:
        """Where `close` puts the sealed export; a visible name, since artifacts leave out hidden files."""
        return self.folder / "export" / EXPORT_FILE

    @property
    def shapes(self) -> Path:
        """Where `close` puts what a merge without a database needs besides the export."""
        return self.folder / "export" / SHAPES_FILE

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Within the block no other step of the job opens or closes a state; one that does is waited for.

        Raises FileFailed where the folder cannot be made.
        """
        try:
            self.folder.parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(self.folder.parent, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            raise self._unusable(error) from None
        try:
            with suppress(OSError):  # a file system without locks
                fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def read(self) -> Record | None:
        """The record, None where there is none. Raises FileFailed for one that is not ours or cannot be read."""
        path = self.folder / _FILE
        try:
            if not self._is_ours():
                return None
            # O_NOFOLLOW: what is read names folders that are deleted.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                _check(path, os.fstat(file.fileno()))
                return _parsed(file.read(_LARGEST))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, TypeError) as error:
            why = (isinstance(error, OSError) and error.strerror) or "it is damaged"
            raise FileFailed(
                f"the record of this job's state, {path}, cannot be read: {why}",
                "a step of this job changed it; run the job again",
            ) from None

    def write(self, record: Record) -> Record:
        """Put ``record`` in place of the one before; whoever is killed here leaves one of the two. Returns it."""
        try:
            self._make()
            aside = self.folder / f".{secrets.token_hex(8)}.part"
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(json.dumps(asdict(record)).encode())
                file.flush()
                os.fsync(file.fileno())
            aside.replace(self.folder / _FILE)
        except OSError as error:
            raise self._unusable(error) from None
        return record

    def _unusable(self, error: OSError) -> FileFailed:
        return FileFailed(
            f"the record of this job's state cannot be written under {self.folder}: {error.strerror}",
            "RUNNER_TEMP has to be a folder of the job's own with room in it",
        )

    def remove(self, *, keep_export: bool = False) -> None:
        """Delete the job's folder, or all of it but the export."""
        if not self._is_ours():
            return
        if not keep_export:
            shutil.rmtree(self.folder, ignore_errors=True)
            return
        with suppress(OSError):
            # First: without it nothing else here means anything.
            (self.folder / _FILE).unlink()
        for path in self.folder.iterdir():
            if path != self.export.parent:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() and not path.is_symlink() else path.unlink()

    def _make(self) -> None:
        for folder in (self.folder.parent, self.folder):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not self._is_ours():
            raise PermissionError(1, "it is a link, or belongs to another user")
        self.folder.chmod(0o700)

    def _is_ours(self) -> bool:
        try:
            found = [folder.lstat() for folder in (self.folder.parent, self.folder)]
        except OSError:
            return False
        return all(stat.S_ISDIR(one.st_mode) and one.st_uid == os.geteuid() for one in found)


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise ValueError(path)


def _parsed(raw: bytes) -> Record:
    data = json.loads(raw)
    if not isinstance(data, dict) or data.keys() != {one.name for one in fields(Record)}:
        raise ValueError(raw)
    texts = ("dsn", "app_dsn", "cluster", "role", "commit", "remote", "declaration")
    if not all(isinstance(data[name], str) for name in texts):
        raise ValueError(raw)
    if not all(isinstance(data[name], int) for name in ("pid", "rows")):
        raise ValueError(raw)
    if not all(isinstance(one, str) for one in data["extra"]):
        raise ValueError(raw)
    return Record(**{**data, "phase": Phase(data["phase"]), "extra": tuple(data["extra"])})
