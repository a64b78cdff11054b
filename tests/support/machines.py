"""A machine in this process: a database, a cache folder and the settings, and what a test asks about them."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from vibey_actions.config import Config, parse_config
from vibey_actions.operations import Operations
from vibey_actions.postgres.sql import identifier
from vibey_actions.settings import Settings
from vibey_actions.state.progress import Silent
from vibey_actions.state.report import Report
from vibey_actions.state.seal import open_sealed

BRANCH = "vibey-state"
PATH = "state.vibey"
OWN_TABLES = ("state_sync", "schema_migration")

Rows = dict[str, list[str]]


@dataclass
class Branch:
    """The state branch in a bare repository, looked at with git alone. ``settings`` lead a machine to it."""

    repository: Path
    key: bytes = field(repr=False)
    settings: Mapping[str, str]

    def git(self, *arguments: str, stdin: bytes = b"") -> bytes:
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        env |= {f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = ["git", "--git-dir", str(self.repository), *arguments]
        return subprocess.run(command, check=True, input=stdin, capture_output=True, env=env).stdout

    @property
    def head(self) -> str | None:
        loose = self.repository / "refs" / "heads" / BRANCH
        if loose.exists():
            return loose.read_text().strip()
        listed = self.git("for-each-ref", "--format=%(objectname)", f"refs/heads/{BRANCH}").decode().split()
        return listed[0] if listed else None

    def document(self, folder: Path, commit: str | None = None) -> bytes:
        """The plain document at ``commit`` (default: the head), nothing where there is no branch. Has to open."""
        commit = commit or self.head
        if commit is None:
            return b""
        sealed = folder / "looked-at.vibey"
        sealed.write_bytes(self.git("cat-file", "blob", f"{commit}:{PATH}"))
        return b"".join(open_sealed(sealed, self.key))

    def put(self, files: Mapping[str, bytes], parent: str | None = None) -> str:
        """Commit exactly ``files`` by hand, on the head unless ``parent`` says otherwise."""
        lines = []
        for name, content in files.items():
            blob = self.git("hash-object", "-w", "--stdin", stdin=content).decode().strip()
            lines.append(f"100644 blob {blob}\t{name}\n")
        tree = self.git("mktree", stdin="".join(lines).encode()).decode().strip()
        parent = parent or self.head
        commit = self.git("commit-tree", tree, *(["-p", parent] if parent else []), "-m", "by hand").decode().strip()
        self.git("update-ref", f"refs/heads/{BRANCH}", commit)
        return commit


@dataclass
class Machine:
    """``folder`` holds its home and cache. ``said`` collects every notice of its operations."""

    dsn: str
    folder: Path
    branch: Branch
    config: Config = field(default_factory=Config)
    env: dict[str, str] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, dsn: str, folder: Path, branch: Branch, key_text: str, config: str = "") -> Machine:
        (folder / "home").mkdir(parents=True)
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder / "home"),
            "XDG_CACHE_HOME": str(folder / "cache"),
            "VIBEY_STATE_KEY": key_text,
            "VIBEY_STATE_PG_URL": dsn,
            **branch.settings,
        }
        return cls(dsn, folder, branch, parse_config(config, "vibey-state.toml", folder), env)

    @property
    def cache(self) -> Path:
        return self.folder / "cache"

    @property
    def operations(self) -> Operations:
        settings = Settings.from_env(self.env, self.folder)
        return Operations(settings, self.config, self.env, Silent(), self.said.append)

    def sync(self, *, push: bool = True) -> Report:
        return self.operations.sync(push=push)

    def execute(self, sql: str) -> list[tuple[object, ...]]:
        """Run SQL by hand; returns the rows of a query."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def rows(self, *, versions: bool = False, own: bool = False) -> Rows:
        """The rows of every table of public as text; ``versions`` adds who wrote them, ``own`` our own tables'."""
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            found: Rows = {}
            for schema, name in self._tables(connection):
                if not own and (schema != "public" or name in OWN_TABLES):
                    continue
                table = f"{identifier(schema)}.{identifier(name)}"
                columns = "r::text || r.xmin::text || r.ctid::text" if versions else "r::text"
                query = f"SELECT {columns} FROM {table} r ORDER BY 1".encode()
                found[f"{schema}.{name}"] = [text for (text,) in connection.execute(query)]
            return found

    @staticmethod
    def _tables(connection: psycopg.Connection) -> list[tuple[str, str]]:
        return connection.execute(
            "SELECT n.nspname, c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE n.nspname IN ('public', 'vibey_actions') AND c.relkind = 'r' ORDER BY c.oid"
        ).fetchall()

    @property
    def base(self) -> str | None:
        if self.execute("SELECT to_regclass('public.state_sync')") == [(None,)]:
            return None
        found = self.execute("SELECT base_commit FROM state_sync")
        return str(found[0][0]) if found else None

    def settle(self) -> None:
        """Wait until the server has noticed that a killed process is gone."""
        deadline = time.monotonic() + 120
        with psycopg.connect(self.dsn, autocommit=True) as connection:
            while connection.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'vibey-actions%'"
                " AND (datname = current_database() OR datname LIKE 'vibey_scratch%')"
            ).fetchone() != (0,):
                assert time.monotonic() < deadline, "a session of a killed process goes on"
                time.sleep(0.01)

    def leftovers(self) -> list[str]:
        """Files in the cache folder that are neither sealed files with their facts nor marks."""
        kept = (path for path in self.cache.rglob("*") if path.is_file() and path.parent.name != "checked")
        return sorted(str(path.relative_to(self.cache)) for path in kept if path.name.startswith("."))


