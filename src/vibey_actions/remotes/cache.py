"""Sealed files of a remote by commit, kept on this machine so that none is downloaded twice.

Only sealed bytes are ever here. A file counts once it is whole: written aside, flushed, then renamed. Several
processes may share the folder; a file one of them uses is never removed by another.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from vibey_actions.errors import RemoteFailed
from vibey_actions.names import is_commit
from vibey_actions.state.owned import create_owned, is_at, lock, private_folder, remove_unowned, sweep_files

SEAL_MAGIC = b"VBYSTAT1"
_FACTS = ".facts"
_PART = ".part"


def default_cache_folder(env: Mapping[str, str]) -> Path:
    """``$XDG_CACHE_HOME/vibey``, else ``~/.cache/vibey``, else a private folder for temporary files."""
    base = env.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):
        return Path(base) / "vibey"
    home = env.get("HOME", "")
    if home.startswith("/"):
        return Path(home) / ".cache" / "vibey"
    return Path(tempfile.gettempdir()) / f"vibey-{os.getuid()}"


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a cached commit besides its file: the file's size, its tree, its parents.

    ``raw`` is the commit object itself where git made it available (a push builds on it without a download).
    """

    size: int
    tree: str = ""
    parents: tuple[str, ...] = ()
    raw: str | None = None


class SealedCache:
    """The sealed files of one remote under ``root``/sealed, bounded to the newest ``max_files`` and ``max_bytes``.

    ``remote`` is the remote's name; only a digest of it appears on disk. Raises RemoteFailed where the folder cannot
    be used, naming it.
    """

    def __init__(self, root: Path, remote: str, *, max_files: int = 8, max_bytes: int = 1 << 30) -> None:
        digest = hashlib.sha256(remote.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        self.folder = root / "sealed" / digest
        self._max_files = max_files
        self._max_bytes = max_bytes
        self._in_use: OrderedDict[str, int] = OrderedDict()

    def find(self, commit: str) -> Path | None:
        """The whole sealed file of ``commit``, held against removal by others; None where it has to be downloaded."""
        facts = self.facts(commit)
        if facts is None:
            return None
        path = self.path(commit)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError:
            return None
        usable = lock(descriptor, exclusive=False) and is_at(descriptor, path) and _is_whole(descriptor, facts.size)
        if not usable:
            os.close(descriptor)
            return None
        with suppress(OSError):
            os.utime(path)
        self._hold(commit, descriptor)
        return path

    def facts(self, commit: str) -> Facts | None:
        """What was recorded of ``commit`` with its file, None where nothing readable was."""
        try:
            found = json.loads(self.path(commit, _FACTS).read_bytes())
            facts = Facts(**{**found, "parents": tuple(found["parents"])})
        except (OSError, ValueError, TypeError, KeyError):
            return None
        known = isinstance(facts.size, int) and isinstance(facts.tree, str) and isinstance(facts.raw, str | None)
        return facts if known and all(map(is_commit, facts.parents)) else None

    @contextmanager
    def writing(self, commit: str, facts: Facts) -> Iterator[BinaryIO]:
        """A file to write the bytes of ``commit`` into; on a clean end it is the file at ``path(commit)``.

        What it holds is the opener's to judge. Raises RemoteFailed where what was written has not the size in
        ``facts`` or cannot be kept on disk. Nothing becomes visible then.
        """
        try:
            private_folder(self.folder)
            sweep_files(self.folder, _PART)
            part, descriptor = create_owned(self.folder, _PART)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            with os.fdopen(descriptor, "w+b", closefd=False) as file:
                yield file
                file.flush()
            self._publish(commit, facts, part, descriptor)
        except OSError as error:
            if error.errno is None:
                raise
            raise self._unusable(error) from error
        finally:
            # What cannot be removed now is swept by the next.
            with suppress(OSError):
                part.unlink(missing_ok=True)
            os.close(descriptor)
        self._bound(keep=commit)

    def store(self, commit: str, source: Path, facts: Facts) -> None:
        """Keep a copy of ``source`` as the file of ``commit`` (which was just pushed)."""
        with self.writing(commit, facts) as file, source.open("rb") as origin:
            shutil.copyfileobj(origin, file, 1 << 20)

    def _publish(self, commit: str, facts: Facts, part: Path, descriptor: int) -> None:
        if os.fstat(descriptor).st_size != facts.size:
            raise RemoteFailed(
                f"the sealed file of commit {commit[:12]} arrived with another size than announced", "run again"
            )
        if self.find(commit) is not None:
            return
        os.fsync(descriptor)
        self._write_facts(commit, facts)
        part.replace(self.path(commit))
        held = os.dup(descriptor)
        lock(held, exclusive=False)
        self._hold(commit, held)

    def discard(self, commit: str) -> None:
        """Forget the file of ``commit``; the next find does not see it."""
        descriptor = self._in_use.pop(commit, None)
        if descriptor is not None:
            os.close(descriptor)
        for suffix in ("", _FACTS):
            with suppress(OSError):
                self.path(commit, suffix).unlink(missing_ok=True)

    def close(self) -> None:
        """Let go of every file this process used."""
        while self._in_use:
            os.close(self._in_use.popitem()[1])

    def __del__(self) -> None:
        self.close()

    def path(self, commit: str, suffix: str = "") -> Path:
        """Where the file of ``commit`` is kept. Raises RemoteFailed where ``commit`` is not one."""
        if not is_commit(commit):
            raise RemoteFailed(f"{commit[:80]!r} is not a commit", "a commit is 40 or 64 lower-case hex digits")
        return self.folder / f"{commit}{suffix}"

    def _hold(self, commit: str, descriptor: int) -> None:
        previous = self._in_use.pop(commit, None)
        if previous is not None:
            os.close(previous)
        self._in_use[commit] = descriptor
        while len(self._in_use) > self._max_files:
            os.close(self._in_use.popitem(last=False)[1])

    def _write_facts(self, commit: str, facts: Facts) -> None:
        aside, descriptor = create_owned(self.folder, _PART)
        try:
            os.write(descriptor, json.dumps(asdict(facts)).encode("ascii"))
            aside.replace(self.path(commit, _FACTS))
        finally:
            os.close(descriptor)

    def _bound(self, keep: str) -> None:
        """Remove the files used longest ago until the bounds hold; one that any process uses stays."""
        kept, size = 0, 0
        for used, length, name in sorted(self._listing(), reverse=True):
            del used
            kept, size = kept + 1, size + length
            beyond = kept > self._max_files or size > self._max_bytes
            if beyond and name != keep and name not in self._in_use and remove_unowned(self.folder / name):
                self.path(name, _FACTS).unlink(missing_ok=True)

    def _listing(self) -> Iterator[tuple[int, int, str]]:
        for entry in self.folder.iterdir():
            if is_commit(entry.name):
                with suppress(FileNotFoundError):
                    found = entry.stat(follow_symlinks=False)
                    yield found.st_mtime_ns, found.st_size, entry.name

    def _unusable(self, error: OSError) -> RemoteFailed:
        return RemoteFailed(
            f"the sealed file cannot be kept in {self.folder}: {error.strerror or type(error).__name__}",
            "free some space, or set XDG_CACHE_HOME to a folder that can be written",
        )


def _is_whole(descriptor: int, size: int) -> bool:
    magic = os.pread(descriptor, len(SEAL_MAGIC), 0)
    return magic == SEAL_MAGIC and os.fstat(descriptor).st_size == size
