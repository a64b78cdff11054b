"""Artifacts over the REST API: which there are, whose they are, and how they come here whole or not at all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.integration.remotes.conftest import Place
from tests.support.github_server import GitHubServer, faults
from tests.support.github_server.replies import as_json
from vibey_actions.errors import ArtifactGone, ArtifactUnusable, RateLimited, RemoteDenied, RemoteFailed
from vibey_actions.remotes import archives, artifacts
from vibey_actions.remotes.artifacts import Artifact, Artifacts
from vibey_actions.remotes.http import Api

FILES = {"state.export": b"VBYSTAT1 content"}


@pytest.fixture
def notices() -> list[str]:
    return []


@pytest.fixture
def found(on_github: Place, github: GitHubServer, notices: list[str]) -> Artifacts:
    """The artifacts of a repository on the local GitHub."""
    return opened(on_github, github.token, notices)


def opened(place: Place, token: str | None, notices: list[str]) -> Artifacts:
    assert place.github is not None
    api = Api(place.github.url, token, notice=notices.append, wait_cap=5, sleep=place.slept.append)
    return Artifacts(api, place.repository.name, notices.append)


def stored_archive(github: GitHubServer) -> bytes:
    (one,) = github.artifacts.all()
    return one.archive


def only(found: Artifacts) -> Artifact:
    (one,) = found.recent()
    return one


def test_what_is_listed(found: Artifacts, github: GitHubServer) -> None:
    """Newest first, each with its run, its age and whether it has expired; another repository's are not among them."""
    github.add_repository("example/other")
    github.artifacts.put(7, "theirs", FILES, repository="example/other")
    old = github.artifacts.put(7, "one", FILES, age=timedelta(days=3))
    github.artifacts.put(8, "two", FILES)
    old.expire()
    two, one = found.recent()
    assert (two.name, two.run_id, two.expired, two.own) == ("two", "8", False, True)
    assert (one.name, one.run_id, one.expired, one.own) == ("one", "7", True, True)
    assert datetime.now(UTC) - one.created > timedelta(days=2)
    assert [one.name for one in found.of_run("7")] == ["one"]
    assert [one.name for one in found.named("two")] == ["two"]


def test_a_forks_artifact_is_not_our_own(found: Artifacts, github: GitHubServer) -> None:
    """An artifact whose run's code came from another repository is told apart, and so is one that does not say."""
    github.artifacts.put(7, "fork", FILES, head_repository_id=999)
    github.artifacts.put(7, "unsaid", FILES, head_repository_id=None)
    assert [one.own for one in found.recent()] == [False, False]


def test_many_pages(found: Artifacts, github: GitHubServer) -> None:
    """Every artifact is listed once, although another is uploaded between two pages."""
    for number in range(230):
        github.artifacts.put(7, f"a{number}", FILES)
    names = []
    for one in found.recent():
        names.append(one.name)
        if len(names) == 50:
            github.artifacts.put(8, "late", FILES)
    assert sorted(names) == sorted(f"a{number}" for number in range(230))
    assert len(found.of_run("7")) == 230


def test_what_is_too_old_ends_the_listing(found: Artifacts, github: GitHubServer) -> None:
    """No page is asked for behind one on which nothing can still be kept."""
    for number in range(210):
        github.artifacts.put(7, f"a{number}", FILES, age=timedelta(days=91))
    assert len(list(found.recent())) == 100
    assert github.count("GET", "/actions/artifacts") == 1


