"""GitHub on a bad day: refusals, limits, lost answers, stale replicas."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.remotes.conftest import BRANCH, PATH, Place
from tests.support.github_server import faults
from tests.support.github_server.faults import Fault
from tests.support.github_server.replies import Refusal, Reply, as_json
from tests.support.github_server.server import GitHubServer
from vibey_actions.errors import NotAStateBranch, RateLimited, RemoteDenied, RemoteFailed, RemoteMoved, TooLarge

REFS = r"/git/refs"
LISTING = r"/git/matching-refs"


@pytest.fixture
def first(on_github: Place, github: GitHubServer) -> str:
    """The branch's head, pushed by another machine."""
    commit = on_github.open(cache="elsewhere").push({PATH: on_github.sealed()}, None)
    github.forget()
    return commit


def holds_one_more(place: Place, first: str, commit: str) -> bool:
    """Whether the branch is at ``commit``, made once, on ``first``."""
    return place.repository.history(BRANCH) == [commit, first] and place.repository.ref(BRANCH) == commit


# How many requests things cost


def test_a_sync_without_news_is_one_request(on_github: Place, github: GitHubServer, first: str) -> None:
    """The head is one request, and a file that is here is none."""
    on_github.open().fetch(first)
    github.forget()
    remote = on_github.open()
    assert remote.head() == first
    remote.fetch(first)
    assert [one.method for one in github.seen] == ["GET"]


def test_a_push_is_four_requests(on_github: Place, github: GitHubServer, first: str) -> None:
    """Blob, tree, commit, reference, and nothing else after the head was read."""
    on_github.open().push({PATH: on_github.sealed()}, first)
    sent = [(one.method, one.path.rsplit("/git/")[1]) for one in github.seen]
    assert sent == [("POST", "blobs"), ("POST", "trees"), ("POST", "commits"), ("PATCH", f"refs/heads/{BRANCH}")]


def test_the_upload_tells_its_length(on_github: Place, github: GitHubServer, first: str) -> None:
    """The blob is sent with a Content-Length, not in chunks of unknown number."""
    on_github.open().push({PATH: on_github.sealed(100_000)}, first)
    (blob,) = [one for one in github.seen if one.path.endswith("/git/blobs")]
    assert int(blob.headers["content-length"]) == blob.size > 133_000
    assert "transfer-encoding" not in blob.headers


# Refusals


