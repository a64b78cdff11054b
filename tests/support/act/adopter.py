"""An adopter's repository, and runs of its workflows."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.act import render
from tests.support.act.machine import SYSTEM, install, pip_settings, python_folder
from tests.support.act.outcome import Outcome
from tests.support.github_server import GitHubServer, Repository
from tests.support.github_server.permissions import JobToken

ACT = Path(sys.executable).parent / "act"
UPLOAD = "actions/upload-artifact@bbbca2ddaa5d8feaa63e36b76fdaad77386f024f"
SETUP_PYTHON = "actions/setup-python@ece7cb06caefa5fff74198d8649806c4678c61a1"
LABELS = ("ubuntu-24.04", "ubuntu-latest", "macos-15")
PATIENCE = 240


@dataclass
class Act:
    """What all runs share: a folder, the local GitHub, this repository's copy, the store of artifacts.

    ``shared`` is a folder for what several of these may share. ``installed`` ones have the action's environment in
    every job's RUNNER_TEMP from the start; the others leave that to the action.
    """

    folder: Path
    github: GitHubServer
    shared: Path
    installed: bool = True

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.store = self.github.artifacts.folder
        self.seed = self.shared / "seed" if self.installed else None
        self.tool = render.tool(self.folder / "tool", self.seed)
        if self.seed is not None:
            install(self.tool, self.shared, self.seed)
        self.python = python_folder(self.shared)
        self.pip = pip_settings()
        self.upload = self._upload()
        self._lock = threading.Lock()
        self._own = secrets.token_hex(8)
        self._last = 1000

    def _upload(self) -> Path:
        folder = self.folder / "upload-artifact"
        shutil.copytree(Path(__file__).parent / "upload_artifact", folder)
        action = folder / "action.yml"
        action.write_text(action.read_text("utf-8").replace("@STORE@", str(self.store)), "utf-8")
        return folder

    def adopter(self, name: str, files: Mapping[str, str], *, private: bool = True) -> Adopter:
        """A new repository of nothing but ``files``, on the local GitHub and checked out.

        All tests of a process share one GitHub, so each gives its repository a name of its own.
        """
        assert not (self.folder / "checkouts" / name).exists(), f"another test has a repository {name}"
        repository = self.github.add_repository(name, private=private, empty=True)
        adopter = Adopter(self, repository, self.folder / "checkouts" / name)
        adopter.write(files)
        return adopter

    def mark(self, folder: Path) -> str:
        """What every process of the run in ``folder`` carries as its RUNNER_TRACKING_ID."""
        return f"github_{self._own}-{folder.name}"

    def number(self) -> int:
        """A run id that no other run has."""
        with self._lock:
            self._last += 1
            return self._last


@dataclass
class Adopter:
    """A repository that uses the action: ``checkout`` is its working tree, its origin the local GitHub."""

    act: Act
    repository: Repository
    checkout: Path

    def __post_init__(self) -> None:
        self.checkout.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch", self.repository.default_branch)
        self.git("remote", "add", "origin", str(self.repository.path))

    def git(self, *arguments: str) -> str:
        """Run git in the checkout."""
        who = {f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {"PATH": SYSTEM, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, **who}
        command = ["git", "-C", str(self.checkout), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True, env=env).stdout.strip()

    def write(self, files: Mapping[str, str]) -> None:
        """Commit and push files."""
        for name, text in files.items():
            path = self.checkout / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            path.chmod(0o755 if text.startswith("#!") else 0o644)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", "files")
        self.git("push", "--quiet", "origin", f"HEAD:{self.repository.default_branch}")

    def payload(self) -> dict[str, Any]:
        """What the payload of most events says of the repository."""
        owner, name = self.repository.name.split("/")
        visibility = "private" if self.repository.private else "public"
        facts = {"id": self.repository.number, "name": name, "full_name": self.repository.name}
        facts |= {"private": self.repository.private, "visibility": visibility, "owner": {"login": owner}}
        return {"repository": {**facts, "default_branch": self.repository.default_branch}, "sender": {"login": owner}}

    def run(self, event: str = "push", workflow: str = "state.yml", **options: Any) -> Outcome:
        """Run ``workflow`` to its end; the options are those of ``start``."""
        return self.start(event, workflow, **options).wait()

    def start(
        self,
        event: str = "push",
        workflow: str = "state.yml",
        *,
        secrets: Mapping[str, str] | None = None,
        payload: Mapping[str, Any] | None = None,
        variables: Mapping[str, str] | None = None,
        run_id: int | None = None,
        attempt: int = 1,
        read_only: bool = False,
        ref: str = "",
        programs: Path | None = None,
    ) -> Run:
        """Start a run on ``ref`` (default: the default branch).

        ``payload`` is the whole event's, ``read_only`` caps the token as for a fork's pull request, ``programs`` is a
        folder that comes first on the PATH.
        """
        run_id = run_id or self.act.number()
        folder = self.act.folder / "runs" / f"{run_id}-{attempt}"
        folder.mkdir(parents=True)
        source = (self.checkout / ".github" / "workflows" / workflow).read_text("utf-8")
        (folder / workflow).write_text(render.workflow(source, self.act.seed), "utf-8")
        (folder / "event.json").write_text(json.dumps(self.payload() if payload is None else payload), "utf-8")
        token = self._token(source, read_only=read_only)
        given = {"GITHUB_TOKEN": token, **(secrets or {})}
        command = [str(ACT), event, "-W", str(folder / workflow), "-e", str(folder / "event.json")]
        command += self._options(folder, run_id, attempt)
        command += ["--env", f"GITHUB_REF={ref}", "--env", f"GITHUB_REF_NAME={ref.split('/', 2)[2]}"] if ref else []
        command += [word for name, value in given.items() for word in ("-s", f"{name}={value}")]
        command += [word for name, value in (variables or {}).items() for word in ("--var", f"{name}={value}")]
        # A copy, as a runner has: the checkout may change while this runs.
        shutil.copytree(self.checkout, folder / self.checkout.name, symlinks=True)
        return Run(self.act, command, folder / self.checkout.name, folder, tuple(given.values()), programs)

    def _options(self, folder: Path, run_id: int, attempt: int) -> list[str]:
        act = self.act
        env = {
            "GITHUB_API_URL": act.github.url,
            "GITHUB_REPOSITORY": self.repository.name,
            "GITHUB_REPOSITORY_ID": str(self.repository.number),
            "GITHUB_RUN_ID": str(run_id),
            "GITHUB_RUN_ATTEMPT": str(attempt),
            "RUNNER_TRACKING_ID": act.mark(folder),
            "PAGER": "cat",
            "TERM": "dumb",
            "NO_COLOR": "1",
            **act.pip,
        }
        local = {f"{render.TOOL}@v1": act.tool, render.SELF: act.tool}
        local |= {UPLOAD: act.upload, SETUP_PYTHON: Path(__file__).parent / "setup_python"}
        words = ["--action-cache-path", str(folder / "cache"), "--no-cache-server", "--rm", "--json"]
        words += ["--concurrent-jobs", "1", "--insecure-secrets"]
        words += [word for label in LABELS for word in ("-P", f"{label}=-self-hosted")]
        words += [word for name, value in env.items() for word in ("--env", f"{name}={value}")]
        return words + [word for ref, path in local.items() for word in ("--local-repository", f"{ref}={path}")]

    def _token(self, source: str, *, read_only: bool) -> str:
        """The run's token; the local GitHub knows one a job, with the rights that the workflow gives it."""
        token = f"ghs_{secrets.token_hex(18)}"
        for job, granted in self._granted(source).items():
            capped = dict.fromkeys(granted, "read") if read_only else granted
            self.act.github.job_tokens[f"{token}-{job}"] = JobToken(self.repository.name, capped)
        return token

    def _granted(self, source: str, limit: Mapping[str, str] | None = None) -> dict[str, dict[str, str]]:
        """The rights of every job of a workflow and of those it calls, by the job's id."""
        workflow = render.load(source)
        found: dict[str, dict[str, str]] = {}
        for name, job in workflow["jobs"].items():
            own = render.permissions(workflow, job)
            refused = render.exceeds(own, limit) if limit is not None else []
            assert not refused, f"GitHub does not start this run: {name} asks for more than its caller has: {refused}"
            called = self._called(job.get("uses", ""))
            found.update({name: own} if called is None else self._granted(called, own))
        return found

    def _called(self, uses: str) -> str | None:
        """The text of a called workflow: one of ours, or the adopter's own."""
        if not uses:
            return None
        place, _, _ = uses.removeprefix("./").removeprefix(f"{render.TOOL}/").partition("@")
        own = self.checkout / place
        return (own if uses.startswith("./") and own.exists() else render.ROOT / place).read_text("utf-8")


