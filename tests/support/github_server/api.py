"""The endpoints: a method, a path and what GitHub does there, on a Repository."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

from tests.support.github_server.replies import Refusal, Reply, as_json, not_found
from tests.support.github_server.repository import Repository

_RAW = re.compile(r"application/vnd\.github\.(v3\.)?raw")
_CONTENTS_LIMIT = 1 << 20


@dataclass
class Call:
    """A request to one repository: ``match`` holds the path's parts, ``query`` the parameters, ``data`` the JSON."""

    repository: Repository
    match: re.Match[str]
    query: dict[str, str]
    data: Any
    accept: str
    url: str
    raw_blobs: bool = True
    tree_limit: int = 100_000
    page_size: int | None = None
    artifacts: Any = None
    blobs: str = ""

    def part(self, name: str) -> str:
        return unquote(self.match[name])

    def need(self, *names: str) -> list[Any]:
        missing = [name for name in names if name not in self.data]
        if missing:
            raise Refusal(422, f"Invalid request. {', '.join(missing)} wasn't supplied.")
        return [self.data[name] for name in names]


Endpoint = Callable[[Call], Reply]
ROUTES: list[tuple[str, re.Pattern[str], Endpoint]] = []


def route(method: str, path: str) -> Callable[[Endpoint], Endpoint]:
    """Register an endpoint; ``path`` follows ``/repos/OWNER/NAME``."""

    def register(endpoint: Endpoint) -> Endpoint:
        ROUTES.append((method, re.compile(path), endpoint))
        return endpoint

    return register


@route("GET", "")
def metadata(call: Call) -> Reply:
    repository = call.repository
    owner, name = repository.name.split("/")
    return as_json(
        {
            "id": repository.number,
            "name": name,
            "full_name": repository.name,
            "owner": {"login": owner},
            "private": repository.private,
            "visibility": "private" if repository.private else "public",
            "default_branch": repository.default_branch,
            "size": 0 if repository.is_empty else 1,
        }
    )


@route("GET", r"/git/matching-refs/(?P<ref>.+)")
def matching_refs(call: Call) -> Reply:
    _refuse_empty(call.repository)
    found = [_reference(name, commit) for name, commit in call.repository.refs("refs/" + call.part("ref"))]
    return _paged(call, found, call.page_size or len(found) + 1)


@route("GET", r"/git/ref/(?P<ref>.+)")
def one_ref(call: Call) -> Reply:
    _refuse_empty(call.repository)
    commit = call.repository.ref(call.part("ref").removeprefix("heads/"))
    if commit is None:
        raise not_found()
    return as_json(_reference("refs/" + call.part("ref"), commit))


@route("POST", "/git/refs")
def create_ref(call: Call) -> Reply:
    _refuse_empty(call.repository)
    name, commit = call.need("ref", "sha")
    if not name.startswith("refs/heads/"):
        raise Refusal(422, "Reference name must start with 'refs/' and have at least two slashes.")
    call.repository.add_ref(name.removeprefix("refs/heads/"), commit)
    return as_json(_reference(name, commit), 201)


@route("PATCH", r"/git/refs/heads/(?P<branch>.+)")
def update_ref(call: Call) -> Reply:
    (commit,) = call.need("sha")
    branch = call.part("branch")
    call.repository.move(branch, commit, force=call.data.get("force", False))
    return as_json(_reference(f"refs/heads/{branch}", commit))


@route("DELETE", r"/git/refs/heads/(?P<branch>.+)")
def delete_ref(call: Call) -> Reply:
    branch = call.part("branch")
    if call.repository.ref(branch) is None:
        raise Refusal(422, "Reference does not exist")
    call.repository.set_ref(branch, None)
    return Reply(204)


@route("POST", "/git/blobs")
def create_blob(call: Call) -> Reply:
    _refuse_empty(call.repository)
    content, encoding = call.data.get("content", ""), call.data.get("encoding", "utf-8")
    try:
        raw = binascii.a2b_base64(content, strict_mode=True) if encoding == "base64" else content.encode()
    except binascii.Error as error:
        raise Refusal(422, "content is not valid Base64") from error
    blob = call.repository.text("hash-object", "-w", "--no-filters", "--stdin", stdin=raw)
    return as_json({"sha": blob, "url": f"{call.url}/git/blobs/{blob}"}, 201)


@route("GET", r"/git/blobs/(?P<name>[0-9a-f]+)")
def read_blob(call: Call) -> Reply:
    raw = call.repository.git("cat-file", "blob", call.repository.require(call.part("name"), "blob"))
    if call.raw_blobs and _RAW.match(call.accept):
        return Reply(200, raw, {"Content-Type": "application/vnd.github.raw+json; charset=utf-8"})
    return as_json(
        {
            "sha": call.part("name"),
            "node_id": "QmxvYg==",
            "size": len(raw),
            "url": f"{call.url}/git/blobs/{call.part('name')}",
            "content": _wrapped(raw),
            "encoding": "base64",
        }
    )


@route("POST", "/git/trees")
def create_tree(call: Call) -> Reply:
    _refuse_empty(call.repository)
    (entries,) = call.need("tree")
    for entry in entries:
        if call.repository.kind(entry["sha"]) != entry["type"]:
            raise Refusal(422, f"tree.sha {entry['sha']} is not a valid blob")
    tree = call.repository.make_tree([(one["mode"], one["type"], one["sha"], one["path"]) for one in entries])
    return as_json(_tree(call, tree, recursive=False), 201)


