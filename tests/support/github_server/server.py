"""The HTTP server: who may do what, rate-limit headers, redirects of renamed repositories, armed faults, counting."""

from __future__ import annotations

import json
import re
import ssl
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.github_server.api import ROUTES, Call
from tests.support.github_server.artifacts import BLOBS, ArtifactStore, blob
from tests.support.github_server.faults import Fault
from tests.support.github_server.permissions import JobToken
from tests.support.github_server.replies import Refusal, Reply, not_found
from tests.support.github_server.repository import Repository
from tests.support.github_server.serving import Asked, FaultyServer

ROOT = "/api/v3"
_REPOSITORY = re.compile(r"/repos/(?P<name>[^/]+/[^/]+)(?P<rest>/.*)?")
_BY_NUMBER = re.compile(r"/repositories/(?P<number>\d+)(?P<rest>/.*)?")


@dataclass(frozen=True)
class Seen:
    """A request that came in, and the status it got (0: none)."""

    method: str
    path: str
    headers: dict[str, str]
    size: int
    status: int


class GitHubServer(FaultyServer):
    """A server on a free port of this machine, with repositories under ``folder``. Use it in a ``with`` block.

    ``url`` is what GITHUB_API_URL should be, ``token`` a token that may write, ``readers`` are tokens that may only
    read, ``job_tokens`` those of workflows' jobs, with the rights that each has. With ``tls`` it speaks https.
    ``raw_blobs`` off makes blobs JSON whatever was asked for; ``tree_limit`` and ``page_size`` cut listings.
    """

    prefix = ROOT

    def __init__(self, folder: Path, port: int = 0, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(tls, port)
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.token = "write-token-of-the-tests"
        self.readers = {"read-token-of-the-tests"}
        self.job_tokens: dict[str, JobToken] = {}
        self.artifacts = ArtifactStore(folder / "artifacts")
        self.repositories: dict[str, Repository] = {}
        self.renamed: dict[str, Repository] = {}
        self.seen: list[Seen] = []
        self.remaining = 5000
        self.reset_at = int(time.time()) + 3600
        self.raw_blobs = True
        self.tree_limit = 100_000
        self.page_size: int | None = None
        self._lock = threading.Lock()

    def add_repository(
        self, name: str, *, private: bool = True, default_branch: str = "main", empty: bool = False
    ) -> Repository:
        """A new repository; unless ``empty`` its default branch holds a README."""
        number = len(self.repositories) + 1
        path = self.folder / f"{name.replace('/', '--')}.git"
        repository = Repository.create(path, name, number, private=private, default_branch=default_branch)
        if not empty:
            repository.commit_files(default_branch, {"README.md": b"An example.\n"})
        self.repositories[name] = repository
        return repository

    def rename(self, old: str, new: str) -> None:
        """Rename a repository: requests under the old name are redirected from now on."""
        repository = self.repositories.pop(old)
        repository.name = new
        self.repositories[new] = self.renamed[old] = repository

    def count(self, method: str = "*", path: str = "") -> int:
        """How many requests matched so far."""
        pattern = re.compile(path)
        return sum(method in {"*", one.method} for one in self.seen if pattern.search(one.path))

    def forget(self) -> None:
        """Start counting anew."""
        self.seen.clear()

    # Answering

    def happen(self, asked: Asked) -> tuple[Reply, int | None]:
        status = 0
        fault = self.faults.take(asked.method, asked.path)
        try:
            reply = self._answer(fault, asked)
            status = reply.status
        finally:
            with self._lock:
                self.seen.append(Seen(asked.method, asked.path, asked.headers, len(asked.body), status))
        return reply, fault.cut

    def _answer(self, fault: Fault, asked: Asked) -> Reply:
        try:
            return fault.before() or fault.after(self._effect(asked))
        except Refusal as refusal:
            return self._limited(refusal.reply)

    def _effect(self, asked: Asked) -> Reply:
        try:
            return self._limited(self._dispatch(asked))
        except Refusal as refusal:
            return self._limited(refusal.reply)

    def _dispatch(self, asked: Asked) -> Reply:
        if stored := BLOBS.fullmatch(asked.path):
            return blob(self.artifacts, stored, asked.headers)
        repository, rest = self._find(asked.path)
        self._authorize(asked, repository, rest)
        if repository is None:
            raise not_found()
        for method, pattern, endpoint in ROUTES:
            match = pattern.fullmatch(rest)
            if method == asked.method and match:
                url = f"{self.url}{asked.path}"
                call = Call(repository, match, asked.query, _json(asked.body), asked.headers.get("accept", ""), url)
                call.raw_blobs, call.tree_limit, call.page_size = self.raw_blobs, self.tree_limit, self.page_size
                # Another name of this machine, so another host to a client that minds where its token goes.
                call.artifacts, call.blobs = self.artifacts, self.url.replace("127.0.0.1", "localhost")
                return endpoint(call)
        raise not_found()

    def _find(self, path: str) -> tuple[Repository | None, str]:
        """The repository a path names, and what follows. Refuses with a redirect where it was renamed."""
        by_number, by_name = _BY_NUMBER.fullmatch(path), _REPOSITORY.fullmatch(path)
        if by_name and by_name["name"] in self.renamed:
            number = self.renamed[by_name["name"]].number
            raise Refusal(301, "Moved Permanently", Location=f"{self.url}/repositories/{number}{by_name['rest'] or ''}")
        if by_number:
            known = {str(repository.number): repository for repository in self.repositories.values()}
            return known.get(by_number["number"]), by_number["rest"] or ""
        return (self.repositories.get(by_name["name"]), by_name["rest"] or "") if by_name else (None, "")

    def _authorize(self, asked: Asked, repository: Repository | None, rest: str) -> None:
        scheme, _, token = asked.headers.get("authorization", "").partition(" ")
        if token in self.job_tokens and repository is not None:
            self._authorize_job(self.job_tokens[token], asked, repository, rest)
            return
        known = scheme.lower() in {"bearer", "token"} and (token == self.token or token in self.readers)
        if scheme and not known:
            raise Refusal(401, "Bad credentials")
        if repository is None or (repository.private and not known):
            raise not_found()
        if asked.method != "GET" and token != self.token:
            raise Refusal(403, "Resource not accessible by integration") if known else not_found()

    @staticmethod
    def _authorize_job(token: JobToken, asked: Asked, repository: Repository, rest: str) -> None:
        """A job's token knows its own repository and what is public, and may there what its permissions say."""
        own = token.repository == repository.name
        if not own and repository.private:
            raise not_found()
        granted = token if own else JobToken(repository.name)
        if not granted.may(asked.method, rest, public=not repository.private):
            raise Refusal(403, "Resource not accessible by integration")

    def _limited(self, reply: Reply) -> Reply:
        self.remaining = max(0, self.remaining - 1)
        limits = {"limit": 5000, "remaining": self.remaining, "reset": self.reset_at}
        reply.headers = {f"x-ratelimit-{name}": str(value) for name, value in limits.items()} | reply.headers
        return reply


def _json(body: bytes) -> Any:
    try:
        return json.loads(body) if body else {}
    except ValueError as error:
        raise Refusal(400, "Problems parsing JSON") from error
