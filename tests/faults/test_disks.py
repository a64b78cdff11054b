"""Folders that are full, read-only, foreign or full of rubbish: named in one error, or worked around."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.faults.cases import CHANGES_HERE, PLANTED, ROWS
from tests.support import forked
from tests.support.machines import Branch, Machine

Machines = Callable[..., Machine]

MANY_ROWS = """
INSERT INTO customer (name) SELECT md5(n::text) || md5((n + 1)::text) || md5((n + 2)::text)
    FROM generate_series(1, 20000) n;
"""


@contextmanager
def limited_files(size: int) -> Iterator[None]:
    """No file of this process grows beyond ``size``: where no small disk can be mounted, this is a full one."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def in_limits(work: Callable[[], object], size: int) -> forked.Ended:
    def limited() -> object:
        with limited_files(size):
            return work()

    return forked.run(limited)


def said_clearly(ended: forked.Ended, *words: str) -> None:
    assert ended.error not in {"", "traceback"}, ended
    for word in words:
        assert word in ended.message
    assert PLANTED not in ended.message


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[None]:
    """A disk of ``size`` mounted at ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def can_mount() -> bool:
    folder = Path(f"/tmp/.vibey-mount-{os.getpid()}")  # noqa: S108 - only looked at
    try:
        with small_disk(folder, "64k"):
            return True
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_cache_that_cannot_hold_the_state_is_named(machines: Machines, branch: Branch) -> None:
    """A first push whose draft does not fit says which folder is full; with room the same sync completes."""
    machine = machines(branch, "a", rows=MANY_ROWS)
    before = machine.rows(versions=True)
    said_clearly(in_limits(machine.sync, 200_000), str(machine.cache), "File too large")
    assert branch.head is None
    assert machine.base is None
    assert machine.rows(versions=True) == before
    assert machine.leftovers() == []
    machine.sync()
    assert machine.base == branch.head


def test_a_state_that_cannot_be_downloaded_for_want_of_room_is_named(machines: Machines, branch: Branch) -> None:
    """A pull whose sealed file does not fit changes nothing, keeps no part of it, and completes with room."""
    first, second = machines(branch, "a", rows=MANY_ROWS), machines(branch, "b")
    first.sync()
    before = second.rows(versions=True)
    said_clearly(in_limits(second.sync, 200_000), str(second.cache), "vibey")
    assert second.rows(versions=True) == before
    assert second.base is None
    assert second.leftovers() == []
    second.sync()
    assert second.rows() == first.rows()


def test_a_full_folder_for_temporary_files_is_named(
    machines: Machines, git_branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes that do not fit into TMPDIR while they wait are one clear error, and come with the next sync."""
    first, second = machines(git_branch, "a", rows=MANY_ROWS), machines(git_branch, "b")
    first.sync()
    second.execute("INSERT INTO audit VALUES ('not empty', 1, '{}')")
    assert second.operations.status().to_pull == 20000
    before = second.rows(versions=True)
    missing = tmp_path / "no-such-folder"

    def without_room() -> object:
        # The sealed file is in the cache by now; only the changes that wait grow beyond this.
        with limited_files(1_100_000):
            return second.sync(push=False)

    ended = forked.run(without_room)
    said_clearly(ended, "changes that wait", "TMPDIR")
    assert second.rows(versions=True) == before
    monkeypatch.setattr("tempfile.tempdir", str(missing))
    said_clearly(forked.run(second.sync), str(missing))
    monkeypatch.undo()
    second.sync()
    first.sync()
    assert second.rows() == first.rows()


def test_a_full_disk_under_the_git_repository(machines: Machines, git_branch: Branch) -> None:
    """git's own words say that the repository cannot take the push; the branch stays, and the push comes later."""
    machine = machines(git_branch, "a", rows=ROWS)
    machine.sync()
    head, base = git_branch.head, machine.base
    machine.execute(MANY_ROWS)
    objects = git_branch.repository / "objects"
    aside = objects.with_name("aside")
    shutil.copytree(objects, aside)
    if can_mount():
        with small_disk(objects, "300k"):
            shutil.copytree(aside, objects, dirs_exist_ok=True)
            said_clearly(forked.run(machine.sync), "No space left")
            assert (git_branch.head, machine.base) == (head, base)
    else:
        (git_branch.repository / "hooks").mkdir()
        hook = git_branch.repository / "hooks" / "pre-receive"
        hook.write_text("#!/bin/sh\necho 'No space left on device' >&2; exit 1\n")
        hook.chmod(0o700)
        said_clearly(forked.run(machine.sync), "No space left")
        assert (git_branch.head, machine.base) == (head, base)
        hook.unlink()
    machine.sync()
    assert machine.base == git_branch.head != head