@route("GET", r"/git/trees/(?P<name>[0-9a-f]+)")
def read_tree(call: Call) -> Reply:
    _refuse_empty(call.repository)
    tree = call.repository.text("rev-parse", f"{call.part('name')}^{{tree}}", check=False)
    return as_json(_tree(call, call.repository.require(tree, "tree"), recursive="recursive" in call.query))


@route("POST", "/git/commits")
def create_commit(call: Call) -> Reply:
    _refuse_empty(call.repository)
    message, tree = call.need("message", "tree")
    parents = call.data.get("parents", [])
    if call.repository.kind(tree) != "tree":
        raise Refusal(422, "Tree SHA does not exist")
    if any(call.repository.kind(parent) != "commit" for parent in parents):
        raise Refusal(422, "Parent SHA does not exist or is not a commit object")
    return as_json(_commit(call.repository, call.repository.make_commit(message, tree, parents)), 201)


@route("GET", r"/git/commits/(?P<name>[0-9a-f]+)")
def read_commit(call: Call) -> Reply:
    _refuse_empty(call.repository)
    return as_json(_commit(call.repository, call.repository.require(call.part("name"), "commit")))


@route("GET", "/commits")
def list_commits(call: Call) -> Reply:
    _refuse_empty(call.repository)
    start = call.query.get("sha", call.repository.default_branch)
    commits = call.repository.text("rev-list", start, check=False).split()
    if not commits:
        raise not_found()
    return _paged(call, commits, 30, lambda name: {"sha": name, "commit": _commit(call.repository, name)})


@route("GET", r"/compare/(?P<base>.+?)\.\.\.(?P<head>.+)")
def compare(call: Call) -> Reply:
    repository, base, head = call.repository, call.part("base"), call.part("head")
    if repository.kind(base) != "commit" or repository.kind(head) != "commit":
        raise not_found()
    shared = repository.text("merge-base", base, head, check=False)
    if not shared:
        raise Refusal(404, f"No common ancestor between {base} and {head}.")
    ahead = repository.text("rev-list", "--reverse", f"{base}..{head}").split()
    behind = repository.text("rev-list", f"{head}..{base}").split()
    states = {(False, False): "identical", (True, False): "ahead", (False, True): "behind", (True, True): "diverged"}
    size, page = int(call.query.get("per_page", 250)), int(call.query.get("page", 1))
    return as_json(
        {
            "status": states[bool(ahead), bool(behind)],
            "ahead_by": len(ahead),
            "behind_by": len(behind),
            "total_commits": len(ahead),
            "merge_base_commit": {"sha": shared},
            "commits": [{"sha": name} for name in ahead[(page - 1) * size : page * size]],
        }
    )


@route("GET", r"/contents/(?P<path>.+)")
def contents(call: Call) -> Reply:
    ref = call.query.get("ref", call.repository.default_branch)
    blob = call.repository.text("rev-parse", f"{ref}:{call.part('path')}", check=False)
    raw = call.repository.git("cat-file", "blob", call.repository.require(blob, "blob"))
    if _RAW.match(call.accept):
        return Reply(200, raw, {"Content-Type": "application/vnd.github.raw+json; charset=utf-8"})
    small = len(raw) <= _CONTENTS_LIMIT
    return as_json(
        {
            "type": "file",
            "path": call.part("path"),
            "sha": blob,
            "size": len(raw),
            "encoding": "base64" if small else "none",
            "content": _wrapped(raw) if small else "",
        }
    )


def _refuse_empty(repository: Repository) -> None:
    if repository.is_empty:
        raise Refusal(409, "Git Repository is empty.")


def _reference(name: str, commit: str) -> dict[str, Any]:
    return {"ref": name, "node_id": "UmVm", "object": {"type": "commit", "sha": commit}}


def _wrapped(raw: bytes) -> str:
    text = base64.b64encode(raw).decode()
    return "".join(text[at : at + 60] + "\n" for at in range(0, len(text), 60))


def _tree(call: Call, tree: str, *, recursive: bool) -> dict[str, Any]:
    found = []
    options = ("-r", "-t") if recursive else ()
    for line in call.repository.git("ls-tree", "-z", "-l", *options, tree).decode().split("\0")[:-1]:
        head, path = line.split("\t", 1)
        mode, kind, name, size = head.split()
        entry = {"path": path, "mode": mode, "type": kind, "sha": name}
        found.append(entry | ({"size": int(size)} if kind == "blob" else {}))
    return {"sha": tree, "tree": found[: call.tree_limit], "truncated": len(found) > call.tree_limit}


def _commit(repository: Repository, name: str) -> dict[str, Any]:
    head, _, message = repository.git("cat-file", "commit", name).decode().partition("\n\n")
    fields = [line.split(" ", 1) for line in head.splitlines()]
    return {
        "sha": name,
        "message": message.rstrip("\n"),
        "tree": {"sha": next(value for key, value in fields if key == "tree")},
        "parents": [{"sha": value} for key, value in fields if key == "parent"],
    }


def _paged(call: Call, found: list[Any], default: int, shape: Callable[[Any], Any] = lambda one: one) -> Reply:
    size, page = int(call.query.get("per_page", default)), int(call.query.get("page", 1))
    reply = as_json([shape(one) for one in found[(page - 1) * size : page * size]])
    if page * size < len(found):
        last = -(-len(found) // size)
        reply.headers["Link"] = f'<{call.url}?page={page + 1}>; rel="next", <{call.url}?page={last}>; rel="last"'
    return reply