@dataclass
class Saved:
    """A machine and its branch as they were, to be put back. Tables that were made since are dropped."""

    machine: Machine
    tables: dict[tuple[str, str], bytes]
    sequences: list[tuple[object, ...]]
    folder: Path

    @classmethod
    def of(cls, machine: Machine, folder: Path) -> Saved:
        tables: dict[tuple[str, str], bytes] = {}
        with psycopg.connect(machine.dsn, autocommit=True) as connection:
            for schema, name in machine._tables(connection):
                with connection.cursor().copy(
                    f"COPY {identifier(schema)}.{identifier(name)} TO STDOUT".encode()
                ) as copy:
                    tables[schema, name] = b"".join(bytes(part) for part in copy)
        sequences = machine.execute("SELECT schemaname, sequencename, last_value FROM pg_sequences")
        shutil.copytree(machine.folder, folder / "machine", symlinks=True)
        shutil.copytree(machine.branch.repository, folder / "repository", symlinks=True)
        return cls(machine, tables, sequences, folder)

    def restore(self) -> None:
        with psycopg.connect(self.machine.dsn) as connection:
            for schema, name in self.machine._tables(connection):
                table = f"{identifier(schema)}.{identifier(name)}"
                action = f"TRUNCATE {table} CASCADE" if (schema, name) in self.tables else f"DROP TABLE {table} CASCADE"
                connection.execute(action.encode())
            for (schema, name), data in self.tables.items():
                with connection.cursor().copy(
                    f"COPY {identifier(schema)}.{identifier(name)} FROM STDIN".encode()
                ) as copy:
                    copy.write(data)
            for namespace, sequence, value in self.sequences:
                connection.execute(
                    "SELECT setval(format('%%I.%%I', %s::text, %s::text)::regclass, %s, %s)",
                    (namespace, sequence, value or 1, value is not None),
                )
        for source, target in (("machine", self.machine.folder), ("repository", self.machine.branch.repository)):
            shutil.rmtree(target)
            shutil.copytree(self.folder / source, target, symlinks=True)


def until(condition: Callable[[], bool], seconds: float = 120) -> None:
    """Wait for ``condition``, as long as a machine may need that is busy with much else."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)