def test_more_than_are_looked_through(
    found: Artifacts, github: GitHubServer, notices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of very many artifacts the newest are looked through, and that is said."""
    monkeypatch.setattr(artifacts, "_MOST_PAGES", 1)
    for number in range(101):
        github.artifacts.put(7, f"a{number}", FILES)
    assert len(list(found.recent())) == 100
    assert "run-id" in notices[0]


def test_a_run_that_is_not_there(found: Artifacts) -> None:
    """A run nobody knows is an error that names it, never a run without artifacts."""
    with pytest.raises(ArtifactGone, match="no run 12"):
        found.of_run("12")


def test_a_download(found: Artifacts, github: GitHubServer, tmp_path: Path) -> None:
    """The archive comes whole, for this user alone, and the storage's host is never sent the token."""
    github.artifacts.put(7, "one", FILES)
    archive = tmp_path / "archive.zip"
    found.download(only(found), archive)
    assert archive.read_bytes() == stored_archive(github)
    assert archive.stat().st_mode & 0o777 == 0o600
    (stored,) = [one for one in github.seen if "/blobs/" in one.path]
    assert "authorization" not in stored.headers


@pytest.mark.parametrize("fault", [faults.cut(20), faults.reset(after=True), faults.server_error()])
def test_a_download_that_breaks_off(
    found: Artifacts, github: GitHubServer, tmp_path: Path, fault: faults.Fault
) -> None:
    """A transfer that ended early is made again from its beginning."""
    github.artifacts.put(7, "one", FILES)
    github.arm(fault, "GET", "/blobs/")
    found.download(only(found), tmp_path / "archive.zip")
    assert (tmp_path / "archive.zip").read_bytes() == stored_archive(github)


def test_a_download_that_never_comes_whole(found: Artifacts, github: GitHubServer, tmp_path: Path) -> None:
    """After some tries it is a failure."""
    github.artifacts.put(7, "one", FILES)
    github.arm(faults.cut(20), "GET", "/blobs/", times=100)
    with pytest.raises(RemoteFailed):
        found.download(only(found), tmp_path / "archive.zip")


def test_an_expired_artifact(found: Artifacts, github: GitHubServer, tmp_path: Path) -> None:
    """It is named as expired, before anything is asked for, and also where the listing did not know yet."""
    stored = github.artifacts.put(7, "one", FILES)
    before = only(found)
    stored.expire()
    for one in (only(found), before):
        with pytest.raises(ArtifactGone, match="artifact one of run 7 has expired"):
            found.download(one, tmp_path / "archive.zip")
    github.artifacts.delete("one")
    with pytest.raises(ArtifactGone, match="deleted"):
        found.download(before, tmp_path / "archive.zip")


def test_an_artifact_that_is_too_large(
    found: Artifacts, github: GitHubServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that says so is not asked for; one that says less than it sends is given up on the way."""
    for place in (archives, artifacts):
        monkeypatch.setattr(place, "LARGEST", 100)
    stored = github.artifacts.put(7, "one", {}, archive=bytes(5000))
    with pytest.raises(ArtifactUnusable):
        found.download(only(found), tmp_path / "archive.zip")
    assert github.count("GET", "/zip") == 0
    stored.change(size_in_bytes=50)
    with pytest.raises(ArtifactUnusable):
        found.download(only(found), tmp_path / "archive.zip")
    assert (tmp_path / "archive.zip").stat().st_size <= 100


def test_a_token_that_may_not_see_artifacts(on_github: Place, github: GitHubServer, notices: list[str]) -> None:
    """The permission that is missing is named."""
    github.arm(faults.not_permitted(), "GET", "/actions/artifacts")
    with pytest.raises(RemoteDenied) as caught:
        list(opened(on_github, github.token, notices).recent())
    assert "actions: read" in caught.value.hint
    with pytest.raises(RemoteDenied):
        list(opened(on_github, "wrong-token", notices).recent())
    with pytest.raises(RemoteDenied):
        list(opened(on_github, None, notices).recent())


def test_a_rate_limit_is_said(found: Artifacts, github: GitHubServer) -> None:
    """A limit that is open again only after an hour is no refusal and no empty listing."""
    github.arm(faults.primary_limit(3600), "GET", "/actions/artifacts")
    with pytest.raises(RateLimited):
        list(found.recent())


@pytest.mark.parametrize(
    "facts",
    [{"id": "x"}, {"created_at": "never"}, {"created_at": None}, {"size_in_bytes": None}],
)
def test_an_answer_that_is_not_githubs(found: Artifacts, github: GitHubServer, facts: dict[str, object]) -> None:
    """A listing with members of another kind is refused, and an age that cannot be read hides nothing."""
    whole = {"id": 1, "name": "one", "size_in_bytes": 3, "expired": False, "created_at": "2024-01-01T00:00:00Z"}
    answer = as_json({"total_count": 1, "artifacts": [whole | facts]})
    github.arm(faults.answer(answer), "GET", "/actions/artifacts")
    if "created_at" in facts:
        assert only(found).created == datetime.max.replace(tzinfo=UTC)
        return
    with pytest.raises(RemoteFailed):
        list(found.recent())
