"""Jobs that export, and writers that bring the exports back: one repository on the local GitHub and all around it."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.support.documents import document, export, seal
from tests.support.github_server import GitHubServer
from tests.support.github_server.artifacts import Stored
from vibey_actions.actions.exports import export_name
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.step import run_step
from vibey_actions.keys import format_key, parse_key
from vibey_actions.rows.canonical import decode
from vibey_actions.state.declaration import Table
from vibey_actions.state.document import DocumentReader
from vibey_actions.state.seal import open_sealed
from vibey_actions.state.shapes import sha256_of, write_shapes

REPOSITORY = "example/app"
BRANCH = "vibey-state"
DIRECTORY = '[migrations]\ndirectory = "db/migrations"\n'
TABLES = "CREATE TABLE customer (id int PRIMARY KEY, name text NOT NULL UNIQUE)"
SHAPES = {"customer": Table("customer", ("id",), ("id", "name"))}
Rows = Mapping[str, Sequence[Mapping[str, Any]]]


def customers(**names: str) -> Rows:
    """Customers by their number: ``customers(c1="ann")``."""
    return {"customer": [{"id": int(number[1:]), "name": name} for number, name in names.items()]}


@dataclass
class Written:
    """How a write ended: exit code, outputs, everything in its log, and its summary."""

    code: int
    outputs: dict[str, str]
    log: str
    summary: str

    @property
    def marks(self) -> list[str]:
        return [value for name, value in self.outputs.items() if re.fullmatch(r"mark-\d", name)]


@dataclass
class Writes:
    """The configuration and the migrations are those that were committed last; ``schema`` is what jobs are at."""

    github: GitHubServer
    folder: Path
    schema: Sequence[str] = ()
    key: str = field(default_factory=lambda: format_key(secrets.token_bytes(32)))
    made: int = 0

    def __post_init__(self) -> None:
        self.repository = self.github.add_repository(REPOSITORY)
        self.workspace = self.folder / "workspace"
        self.workspace.mkdir()
        self.git("init", "--quiet", "--initial-branch", "main")
        self.private = True

    def git(self, *arguments: str) -> str:
        who = {f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **who}
        command = ["git", "-C", str(self.workspace), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.strip()

    def commit(self, config: str, migrations: Mapping[str, str] | None = None) -> None:
        """The repository's configuration and migrations from now on."""
        files = {".github/vibey-state.toml": config}
        files |= {f"db/migrations/{name}.sql": sql for name, sql in (migrations or {}).items()}
        for name, text in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "files")

    # Jobs and others' syncs, without their databases

    def put(self, rows: Rows, schema: Sequence[str] = ()) -> str:
        """Somebody else's sync: the branch holds exactly these rows from now on. Returns its head."""
        sealed = seal(document(rows, schema or self.schema), parse_key(self.key))
        return self.repository.commit_files(BRANCH, {"state.vibey": sealed})

    def export(
        self,
        rows: Rows,
        *,
        base: str | None = None,
        run: int = 7,
        attempt: int = 1,
        age: timedelta = timedelta(),
        schema: Sequence[str] = (),
        key: str = "",
        without: Sequence[str] = (),
        **facts: Any,
    ) -> Stored:
        """The artifact that a job leaves, which opened ``base`` (default: the head) and came to ``rows``."""
        self.made += 1
        folder = self.folder / f"export{self.made}"
        folder.mkdir()
        file, shapes, sealing = folder / "state.export", folder / "state.shapes", parse_key(key or self.key)
        text = export(document(rows, schema or self.schema), base or self.head, f"{REPOSITORY}:{BRANCH}")
        file.write_bytes(seal(text, sealing))
        write_shapes(shapes, file, SHAPES, sealing)
        name = export_name("vibey-state", run_id=str(run), attempt=str(attempt), job="work", sha256=sha256_of(file))
        files = {path.name: path.read_bytes() for path in (file, shapes) if path.name not in without}
        return self.github.artifacts.put(run, name, files, attempt=attempt, age=age, **facts)

    # Writers

    def env(self, run: int, temp: Path, inputs: Mapping[str, str]) -> dict[str, str]:
        """The environment of the step in the write workflow of a run."""
        (temp / "event.json").write_text(
            json.dumps({"repository": {"full_name": REPOSITORY, "private": self.private}}), "utf-8"
        )
        given = {"key": self.key, "token": self.github.token, **inputs}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(temp),
            "LANG": "C.UTF-8",
            "GITHUB_ACTIONS": "true",
            "GITHUB_API_URL": self.github.url,
            "GITHUB_EVENT_NAME": "push",
            "GITHUB_EVENT_PATH": str(temp / "event.json"),
            "GITHUB_JOB": "write",
            "GITHUB_OUTPUT": str(temp / "outputs"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_RUN_ID": str(run),
            "GITHUB_SHA": self.git("rev-parse", "HEAD"),
            "GITHUB_STEP_SUMMARY": str(temp / "summary"),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(temp),
            **{f"VIBEY_INPUT_{name.upper().replace('-', '_')}": value for name, value in given.items()},
        }

    def write(
        self, run: int = 7, *, marking: bool = True, env: Mapping[str, str] | None = None, **inputs: str
    ) -> Written:
        """The step write-back of a run, in this process; then, unless it dies before, the steps that upload marks."""
        temp = self._temp()
        log: list[str] = []
        named = {name.replace("_", "-"): value for name, value in inputs.items()}
        code = run_step("write-back", Runner(self.env(run, temp, named) | dict(env or {}), log.append))
        written = Written(code, *self._left(temp, "".join(log)))
        leftovers = [
            path for path in (temp / "vibey-actions").rglob("*") if path.is_file() and path.name != "taken.txt"
        ]
        assert not leftovers, "sealed files are left behind"
        if marking:
            self._mark(run, temp, written)
        return written

    def start(self, run: int = 7, **inputs: str) -> Writer:
        """The same as a process of its own, which can be killed."""
        temp = self._temp()
        named = {name.replace("_", "-"): value for name, value in inputs.items()}
        return Writer(self, run, temp, self.env(run, temp, named))

    def _temp(self) -> Path:
        self.made += 1
        temp = self.folder / f"temp{self.made}"
        temp.mkdir()
        return temp

    def _left(self, temp: Path, log: str) -> tuple[dict[str, str], str, str]:
        texts = [(temp / name).read_text("utf-8") if (temp / name).exists() else "" for name in ("outputs", "summary")]
        found = dict(re.findall(r"^(\S+)<<(?:vibey_\w+)\n(.*?)\nvibey_\w+$", texts[0], re.M | re.S))
        return found, log, texts[1]

    def _mark(self, run: int, temp: Path, written: Written) -> None:
        for mark in written.marks:
            content = Path(written.outputs["mark-file"]).read_bytes()
            self.github.artifacts.put(run, mark, {"taken.txt": content}, days=90)

    # The branch

    @property
    def head(self) -> str | None:
        return self.repository.ref(BRANCH)

    @property
    def rows(self) -> dict[str, list[Any]]:
        """Every row of the branch's head."""
        assert self.head
        path = self.folder / "looked-at"
        path.write_bytes(self.repository.read(self.head, "state.vibey"))
        document = DocumentReader(open_sealed(path, parse_key(self.key)), key_of=lambda _: None)
        return {name: [decode(row) for batch in found for row in batch.rows] for name, found in document.tables()}

    def names(self) -> list[str]:
        """The customers on the branch."""
        return [row["name"] for row in self.rows.get("customer", [])]


