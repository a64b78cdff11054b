"""Artifacts of workflow runs: a folder store, and the endpoints that list and hand them out.

The store is ``STORE/RUN_ID/NAME/`` with ``artifact.zip`` and ``meta.json``: ``id``, ``created_at``, ``expires_at``,
``attempt``, ``digest``, ``repository`` (OWNER/NAME of the run's) and, for a fork's run, ``head_repository_id``. The
stand-in for actions/upload-artifact writes the same. As on GitHub a name is there once a run; files with a leading dot
are left out; what has expired is still listed, and answers 410; a download is a redirect to another host, where a token
is refused.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import re
import shutil
import time
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.github_server.api import Call, route
from tests.support.github_server.replies import Refusal, Reply, as_json, not_found
from tests.support.github_server.runs import runs_of

BLOBS = re.compile(r"/blobs/(?P<number>\d+)/(?P<secret>[0-9a-f]+)")
FORBIDDEN = re.compile(r'[":<>|*?\r\n\\/]')
_numbers = itertools.count(1)


@dataclass(frozen=True)
class Stored:
    """One artifact in the store."""

    folder: Path

    @property
    def facts(self) -> dict[str, Any]:
        facts: dict[str, Any] = json.loads((self.folder / "meta.json").read_text("utf-8"))
        return facts

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def run_id(self) -> int:
        return int(self.folder.parent.name)

    @property
    def archive(self) -> bytes:
        return (self.folder / "artifact.zip").read_bytes()

    @property
    def files(self) -> dict[str, bytes]:
        with zipfile.ZipFile(io.BytesIO(self.archive)) as opened:
            return {one.filename: opened.read(one) for one in opened.infolist()}

    @property
    def expired(self) -> bool:
        return bool(datetime.fromisoformat(self.facts["expires_at"]) <= datetime.now(UTC))

    def change(self, **facts: Any) -> None:
        """Arrange what GitHub says of the artifact."""
        (self.folder / "meta.json").write_text(json.dumps(self.facts | facts), "utf-8")

    def expire(self) -> None:
        """Let its time be over: the archive is gone, the listing still has it."""
        self.change(expires_at=(datetime.now(UTC) - timedelta(minutes=1)).isoformat())


@dataclass(frozen=True)
class ArtifactStore:
    """All runs' artifacts in ``folder``."""

    folder: Path

    def put(
        self,
        run_id: int,
        name: str,
        files: Mapping[str, bytes],
        *,
        repository: str = "example/app",
        attempt: int = 1,
        days: float = 30,
        age: timedelta = timedelta(),
        archive: bytes | None = None,
        **facts: Any,
    ) -> Stored:
        """Upload an artifact as a job of the run would, ``age`` ago; ``archive`` takes the place of the files' zip."""
        assert name, "an artifact has a name"
        assert not FORBIDDEN.search(name), f"the artifact name is not valid: {name}"
        folder = self.folder / str(run_id) / name
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            raise Refusal(409, "an artifact with this name already exists on the workflow run") from None
        packed = zipped(files) if archive is None else archive
        made = datetime.now(UTC) - age
        (folder / "artifact.zip").write_bytes(packed)
        known: dict[str, Any] = {
            "id": time.time_ns() // 1000 + next(_numbers),
            "created_at": made.isoformat(),
            "expires_at": (made + timedelta(days=days)).isoformat(),
            "attempt": attempt,
            "digest": f"sha256:{hashlib.sha256(packed).hexdigest()}",
            "repository": repository,
        }
        (folder / "meta.json").write_text(json.dumps(known | facts), "utf-8")
        return Stored(folder)

    def all(self, repository: str | None = None) -> list[Stored]:
        """The artifacts of a repository (default: all), newest first; one that is being made is not there yet."""
        found = [Stored(path.parent) for path in self.folder.glob("*/*/meta.json")]
        mine = [one for one in found if repository is None or one.facts.get("repository", repository) == repository]
        return sorted(mine, key=lambda one: (one.facts["created_at"], one.facts["id"]), reverse=True)

    def names(self) -> list[str]:
        return [one.name for one in self.all()]

    def find(self, number: int) -> Stored | None:
        return next((one for one in self.all() if one.facts["id"] == number), None)

    @staticmethod
    def secret(stored: Stored) -> str:
        """What signs the address of a download."""
        return secret_of(stored)

    def delete(self, name: str) -> None:
        for one in self.all():
            if one.name == name:
                shutil.rmtree(one.folder)


def zipped(files: Mapping[str, bytes]) -> bytes:
    """The archive of ``files`` as the runner makes it: hidden ones left out, modes lost."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            if not any(part.startswith(".") for part in name.split("/")):
                archive.writestr(name, content)
    return packed.getvalue()


@route("GET", "/actions/artifacts")
def list_artifacts(call: Call) -> Reply:
    return _listing(call, call.artifacts.all(call.repository.name))


@route("GET", r"/actions/runs/(?P<run>\d+)/artifacts")
def list_of_run(call: Call) -> Reply:
    known = any(run.number == int(call.part("run")) for run in runs_of(call.repository))
    if not known and not (call.artifacts.folder / call.part("run")).is_dir():
        raise not_found()
    return _listing(
        call, [one for one in call.artifacts.all(call.repository.name) if one.run_id == int(call.part("run"))]
    )


@route("GET", r"/actions/artifacts/(?P<number>\d+)/zip")
def download(call: Call) -> Reply:
    found = call.artifacts.find(int(call.part("number")))
    if found is None:
        raise not_found()
    if found.expired:
        raise Refusal(410, "Artifact has expired")
    return Reply(302, b"", {"Location": f"{call.blobs}/blobs/{found.facts['id']}/{secret_of(found)}"})


def secret_of(found: Stored) -> str:
    """What signs the address of a download."""
    return hashlib.sha256(str(found.folder).encode()).hexdigest()[:32]


def blob(store: ArtifactStore, match: re.Match[str], headers: Mapping[str, str]) -> Reply:
    """What the storage's host answers: only to the signed address, and never to a token."""
    found = store.find(int(match["number"]))
    if "authorization" in headers:
        raise Refusal(403, "Server failed to authenticate the request.")
    if found is None or match["secret"] != secret_of(found):
        raise not_found()
    return Reply(200, found.archive, {"Content-Type": "application/zip"})


def _listing(call: Call, found: list[Stored]) -> Reply:
    if "name" in call.query:
        found = [one for one in found if one.name == call.query["name"]]
    size, page = int(call.query.get("per_page", 30)), int(call.query.get("page", 1))
    shown = [_described(call, one) for one in found[(page - 1) * size : page * size]]
    return as_json({"total_count": len(found), "artifacts": shown})


def _described(call: Call, one: Stored) -> dict[str, Any]:
    facts = one.facts
    return {
        "id": facts["id"],
        "node_id": "QXJ0",
        "name": one.name,
        "size_in_bytes": facts.get("size_in_bytes", len(one.archive)),
        "url": f"{call.url}/{facts['id']}",
        "archive_download_url": f"{call.url}/{facts['id']}/zip",
        "expired": one.expired,
        "digest": facts["digest"],
        "created_at": facts["created_at"],
        "updated_at": facts["created_at"],
        "expires_at": facts["expires_at"],
        "workflow_run": {
            "id": one.run_id,
            "repository_id": call.repository.number,
            "head_repository_id": facts.get("head_repository_id", call.repository.number),
            "head_branch": "main",
            "head_sha": "0" * 40,
        },
    }
