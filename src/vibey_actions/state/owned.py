"""Files and folders that belong to a living process, told apart from what a killed one left behind.

The owner holds a kernel lock (flock) that ends with it, so nothing has to guess by age or process number.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_SUFFIX = ".owner"


def private_folder(folder: Path) -> Path:
    """``folder``, made with mode 0700 (its missing parents too) where it is not there yet."""
    if not folder.is_dir():
        private_folder(folder.parent) if folder.parent != folder else None
        folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def create_owned(folder: Path, suffix: str) -> tuple[Path, int]:
    """A new, empty file of mode 0600 with a fresh name in ``folder``, and the descriptor that owns it until closed."""
    while True:
        path = folder / f".{secrets.token_hex(8)}{suffix}"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        if lock(descriptor, exclusive=True) and is_at(descriptor, path):
            return path, descriptor
        os.close(descriptor)


def lock(descriptor: int, *, exclusive: bool) -> bool:
    """Take the file's lock at once, or say that another process holds it."""
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_at(descriptor: int, path: Path) -> bool:
    """Whether ``path`` still leads to the open file (it was not removed or replaced meanwhile)."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False


def remove_unowned(path: Path) -> bool:
    """Remove ``path`` unless a living process owns or uses it; whether it is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        if not lock(descriptor, exclusive=True):
            return False
        path.unlink(missing_ok=True)
    finally:
        os.close(descriptor)
    return True


def sweep_files(folder: Path, suffix: str) -> None:
    """Remove the files of ``create_owned`` in ``folder`` whose owners died."""
    for path in folder.glob(f".*{suffix}"):
        with suppress(OSError):
            remove_unowned(path)


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A private folder for the time of the block; folders of processes that died are removed on the way in."""
    private_folder(parent)
    _sweep(parent)
    owner, descriptor = create_owned(parent, _SUFFIX)
    folder = owner.with_suffix("")
    try:
        folder.mkdir(mode=0o700)
        yield folder
    finally:
        _remove(owner)
        os.close(descriptor)


def _sweep(parent: Path) -> None:
    for owner in parent.glob(f".*{_SUFFIX}"):
        try:
            descriptor = os.open(owner, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            if lock(descriptor, exclusive=True):
                _remove(owner)
        finally:
            os.close(descriptor)


def _remove(owner: Path) -> None:
    """Remove an owner's folder, then the owner; what cannot be removed now is left for the next sweep."""
    folder = owner.with_suffix("")
    shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        with suppress(OSError):
            owner.unlink(missing_ok=True)
