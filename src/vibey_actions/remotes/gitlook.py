"""Reading what git prints: listings of references, trees, commits, and the fate of a push. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from vibey_actions.errors import NotAStateBranch, RemoteDenied, RemoteFailed, TooLarge, VibeyError
from vibey_actions.names import is_commit
from vibey_actions.text import shown

_TREE_ENTRY = re.compile(rb"(?P<mode>\d{6}) (?P<type>\w+) (?P<id>[0-9a-f]{40,64}) +(?P<size>\d+|-)\t(?P<path>[^\0]+)\0")
_PASSING = re.compile(
    r"connection (reset|refused|closed|timed out)|timed? ?out|early eof|unexpected disconnect|could not resolve|"
    r"temporary failure|broken pipe|http 5\d\d|error: 5\d\d|cannot lock ref|failed to update ref|"
    r"unable to create .*\.lock|index-pack abnormal exit|unpacker error|died of signal|hung up",
    re.I,
)
_REFUSED_CALLER = re.compile(
    r"permission denied|authentication failed|could not read (username|password)|invalid credentials|"
    r"host key verification failed|error: 40[13]|dubious ownership|not allowed to",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Listing:
    """What a remote answered when asked for one branch: its commit and the default branch, where it has them."""

    commit: str | None
    default_branch: str
    object_format: str


def read_listing(out: bytes, branch: str) -> Listing:
    """The answer of ``ls-remote --symref REMOTE HEAD refs/heads/BRANCH``.

    Raises RemoteFailed where it holds a commit that is none.
    """
    commit, default, object_format = None, "", "sha1"
    for line in out.decode("utf-8", "surrogateescape").splitlines():
        value, _, name = line.partition("\t")
        if name == "HEAD" and value.startswith("ref: refs/heads/"):
            default = value.removeprefix("ref: refs/heads/")
        elif name in {"HEAD", f"refs/heads/{branch}"}:
            if not is_commit(value):
                raise RemoteFailed(f"the remote names a commit that is none: {shown(value, 80)}", "run again")
            object_format = "sha256" if len(value) == 64 else "sha1"  # noqa: PLR2004
            commit = value if name != "HEAD" else commit
    return Listing(commit, default, object_format)


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a tree."""

    blob: str
    size: int


def read_state_entry(out: bytes, path: str, commit: str) -> Entry:
    """The state file's entry in the answer of ``ls-tree -z -r -t -l COMMIT``.

    Raises NotAStateBranch where the tree holds anything but the state file.
    """
    folders = {path[: match.start()] for match in re.finditer("/", path)}
    found: Entry | None = None
    others: list[str] = []
    for match in _TREE_ENTRY.finditer(out):
        name = match["path"].decode("utf-8", "surrogateescape")
        if name == path and match["mode"] == b"100644":
            found = Entry(match["id"].decode(), int(match["size"]))
        elif not (name in folders and match["type"] == b"tree"):
            others.append(name)
    if found is None or others:
        raise not_the_state(path, commit, found is not None, others)
    return found


def not_the_state(path: str, commit: str, found: bool, others: list[str]) -> NotAStateBranch:  # noqa: FBT001
    """The refusal of a branch whose tree is not exactly the state file, naming what is there."""
    beside = ", ".join(shown(name.encode("utf-8", "replace").decode(), 60) for name in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""  # noqa: PLR2004
    what = f"holds {beside}{more} beside {path}" if found else f"does not hold {path} as a plain file"
    if not found and others:
        what += f" but {beside}{more}"
    return NotAStateBranch(
        f"commit {commit[:12]} {what}: this is no state branch",
        "name a branch that holds nothing but the state (VIBEY_STATE_BRANCH), or its file (VIBEY_STATE_PATH)",
    )


def default_branch_refused(branch: str) -> NotAStateBranch:
    """The refusal of a repository's default branch as a state branch."""
    return NotAStateBranch(
        f"the branch {branch} is the repository's default branch, which is never used as a state branch",
        "set VIBEY_STATE_BRANCH to a branch of its own, or make another branch the default",
    )


def read_commit(raw: str) -> tuple[str, tuple[str, ...]]:
    """The tree and the parents of a commit object."""
    head = raw.split("\n\n", 1)[0].splitlines()
    fields = [line.partition(" ") for line in head]
    trees = [value for name, _, value in fields if name == "tree"]
    return (trees[0] if trees else ""), tuple(
        value for name, _, value in fields if name == "parent" and is_commit(value)
    )


def read_history(out: bytes) -> Mapping[str, str]:
    """Commit to tree, newest first, from ``rev-list --format=%T``."""
    lines = out.decode("ascii", "replace").split("\n")
    return {commit.removeprefix("commit "): tree for commit, tree in zip(lines[::2], lines[1::2], strict=False)}


def push_refusal(out: bytes) -> str:
    """Why the server refused the branch, from ``push --porcelain``; empty where it did not say so.

    A lease that failed here or there is no such refusal: the branch is somewhere else.
    """
    for line in out.decode("utf-8", "replace").splitlines():
        flag, _, rest = line.partition("\t")
        if flag == "!" and "[remote rejected]" in rest:
            return shown(rest.rpartition("[remote rejected]")[2].strip().removeprefix("(").removesuffix(")"))
    return ""


def is_passing(words: str) -> bool:
    """Whether what was said is a trouble of the moment, worth another try."""
    return _PASSING.search(words) is not None and not _REFUSED_CALLER.search(words)


def failure(operation: str, place: str, words: str) -> VibeyError:
    """The error for a git command that the remote did not carry out, with the server's words."""
    message = f"cannot {operation} {place}: {words}"
    if "dubious ownership" in words:
        return RemoteDenied(
            message, "git serves only repositories of the same user: change the folder's owner, or use ssh"
        )
    if "host key verification failed" in words.lower():
        return RemoteDenied(message, "check the host's key, then add it: ssh-keyscan HOST >> ~/.ssh/known_hosts")
    if "GH001" in words or "exceeds GitHub's file size limit" in words:
        return TooLarge(message, "the server does not take a file of this size")
    if _REFUSED_CALLER.search(words):
        return RemoteDenied(message, "check the key or password for this remote and what it may do there")
    return RemoteFailed(message, "check that the place exists and can be reached (VIBEY_STATE_REMOTE), then run again")
