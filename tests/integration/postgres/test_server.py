"""A server of our own: found, started, proven ours, stopped and cleaned up, whatever the machine has."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres import server as module
from vibey_actions.postgres.binaries import find_binaries
from vibey_actions.postgres.server import Server
from vibey_actions.postgres.unprivileged import account


def alive(pid: int) -> bool:
    """Whether a process runs (one that nobody has waited for yet does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        return not Path("/proc").is_dir()


def wait_for(condition: object, seconds: float = 120) -> bool:
    """Whether ``condition()`` becomes true in time."""
    assert callable(condition)
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def test_start_use_stop_and_nothing_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """With every PG* variable pointing elsewhere the server is ours, UTF8, C and private."""
    for name, value in {
        "PGDATA": "/nonexistent", "PGPORT": "1", "PGHOST": "203.0.113.1", "PGUSER": "runneradmin", "PGDATABASE": "none",
        "LANG": "xx_YY.UTF-8", "LC_ALL": "xx_YY.UTF-8", "USER": "someone", "PGOPTIONS": "-c timezone=UTC",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    server = Server(durable=False)
    with server:
        pid = server.pid
        assert pid is not None
        folder = server.data.parent
        for local in (False, True):
            with psycopg.connect(server.dsn(local=local)) as session:
                assert session.execute("SHOW data_directory").fetchone() == (str(server.data),)
                assert session.execute("SHOW server_encoding").fetchone() == ("UTF8",)
                assert session.execute("SELECT datcollate FROM pg_database").fetchone() == ("C",)
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        assert not (folder / "password").exists()
        assert "trust" not in "".join(
            line for line in (server.data / "pg_hba.conf").read_text().splitlines() if not line.startswith("#")
        )
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(server.dsn(), password="wrong")
    assert not alive(pid)
    assert not folder.exists()
    assert server.pid is None
    server.stop()


def test_a_given_folder_keeps_the_data_and_is_not_taken_twice(server: Server, tmp_path_factory: object) -> None:
    """A folder of the caller's is not removed, and one that holds data is never initialised over."""
    folder = Path("/tmp") / f"vibey-test-{os.getpid()}-{'x' * 80}"  # noqa: S108
    try:
        with Server(folder, durable=False) as own, psycopg.connect(own.dsn(local=True)):
            assert own.data == folder / "data"
        assert (folder / "data" / "PG_VERSION").exists()
        with pytest.raises(DatabaseFailed, match="is not empty"):
            Server(folder).start()
        assert (folder / "data" / "PG_VERSION").exists()
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)


def test_a_taken_port_is_left_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where someone takes the port meanwhile, the server moves to another one instead of talking to a stranger."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1]]
        really = module.free_port
        monkeypatch.setattr(module, "free_port", lambda: ports.pop() if ports else really())
        with Server(durable=False) as server, psycopg.connect(server.dsn()):
            assert server.port != taken.getsockname()[1]


def test_a_stranger_on_the_port_is_noticed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A login alone proves nothing: the cluster's name has to be the one we gave."""
    with Server(durable=False) as own:
        monkeypatch.setattr(own, "_nonce", "another")
        assert not own._is_ours()


def test_a_server_that_does_not_start_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the server's log and the command are in the error, and nothing is left behind."""
    server = Server(durable=False, settings={"shared_buffers": "nonsense"})
    with pytest.raises(DatabaseFailed, match="starting PostgreSQL failed: the server ended") as caught:
        server.start()
    assert "shared_buffers" in caught.value.message
    assert "postgres -D" in caught.value.hint
    assert not server.data.exists()


def stub(folder: Path, name: str, script: str) -> None:
    """A program of the name that does what the script says."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_an_initdb_that_fails_says_why() -> None:
    """Its output and exit code are in the error."""
    binaries = Path(f"/tmp/vibey-stub-{os.getpid()}")  # noqa: S108
    stub(binaries, "initdb", "echo no room; exit 7")
    try:
        with pytest.raises(DatabaseFailed, match=r"initialising PostgreSQL failed: it ended with 7; .*no room"):
            Server(binaries=binaries).start()
        (binaries / "initdb").unlink()
        with pytest.raises(DatabaseFailed, match="initialising PostgreSQL failed: No such file"):
            Server(binaries=binaries).start()
    finally:
        subprocess.run(["rm", "-rf", str(binaries)], check=True)


def test_the_newest_programs_win_and_old_ones_do_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among several versions the newest supported one is taken; 13 and a folder without initdb are passed over."""
    monkeypatch.setenv("PATH", "/nonexistent")
    for major in (13, 15, 17):
        stub(tmp_path / f"{major}", "postgres", f"echo 'postgres (PostgreSQL) {major}.2'")
        stub(tmp_path / f"{major}", "initdb", "exit 0")
    stub(tmp_path / "18", "postgres", "echo 'postgres (PostgreSQL) 18.0'")
    assert find_binaries(None, (f"{tmp_path}/*",)) == tmp_path / "17"
    (tmp_path / "17" / "initdb").chmod(0o644)
    assert find_binaries(None, (f"{tmp_path}/*",)) == tmp_path / "15"


def test_no_programs_at_all_is_said_with_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without PostgreSQL hears what is missing and two ways to get one."""
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr("vibey_actions.postgres.binaries.EMBEDDED_PACKAGE", "no_such_package")
    with pytest.raises(DatabaseFailed, match="initdb and postgres") as caught:
        find_binaries(None, ("/nonexistent/*",))
    assert "install" in caught.value.hint
    assert "VIBEY_STATE_PG_URL" in caught.value.hint


def test_a_killed_parent_takes_its_server_with_it() -> None:
    """kill -9 of the process that started it: the server stops and its temporary folder goes, without our help."""
    script = (
        "import time\nfrom vibey_actions.postgres.server import Server\n"
        "server = Server(durable=False)\nserver.start()\n"
        "print(server.pid, server.data.parent, flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid, folder = parent.stdout.readline().split()
        assert alive(int(pid))
        parent.send_signal(signal.SIGKILL)
    assert wait_for(lambda: not alive(int(pid)))
    assert wait_for(lambda: not Path(folder).exists())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the server to another user")
def test_root_runs_it_as_another_user(server: Server) -> None:
    """PostgreSQL refuses root: the process and its data belong to an unprivileged user."""
    user = account()
    assert user is not None
    with Server(durable=False) as own:
        assert own.data.stat().st_uid == user.uid != 0
        status = Path(f"/proc/{own.pid}/status").read_text()
        assert f"Uid:\t{user.uid}\t{user.uid}\t{user.uid}\t{user.uid}" in status
        assert f"Gid:\t{user.gid}\t{user.gid}" in status


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the server to another user")
def test_programs_that_the_other_user_cannot_reach_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An embedded package below root's own closed home is brought to where the server's user can run it."""
    package = tmp_path / "site" / "vibey_embedded"
    original = find_binaries(account())
    stub(package, "__init__.py", "")
    programs = package / "pginstall" / "bin"
    stub(programs, "postgres", f'exec {original / "postgres"} "$@"')
    stub(programs, "initdb", f'exec {original / "initdb"} "$@"')
    (tmp_path / "site" / "vibey_embedded.libs").mkdir()
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o700)
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setattr("vibey_actions.postgres.binaries.EMBEDDED_PACKAGE", "vibey_embedded")
    monkeypatch.setenv("PATH", "/nonexistent")
    room = tmp_path / "room"
    assert find_binaries(account(), (), room=room) == room / "vibey_embedded" / "pginstall" / "bin"
    assert (room / "vibey_embedded.libs").is_dir()
    monkeypatch.setattr(find_binaries, "__defaults__", ((),))
    with Server(durable=False) as own, psycopg.connect(own.dsn()):
        assert (own.data.parent / "programs").is_dir()
    assert not own.data.parent.exists()


def test_a_user_without_a_name_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A container may run steps as a bare number, as which initdb does not work: that is said before it fails."""
    monkeypatch.setattr(os, "geteuid", lambda: 12345678)
    with pytest.raises(DatabaseFailed, match="the user 12345678 has none") as caught:
        account()
    assert "useradd --uid 12345678" in caught.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to hand the server to another user")
def test_root_is_told_when_the_other_user_cannot_reach_the_folder(tmp_path: Path) -> None:
    """A folder below a private one of root's is refused with the reason, not with a permission error of initdb's."""
    tmp_path.chmod(0o700)
    with pytest.raises(DatabaseFailed, match="cannot reach") as caught:
        Server(tmp_path / "pg").start()
    assert "every user may enter" in caught.value.hint
