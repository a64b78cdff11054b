"""What is put between a command and its job: another user, and on Linux a view of the machine in which nothing else is.

Called in processes that are made for one command and run as root until the last wall stands. The user is the wall that
always is there. Where the kernel allows it the command also has process ids, mounts and IPC of its own: it sees no
other process, every file is read-only but its workspace and temporary folders, set-user-ID programs gain nothing, and
what belongs to the job alone is covered. Runners need that: GitHub's images let every user write to /opt and
/usr/share, where programs lie that the job's later steps start.
"""

from __future__ import annotations

import ctypes
import os
import resource
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

LINUX: Final = sys.platform.startswith("linux")
_TEMPORARY: Final = (Path("/tmp"), Path("/var/tmp"))  # noqa: S108 - they are covered by folders of the command's own
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108

_NEW_MOUNTS, _NEW_IPC, _NEW_PIDS = 0x00020000, 0x08000000, 0x20000000
_READ_ONLY, _NO_SUID, _NO_DEVICES, _NO_PROGRAMS = 1, 2, 4, 8
_BIND, _RECURSIVE, _PRIVATE = 1 << 12, 1 << 14, 1 << 18
_MOUNT_SETATTR: Final = 442
_AT_WORKING_FOLDER, _AT_RECURSIVE = -100, 0x8000
_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _SUBREAPER = 1, 38, 36
_SIGKILL: Final = 9

# Loaded now: behind the walls there may be no file to load it from.
_libc: Final = ctypes.CDLL(None, use_errno=True)


def die_with_parent() -> None:
    """Have the kernel kill this process when the one that made it ends, however that ends."""
    if LINUX:
        _libc.prctl(_PARENT_DEATH_SIGNAL, _SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Become the parent of every process below whose own parent ends."""
    if LINUX:
        _libc.prctl(_SUBREAPER, 1, 0, 0, 0)


def become(uid: int, gid: int) -> None:
    """Give up every right: ``uid`` and ``gid`` from here on, no other group, and no way to gain anything."""
    os.setgroups([])
    os.setgid(gid)
    os.setuid(uid)
    if LINUX:
        _checked(_libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def separate() -> None:
    """Give this process mounts and IPC, and its later children process ids, of their own. Raises OSError."""
    if not LINUX:
        raise OSError(0, "this is not Linux")
    _checked(_libc.unshare(_NEW_MOUNTS | _NEW_IPC | _NEW_PIDS))


def cover(workspace: Path, temporary: Path, hidden: Sequence[Path], uid: int, gid: int) -> None:
    """Leave of the machine what the command may see and write. For the first process after ``separate``.

    ``temporary`` (a folder of the user's) takes the place of /tmp and /var/tmp. ``hidden`` are folders that are
    empty from here on, as is what the user could not enter anyway on the way to ``workspace``. Raises OSError.
    """
    kept, own = (os.open(folder, os.O_PATH | os.O_DIRECTORY) for folder in (workspace, temporary))
    _mount(None, Path("/"), None, _RECURSIVE | _PRIVATE)
    _attributes(Path("/"), _READ_ONLY | _NO_SUID, 0, recursive=True)
    # Before anything is covered: afterwards it looks different.
    closed = first_closed(workspace, uid, gid)
    for folder in _TEMPORARY:
        if folder.is_dir() and not folder.is_symlink():
            _bind(own, folder)
    emptied = [folder for folder in [*([closed] if closed else []), *hidden] if _emptied(folder, workspace)]
    # As root, through covers that are still writable.
    workspace.mkdir(parents=True, exist_ok=True)
    _bind(kept, workspace)
    emptied += [folder for folder in hidden if folder.is_relative_to(workspace) and _emptied(folder)]
    for folder in emptied:
        _attributes(folder, _READ_ONLY, 0)
    if _SHARED_MEMORY.is_dir():
        _mount(b"tmpfs", _SHARED_MEMORY, b"tmpfs", _NO_SUID | _NO_DEVICES, b"mode=1777")
    _mount(b"proc", Path("/proc"), b"proc", _NO_SUID | _NO_DEVICES | _NO_PROGRAMS, b"hidepid=2")


def first_closed(path: Path, uid: int, gid: int) -> Path | None:
    """The outermost folder above ``path`` that the user may not enter; None where all may be."""
    return next((folder for folder in reversed(path.parents) if not _may_enter(folder.stat(), uid, gid)), None)


def first_writable(paths: Sequence[Path], uid: int, gid: int) -> Path | None:
    """The first of ``paths``, or of the folders above one, that the user could put something else in place of."""
    for path in paths:
        for one in reversed((path, *path.parents)):
            if _may_change(one.stat(), uid, gid):
                return one
    return None


def _may_enter(found: os.stat_result, uid: int, gid: int) -> bool:
    return bool(_mode(found, uid, gid) & stat.S_IXOTH)


def _may_change(found: os.stat_result, uid: int, gid: int) -> bool:
    if found.st_uid == uid:
        return True
    # In a sticky folder everybody may make something new, and replace nothing of others.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    return not sticky and bool(_mode(found, uid, gid) & stat.S_IWOTH)


def _mode(found: os.stat_result, uid: int, gid: int) -> int:
    """The three bits that apply to a user without further groups."""
    if found.st_uid == uid:
        return found.st_mode >> 6
    return found.st_mode >> 3 if found.st_gid == gid else found.st_mode


def _emptied(folder: Path, around: Path | None = None) -> bool:
    """Cover ``folder`` with an empty one, and say whether: not where it is not there, or lies in ``around``."""
    if (around is not None and folder.is_relative_to(around)) or not folder.is_dir():
        return False
    _mount(b"tmpfs", folder, b"tmpfs", _NO_SUID | _NO_DEVICES, b"mode=755,size=1m")
    return True


def _bind(descriptor: int, target: Path) -> None:
    """Put the folder that is open as ``descriptor`` at ``target``, writable."""
    _mount(f"/proc/self/fd/{descriptor}".encode(), target, None, _BIND)
    _attributes(target, _NO_SUID, _READ_ONLY)


def _mount(source: bytes | None, target: Path, kind: bytes | None, flags: int, options: bytes | None = None) -> None:
    _checked(_libc.mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), options))


def _attributes(target: Path, added: int, taken: int, *, recursive: bool = False) -> None:
    wanted = (ctypes.c_uint64 * 4)(added, taken, 0, 0)
    _checked(
        _libc.syscall(
            ctypes.c_long(_MOUNT_SETATTR),
            ctypes.c_int(_AT_WORKING_FOLDER),
            ctypes.c_char_p(os.fsencode(target)),
            ctypes.c_uint(_AT_RECURSIVE if recursive else 0),
            ctypes.byref(wanted),
            ctypes.c_size_t(ctypes.sizeof(wanted)),
        )
    )


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
