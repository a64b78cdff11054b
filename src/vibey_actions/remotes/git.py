"""Any git repository as a remote: plain plumbing in a private bare repository, no work tree.

Every operation runs in a repository of its own (see gitrun), and only sealed files and a few facts about their
commits are kept (see cache). A push builds on the parent's commit object alone, so nothing is downloaded for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from itertools import islice, takewhile
from pathlib import Path

from vibey_actions.errors import RemoteDenied, RemoteFailed, RemoteMoved, VibeyError
from vibey_actions.remotes.base import COMMIT_MESSAGE
from vibey_actions.remotes.cache import Facts, SealedCache
from vibey_actions.remotes.gitlook import (
    Listing,
    default_branch_refused,
    failure,
    is_passing,
    push_refusal,
    read_commit,
    read_history,
    read_listing,
    read_state_entry,
)
from vibey_actions.remotes.gitobjects import object_format, write_blob
from vibey_actions.remotes.gitrun import Ended, Git, git_words, private_repository
from vibey_actions.remotes.places import Place, parse_place, watermark_name
from vibey_actions.remotes.words import Notice, silent

_SLOWEST = 100_000
"""Bytes a second below which a transfer is given up."""
_LARGEST = 100_000_000
_PAUSES = (0.2, 1.0)
_REPLAY_DEPTH = 500
_DEPTHS = (_REPLAY_DEPTH, 10_000, 0)
_RAW_COMMIT_LIMIT = 64_000


class GitRemote:
    """The state branch of a git repository given by URL or path. Implements Remote.

    ``name`` is the watermark's name for it (default: the URL or absolute path and the branch), ``cache_folder`` where
    sealed files and private repositories live, ``notice`` gets lines a person should see, ``env`` is where PATH, HOME
    and the like are taken from.
    """

    def __init__(
        self,
        place: str | Place,
        branch: str,
        path: str,
        *,
        cache_folder: Path,
        name: str = "",
        notice: Notice = silent,
        env: Mapping[str, str] | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._place = place if isinstance(place, Place) else parse_place(place)
        self._branch = branch
        self._path = path
        self._name = name or watermark_name(branch, place=self._place)
        self._scratch = cache_folder / "git"
        self._cache = SealedCache(cache_folder, self._name)
        self._notice = notice
        self._env = os.environ if env is None else env
        self._sleep = sleep
        self._object_format = "sha1"
        self._looked = False
        self._history: dict[tuple[str, int], Mapping[str, str]] = {}

    @property
    def name(self) -> str:
        return self._name

    def head(self) -> str | None:
        """The branch's commit; None where the remote listed its references and the branch was not among them.

        Raises NotAStateBranch where the branch is the repository's default branch.
        """
        with self._repository() as git:
            return self._look(git).commit

    def fetch(self, commit: str) -> Path:
        cached = self._cache.find(commit)
        if cached is not None:
            return cached
        with self._repository(commit) as git:
            self._download(git, commit, "--depth=1")
            listing = git.run("ls-tree", "-z", "-r", "-t", "-l", "--full-tree", commit)
            entry = read_state_entry(listing.out, self._path, commit)
            with self._cache.writing(commit, self._facts(git, commit, entry.size)) as file:
                written = git.run("cat-file", "blob", entry.blob, stdout=file, deadline=_patience(entry.size))
                if not written.ok:
                    operation = f"copy the state file into {self._cache.folder} from"
                    raise failure(operation, self._place.url, git_words(written.err))
        return self._cache.path(commit)

    def discard(self, commit: str) -> None:
        self._cache.discard(commit)

    def is_ancestor(self, commit: str, head: str) -> bool:
        facts = self._cache.facts(head)
        if commit == head or (facts is not None and commit in facts.parents):
            return True
        for depth in _DEPTHS:
            commits = self._commits(head, depth)
            if commit in commits:
                return True
            if len(commits) < depth:
                break
        return False

    def history(self, base: str | None, head: str, most: int) -> Sequence[str]:
        return list(islice(takewhile(lambda commit: commit != base, self._commits(head, most + 1)), most))

    def is_replay(self, head: str) -> bool:
        """See Remote. Looks at the last 500 commits."""
        commits = dict(self._commits(head, _REPLAY_DEPTH))
        tree = commits.pop(head, None)
        return tree in commits.values()

    def push(
        self, files: Mapping[str, Path], parent: str | None, *, announce: Callable[[str], None] | None = None
    ) -> str:
        if not self._looked:
            self.head()
        self._refuse_unborn_default(parent)
        commit, facts = self._push_as(files, parent, announce)
        if set(files) == {self._path}:
            with suppress(VibeyError, OSError):
                self._cache.store(commit, files[self._path], facts)
        return commit

    def _push_as(
        self, files: Mapping[str, Path], parent: str | None, announce: Callable[[str], None] | None
    ) -> tuple[str, Facts]:
        """Build and push in the remote's object format, which an empty repository tells only by refusing another."""
        size = sum(path.stat().st_size for path in files.values())
        with self._repository(parent) as git:
            commit = self._build(git, files, parent)
            facts = self._facts(git, commit, size)
            if announce is not None:
                announce(commit)
            unsupported = self._move(git, commit, parent, _patience(size))
        if unsupported:
            self._object_format = "sha256" if self._object_format == "sha1" else "sha1"
            return self._push_as(files, parent, announce)
        return commit, facts

    def _build(self, git: Git, files: Mapping[str, Path], parent: str | None) -> str:
        """The commit of exactly ``files`` on ``parent``, made in the private repository."""
        blobs = {path: write_blob(git.folder, source, git.object_format) for path, source in files.items()}
        tree = _make_tree(git, blobs)
        parents = []
        if parent is not None:
            self._bring_parent(git, parent)
            parents = ["-p", parent]
        return git.answer("commit-tree", tree, *parents, "-m", COMMIT_MESSAGE)

    def _bring_parent(self, git: Git, parent: str) -> None:
        """Have the parent's commit object, and say that what is behind it is not here (a shallow repository)."""
        facts = self._cache.facts(parent)
        if facts is not None and facts.raw is not None and not git.has(parent):
            raw = facts.raw.encode("utf-8", "surrogateescape")
            made = git.run("hash-object", "-w", "-t", "commit", "--stdin", stdin=raw)
            if made.ok and made.out.decode("ascii").strip() == parent:
                (git.folder / "shallow").write_text(f"{parent}\n")
                return
        self._download(git, parent, "--depth=1", "--filter=tree:0")

    def _move(self, git: Git, commit: str, parent: str | None, deadline: float) -> bool:
        """Move the branch to ``commit`` from exactly ``parent``; True where the other object format is needed."""
        for pause in (*_PAUSES, None):
            ended = self._try_push(git, commit, parent, deadline)
            if ended.ok:
                return False
            words, refusal = git_words(ended.err), push_refusal(ended.out)
            if "hash algorithm" in words and parent is None:
                return True
            now = self._look(git).commit
            if now == commit:
                return False
            if now != parent:
                raise RemoteMoved(f"the branch {self._branch} moved while the state was being pushed", "run again")
            if refusal and not is_passing(refusal):
                raise self._denied(refusal, words)
            if pause is None or not is_passing(f"{refusal} {words}"):
                raise failure("push to", self._place.url, f"{refusal}; {words}" if refusal else words)
            self._sleep(pause)
        raise AssertionError

    def _try_push(self, git: Git, commit: str, parent: str | None, deadline: float) -> Ended:
        reference = f"refs/heads/{self._branch}"
        lease = f"--force-with-lease={reference}:{parent or ''}"
        options = ("--porcelain", "--no-verify", "--no-thin", "--no-progress", "--no-follow-tags")
        try:
            return git.run("push", *options, lease, "state", f"{commit}:{reference}", deadline=deadline)
        except RemoteFailed as error:
            return Ended(1, b"", f"{error.message}: timed out")

    def _denied(self, refusal: str, words: str) -> VibeyError:
        rule = "GH013" in words or "rule violation" in words.lower()
        hint = f"exclude the branch {self._branch} from the rule" if rule else "allow this caller to push to the branch"
        error = failure("push to", self._place.url, f"the server refuses the branch ({refusal}): {words}")
        return error if type(error) is not RemoteFailed else RemoteDenied(error.message, hint)

    def _look(self, git: Git) -> Listing:
        """Ask the remote for the branch and the default branch: one listing that ended well is the proof."""
        for pause in (*_PAUSES, None):
            ended = git.run("ls-remote", "--symref", "state", "HEAD", f"refs/heads/{self._branch}")
            if ended.ok:
                break
            words = git_words(ended.err)
            if pause is None or not is_passing(words):
                raise failure("read", self._place.url, words)
            self._sleep(pause)
        listing = read_listing(ended.out, self._branch)
        if listing.default_branch == self._branch:
            raise default_branch_refused(self._branch)
        self._object_format = listing.object_format
        self._looked = True
        return listing

    def _refuse_unborn_default(self, parent: str | None) -> None:
        """A repository on this machine names its default branch even before that branch exists."""
        local = self._place.local_path
        if parent is None and local is not None:
            for head in (local / "HEAD", local / ".git" / "HEAD"):
                with suppress(OSError):
                    if head.read_text("utf-8").strip() == f"ref: refs/heads/{self._branch}":
                        raise default_branch_refused(self._branch)

    def _download(self, git: Git, commit: str, *how: str) -> None:
        """Fetch ``commit`` by its name, or with its branch where the server gives only the tips of branches."""
        if git.has(commit):
            return
        words = ""
        for wanted in (commit, f"refs/heads/{self._branch}"):
            options = (
                "--no-tags",
                "--no-write-fetch-head",
                "--no-auto-maintenance",
                "--no-progress",
                "--no-show-forced-updates",
            )
            ended = git.run("fetch", *options, *how, "state", wanted, deadline=_patience(_LARGEST))
            if ended.ok and git.has(commit):
                return
            words = words or git_words(ended.err)
            if ended.ok or "unadvertised" not in ended.err:
                break
        raise failure(f"fetch commit {commit[:12]} from", self._place.url, words)

    def _facts(self, git: Git, commit: str, size: int) -> Facts:
        raw = git.run("cat-file", "commit", commit).out.decode("utf-8", "surrogateescape")
        tree, parents = read_commit(raw)
        return Facts(size, tree, parents, raw if len(raw) <= _RAW_COMMIT_LIMIT else None)

    def _commits(self, head: str, depth: int) -> Mapping[str, str]:
        """Commit to tree of ``head`` and ``depth`` commits behind it (0: all), without any of the sealed files."""
        if (head, depth) not in self._history:
            how = f"--depth={depth}" if depth else "--no-tags"
            with self._repository(head) as git:
                self._download(git, head, how, "--filter=tree:0")
                listed = git.answer("rev-list", *([f"-n{depth}"] if depth else []), "--format=%T", head)
            self._history = {(head, depth): read_history(listed.encode("ascii"))}
        return self._history[head, depth]

    def _repository(self, commit: str | None = None) -> AbstractContextManager[Git]:
        algorithm = object_format(commit) if commit else self._object_format
        return private_repository(self._scratch, self._place, algorithm, self._env)


def _make_tree(git: Git, blobs: Mapping[str, str]) -> str:
    """The tree of ``blobs`` (path to blob), made folder by folder."""
    entries: list[bytes] = []
    folders: dict[str, dict[str, str]] = {}
    for path, blob in blobs.items():
        name, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(name, {})[rest] = blob
        else:
            entries.append(f"100644 blob {blob}\t{name}".encode())
    entries += [f"040000 tree {_make_tree(git, inside)}\t{name}".encode() for name, inside in folders.items()]
    return git.answer("mktree", "-z", stdin=b"".join(entry + b"\0" for entry in entries))


def _patience(size: int) -> float:
    return 60 + size / _SLOWEST
