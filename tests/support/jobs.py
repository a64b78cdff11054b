"""A GitHub Actions job without a runner: its folders, its event, its files, and the action's steps run in it.

For what a single step does; whole workflows are executed elsewhere. The branch is in a bare repository of this machine.
"""

from __future__ import annotations

import io
import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.ends import bare_repository
from vibey_actions.actions.runner import Runner
from vibey_actions.actions.step import run_step
from vibey_actions.keys import format_key

CONFIG = ".github/vibey-state.toml"
MIGRATION = "CREATE TABLE customer (id integer PRIMARY KEY, name text NOT NULL, serial bigserial);"


def git(folder: Path, *arguments: str) -> str:
    """Run git in ``folder`` with nothing of the user's settings; returns what it printed."""
    who = {f"GIT_{role}_{what}": "x@example.com" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **who}
    command = ["git", "-C", str(folder), "-c", "init.defaultBranch=main", *arguments]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout.strip()


@dataclass
class Done:
    """How a step ended, and all that it said and wrote."""

    code: int
    log: str
    outputs: dict[str, str]
    variables: dict[str, str]
    summary: str

    @property
    def everything(self) -> str:
        """What anybody can read: the log without the lines that mask, outputs, summary."""
        log = "\n".join(line for line in self.log.splitlines() if not line.startswith("::add-mask::"))
        return "\n".join([log, *self.outputs.values(), self.summary])


@dataclass
class Job:
    """One job: ``folder`` holds its workspace, temporary folder and home."""

    folder: Path
    repository: Path
    key: str = field(default_factory=lambda: format_key(secrets.token_bytes(32)))
    name: str = "build"
    event_name: str = "push"
    payload: dict[str, Any] = field(default_factory=lambda: {"repository": {"private": True}})
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("workspace", "temp", "home"):
            (self.folder / name).mkdir(parents=True)
        git(self.workspace, "init", "-q")
        self.commit({"README": "an adopter's repository\n"})

    @classmethod
    def make(cls, folder: Path, *, config: str = "", migration: str = MIGRATION, **more: Any) -> Job:
        """A job with a branch of its own and one migration."""
        folder.mkdir(parents=True, exist_ok=True)
        job = cls(folder / "job", more.pop("repository", None) or bare_repository(folder), **more)
        declared = config or '[migrations]\ndirectory = "db"\n'
        job.commit({CONFIG: declared, "db/0001_first.sql": migration})
        return job

    def again(self, name: str) -> Job:
        """Another job on the same branch, with the same files and key."""
        job = Job(self.folder.parent / name, self.repository, self.key, name)
        job.commit({path: (self.workspace / path).read_text() for path in git(self.workspace, "ls-files").split("\n")})
        job.payload = self.payload
        return job

    @property
    def workspace(self) -> Path:
        return self.folder / "workspace"

    @property
    def temp(self) -> Path:
        return self.folder / "temp"

    @property
    def place(self) -> Path:
        """The action's folder of this job."""
        return self.temp / "vibey-actions" / f"{self.name}-77-1"

    def commit(self, files: Mapping[str, str]) -> str:
        """Commit ``files`` in the workspace; the run is of that commit from here on."""
        for name, text in files.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        git(self.workspace, "add", "-A")
        git(self.workspace, "commit", "-q", "--allow-empty", "-m", "files")
        self.sha = git(self.workspace, "rev-parse", "HEAD")
        return self.sha

    def environment(self, inputs: Mapping[str, str]) -> dict[str, str]:
        """What the runner gives a step with ``inputs``, and fresh files for what the step writes."""
        files = {}
        for name in ("OUTPUT", "ENV", "STEP_SUMMARY"):
            path = self.folder / f"{name}.txt"
            path.write_text("")
            files[f"GITHUB_{name}"] = str(path)
        event = self.folder / "event.json"
        event.write_text(json.dumps(self.payload))
        given = {f"VIBEY_INPUT_{name.upper().replace('-', '_')}": value for name, value in inputs.items()}
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder / "home"),
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": self.event_name,
            "GITHUB_EVENT_PATH": str(event),
            "GITHUB_REPOSITORY": "example/app",
            "GITHUB_SHA": self.sha,
            "GITHUB_JOB": self.name,
            "GITHUB_RUN_ID": "77",
            "GITHUB_RUN_ATTEMPT": "1",
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temp),
            # Nobody answers there: a test that asks GitHub brings a server.
            "GITHUB_API_URL": "http://127.0.0.1:9",
            "VIBEY_STATE_REMOTE": str(self.repository),
            **files,
            **given,
            **self.env,
        }

    def step(self, name: str, **inputs: str) -> Done:
        """Run a step in this process, with the key unless ``inputs`` say otherwise."""
        env, log = self.environment(self._given(inputs)), io.StringIO()
        code = run_step(name, Runner(env, lambda text: _put(log, text)))
        return self.read(env, code, log.getvalue())

    def process(self, name: str, **inputs: str) -> Done:
        """The same in a process of its own, as action.yml starts it."""
        env = self.environment(self._given(inputs))
        command = [sys.executable, "-I", "-X", "utf8", "-m", "vibey_actions", "action", name]
        done = subprocess.run(
            command,
            env=env,
            cwd=self.workspace,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        return self.read(env, done.returncode, done.stdout)

    def _given(self, inputs: Mapping[str, str]) -> dict[str, str]:
        return {"key": self.key, **{name.replace("_", "-"): value for name, value in inputs.items()}}

    @staticmethod
    def read(env: Mapping[str, str], code: int, log: str) -> Done:
        """What the step left in the runner's files."""
        outputs, variables = (entries(Path(env[name]).read_text()) for name in ("GITHUB_OUTPUT", "GITHUB_ENV"))
        return Done(code, log, outputs, variables, Path(env["GITHUB_STEP_SUMMARY"]).read_text())


def _put(log: io.StringIO, text: str) -> None:
    log.write(text)


def entries(text: str) -> dict[str, str]:
    """A runner's file as GitHub reads it."""
    found = re.findall(r"^([^\n=<]+)<<(\S+)\n(.*?)\n\2\n", text, re.M | re.S)
    assert re.sub(r"^([^\n=<]+)<<(\S+)\n(.*?)\n\2\n", "", text, flags=re.M | re.S) == ""
    return {name: value for name, _, value in found}
