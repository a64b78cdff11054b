"""One end of a sync in the test's own process: a database, the engine on it, and what both of them said."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg
import pytest

from vibey_actions.config import Config, Migrations
from vibey_actions.errors import VibeyError
from vibey_actions.keys import format_key
from vibey_actions.operations import Operations
from vibey_actions.settings import Settings
from vibey_actions.state.progress import Silent
from vibey_actions.state.report import Report


def bare_repository(folder: Path) -> Path:
    """An empty bare git repository under ``folder``."""
    path = folder / "state.git"
    subprocess.run(["git", "init", "--quiet", "--bare", str(path)], check=True)
    return path


@dataclass
class End:
    """A database with a home of its own. ``notices`` collects what the engine said."""

    dsn: str
    env: dict[str, str]
    config: Config = field(default_factory=Config)
    notices: list[str] = field(default_factory=list)

    @property
    def operations(self) -> Operations:
        """The engine, as a new process would start it."""
        settings = Settings.from_env(self.env, Path(self.env["HOME"]))
        return Operations(settings, self.config, self.env, Silent(), self.notices.append)

    def sync(self, **options: Any) -> Report:
        """One sync."""
        return self.operations.sync(**options)

    def refused(self, kind: type[VibeyError], **options: Any) -> VibeyError:
        """The error of a sync that has to fail with ``kind`` and to leave this database as it was."""
        before = self.everything()
        with pytest.raises(kind) as caught:
            self.sync(**options)
        assert type(caught.value) is kind, caught.value.message
        assert self.everything() == before
        return caught.value

    def run(self, *statements: str) -> None:
        """Run SQL, each statement committed on its own."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def value(self, query: str) -> Any:
        """The first value that a query gives."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            row = connection.execute(query.encode()).fetchone()
        return row and row[0]

    def rows(self, table: str) -> list[str]:
        """The rows of a table (its quoted name) as text, sorted."""
        query = f"SELECT coalesce(array_agg((t.*)::text ORDER BY (t.*)::text), '{{}}') FROM {table} t"
        return list(self.value(query))

    def everything(self) -> dict[str, list[str]]:
        """Every row of every table of schema public but the sync's own."""
        tables = self.value(
            "SELECT coalesce(array_agg(oid::regclass::text), '{}') FROM pg_class"
            " WHERE relnamespace = 'public'::regnamespace"
            " AND relkind = 'r' AND relname NOT IN ('state_sync', 'schema_migration')"
        )
        return {table: self.rows(table) for table in tables}

    def forget_agreements(self) -> None:
        """Have the next sync compare every row."""
        self.run("DELETE FROM vibey_actions.agreement")


@dataclass
class Ends:
    """A factory of ends that share a branch and a key."""

    folder: Path
    database: Callable[[], str]
    key: str = field(default_factory=lambda: format_key(secrets.token_bytes(32)))

    def __post_init__(self) -> None:
        self.repository = bare_repository(self.folder)
        self.made = 0

    def make(
        self,
        *schema: str,
        config: Config | None = None,
        migrations: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> End:
        """An end whose database holds the tables that ``schema`` makes, or those of a folder of ``migrations``."""
        self.made += 1
        home = self.folder / f"end{self.made}"
        home.mkdir()
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "VIBEY_STATE_KEY": self.key,
            "VIBEY_STATE_REMOTE": str(self.repository),
            "VIBEY_STATE_PG_URL": self.database(),
            **(settings or {}),
        }
        if migrations is not None:
            config = Config(migrations=Migrations(directory=migrations))
        end = End(env["VIBEY_STATE_PG_URL"], env, config or Config())
        end.run(*schema)
        end.operations.migrate()
        return end

    def pair(self, *schema: str, **options: Any) -> tuple[End, End]:
        """Two ends with the same tables."""
        return self.make(*schema, **options), self.make(*schema, **options)

    def commits(self) -> int:
        """How many commits the branch has."""
        return int(self.git("rev-list", "--count", "vibey-state"))

    def git(self, *arguments: str) -> str:
        """Run git in the repository with the branch."""
        command = ["git", "-C", str(self.repository), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


T = TypeVar("T", bound=tuple[Any, ...])


def known_to(ends: Ends, cases: Mapping[str, T]) -> dict[str, T]:
    """The cases that the server knows, each of which begins with the columns and constraints of a table."""
    with psycopg.connect(ends.database()) as connection:
        old = connection.info.server_version < 150000
    return {name: case for name, case in cases.items() if not (old and "NULLS NOT DISTINCT" in case[0])}