def test_an_empty_repository_gets_one_clear_message(
    github: GitHubServer, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Nothing is retried, nothing is seeded, the way out is said."""
    place = Place(github.add_repository("example/empty", empty=True), tmp_path_factory.mktemp("empty"), github)
    with pytest.raises(RemoteFailed, match="is empty") as caught:
        place.open().head()
    assert "first commit" in caught.value.hint
    with pytest.raises(RemoteFailed, match="is empty"):
        place.open().push({PATH: place.sealed()}, None)
    assert place.repository.is_empty
    assert github.count("POST") == 0
    assert github.count("GET", LISTING) == 2


def test_the_branch_moved_between_commit_and_reference(on_github: Place, github: GitHubServer, first: str) -> None:
    """422 not a fast forward, the branch elsewhere: a lost race, and the reference was sent once."""
    moved: list[str] = []

    def move() -> None:
        moved.append(on_github.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 theirs"}))

    github.arm(Fault(before=move), "PATCH")
    with pytest.raises(RemoteMoved):
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert on_github.repository.ref(BRANCH) == moved[0]
    assert github.count("PATCH") == 1


def test_a_conflict_at_a_moved_branch_is_a_lost_race(on_github: Place, github: GitHubServer, first: str) -> None:
    """409 is settled like 422: the branch is read, it is elsewhere."""

    def move() -> None:
        on_github.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 theirs"})
        raise Refusal(409, "Conflict")

    github.arm(Fault(before=move), "PATCH")
    with pytest.raises(RemoteMoved):
        on_github.open().push({PATH: on_github.sealed()}, first)


def test_a_race_that_a_stale_replica_hides(on_github: Place, github: GitHubServer, first: str) -> None:
    """The reading after 422 shows the old head three times; it is still a lost race."""

    def move() -> None:
        on_github.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 theirs"})

    github.arm(Fault(before=move), "PATCH")
    github.arm(faults.stale(BRANCH, first), "GET", LISTING, times=3)
    with pytest.raises(RemoteMoved):
        on_github.open().push({PATH: on_github.sealed()}, first)


@pytest.mark.parametrize("status", [409, 422])
def test_a_refusal_at_an_unmoved_branch_is_permanent(
    on_github: Place, github: GitHubServer, first: str, status: int
) -> None:
    """409 or 422 while the branch stands where it was is no race: the server's words are said."""
    github.arm(faults.refuse(status, "Reference cannot be updated"), "PATCH", times=9)
    with pytest.raises(RemoteDenied, match="Reference cannot be updated"):
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert github.count("PATCH") == 1
    assert on_github.repository.ref(BRANCH) == first


RULE = "Repository rule violations found\n\nGH013: Cannot update this protected ref.\n"


def test_a_ruleset_on_an_update(on_github: Place, github: GitHubServer, first: str) -> None:
    """The rule is named, at once, with what to exclude."""
    on_github.repository.rules[BRANCH] = RULE
    with pytest.raises(RemoteDenied, match="GH013: Cannot update") as caught:
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert "exclude the state branch" in caught.value.hint
    assert github.count("GET", LISTING) == 1


def test_a_ruleset_on_the_first_push(on_github: Place) -> None:
    """The same when the branch is to be created; it is not taken for a race."""
    on_github.repository.rules[BRANCH] = RULE.replace("update", "create")
    with pytest.raises(RemoteDenied, match="GH013: Cannot create"):
        on_github.open().push({PATH: on_github.sealed()}, None)
    assert on_github.repository.ref(BRANCH) is None


@pytest.mark.parametrize("path", ["/git/blobs", "/git/trees", "/git/commits", "/git/refs/heads"])
def test_a_token_without_permission(on_github: Place, github: GitHubServer, first: str, path: str) -> None:
    """The permission to add is named, wherever it is missed; nothing is tried twice."""
    github.arm(faults.not_permitted(), "*", path, times=9)
    with pytest.raises(RemoteDenied, match="Resource not accessible by integration") as caught:
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert "contents: write" in caught.value.hint
    assert github.count("*", path) == 1
    assert on_github.slept == []


def test_a_token_without_permission_on_the_first_push(on_github: Place, github: GitHubServer) -> None:
    """The refusal of a reference that would be created says the same."""
    github.arm(faults.not_permitted(), "POST", REFS)
    with pytest.raises(RemoteDenied, match="Resource not accessible"):
        on_github.open().push({PATH: on_github.sealed()}, None)


def test_a_reading_token_cannot_push(on_github: Place, github: GitHubServer, first: str) -> None:
    """A token that may only read reads, and is refused by name when it writes."""
    remote = on_github.open(token=next(iter(github.readers)))
    assert remote.head() == first
    with pytest.raises(RemoteDenied, match="Resource not accessible"):
        remote.push({PATH: on_github.sealed()}, first)


@pytest.mark.parametrize("status", [400, 404, 409, 422])
@pytest.mark.parametrize("path", ["/git/blobs", "/git/trees", "/git/commits"])
def test_a_refused_object_is_a_failure_and_no_race(
    on_github: Place, github: GitHubServer, first: str, path: str, status: int
) -> None:
    """A blob, tree or commit that is refused never starts the cycle again."""
    github.arm(faults.refuse(status, "No"), "POST", path, times=9)
    with pytest.raises(RemoteFailed, match="No") as caught:
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert not isinstance(caught.value, RemoteMoved)
    assert github.count("POST", path) == 1
    assert on_github.repository.ref(BRANCH) == first


@pytest.mark.parametrize("path", ["/git/blobs", "/git/refs/heads"])
def test_a_token_that_expired(on_github: Place, github: GitHubServer, first: str, path: str) -> None:
    """401 names the token and says that nothing is lost."""
    github.arm(faults.unauthorized(), "*", path)
    with pytest.raises(RemoteDenied, match="token is wrong or has expired") as caught:
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert "nothing is lost" in caught.value.hint
    assert on_github.repository.ref(BRANCH) == first


def test_a_wrong_token(on_github: Place) -> None:
    """A wrong token is said, and never shown."""
    with pytest.raises(RemoteDenied, match="token is wrong") as caught:
        on_github.open(token="wrong-and-secret").head()
    assert "wrong-and-secret" not in f"{caught.value.message} {caught.value.hint}"


def test_no_token_for_a_private_repository(on_github: Place) -> None:
    """Without a token a private repository looks like none; the message says so."""
    with pytest.raises(RemoteDenied, match="needs a token") as caught:
        on_github.open(token=None).head()
    assert "GH_TOKEN" in caught.value.hint


def test_a_public_repository_needs_no_token(on_github: Place, first: str) -> None:
    """Reading a public repository works without one."""
    on_github.repository.private = False
    remote = on_github.open(token=None)
    assert remote.fetch(remote.head() or "").stat().st_size > 0


def test_404_is_no_missing_branch(on_github: Place, github: GitHubServer, first: str) -> None:
    """A repository that is not there, or hidden, is never a repository without the branch."""
    github.arm(faults.refuse(404, "Not Found"), "GET", LISTING, times=9)
    with pytest.raises(RemoteDenied, match="not there"):
        on_github.open().head()


def test_a_reply_that_is_not_json(on_github: Place, github: GitHubServer) -> None:
    """A proxy's page in place of an answer is no answer."""
    github.arm(faults.answer(Reply(200, b"<html>Sign in</html>", {"Content-Type": "text/html"})), "GET")
    with pytest.raises(RemoteFailed, match="not JSON"):
        on_github.open().head()


ODD_LISTINGS: list[object] = [
    {},
    None,
    [1],
    [{}],
    [{"ref": f"refs/heads/{BRANCH}"}],
    [{"ref": f"refs/heads/{BRANCH}", "object": {}}],
]
ODD_LISTINGS.append([{"ref": f"refs/heads/{BRANCH}", "object": {"sha": "no commit"}}])


@pytest.mark.parametrize("odd", ODD_LISTINGS, ids=str)
def test_a_reply_of_another_form_is_no_missing_branch(on_github: Place, github: GitHubServer, odd: object) -> None:
    """JSON that is not a listing of references raises."""
    github.arm(faults.answer(as_json(odd)), "GET", LISTING)
    with pytest.raises(RemoteFailed):
        on_github.open().head()


def test_a_listing_of_many_pages(on_github: Place, github: GitHubServer, first: str) -> None:
    """The branch is found on a later page; it is absent only when the last page was read."""
    for number in range(5):
        on_github.repository.set_ref(f"{BRANCH}!{number}", first)
    github.page_size = 1
    assert on_github.open().head() == first
    on_github.repository.set_ref(BRANCH, None)
    github.forget()
    assert on_github.open().head() is None
    assert github.count("GET", LISTING) == 5


# Lost answers


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("make", [faults.reset, faults.server_error], ids=["reset", "502"])
@pytest.mark.parametrize("path", ["/git/blobs", "/git/trees", "/git/commits", "/git/refs/heads"])
def test_a_lost_answer_of_a_push(  # noqa: PLR0917
    on_github: Place, github: GitHubServer, first: str, path: str, make: Callable[..., Fault], when: str
) -> None:
    """Whatever answer of a push is lost, before or after its effect, the push happens once."""
    github.arm(make(after=when == "after"), "*", path, times=2)
    commit = on_github.open().push({PATH: on_github.sealed()}, first)
    assert holds_one_more(on_github, first, commit)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("make", [faults.reset, faults.server_error], ids=["reset", "502"])
def test_a_lost_answer_of_a_first_push(
    on_github: Place, github: GitHubServer, make: Callable[..., Fault], when: str
) -> None:
    """A branch whose creation was not answered is found; it is not created twice."""
    github.arm(make(after=when == "after"), "POST", REFS)
    commit = on_github.open().push({PATH: on_github.sealed()}, None)
    assert on_github.repository.history(BRANCH) == [commit]
    assert github.count("POST", REFS) == (1 if when == "after" else 2)


@pytest.mark.parametrize("shown", ["old", "absent"])
def test_a_lost_answer_and_a_stale_replica(on_github: Place, github: GitHubServer, first: str, shown: str) -> None:
    """A reading after the lost answer that is old, or shows no branch, is repeated; nothing is sent twice."""
    github.arm(faults.reset(after=True), "PATCH")
    github.arm(faults.stale(BRANCH, first if shown == "old" else None), "GET", LISTING, times=3)
    commit = on_github.open().push({PATH: on_github.sealed()}, first)
    assert holds_one_more(on_github, first, commit)
    assert github.count("PATCH") == 1


def test_a_lost_creation_and_a_stale_replica(on_github: Place, github: GitHubServer) -> None:
    """The branch was created, three readings do not show it: it is not created again."""
    github.arm(faults.reset(after=True), "POST", REFS)
    github.arm(faults.stale(BRANCH, None), "GET", LISTING, times=3, skip=1)
    commit = on_github.open().push({PATH: on_github.sealed()}, None)
    assert on_github.repository.history(BRANCH) == [commit]
    assert github.count("POST", REFS) == 1


def test_a_lost_creation_and_a_replica_that_lags_for_long(on_github: Place, github: GitHubServer) -> None:
    """Even a second creation, refused because the branch exists, ends as the one push that it is."""
    github.arm(faults.reset(after=True), "POST", REFS)
    github.arm(faults.stale(BRANCH, None), "GET", LISTING, times=6, skip=1)
    commit = on_github.open().push({PATH: on_github.sealed()}, None)
    assert on_github.repository.history(BRANCH) == [commit]


def test_the_branch_moved_on_after_a_lost_answer(on_github: Place, github: GitHubServer, first: str) -> None:
    """Somebody pushed on top of ours before we could look: the cycle starts again and finds ours in the history."""

    def move_on(reply: Reply) -> Reply:
        on_github.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 on top"})
        raise faults.Reset

    github.arm(Fault(after=move_on), "PATCH")
    with pytest.raises(RemoteMoved):
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert len(on_github.repository.history(BRANCH)) == 3


def test_two_first_pushes_at_once(on_github: Place, github: GitHubServer) -> None:
    """422 Reference already exists is a lost race."""

    def create() -> None:
        on_github.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1"})

    github.arm(Fault(before=create), "POST", REFS)
    with pytest.raises(RemoteMoved):
        on_github.open().push({PATH: on_github.sealed()}, None)
    assert len(on_github.repository.history(BRANCH)) == 1


def test_a_server_that_stays_down(on_github: Place, github: GitHubServer, first: str) -> None:
    """Retries end, with growing pauses, and the error says what the server said."""
    github.arm(faults.server_error(503), "POST", "/git/blobs", times=99)
    with pytest.raises(RemoteFailed, match="503"):
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert github.count("POST", "/git/blobs") == 4
    assert on_github.slept == sorted(on_github.slept)
    assert on_github.repository.ref(BRANCH) == first


def test_a_read_survives_a_reset(on_github: Place, github: GitHubServer, first: str) -> None:
    """Reading is tried again."""
    github.arm(faults.reset(), "GET", times=2)
    assert on_github.open().head() == first


def test_the_own_push_is_believed_over_a_stale_replica(on_github: Place, github: GitHubServer, first: str) -> None:
    """Right after a push the listing shows the old head three times; the new one is what head() gives."""
    remote = on_github.open()
    commit = remote.push({PATH: on_github.sealed()}, first)
    github.arm(faults.stale(BRANCH, first), "GET", LISTING, times=3)
    assert remote.head() == commit


def test_the_own_creation_is_believed_over_a_stale_replica(on_github: Place, github: GitHubServer) -> None:
    """Right after the first push the listing shows no branch; head() does not say that there is none."""
    remote = on_github.open()
    commit = remote.push({PATH: on_github.sealed()}, None)
    github.arm(faults.stale(BRANCH, None), "GET", LISTING, times=3)
    assert remote.head() == commit
    github.arm(faults.stale(BRANCH, None), "GET", LISTING, times=99)
    with pytest.raises(RemoteFailed, match="before the push"):
        remote.head()


def test_a_commit_that_a_replica_does_not_know_yet(on_github: Place, github: GitHubServer, first: str) -> None:
    """A head that was just read may be unknown to the next replica: it is asked again."""
    github.arm(faults.refuse(404, "Not Found"), "GET", f"/git/commits/{first}", times=2)
    assert on_github.open().fetch(first).stat().st_size > 0


# Downloads


def test_base64_with_line_breaks(on_github: Place, github: GitHubServer) -> None:
    """An answer in JSON, its base64 wrapped at 60 characters, gives the same bytes."""
    source = on_github.sealed(1_000_003)
    commit = on_github.open(cache="elsewhere").push({PATH: source}, None)
    github.raw_blobs = False
    assert on_github.open().fetch(commit).read_bytes() == source.read_bytes()


@pytest.mark.parametrize("form", ["raw", "json"])
def test_a_download_that_breaks_off(on_github: Place, github: GitHubServer, form: str) -> None:
    """A connection that ends in the middle gives the whole file on the next try, never a part."""
    source = on_github.sealed(500_000)
    commit = on_github.open(cache="elsewhere").push({PATH: source}, None)
    github.raw_blobs = form == "raw"
    github.arm(faults.cut(200_000), "GET", "/git/blobs", times=2)
    assert on_github.open().fetch(commit).read_bytes() == source.read_bytes()


def test_a_download_that_always_breaks_off(on_github: Place, github: GitHubServer) -> None:
    """A file that cannot be had whole is an error, and nothing of it is kept."""
    commit = on_github.open(cache="elsewhere").push({PATH: on_github.sealed(500_000)}, None)
    github.arm(faults.cut(200_000), "GET", "/git/blobs", times=99)
    with pytest.raises(RemoteFailed):
        on_github.open().fetch(commit)
    assert [path for path in (on_github.folder / "cache").rglob("*") if path.is_file()] == []


EMPTY_CONTENT = {"content": "", "encoding": "none", "size": 1008}
WRONG = {
    "empty": Reply(200, b"", {"Content-Type": "application/vnd.github.raw+json"}),
    "another": Reply(200, b"VBYSTAT1" + bytes(1000), {"Content-Type": "application/vnd.github.raw+json"}),
    "longer": Reply(200, b"VBYSTAT1" + bytes(2000), {"Content-Type": "application/vnd.github.raw+json"}),
    "encoding none": as_json(EMPTY_CONTENT),
    "no content": as_json({"size": 1008, "encoding": "base64"}),
    "not base64": as_json({"content": "!!!!", "encoding": "base64"}),
    "cut base64": as_json({"content": "QUJ", "encoding": "base64"}),
    "no object": as_json([]),
}


@pytest.mark.parametrize("reply", WRONG.values(), ids=WRONG.keys())
def test_wrong_content_is_an_error(on_github: Place, github: GitHubServer, first: str, reply: Reply) -> None:
    """What arrives is checked against its size and name; empty content is no empty database."""
    github.arm(faults.answer(reply), "GET", "/git/blobs", times=99)
    with pytest.raises(RemoteFailed):
        on_github.open().fetch(first)


def test_a_truncated_tree(on_github: Place, github: GitHubServer) -> None:
    """A tree that GitHub cuts is no state branch, although the part that is shown has the file alone."""
    commit = on_github.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1", "z1": b"1", "z2": b"2"})
    github.tree_limit = 1
    with pytest.raises(NotAStateBranch):
        on_github.open().fetch(commit)


def test_a_tree_that_is_not_the_commits(on_github: Place, github: GitHubServer, first: str) -> None:
    """The listing of a tree has to add up to the tree's name."""
    other = on_github.repository.text("hash-object", "-w", "--stdin", stdin=b"VBYSTAT1 other")
    entry = {"path": PATH, "mode": "100644", "type": "blob", "sha": other, "size": 14}
    github.arm(
        faults.answer(as_json({"sha": "0" * 40, "tree": [entry], "truncated": False})), "GET", "/git/trees", times=9
    )
    with pytest.raises(RemoteFailed, match="something else"):
        on_github.open().fetch(first)


def test_an_upload_that_arrives_changed(on_github: Place, github: GitHubServer, first: str) -> None:
    """The name GitHub gives the blob is compared with the name of what was read here; the branch is not moved."""
    github.arm(faults.answer(as_json({"sha": "0" * 40}, 201)), "POST", "/git/blobs")
    with pytest.raises(RemoteFailed, match="damaged"):
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert on_github.repository.ref(BRANCH) == first


def altered(name: str, value: object) -> Fault:
    """The effect happens, and the answer about it has another value."""
    return Fault(after=lambda reply: as_json({**reply.data, name: value}, reply.status))


def test_a_tree_that_is_not_the_one_asked_for(on_github: Place, github: GitHubServer, first: str) -> None:
    """The new tree has to have the name computed here; no commit is made of another one."""
    github.arm(altered("sha", "0" * 40), "POST", "/git/trees")
    with pytest.raises(RemoteFailed, match="something else"):
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert github.count("POST", "/git/commits") == 0


@pytest.mark.parametrize("wrong", [("tree", {"sha": "0" * 40}), ("parents", []), ("sha", "no name")])
def test_a_commit_that_is_not_the_one_asked_for(
    on_github: Place, github: GitHubServer, first: str, wrong: tuple[str, object]
) -> None:
    """A commit with another tree, or another parent than the head that was read, is not put on the branch."""
    github.arm(altered(*wrong), "POST", "/git/commits")
    with pytest.raises(RemoteFailed):
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert on_github.repository.ref(BRANCH) == first


# Sizes and limits


def test_a_file_above_the_limit_is_not_sent(on_github: Place, github: GitHubServer, first: str) -> None:
    """Above 100 MB nothing is uploaded, and the message has both numbers."""
    source = on_github.folder / "large"
    with source.open("wb") as file:
        file.truncate(100_000_001)
    with pytest.raises(TooLarge, match=r"100\.0 MB; GitHub takes at most 100\.0 MB"):
        on_github.open().push({PATH: source}, first)
    assert github.seen == []


def test_a_file_near_the_limit_is_announced(on_github: Place, github: GitHubServer, first: str) -> None:
    """Above 40 MiB it is said that GitHub may fail."""
    source = on_github.folder / "large"
    with source.open("wb") as file:
        file.truncate((40 << 20) + 1)
    github.arm(faults.not_permitted(), "POST")
    with pytest.raises(RemoteDenied):
        on_github.open().push({PATH: source}, first)
    assert any("41.9 MB" in notice for notice in on_github.notices)


@pytest.mark.parametrize("status", [403, 429])
def test_a_secondary_limit_is_waited_for(on_github: Place, github: GitHubServer, first: str, status: int) -> None:
    """Retry-After is kept to, aloud, and the push goes on."""
    github.arm(faults.secondary_limit(3, status), "POST", "/git/trees")
    commit = on_github.open().push({PATH: on_github.sealed()}, first)
    assert holds_one_more(on_github, first, commit)
    assert on_github.slept == [3.0]
    assert any("waiting 3 seconds" in notice for notice in on_github.notices)


def test_a_secondary_limit_without_a_time(on_github: Place, github: GitHubServer, first: str) -> None:
    """By its text alone it is known for what it is; GitHub asks for a minute then."""
    github.arm(faults.secondary_limit(), "PATCH")
    commit = on_github.open().push({PATH: on_github.sealed()}, first)
    assert holds_one_more(on_github, first, commit)
    assert on_github.slept == [60.0]


def test_too_many_requests_without_a_time(on_github: Place, github: GitHubServer, first: str) -> None:
    """A bare 429 is a limit too."""
    github.arm(faults.refuse(429, ""), "GET")
    assert on_github.open().head() == first
    assert on_github.slept == [60.0]


def test_waiting_has_an_end(on_github: Place, github: GitHubServer, first: str) -> None:
    """What an operation waits in total is capped; then it stops with the time."""
    github.arm(faults.secondary_limit(40), "POST", times=9)
    with pytest.raises(RateLimited, match="UTC"):
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert on_github.slept == [40.0]


def test_a_reset_an_hour_away_is_not_slept_through(on_github: Place, github: GitHubServer) -> None:
    """The hourly limit names its reset and stops at once."""
    github.arm(faults.primary_limit(3600), "GET")
    with pytest.raises(RateLimited, match=r"open again at \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC, in 3\d\d\d seconds"):
        on_github.open().head()
    assert on_github.slept == []


def test_a_reset_that_is_near_is_waited_for(on_github: Place, github: GitHubServer, first: str) -> None:
    """A reset within the cap is waited for."""
    github.arm(faults.primary_limit(50), "GET")
    assert on_github.open().head() == first
    assert 1 <= on_github.slept[0] <= 52


def test_a_push_that_does_not_fit_the_hour_is_not_begun(on_github: Place, github: GitHubServer, first: str) -> None:
    """With fewer requests left than a push takes, nothing is uploaded."""
    github.remaining = 4
    remote = on_github.open()
    remote.head()
    github.forget()
    with pytest.raises(RateLimited, match="3 of 4 requests"):
        remote.push({PATH: on_github.sealed()}, first)
    assert github.seen == []


def test_many_pushes_keep_to_the_writes_a_minute(on_github: Place, github: GitHubServer) -> None:
    """The 21st push within a minute waits, since 80 writes are allowed."""
    on_github.clock = lambda: 1_767_268_800.0
    remote = on_github.open()
    head: str | None = None
    for _ in range(21):
        head = remote.push({PATH: on_github.sealed(10)}, head)
    assert len(on_github.slept) == 1
    assert any("80 writes a minute" in notice for notice in on_github.notices)


# Elsewhere


def test_a_renamed_repository_is_read_and_named(on_github: Place, github: GitHubServer, first: str) -> None:
    """Reading follows the redirect, with a notice; writing names the new repository and changes nothing."""
    remote = on_github.open()
    github.rename("example/app", "example/new-name")
    assert remote.head() == first
    assert remote.fetch(first).stat().st_size > 0
    assert len([notice for notice in on_github.notices if "renamed" in notice]) == 1
    with pytest.raises(RemoteFailed, match="example/new-name") as caught:
        remote.push({PATH: on_github.sealed()}, first)
    assert "VIBEY_STATE_REPOSITORY to example/new-name" in caught.value.hint
    assert on_github.repository.ref(BRANCH) == first


def test_the_token_stays_at_home(on_github: Place, github: GitHubServer, first: str, tmp_path: Path) -> None:
    """A redirect to another host gets no token."""
    with GitHubServer(tmp_path / "elsewhere") as elsewhere:
        target = elsewhere.url.replace("127.0.0.1", "localhost")
        github.arm(faults.refuse(302, "Found", Location=f"{target}/repos/example/app/git/matching-refs/heads/x"), "GET")
        with pytest.raises(RemoteDenied):
            on_github.open().head()
        assert elsewhere.count("GET") == 1
        assert "authorization" not in elsewhere.seen[0].headers


def test_a_netrc_is_not_used(
    on_github: Place, github: GitHubServer, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials of the machine are not sent along, with or without a token of ours."""
    netrc = on_github.folder / "netrc"
    netrc.write_text("machine 127.0.0.1 login someone password something\n")
    monkeypatch.setenv("NETRC", str(netrc))
    assert on_github.open().head() == first
    with pytest.raises(RemoteDenied):
        on_github.open(token=None).head()
    assert [one.headers.get("authorization", "") for one in github.seen] == [f"Bearer {github.token}", ""]


def test_a_redirect_without_end(on_github: Place, github: GitHubServer) -> None:
    """A circle of redirects ends."""
    github.arm(faults.refuse(302, "Found", Location=f"{github.url}/repos/example/app"), "GET", times=99)
    with pytest.raises(RemoteFailed):
        on_github.open().head()
    assert github.count() <= 10


def test_the_servers_words_are_escaped(on_github: Place, github: GitHubServer, first: str) -> None:
    """Control characters in a message cannot act on a terminal, and a long one is cut."""
    github.arm(faults.refuse(422, "\x1b[2Jgone\r\n\x00\u202e" + "x" * 5000), "POST", "/git/trees")
    with pytest.raises(RemoteFailed) as caught:
        on_github.open().push({PATH: on_github.sealed()}, first)
    assert caught.value.message.isprintable()
    assert "\\x1b[2Jgone" in caught.value.message
    assert len(caught.value.message) < 1000
