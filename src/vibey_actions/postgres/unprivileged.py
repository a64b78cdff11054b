"""The operating-system user a server runs as: PostgreSQL refuses root, so root hands it to another."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from pathlib import Path

from vibey_actions.errors import DatabaseFailed


@dataclass(frozen=True, slots=True)
class Account:
    """A user without rights of its own."""

    name: str
    uid: int
    gid: int


def account() -> Account | None:
    """The user to run PostgreSQL as: None (ourselves) unless we are root.

    Raises DatabaseFailed where we have no entry, on which initdb insists, or root finds no other user that has one.
    """
    if os.geteuid() != 0:
        _check_entry(os.geteuid())
        return None
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(name, entry.pw_uid, entry.pw_gid)
    raise DatabaseFailed(
        "PostgreSQL does not run as root, and this machine has no user postgres or nobody to run it as",
        "create one (useradd postgres), or give a database by its DSN: VIBEY_STATE_PG_URL",
    )


def _check_entry(uid: int) -> None:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        raise DatabaseFailed(
            f"PostgreSQL does not run as a user without a name, and the user {uid} has none on this machine",
            f"give it one before (root: useradd --uid {uid} runner), or a database by its DSN: VIBEY_STATE_PG_URL",
        ) from None


def reach(path: Path, user: Account | None) -> bool:
    """Whether ``user`` may enter ``path`` and every folder above it (always, for ourselves)."""
    if user is None:
        return True
    resolved = path.resolve()
    return all(_may_enter(folder.stat(), user) for folder in (resolved, *resolved.parents))


def _may_enter(status: os.stat_result, user: Account) -> bool:
    if status.st_uid == user.uid:
        return bool(status.st_mode & stat.S_IXUSR)
    if status.st_gid == user.gid:
        return bool(status.st_mode & stat.S_IXGRP)
    return bool(status.st_mode & stat.S_IXOTH)
