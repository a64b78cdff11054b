"""One machine of the demonstration: a database, a checkout with its configuration, a key of its own to find."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psycopg

from demo import stage
from demo.stage import Untrue

HERE = Path(__file__).parent


class Machine:
    """A machine called ``name`` with its own home under ``scratch``, using the database ``dsn``."""

    def __init__(self, name: str, scratch: Path, dsn: str) -> None:
        self.name = name
        self.dsn = dsn
        self.checkout = scratch / name / "shop"
        self.home = scratch / name / "home"
        self.key_file = self.home / ".config" / "vibey" / "state.key"
        self.home.mkdir(parents=True)
        shutil.copytree(HERE / "migrations", self.checkout / "db" / "migrations")
        (self.checkout / ".github").mkdir()
        shutil.copy(HERE / "vibey-state.toml", self.checkout / ".github" / "vibey-state.toml")
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "VIBEY_STATE_REMOTE": str(scratch / "state.git"),
            "VIBEY_STATE_PG_URL": dsn,
        }

    def setting(self, name: str, value: str) -> None:
        """Set an environment variable of this machine for good."""
        self._environment[name] = value

    def run(
        self,
        *command: str,
        expect: int = 0,
        settings: Mapping[str, str] | None = None,
        show: bool = True,
        show_output: bool = True,
    ) -> str:
        """Run ``vibey-actions COMMAND`` here and show it with all it prints; returns that.

        Raises Untrue where it does not exit with ``expect``. Without ``show`` nothing is shown, without
        ``show_output`` only that something was printed.
        """
        settings = settings or {}
        if show:
            shown = [f"{name}={value}" for name, value in settings.items() if name != "VIBEY_STATE_KEY"]
            shown += ["VIBEY_STATE_KEY=..."] if "VIBEY_STATE_KEY" in settings else []
            stage.show_command(self.name, shown, ["vibey-actions", *command])
        done = subprocess.run(
            [_program(), *command],
            cwd=self.checkout,
            env={**self._environment, **settings},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        if show:
            stage.show_output(done.stdout if show_output else "(43 characters, which we do not show)")
        if done.returncode != expect:
            raise Untrue(f"`vibey-actions {' '.join(command)}` exits with {expect}, not {done.returncode}")
        return done.stdout

    def sql(self, statement: str, *, show: bool = True) -> None:
        """Execute a statement in this machine's database, as an application would."""
        if show:
            stage.show_sql(self.name, statement)
        with psycopg.connect(self.dsn) as connection:
            connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query gives."""
        with psycopg.connect(self.dsn) as connection:
            return connection.execute(query.encode()).fetchall()

    def contents(self) -> dict[str, list[str]]:
        """Every row of every table as text, sorted: what must be the same at both ends."""
        tables = ("product", "customer", '"order"', "order_line", "ledger")
        return {name: [row[0] for row in self.rows(f"SELECT t::text FROM {name} t ORDER BY 1")] for name in tables}

    def watermark(self) -> list[tuple[Any, ...]]:
        """The commit this database last agreed with, and when that was recorded."""
        return self.rows("SELECT remote, base_commit, synced_at FROM state_sync")


def _program() -> str:
    beside = Path(sys.executable).parent / "vibey-actions"
    found = str(beside) if beside.exists() else shutil.which("vibey-actions")
    if found is None:
        raise Untrue("the command vibey-actions is installed")
    return found