@dataclass
class Writer:
    """A write-back that runs as a process of its own."""

    writes: Writes
    run: int
    temp: Path
    env: dict[str, str]

    def __post_init__(self) -> None:
        self.log = self.temp / "log"
        with self.log.open("wb") as log:
            command = [sys.executable, "-m", "vibey_actions", "action", "write-back"]
            self.process = subprocess.Popen(
                command, env=self.env, cwd=self.writes.workspace, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def end(self, number: signal.Signals) -> None:
        """End it with a signal, and wait until its PostgreSQL is gone with it."""
        servers = self._servers()
        self.process.send_signal(number)
        self.process.wait(120)
        deadline = time.monotonic() + 120
        while any(Path(f"/proc/{pid}").exists() for pid in servers):
            assert time.monotonic() < deadline, "a PostgreSQL of the writer goes on"
            time.sleep(0.05)

    def _servers(self) -> list[str]:
        command = ["ps", "--ppid", str(self.process.pid), "-o", "pid=,args="]
        listed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        return [line.split()[0] for line in listed.splitlines() if "postgres -D" in line]

    def wait(self, *, marking: bool = True) -> Written:
        """Wait for its end; then its marks are uploaded."""
        code = self.process.wait(240)
        written = Written(code, *self.writes._left(self.temp, self.log.read_text("utf-8")))
        if marking:
            self.writes._mark(self.run, self.temp, written)
        return written