def test_a_cache_on_a_full_disk(machines: Machines, branch: Branch) -> None:
    """On a disk with no room at all a sync says so; with room it completes."""
    machine = machines(branch, "a", rows=MANY_ROWS)
    if can_mount():
        with small_disk(machine.cache, "100k"):
            said_clearly(forked.run(machine.sync), str(machine.cache), "No space left")
    else:
        said_clearly(in_limits(machine.sync, 100), str(machine.cache))
    assert branch.head is None
    machine.sync()
    assert machine.base == branch.head


@pytest.mark.parametrize("where", ["a file", "/proc/no-such-folder"])
def test_a_cache_folder_that_cannot_be_made(machines: Machines, branch: Branch, where: str) -> None:
    """A cache folder that cannot be written is named, and nothing else happens."""
    machine = machines(branch, "a", rows=ROWS)
    folder = machine.folder / "in-the-way" if where == "a file" else Path(where)
    if where == "a file":
        folder.write_text("")
    machine.env["XDG_CACHE_HOME"] = str(folder)
    said_clearly(forked.run(machine.sync), str(folder))
    assert branch.head is None


def as_nobody(work: Callable[[], object]) -> forked.Ended:
    """Run ``work`` as a user without rights where the tests run as root."""

    def dropped() -> object:
        if os.getuid() == 0:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
        return work()

    return forked.run(dropped)


def test_a_cache_folder_of_somebody_else(machines: Machines, branch: Branch, tmp_path: Path) -> None:
    """A cache folder that this user may not write is named; nothing is written at either end."""
    machine = machines(branch, "a", rows=ROWS)
    foreign = tmp_path / "foreign"
    foreign.mkdir(mode=0o555)
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    machine.env["XDG_CACHE_HOME"] = str(foreign)
    said_clearly(as_nobody(machine.sync), str(foreign), "Permission denied")
    assert branch.head is None
    assert machine.base is None


def test_without_a_home(machines: Machines, branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME and XDG_CACHE_HOME unset: a private folder for temporary files holds the cache."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    machine = machines(branch, "a", rows=ROWS)
    del machine.env["HOME"], machine.env["XDG_CACHE_HOME"]
    assert machine.sync().pushed
    assert not machine.sync().pushed
    assert (tmp_path / f"vibey-{os.getuid()}").stat().st_mode & 0o077 == 0


def test_rubbish_in_the_cache_is_replaced(machines: Machines, branch: Branch) -> None:
    """Every file of the cache may hold garbage, nothing, or be a folder: the sync is right, and mends what it uses."""
    first, second = machines(branch, "a", rows=ROWS), machines(branch, "b")
    first.sync()
    second.sync()
    first.execute(CHANGES_HERE)
    first.sync()
    first.sync()
    for rubbish in (b"", b"garbage", b"VBYSTAT1" + b"x" * 5000, b'{"size": 5}', b"{}", b"[]", b"\xff"):
        for path in [path for path in first.cache.rglob("*") if path.is_file()]:
            path.write_bytes(rubbish)
        first.execute("INSERT INTO audit SELECT 'more', coalesce(max(seq), 0) + 1, '{}' FROM audit")
        assert first.sync().pushed, rubbish
        assert second.sync().to_pull, rubbish
        assert first.rows() == second.rows()
    for path in [path for path in first.cache.rglob("*") if path.is_file() and path.parent.name != "checked"]:
        path.unlink()
        path.mkdir()
    first.execute("INSERT INTO audit VALUES ('folders', 1, '{}')")
    ended = forked.run(first.sync)
    assert ended.error != "traceback", ended.message
