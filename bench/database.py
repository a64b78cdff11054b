"""The server, the databases and the machines that the benchmark runs its commands on."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import psycopg

from bench.measure import Run, measure
from vibey_actions.keys import format_key
from vibey_actions.postgres.binaries import find_binaries
from vibey_actions.postgres.server import Server
from vibey_actions.postgres.unprivileged import account

HERE = Path(__file__).parent
CONFIG = '[migrations]\ndirectory = "migrations"\n\n[tables.event]\nappend-only = true\n'
TABLES = ("project", "event", "job", "work_item", "handoff", "budget_ledger")


class Differs(Exception):
    """A measured command did not do its work."""


class Ground:
    """A PostgreSQL server of our own with its shipped settings, and an empty bare git repository."""

    def __init__(self, scratch: Path, postgres: Server) -> None:
        self.scratch = scratch
        self._postgres = postgres
        self._binaries = find_binaries(account())
        self.checkout = scratch / "checkout"
        (self.checkout / ".github").mkdir(parents=True)
        (self.checkout / ".github" / "vibey-state.toml").write_text(CONFIG, "utf-8")
        shutil.copytree(HERE / "migrations", self.checkout / "migrations")
        self.key = format_key(os.urandom(32))
        self.remote = scratch / "state.git"
        subprocess.run(["git", "init", "--quiet", "--bare", str(self.remote)], check=True)

    def version(self) -> str:
        """The server's version."""
        return str(self.query("postgres", "SHOW server_version"))

    def create(self, name: str) -> None:
        """A new empty database."""
        self.execute("postgres", f"CREATE DATABASE {name} TEMPLATE template0")

    def drop(self, name: str) -> None:
        """Drop a database."""
        self.execute("postgres", f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")

    def execute(self, database: str, statement: str) -> None:
        """Run SQL in a database."""
        with psycopg.connect(self._postgres.dsn(database), autocommit=True) as connection:
            connection.execute(statement.encode())

    def query(self, database: str, statement: str) -> object:
        """The first value that a query gives."""
        with psycopg.connect(self._postgres.dsn(database)) as connection:
            row = connection.execute(statement.encode()).fetchone()
        return row[0] if row else None

    def settle(self) -> None:
        """Have what was written before on disk, so that it is not paid for by the next command."""
        self.execute("postgres", "CHECKPOINT")

    def fill(self, database: str, scale: int) -> None:
        """The event ledger's rows, ``scale`` times."""
        counts = {"events": 200_000, "jobs": 20_000, "others": 15_000}
        text = (HERE / "fill.sql").read_text("utf-8")
        for name, count in counts.items():
            text = text.replace("{" + name + "}", str(count * scale))
        self.execute(database, text)
        self.execute(database, "VACUUM (ANALYZE)")

    def program(self, name: str, *arguments: str, database: str) -> Run:
        """Measure one of PostgreSQL's own programs on a database."""
        self.settle()
        command = [str(self._binaries / name), *arguments, "--dbname", self._postgres.dsn(database)]
        return measure(command, env={"PATH": os.defpath, "LC_ALL": "C"}, cwd=self.scratch)

    def machine(self, database: str) -> Machine:
        """A machine with a home and a cache of its own that syncs ``database``."""
        return Machine(self, database, self._postgres.dsn(database))

    def same(self, one: str, other: str) -> None:
        """Raise Differs where two databases do not hold the same rows."""
        for table in TABLES:
            digest = f"SELECT coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM {table} t"
            if self.query(one, digest) != self.query(other, digest):
                raise Differs(f"the rows of {table} are not the same in {one} and {other}")


class Machine:
    """Runs vibey-actions commands with one database and one home."""

    def __init__(self, ground: Ground, name: str, dsn: str) -> None:
        self._ground = ground
        home = ground.scratch / "homes" / name
        home.mkdir(parents=True)
        self._env: Mapping[str, str] = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "VIBEY_STATE_REMOTE": str(ground.remote),
            "VIBEY_STATE_PG_URL": dsn,
            "VIBEY_STATE_KEY": ground.key,
        }

    def run(self, *arguments: str) -> Run:
        """Measure one command."""
        self._ground.settle()
        program = str(Path(sys.executable).parent / "vibey-actions")
        return measure([program, *arguments], env=self._env, cwd=self._ground.checkout)
