"""A branch of a GitHub repository as a remote, over the REST API, without a checkout.

A push makes a blob, a one-file tree, a commit whose parent is the head that was read, and then moves the reference
without force. Everything before the reference is invisible and may be made twice; the reference is moved once, and a
lost answer about it is looked up. Every name that GitHub answers is compared with the one computed here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count, islice, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import quote

from vibey_actions.errors import (
    NotAStateBranch,
    RemoteFailed,
    RemoteMoved,
    TooLarge,
    VibeyError,
)
from vibey_actions.remotes.answers import items, member, object_name, wrong_answer
from vibey_actions.remotes.base import COMMIT_MESSAGE
from vibey_actions.remotes.blobs import BlobBody, decode_blob
from vibey_actions.remotes.cache import Facts, SealedCache
from vibey_actions.remotes.githubwords import explained, is_lost_race, is_permanent
from vibey_actions.remotes.gitlook import Entry, default_branch_refused, not_the_state
from vibey_actions.remotes.gitobjects import blob_digest, object_format, tree_name
from vibey_actions.remotes.http import Answer, Api, Refused, json_body
from vibey_actions.remotes.network import AnswerLost
from vibey_actions.remotes.places import watermark_name
from vibey_actions.remotes.words import Notice, megabytes, silent
from vibey_actions.text import shown

LARGEST_BLOB = 100_000_000
"""GitHub takes no larger blob."""
RISKY_BLOB = 40 << 20
"""Above this size some report that GitHub fails."""
RAW_TYPE = "application/vnd.github.raw+json"
_WRITES = 4
_LOOKS = 5
_PAGE = 100
_REPLAY_DEPTH = 300
_MOST_PAGES = 20
_FRESH = 60.0
"""Seconds after a push in which a reading from before it is taken for a stale replica's."""


