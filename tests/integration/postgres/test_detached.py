"""A server that outlives who started it: ended later from what is known, and nothing else ended or deleted with it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.machines import until
from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres.detached import Detached, running
from vibey_actions.postgres.server import Server
from vibey_actions.postgres.unprivileged import account

SCRIPT = """
import sys
from pathlib import Path
from vibey_actions.postgres.server import Server
from vibey_actions.postgres.unprivileged import account
server = Server(Path(sys.argv[1]), durable=False, environment={"RUNNER_TRACKING_ID": "mark"})
with server:
    dsn = server.dsn()
    found = server.detach()
print(dsn, found.pid, flush=True)
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """An empty folder, named as those of servers are, where any user can reach it."""
    path = Path(tempfile.mkdtemp(prefix="vibey-pg-", dir="/tmp"))
    yield path
    Detached(path).end()


def started(folder: Path) -> tuple[str, int]:
    """Start a server in a process that ends at once; its superuser's DSN and its process."""
    done = subprocess.run([sys.executable, "-c", SCRIPT, str(folder)], check=True, capture_output=True, text=True)
    *dsn, pid = done.stdout.split()
    return " ".join(dsn), int(pid)


def test_a_server_outlives_its_process_and_is_ended_later(folder: Path) -> None:
    """It answers after its starter is gone, without a watchdog; ended, its process and folder are gone, twice over."""
    dsn, pid = started(folder)
    assert running(folder / "data") == pid
    with psycopg.connect(dsn) as session:
        assert session.execute("SELECT 1").fetchone() == (1,)
    detached = Detached(folder, (), pid)
    detached.end()
    assert not folder.exists()
    until(lambda: not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes())
    detached.end()


def test_a_killed_server_is_cleaned_up(folder: Path) -> None:
    """A server that was killed leaves its file with a number: nothing runs, and only the folder goes."""
    _, pid = started(folder)
    os.kill(pid, signal.SIGKILL)
    until(lambda: running(folder / "data") is None)
    assert (folder / "data" / "postmaster.pid").exists()
    Detached(folder, (), pid).end()
    assert not folder.exists()


def test_a_killed_server_of_ours_starts_again(folder: Path) -> None:
    """A killed child whose end nobody has taken yet is still listed: that keeps no new server from its data."""
    with Server(folder, durable=False) as server:
        dsn = server.dsn()
        detached = server.detach()
    os.kill(detached.pid, signal.SIGKILL)
    until(lambda: Path(f"/proc/{detached.pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    detached.restart(account())
    with psycopg.connect(dsn) as session:
        assert session.execute("SELECT 1").fetchone() == (1,)


def test_another_process_with_that_number_is_left_alone(folder: Path) -> None:
    """A number that belongs to another process by now is not signalled."""
    (folder / "data").mkdir()
    with subprocess.Popen(["sleep", "60"]) as other:
        (folder / "data" / "postmaster.pid").write_text(f"{other.pid}\n{folder}/data\n")
        Detached(folder).end()
        assert other.poll() is None
        other.kill()
    assert not folder.exists()


@pytest.mark.parametrize("name", ["data", "vibey-pg-link", "../vibey-pg-x"])
def test_only_folders_of_ours_are_deleted(tmp_path: Path, name: str) -> None:
    """A record that names another folder, a link or a relative one deletes nothing."""
    (tmp_path / "data" / "precious").mkdir(parents=True)
    (tmp_path / "vibey-pg-link").symlink_to(tmp_path / "data")
    path = Path(name) if name.startswith("..") else tmp_path / name
    for detached in (Detached(path), Detached(tmp_path / "vibey-pg-gone", (path,))):
        with pytest.raises(DatabaseFailed, match="is said to be the folder"):
            detached.end()
    assert (tmp_path / "data" / "precious").is_dir()


def test_only_a_running_server_can_be_let_go() -> None:
    """A server that has not started, or has ended, is nothing to hand on."""
    with pytest.raises(DatabaseFailed, match="has ended"):
        Server(durable=False).detach()
