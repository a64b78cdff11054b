"""Migrations in a process of their own: what it is handed, and how what it says comes back."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import psycopg
import pytest

from vibey_actions.actions.migrating import migrate_apart
from vibey_actions.config import Config, Migrations
from vibey_actions.errors import DatabaseFailed, MigrationFailed
from vibey_actions.postgres.migrator import BASICS

SECRETS = {
    "VIBEY_STATE_KEY": "the-key",
    "GH_TOKEN": "the-token",
    "DATABASE_URL": "postgresql://x",
    "PATH": "/usr/bin:/bin",
}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    """Two migrations."""
    for name, sql in (("1", "CREATE TABLE a (id int PRIMARY KEY)"), ("2", "CREATE TABLE b (id int PRIMARY KEY)")):
        (tmp_path / f"{name}.sql").write_text(sql)
    return Config(migrations=Migrations(directory=tmp_path))


def tables(dsn: str) -> list[str]:
    with psycopg.connect(dsn) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY 1").fetchall()
    return [name for (name,) in found]


def test_only_what_is_asked_for(dsn: str, config: Config) -> None:
    """The database comes to just these migrations, and on from there."""
    notices: list[str] = []
    migrate_apart(dsn, config, ["1"], env=SECRETS, notice=notices.append)
    assert tables(dsn) == ["a", "schema_migration", "state_sync"]
    migrate_apart(dsn, config, ["1", "2"], env=SECRETS, notice=notices.append)
    assert tables(dsn) == ["a", "b", "schema_migration", "state_sync"]


def test_what_the_process_is_handed(dsn: str, config: Config, monkeypatch: pytest.MonkeyPatch) -> None:
    """No key, no token and no job's variable is in its environment, and its arguments hold nothing at all."""
    seen: list[tuple[Any, Any]] = []
    run = subprocess.run

    def watched(command: Any, **options: Any) -> Any:
        seen.append((command, options))
        return run(command, **options)

    monkeypatch.setattr(subprocess, "run", watched)
    migrate_apart(dsn, config, ["1"], env=SECRETS, notice=lambda _: None)
    ((command, options),) = seen
    assert set(options["env"]) <= set(BASICS)
    assert not any(secret in str(options) for secret in ("the-key", "the-token"))
    assert command[1:] == ["-I", "-X", "utf8", "-m", "vibey_actions.actions.migrating"]


def test_failures_come_back(dsn: str, config: Config, tmp_path: Path) -> None:
    """An error of the other process is the same error here, with its message and its hint."""
    with pytest.raises(MigrationFailed, match="no file for the migration 3"):
        migrate_apart(dsn, config, ["1", "3"], env=SECRETS, notice=lambda _: None)
    (tmp_path / "2.sql").write_text("CREATE TABLE a (id int)")
    with pytest.raises(MigrationFailed, match="migration 2 failed") as caught:
        migrate_apart(dsn, config, ["1", "2"], env=SECRETS, notice=lambda _: None)
    assert "correct the file" in caught.value.hint
    with pytest.raises(DatabaseFailed):
        migrate_apart("host=127.0.0.1 port=1", config, ["1"], env=SECRETS, notice=lambda _: None)


def test_notices_come_back(dsn: str, config: Config) -> None:
    """What is worth knowing is handed on."""
    migrate_apart(dsn, config, ["1"], env=SECRETS, notice=lambda _: None)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("INSERT INTO schema_migration (version) VALUES ('0')")
    notices: list[str] = []
    migrate_apart(dsn, config, ["1"], env=SECRETS, notice=notices.append)
    assert any("without a file" in text for text in notices)


@pytest.mark.parametrize("out", [b"", b"no json", json.dumps({"notices": []}).encode()[:-1]])
def test_a_process_that_dies(config: Config, monkeypatch: pytest.MonkeyPatch, out: bytes) -> None:
    """One that ends without an answer is a failed migration, with its last words, never a success."""
    done = subprocess.CompletedProcess([], -9, out, b"Killed\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(MigrationFailed, match="Killed"):
        migrate_apart("host=x", config, ["1"], env=SECRETS, notice=lambda _: None)