class GitHubRemote:
    """The state branch of the repository OWNER/NAME. Implements Remote.

    ``token`` None reads a public repository; ``cache`` keeps sealed files; ``notice`` gets lines a person should see;
    ``wait_cap`` bounds the seconds an operation waits for rate limits.
    """

    def __init__(
        self,
        repository: str,
        branch: str,
        path: str,
        *,
        token: str | None,
        api_url: str,
        cache: SealedCache,
        notice: Notice = silent,
        wait_cap: float = 60,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._repository = repository
        self._branch = branch
        self._path = path
        self._cache = cache
        self._notice = notice
        self._sleep = sleep
        self._clock = clock
        self._api = Api(api_url, token, notice=notice, wait_cap=wait_cap, sleep=sleep, clock=clock)
        self._default_checked = False
        self._moved_told = False
        self._pushed: tuple[str, str | None, float] | None = None

    @property
    def name(self) -> str:
        return watermark_name(self._branch, self._repository)

    def head(self) -> str | None:
        """See Remote. A reading that is older than this object's own push just now is asked for again."""
        self._api.begin()
        found = self._read_head()
        if self._pushed is None:
            return found
        commit, parent, when = self._pushed
        for attempt in range(1, _LOOKS):
            if found != parent or self._clock() - when > _FRESH:
                return found
            self._api.pause(attempt)
            found = self._read_head()
        if found != parent:
            return found
        raise RemoteFailed(
            f"{self.name} still shows what it held before the push of {commit[:12]}", "run again in a minute"
        )

    def fetch(self, commit: str) -> Path:
        cached = self._cache.find(commit)
        if cached is not None:
            return cached
        self._api.begin()
        self._refuse_default_branch()
        tree, parents = self._read_commit(commit)
        entry = self._read_tree(tree, commit)
        for attempt in range(1, _LOOKS):
            try:
                self._download(commit, entry, Facts(entry.size, tree, parents))
                break
            except AnswerLost:
                if attempt == _LOOKS - 1:
                    raise
                self._api.pause(attempt)
        return self._cache.path(commit)

    def discard(self, commit: str) -> None:
        self._cache.discard(commit)

    def is_ancestor(self, commit: str, head: str) -> bool:
        facts = self._cache.facts(head)
        if commit == head or (facts is not None and commit in facts.parents):
            return True
        self._api.begin()
        try:
            answer = self._ask(f"compare/{commit}...{head}", {"per_page": 1, "page": 2})
        except Refused as refused:
            if refused.status != 404:  # noqa: PLR2004
                raise self._error("compare commits in", refused) from None
            self._read_commit(head)
            return False
        return member(answer.data, "status", str) in {"ahead", "identical"}

    def history(self, base: str | None, head: str, most: int) -> Sequence[str]:
        self._api.begin()
        until_base = takewhile(lambda one: one[0] != base, self._commits_behind(head))
        return [commit for commit, _ in islice(until_base, most)]

    def is_replay(self, head: str) -> bool:
        """See Remote. Looks at the last 300 commits."""
        self._api.begin()
        trees = (tree for _, tree in islice(self._commits_behind(head), _REPLAY_DEPTH))
        sought = next(trees, "")
        return sought in trees

    def push(
        self, files: Mapping[str, Path], parent: str | None, *, announce: Callable[[str], None] | None = None
    ) -> str:
        self._api.begin()
        sizes = {path: source.stat().st_size for path, source in files.items()}
        self._check_sizes(sizes)
        if parent is None:
            self._prepare_creation()
        self._api.limits.make_room(len(files) + _WRITES - 1)
        blobs = {path: self._create_blob(source, sizes[path], parent) for path, source in files.items()}
        tree = self._create_tree(blobs)
        commit = self._create_commit(tree, parent)
        if announce is not None:
            announce(commit)
        self._move(commit, parent)
        self._pushed = (commit, parent, self._clock())
        if set(files) == {self._path}:
            self._keep(commit, files[self._path], Facts(sizes[self._path], tree, (parent,) if parent else ()))
        return commit

    # Reading

    def _read_head(self) -> str | None:
        """The branch's commit from the listing of references that start with its name; absent only from a whole one."""
        reference = f"refs/heads/{self._branch}"
        for page in range(1, _MOST_PAGES):
            params = {"page": page} if page > 1 else None
            answer = self._get(f"git/matching-refs/heads/{quote(self._branch)}", params)
            for one in items(answer.data):
                if member(one, "ref", str) == reference:
                    return object_name(member(member(one, "object", dict), "sha", str))
            if 'rel="next"' not in answer.headers.get("Link", ""):
                return None
        raise RemoteFailed(f"{self._repository} has too many branches that start with {self._branch}", "rename it")

    def _refuse_default_branch(self) -> None:
        if not self._default_checked:
            default = member(self._get("").data, "default_branch", str)
            if default == self._branch:
                raise default_branch_refused(self._branch)
            self._default_checked = True

    def _read_commit(self, commit: str) -> tuple[str, tuple[str, ...]]:
        """The tree and the parents of ``commit``; one that a replica does not know yet is asked for again."""
        for attempt in range(1, _LOOKS):
            try:
                data = self._ask(f"git/commits/{commit}").data
                break
            except Refused as refused:
                if refused.status not in {404, 422} or attempt == _LOOKS - 1:
                    raise self._error(f"read commit {commit[:12]} of", refused) from None
                self._api.pause(attempt)
        if member(data, "sha", str) != commit:
            raise wrong_answer(f"commit {commit[:12]}")
        parents = tuple(object_name(member(one, "sha", str)) for one in items(member(data, "parents", list)))
        return object_name(member(member(data, "tree", dict), "sha", str)), parents

    def _commits_behind(self, head: str) -> Iterator[tuple[str, str]]:
        """Name and tree of ``head`` and of each commit behind it, newest first; a page is asked for when it is due."""
        for page in count(1):
            listed = items(self._get("commits", {"sha": head, "per_page": _PAGE, "page": page}).data)
            for one in listed:
                tree = member(member(member(one, "commit", dict), "tree", dict), "sha", str)
                yield object_name(member(one, "sha", str)), tree
            if len(listed) < _PAGE:
                return

    def _read_tree(self, tree: str, commit: str) -> Entry:
        """The state file's entry of ``tree``. Raises NotAStateBranch where the tree is not exactly the state file."""
        params = {"recursive": 1} if "/" in self._path else None
        data = self._get(f"git/trees/{tree}", params).data
        if member(data, "truncated", bool):
            raise NotAStateBranch(
                f"commit {commit[:12]} holds more files than GitHub lists: this is no state branch",
                "name a branch that holds nothing but the state (VIBEY_STATE_BRANCH)",
            )
        found: Entry | None = None
        others: list[str] = []
        for one in items(member(data, "tree", list)):
            path = member(one, "path", str)
            if path == self._path and one.get("type") == "blob" and one.get("mode") == "100644":
                found = Entry(object_name(member(one, "sha", str)), member(one, "size", int))
            elif not (one.get("type") == "tree" and self._path.startswith(f"{path}/")):
                others.append(path)
        if found is None or others:
            raise not_the_state(self._path, commit, found is not None, others)
        if tree_name({self._path: found.blob}, object_format(tree)) != tree:
            raise wrong_answer(f"tree {tree[:12]}")
        return found

    def _download(self, commit: str, entry: Entry, facts: Facts) -> None:
        """Stream the blob into the cache, checking its size and its name."""
        digest = blob_digest(entry.size, object_format(entry.blob))
        path = f"repos/{self._repository}/git/blobs/{entry.blob}"
        try:
            with (
                self._api.stream(path, RAW_TYPE, entry.size) as (kind, pieces),
                self._cache.writing(commit, facts) as file,
            ):
                size = 0
                for piece in decode_blob(pieces) if kind.startswith("application/json") else pieces:
                    size += len(piece)
                    if size > entry.size:
                        break
                    digest.update(piece)
                    file.write(piece)
                if size != entry.size or digest.hexdigest() != entry.blob:
                    raise AnswerLost(
                        f"the sealed file of commit {commit[:12]} arrived damaged: {size} of {entry.size} bytes",
                        "run again",
                    )
        except Refused as refused:
            raise self._error("download the state file from", refused) from None

    # Writing

    def _check_sizes(self, sizes: Mapping[str, int]) -> None:
        largest = max(sizes.values(), default=0)
        if largest > LARGEST_BLOB:
            raise TooLarge(
                f"the sealed state is {megabytes(largest)}; GitHub takes at most {megabytes(LARGEST_BLOB)} in a file",
                "exclude tables that need not be kept, or use a git repository without that limit (VIBEY_STATE_REMOTE)",
            )
        if largest > RISKY_BLOB:
            self._notice(
                f"the sealed state is {megabytes(largest)}: above {megabytes(RISKY_BLOB)} GitHub is reported to fail, "
                f"and {megabytes(LARGEST_BLOB)} is its limit"
            )

    def _prepare_creation(self) -> None:
        """Before the first push: the branch must be absent and not the default one, the repository not empty."""
        self._refuse_default_branch()
        if self._read_head() is not None:
            raise RemoteMoved(f"the branch {self._branch} has been created meanwhile", "run again")

    def _create_blob(self, source: Path, size: int, parent: str | None) -> str:
        bodies: list[BlobBody] = []

        def body() -> BlobBody:
            bodies.append(BlobBody(source, size, object_format(parent) if parent else "sha1"))
            return bodies[-1]

        answer = self._send("POST", "git/blobs", body, "upload the state to", size=len(body()))
        name = object_name(member(answer.data, "sha", str))
        if name != bodies[-1].name:
            raise RemoteFailed("the sealed file arrived damaged at GitHub; the branch was not moved", "run again")
        return name

    def _create_tree(self, blobs: Mapping[str, str]) -> str:
        entries = [{"path": path, "mode": "100644", "type": "blob", "sha": blob} for path, blob in blobs.items()]
        data = self._send("POST", "git/trees", json_body({"tree": entries}), "make a tree in").data
        tree = object_name(member(data, "sha", str))
        if tree != tree_name(blobs, object_format(tree)):
            raise wrong_answer("the new tree")
        return tree

    def _create_commit(self, tree: str, parent: str | None) -> str:
        content = {"message": COMMIT_MESSAGE, "tree": tree, "parents": [parent] if parent else []}
        data = self._send("POST", "git/commits", json_body(content), "make a commit in").data
        parents = [member(one, "sha", str) for one in items(member(data, "parents", list))]
        if member(member(data, "tree", dict), "sha", str) != tree or parents != content["parents"]:
            raise wrong_answer("the new commit")
        return object_name(member(data, "sha", str))

    def _move(self, commit: str, parent: str | None) -> None:
        """Move the branch to ``commit``; a refusal or a lost answer is settled by reading where the branch is."""
        trouble: VibeyError | None = None
        for _ in range(3):
            refused: Refused | None = None
            try:
                return self._send_reference(commit, parent)
            except AnswerLost as lost:
                trouble = lost
            except Refused as refusal:
                if refusal.status not in {409, 422}:
                    raise self._error("move the branch of", refusal) from None
                refused = refusal
            now = self._look_again(parent, refused)
            if now == commit:
                return None
            if now != parent or (refused is not None and is_lost_race(refused) and parent is None):
                raise RemoteMoved(f"the branch {self._branch} moved while the state was being pushed", "run again")
            if refused is not None:
                raise self._error(f"move the branch {self._branch} of", refused) from None
        raise trouble or RemoteFailed(f"the branch {self._branch} could not be moved", "run again")

    def _send_reference(self, commit: str, parent: str | None) -> None:
        reference = f"heads/{quote(self._branch)}"
        if parent is None:
            body = json_body({"ref": f"refs/heads/{self._branch}", "sha": commit})
            answer = self._send_once("POST", "git/refs", body)
        else:
            answer = self._send_once("PATCH", f"git/refs/{reference}", json_body({"sha": commit, "force": False}))
        if member(member(answer.data, "object", dict), "sha", str) != commit:
            raise AnswerLost("GitHub answered the move of the branch with another commit", "run again")

    def _look_again(self, parent: str | None, refused: Refused | None) -> str | None:
        """Where the branch is after a refusal or a lost answer; a reading that may be stale is not the last one."""
        looks = 1 if refused is not None and is_permanent(refused) else _LOOKS
        now: str | None = parent
        for attempt in range(1, looks + 1):
            if attempt > 1:
                self._api.pause(attempt - 1)
            now = self._read_head()
            if now not in {parent, None}:
                break
        return now

    def _keep(self, commit: str, source: Path, facts: Facts) -> None:
        """Keep what was pushed, so that it is not downloaded; a full disk is no reason to fail after the push."""
        try:
            self._cache.store(commit, source, facts)
        except (VibeyError, OSError) as error:
            self._notice(f"the pushed state could not be kept on this machine: {shown(str(error), 200)}")

    # Asking

    def _get(self, path: str, params: Mapping[str, str | int] | None = None) -> Answer:
        try:
            return self._ask(path, params)
        except Refused as refused:
            raise self._error("read", refused) from None

    def _ask(self, path: str, params: Mapping[str, str | int] | None = None) -> Answer:
        answer = self._api.get(f"repos/{self._repository}/{path}".rstrip("/"), params)
        if answer.redirected and not self._moved_told:
            self._moved_told = True
            self._notice(f"{self._repository} has been renamed or moved: set VIBEY_STATE_REPOSITORY to its new name")
        return answer

    def _send(self, method: str, path: str, body: Callable[[], Any], operation: str, size: int = 0) -> Answer:
        try:
            return self._api.send(method, f"repos/{self._repository}/{path}", body, size=size, again=True)
        except Refused as refused:
            raise self._error(operation, refused) from None

    def _send_once(self, method: str, path: str, body: Callable[[], Any]) -> Answer:
        return self._api.send(method, f"repos/{self._repository}/{path}", body, again=False)

    def _error(self, operation: str, refused: Refused) -> VibeyError:
        new_name = self._new_name() if refused.status in {301, 302, 307, 308} else ""
        return explained(operation, self._repository, refused, has_token=self._api.has_token, new_name=new_name)

    def _new_name(self) -> str:
        """The name of a repository that was renamed, empty where it cannot be had."""
        try:
            return shown(member(self._api.get(f"repos/{self._repository}").data, "full_name", str), 200)
        except (Refused, RemoteFailed):
            return ""