def processes(mark: str, folder: Path) -> dict[int, str]:
    """The processes that carry a run's mark, by which a runner finds what a job left, or work in its folder.

    On Linux only. act gives the mark to the steps of actions and not to others.
    """
    found = {}
    for process in Path("/proc").glob("[0-9]*"):
        try:
            marked = f"RUNNER_TRACKING_ID={mark}".encode() in process.joinpath("environ").read_bytes().split(b"\0")
            command = process.joinpath("cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
            inside = process.joinpath("cwd").readlink().is_relative_to(folder)
        except OSError:
            continue
        if marked or inside:
            found[int(process.name)] = command
    return found


@dataclass
class Run:
    """A run that was started. ``cancel`` is what the button does: steps with ``always()`` still run."""

    act: Act
    command: list[str]
    checkout: Path
    folder: Path
    secrets: tuple[str, ...] = field(default=(), repr=False)
    programs: Path | None = None

    def __post_init__(self) -> None:
        home = self.folder / "home"
        home.mkdir()
        first = f"{self.programs}:" if self.programs else ""
        env = {"PATH": f"{first}{self.act.python}:{SYSTEM}", "HOME": str(home), "LANG": "C.UTF-8"}
        self._lines, self._said = (self.folder / "act.json").open("wb+"), (self.folder / "act.log").open("wb+")
        self.process = subprocess.Popen(
            self.command,
            cwd=self.checkout,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=self._lines,
            stderr=self._said,
            start_new_session=True,
        )

    def until(self, happened: Callable[[str], bool]) -> None:
        """Wait until the run's JSON lines so far satisfy ``happened``."""
        deadline = time.monotonic() + PATIENCE
        while not happened((self.folder / "act.json").read_text("utf-8", "replace")):
            assert self.process.poll() is None, "the run ended before it came that far"
            assert time.monotonic() < deadline, "the run does not come that far"
            time.sleep(0.05)

    def end_all(self) -> dict[int, str]:
        """End the processes of this run that are still there, and say which they were."""
        left = processes(self.act.mark(self.folder), self.folder)
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left

    def cancel(self) -> None:
        """Cancel the run as a person would."""
        self.process.send_signal(signal.SIGINT)

    def wait(self, *, tidy: bool = True) -> Outcome:
        """Wait for the run's end, which has to come.

        No secret may stand anywhere in it, and (``tidy``) no process of its jobs may be left.
        """
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.end_all()
            raise
        finally:
            self._lines.close()
            self._said.close()
        lines, said = ((self.folder / name).read_text("utf-8", "replace") for name in ("act.json", "act.log"))
        outcome = Outcome(lines, said, code)
        assert outcome.leaks([*self.secrets, *outcome.masks()]) == [], "a secret stands in the run's texts"
        left = self.end_all()
        assert not (tidy and left), f"the run left processes: {left}"
        return outcome
