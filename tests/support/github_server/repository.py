"""A bare git repository, asked and changed through git itself, under the rules GitHub puts on it."""

from __future__ import annotations

import subprocess
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.github_server.replies import Refusal, not_found

_IDENTITY = {
    "GIT_AUTHOR_NAME": "example",
    "GIT_AUTHOR_EMAIL": "example@example.com",
    "GIT_COMMITTER_NAME": "example",
    "GIT_COMMITTER_EMAIL": "example@example.com",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
}
_FAST = ("-c", "core.compression=0", "-c", "core.looseCompression=0", "-c", "core.fsync=none")


@dataclass
class Repository:
    """``rules`` maps a branch to the message with which a ruleset refuses to move it; see rules.py for ``arranged``."""

    path: Path
    name: str
    number: int
    private: bool
    default_branch: str
    rules: dict[str, str] = field(default_factory=dict)
    arranged: dict[str, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    @classmethod
    def create(
        cls,
        path: Path,
        name: str = "example/app",
        number: int = 1,
        *,
        private: bool = True,
        default_branch: str = "main",
        object_format: str = "sha1",
    ) -> Repository:
        options = ("--bare", "-b", default_branch, f"--object-format={object_format}")
        subprocess.run(["git", "init", "-q", *options, str(path)], check=True)
        return cls(path, name, number, private, default_branch)

    # git

    def git(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> bytes:
        command = ["git", *_FAST, "--git-dir", str(self.path), *arguments]
        env = {"PATH": "/usr/bin:/bin:/usr/local/bin", **_IDENTITY}
        done = subprocess.run(command, input=stdin, capture_output=True, env=env, check=False)
        if check and done.returncode:
            raise AssertionError(f"git {arguments}: {done.stderr.decode()}")
        return done.stdout if done.returncode == 0 else b""

    def text(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
        return self.git(*arguments, stdin=stdin, check=check).decode().strip()

    def kind(self, name: str) -> str:
        """``commit``, ``tree``, ``blob``, or nothing where there is no such object."""
        return self.text("cat-file", "-t", name, check=False)

    # What tests arrange

    def commit_files(self, branch: str, files: dict[str, bytes], parent: str | None = None) -> str:
        """Put a commit of exactly ``files`` on ``branch``, as somebody else would; ``parent`` defaults to its head."""
        with self.lock:
            parent = parent or self.ref(branch)
            blobs = {path: self.text("hash-object", "-w", "--stdin", stdin=content) for path, content in files.items()}
            tree = self.make_tree([("100644", "blob", blob, path) for path, blob in blobs.items()])
            commit = self.make_commit("by hand", tree, [parent] if parent else [])
            self.git("update-ref", f"refs/heads/{branch}", commit)
            return commit

    def set_ref(self, branch: str, commit: str | None) -> None:
        """Move, create or delete (None) a branch by hand, whatever it held."""
        with self.lock:
            self.git(
                "update-ref", *(["-d"] if commit is None else []), f"refs/heads/{branch}", *([commit] if commit else [])
            )

    def read(self, commit: str, path: str) -> bytes:
        return self.git("cat-file", "blob", f"{commit}:{path}")

    def history(self, branch: str) -> list[str]:
        return self.text("rev-list", branch).split()

    # What the API does

    @property
    def is_empty(self) -> bool:
        return not self.text("for-each-ref", "--count=1")

    def refs(self, prefix: str) -> list[tuple[str, str]]:
        """(name, commit) of every reference whose full name starts with ``prefix``, in order."""
        lines = self.text("for-each-ref", "--format=%(refname) %(objectname)").splitlines()
        return [(name, commit) for name, commit in (line.split() for line in lines) if name.startswith(prefix)]

    def ref(self, branch: str) -> str | None:
        return dict(self.refs(f"refs/heads/{branch}")).get(f"refs/heads/{branch}")

    def make_tree(self, entries: list[tuple[str, str, str, str]]) -> str:
        """The tree of (mode, type, name, path) entries; paths may lead through folders."""
        folders: dict[str, list[tuple[str, str, str, str]]] = {}
        lines = []
        for mode, kind, name, path in entries:
            first, slash, rest = path.partition("/")
            if slash:
                folders.setdefault(first, []).append((mode, kind, name, rest))
            else:
                lines.append(f"{mode} {kind} {name}\t{path}\0")
        lines += [f"040000 tree {self.make_tree(inside)}\t{first}\0" for first, inside in folders.items()]
        return self.text("mktree", "-z", stdin="".join(lines).encode())

    def make_commit(self, message: str, tree: str, parents: list[str]) -> str:
        named = [argument for parent in parents for argument in ("-p", parent)]
        return self.text("commit-tree", tree, *named, "-m", message)

    def move(self, branch: str, commit: str, *, force: bool) -> None:
        """PATCH of a reference: it must exist, and without force the move must be a fast forward."""
        with self.lock:
            now = self.ref(branch)
            if now is None:
                raise Refusal(422, "Reference does not exist")
            self._check(branch, commit)
            if not force and not self.is_ancestor(now, commit):
                raise Refusal(422, "Update is not a fast forward")
            self.git("update-ref", f"refs/heads/{branch}", commit, now)

    def add_ref(self, branch: str, commit: str) -> None:
        """POST of a reference: it must not exist."""
        with self.lock:
            if self.ref(branch) is not None:
                raise Refusal(422, "Reference already exists")
            self._check(branch, commit)
            self.git("update-ref", f"refs/heads/{branch}", commit, "")

    def is_ancestor(self, commit: str, head: str) -> bool:
        return self.git("merge-base", commit, head, check=False).decode().strip() == commit

    def _check(self, branch: str, commit: str) -> None:
        if self.kind(commit) != "commit":
            raise Refusal(422, "Object does not exist")
        if branch in self.rules:
            raise Refusal(422, self.rules[branch])

    def require(self, name: str, kind: str) -> str:
        """``name`` where it is an object of ``kind``, else a 404."""
        if self.kind(name) != kind:
            raise not_found()
        return name
