"""A machine without PostgreSQL: a package is installed for the job, or what is missing is said with its cure."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from vibey_actions.actions import cluster
from vibey_actions.actions.runner import Runner
from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres.detached import Detached
from vibey_actions.postgres.unprivileged import Account


def nothing_found(*_: object, **__: object) -> Path:
    raise DatabaseFailed("no PostgreSQL server programs")


def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bootstrap: str | None) -> DatabaseFailed:
    """Why no server starts on a machine without PostgreSQL whose action's bootstrap.py is this text."""
    monkeypatch.setattr(cluster, "find_binaries", nothing_found)
    monkeypatch.setattr("vibey_actions.postgres.server.find_binaries", nothing_found)
    env = {"PATH": "/bin:/usr/bin", "VIBEY_INPUT_KEY": "the-key"}
    if bootstrap is not None:
        (tmp_path / "action").mkdir()
        (tmp_path / "action" / "bootstrap.py").write_text(bootstrap)
        env["VIBEY_ACTION_ROOT"] = str(tmp_path)
    folder = cluster.new_folder(tmp_path)
    try:
        with pytest.raises(DatabaseFailed) as caught:
            cluster.start(Runner(env, lambda _: None), folder, lambda _: None)
    finally:
        Detached(folder).end()
    return caught.value


@pytest.mark.parametrize(
    ("bootstrap", "words"),
    [(None, "none could be installed"), ("import sys; sys.exit('no index')", "could be installed: no index")],
)
def test_no_postgresql_at_all_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bootstrap: str | None, words: str
) -> None:
    """Where not even the package can be had, the error says why."""
    error = start(tmp_path, monkeypatch, bootstrap)
    assert words in error.message
    assert "install PostgreSQL" in error.hint


def test_the_install_sees_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process that installs PostgreSQL is given neither key nor token."""
    error = start(tmp_path, monkeypatch, "import os, sys; sys.exit(' '.join(os.environ.values()))")
    assert "the-key" not in error.message


def test_a_server_goes_where_its_user_can_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A RUNNER_TEMP that is closed to the server's user (root's own) is passed over for a private folder in /tmp."""
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    monkeypatch.setattr(cluster, "account", lambda: Account("another", 54321, 54321))
    folder = cluster.new_folder(closed)
    try:
        assert folder.parent == Path("/tmp")  # noqa: S108
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    finally:
        folder.rmdir()
    monkeypatch.setattr(cluster, "account", lambda: None)
    assert cluster.new_folder(closed).parent == closed
