"""What every remote does, clause by clause of remotes/base.py, whatever is behind it."""

from __future__ import annotations

import os
import shutil
import stat
import threading
from pathlib import Path

import pytest

from tests.integration.remotes.conftest import BRANCH, PATH, Place
from vibey_actions.errors import NotAStateBranch, RemoteFailed, RemoteMoved

UNKNOWN = "1234567890" * 4


def unknown(place: Place) -> str:
    """A commit that nobody has."""
    return UNKNOWN if len(place.repository.ref("main") or "") == 40 else UNKNOWN[:32] * 2


def take_away(place: Place) -> None:
    """Let the repository be gone, or hidden from the token."""
    shutil.rmtree(place.repository.path)
    if place.github:
        del place.github.repositories[place.repository.name]


def test_no_branch_is_none(place: Place) -> None:
    """A repository that lists its references without the branch proves that there is none."""
    assert place.open().head() is None


def test_a_longer_name_is_another_branch(place: Place) -> None:
    """Only the exact name counts, not one it is a part of."""
    for other in (f"{BRANCH}-2", f"x/{BRANCH}", f"{BRANCH}x/y"):
        place.repository.commit_files(other, {PATH: b"VBYSTAT1"})
    assert place.open().head() is None


def test_a_first_push_creates_the_branch(place: Place) -> None:
    """The branch is made at a commit without parents that holds exactly the file and says nothing of the rows."""
    source = place.sealed()
    commit = place.open().push({PATH: source}, None)
    assert place.open().head() == commit == place.repository.ref(BRANCH)
    assert place.repository.history(BRANCH) == [commit]
    assert place.repository.read(commit, PATH) == source.read_bytes()
    assert place.repository.text("ls-tree", "-r", "--format=%(objectmode) %(path)", commit) == f"100644 {PATH}"
    assert place.repository.text("log", "-1", "--format=%B", commit) == "Update vibey state"


def test_a_push_builds_on_its_parent(place: Place) -> None:
    """The new commit has the given head as its only parent and replaces the file."""
    remote = place.open()
    first = remote.push({PATH: place.sealed()}, None)
    source = place.sealed()
    second = remote.push({PATH: source}, first)
    assert place.repository.history(BRANCH) == [second, first]
    assert place.repository.read(second, PATH) == source.read_bytes()
    third = remote.push({PATH: place.sealed()}, second)
    assert place.repository.history(BRANCH) == [third, second, first]


def test_a_push_by_a_machine_that_has_nothing_cached(place: Place) -> None:
    """Building on a parent whose file was never here needs no cache."""
    first = place.open().push({PATH: place.sealed()}, None)
    second = place.open(cache="other").push({PATH: place.sealed()}, first)
    assert place.repository.history(BRANCH) == [second, first]


def test_a_push_on_a_commit_made_by_hand(place: Place) -> None:
    """A parent that another program wrote is built on as it is."""
    by_hand = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 by hand"})
    commit = place.open().push({PATH: place.sealed()}, by_hand)
    assert place.repository.history(BRANCH) == [commit, by_hand]


@pytest.mark.parametrize("size", [0, 1, 2, 3, 57, 65_535, 300_001])
def test_bytes_arrive_as_they_were(place: Place, size: int) -> None:
    """Every length, and bytes of every value, come back exactly."""
    source = place.sealed(b"VBYSTAT1" + os.urandom(size))
    commit = place.open().push({PATH: source}, None)
    assert place.open(cache="other").fetch(commit).read_bytes() == source.read_bytes()


def test_line_ends_are_left_alone(place: Place) -> None:
    """Nothing is converted on the way, whatever the bytes look like."""
    content = b"VBYSTAT1\r\nline\r\n\r\r\n\n\x00\xff"
    commit = place.open().push({PATH: place.sealed(content)}, None)
    assert place.open(cache="other").fetch(commit).read_bytes() == content


def test_a_fetched_file_is_private(place: Place) -> None:
    """The local copy and its folder are for the user alone."""
    commit = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 content"})
    path = place.open().fetch(commit)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_commit_is_downloaded_once(place: Place) -> None:
    """A commit fetched before is there although the repository is gone."""
    commit = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 content"})
    place.open().fetch(commit)
    shutil.rmtree(place.repository.path)
    assert place.open().fetch(commit).read_bytes() == b"VBYSTAT1 content"


def test_a_pushed_file_is_not_downloaded(place: Place) -> None:
    """What this machine pushed it has."""
    source = place.sealed()
    commit = place.open().push({PATH: source}, None)
    shutil.rmtree(place.repository.path)
    assert place.open().fetch(commit).read_bytes() == source.read_bytes()


def test_a_discarded_file_is_downloaded_again(place: Place) -> None:
    """After discard a damaged copy is replaced by what the remote holds."""
    commit = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 content"})
    remote = place.open()
    remote.fetch(commit).write_bytes(b"VBYSTAT1 damaged")
    remote.discard(commit)
    assert remote.fetch(commit).read_bytes() == b"VBYSTAT1 content"


@pytest.mark.parametrize("damage", [b"", b"VBYSTAT1 cont", b"XBYSTAT1 content"])
def test_a_cut_or_foreign_copy_is_downloaded_again(place: Place, damage: bytes) -> None:
    """A copy that cannot be the sealed file is not handed out."""
    commit = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 content"})
    place.open().fetch(commit).write_bytes(damage)
    assert place.open().fetch(commit).read_bytes() == b"VBYSTAT1 content"


def test_an_empty_state_file_is_handed_out_as_it_is(place: Place) -> None:
    """An empty file is the opener's to refuse; it is not taken for a missing branch."""
    commit = place.repository.commit_files(BRANCH, {PATH: b""})
    assert place.open().fetch(commit).read_bytes() == b""


def test_an_old_commit_can_be_fetched(place: Place) -> None:
    """A base that is not the head any more is had by its commit."""
    old = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 old"})
    place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 new"})
    assert place.open().fetch(old).read_bytes() == b"VBYSTAT1 old"


def test_a_commit_nobody_has_is_a_failure(place: Place) -> None:
    """An unknown commit is an error that names it, never an empty file."""
    with pytest.raises(RemoteFailed, match=unknown(place)[:12]):
        place.open().fetch(unknown(place))


@pytest.mark.parametrize("name", ["", "HEAD", "main", "../../etc/passwd", "G" * 40, "A" * 40, "a" * 39])
def test_what_is_no_commit_is_refused(place: Place, name: str) -> None:
    """Only 40 or 64 lower-case hex digits name a commit."""
    with pytest.raises(RemoteFailed):
        place.open().fetch(name)


TREES = {
    "another file beside": {PATH: b"VBYSTAT1", "README.md": b"x"},
    "another name": {"data.vibey": b"VBYSTAT1"},
    "in a folder": {f"folder/{PATH}": b"VBYSTAT1"},
    "a folder of that name": {f"{PATH}/x": b"VBYSTAT1"},
    "a folder beside": {PATH: b"VBYSTAT1", "folder/x": b"x"},
}


@pytest.mark.parametrize("files", TREES.values(), ids=TREES.keys())
def test_a_branch_with_other_files_is_no_state_branch(place: Place, files: dict[str, bytes]) -> None:
    """A tree that is not exactly the state file is refused by name."""
    commit = place.repository.commit_files(BRANCH, files)
    with pytest.raises(NotAStateBranch, match=PATH):
        place.open().fetch(commit)


@pytest.mark.parametrize("mode", ["100755", "120000", "160000"])
def test_a_state_file_that_is_not_plain_is_refused(place: Place, mode: str) -> None:
    """An executable, a symbolic link or a submodule under the file's name is no state file."""
    repository = place.repository
    kind = "commit" if mode == "160000" else "blob"
    name = repository.ref("main") if kind == "commit" else repository.text("hash-object", "-w", "--stdin", stdin=b"x")
    commit = repository.make_commit("by hand", repository.make_tree([(mode, kind, name or "", PATH)]), [])
    repository.set_ref(BRANCH, commit)
    with pytest.raises(NotAStateBranch):
        place.open().fetch(commit)


def test_the_default_branch_is_no_state_branch(place: Place) -> None:
    """A default branch is refused before its content is had, and is never pushed to."""
    repository = place.repository
    commit = repository.commit_files(repository.default_branch, {PATH: b"VBYSTAT1"})
    remote = place.open(branch=repository.default_branch)
    with pytest.raises(NotAStateBranch, match="default branch"):
        remote.fetch(remote.head() or "")
    with pytest.raises((NotAStateBranch, RemoteMoved)):
        place.open(branch=repository.default_branch, cache="other").push({PATH: place.sealed()}, None)
    assert repository.ref(repository.default_branch) == commit


@pytest.mark.parametrize("where", ["on_git", "on_github"])
def test_a_default_branch_that_is_not_born_yet_is_refused(where: str, request: pytest.FixtureRequest) -> None:
    """A first push does not create the branch that the repository calls its default, where that can be known."""
    place: Place = request.getfixturevalue(where)
    repository = place.repository
    repository.commit_files("other", {"README.md": b"x"})
    repository.git("symbolic-ref", "HEAD", f"refs/heads/{BRANCH}")
    repository.default_branch = BRANCH
    with pytest.raises(NotAStateBranch, match="default branch"):
        place.open().push({PATH: place.sealed()}, None)
    assert repository.ref(BRANCH) is None


def test_a_lost_race_changes_nothing(place: Place) -> None:
    """The branch is moved only from the exact head that was read."""
    remote = place.open()
    first = remote.push({PATH: place.sealed()}, None)
    theirs = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 theirs"})
    with pytest.raises(RemoteMoved):
        remote.push({PATH: place.sealed()}, first)
    assert place.repository.ref(BRANCH) == theirs


def test_a_lost_race_of_two_first_pushes(place: Place) -> None:
    """A branch that exists is never created again, and what it holds stays."""
    remote = place.open()
    assert remote.head() is None
    theirs = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 theirs"})
    with pytest.raises(RemoteMoved):
        remote.push({PATH: place.sealed()}, None)
    assert place.repository.ref(BRANCH) == theirs


def test_a_branch_that_was_deleted_is_not_made_again(place: Place) -> None:
    """A push onto a head whose branch is gone is a lost race."""
    remote = place.open()
    first = remote.push({PATH: place.sealed()}, None)
    place.repository.set_ref(BRANCH, None)
    with pytest.raises(RemoteMoved):
        remote.push({PATH: place.sealed()}, first)
    assert place.repository.ref(BRANCH) is None


def test_a_rewritten_branch_is_not_pushed_to(place: Place) -> None:
    """A branch that somebody replaced by another history has moved."""
    remote = place.open()
    first = remote.push({PATH: place.sealed()}, None)
    place.repository.set_ref(BRANCH, None)
    theirs = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 other history"})
    with pytest.raises(RemoteMoved):
        remote.push({PATH: place.sealed()}, first)
    assert place.repository.ref(BRANCH) == theirs


def test_ancestors(place: Place) -> None:
    """A commit is an ancestor of itself and of what was built on it, and of nothing else."""
    commits = [place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 %d" % number}) for number in range(5)]
    sibling = place.repository.commit_files("sibling", {PATH: b"VBYSTAT1 sibling"}, parent=commits[1])
    stranger = place.repository.commit_files("stranger", {PATH: b"VBYSTAT1 stranger"})
    remote = place.open()
    assert remote.is_ancestor(commits[4], commits[4])
    assert remote.is_ancestor(commits[3], commits[4])
    assert remote.is_ancestor(commits[0], commits[4])
    assert not remote.is_ancestor(commits[4], commits[0])
    assert not remote.is_ancestor(sibling, commits[4])
    assert not remote.is_ancestor(stranger, commits[4])
    assert not remote.is_ancestor(unknown(place), commits[4])


def test_the_parent_of_what_is_cached_is_known(place: Place) -> None:
    """Whether the base is the parent of the head is answered without asking, once the head was fetched."""
    first = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 1"})
    second = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 2"})
    remote = place.open()
    remote.fetch(second)
    shutil.rmtree(place.repository.path)
    assert remote.is_ancestor(first, second)


def test_an_ancestor_that_cannot_be_asked_for_is_a_failure(place: Place) -> None:
    """Without an answer nothing is concluded."""
    head, other = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1"}), unknown(place)
    take_away(place)
    with pytest.raises(RemoteFailed):
        place.open().is_ancestor(other, head)


def test_a_replay_is_seen(place: Place) -> None:
    """A head with the very file of an earlier commit was put back by hand; a head of its own was not."""
    commits = [place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 %d" % number}) for number in (1, 2, 1)]
    remote = place.open()
    assert remote.is_replay(commits[2])
    assert not remote.is_replay(commits[1])
    assert not remote.is_replay(commits[0])


def test_the_history_ends_at_the_base(place: Place) -> None:
    """The commits behind a head come newest first, without the base and what is behind it."""
    commits = [place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 %d" % number}) for number in range(5)]
    remote = place.open()
    assert list(remote.history(commits[1], commits[4], 10)) == [commits[4], commits[3], commits[2]]
    assert list(remote.history(commits[1], commits[3], 10)) == [commits[3], commits[2]]
    assert list(remote.history(commits[4], commits[4], 10)) == []


def test_the_history_without_a_base_is_all_of_it(place: Place) -> None:
    """Where no base is named the first commit is the last one listed."""
    commits = [place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 %d" % number}) for number in range(3)]
    assert list(place.open().history(None, commits[2], 10)) == commits[::-1]


def test_the_history_is_no_longer_than_asked_for(place: Place) -> None:
    """The newest commits are listed where there are more than the caller wants to look at."""
    commits = [place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 %d" % number}) for number in range(5)]
    assert list(place.open().history(None, commits[4], 2)) == [commits[4], commits[3]]
    assert list(place.open(cache="other").history(commits[0], commits[4], 4)) == commits[:0:-1]


def test_a_long_history_is_listed_whole(place: Place) -> None:
    """More commits than a page of an answer holds come in order, none twice and none left out."""
    content = "".join(
        f"commit refs/heads/{BRANCH}\ncommitter x <x@example.com> {n} +0000\ndata 1\nx\n" for n in range(230)
    )
    place.repository.git("fast-import", "--quiet", stdin=content.encode())
    commits = place.repository.history(BRANCH)
    assert len(commits) == 230
    assert list(place.open().history(commits[220], commits[0], 500)) == commits[:220]


def test_the_history_of_a_commit_nobody_has_is_a_failure(place: Place) -> None:
    """An unknown head is an error, never a history without commits."""
    place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1"})
    with pytest.raises(RemoteFailed):
        place.open().history(None, unknown(place), 10)


def test_a_file_in_a_folder_of_the_branch(place: Place) -> None:
    """The state file's path may lead through folders."""
    source = place.sealed()
    remote = place.open(path="deep/down/state.vibey")
    first = remote.push({"deep/down/state.vibey": source}, None)
    second = remote.push({"deep/down/state.vibey": source}, first)
    assert place.open(path="deep/down/state.vibey", cache="other").fetch(second).read_bytes() == source.read_bytes()


def test_a_set_of_files_is_pushed_as_one_commit(place: Place) -> None:
    """A push moves exactly the files it was given, in folders too."""
    files = {PATH: place.sealed(), "a": place.sealed(), "a.b": place.sealed(), "a/b": place.sealed()}
    del files["a"]
    commit = place.open().push(files, None)
    listed = place.repository.text("ls-tree", "-r", "--name-only", commit).splitlines()
    assert sorted(listed) == sorted(files)
    assert all(place.repository.read(commit, path) == source.read_bytes() for path, source in files.items())


@pytest.mark.parametrize("branch", ["team/state", "state#1", "50%20off", "a&b=c;d", "grün", "it's", 'say"so"'])
def test_branches_with_awkward_names(place: Place, branch: str) -> None:
    """Every name that git allows works, and is the branch that is made."""
    remote = place.open(branch=branch)
    first = remote.push({PATH: place.sealed()}, None)
    second = remote.push({PATH: place.sealed()}, first)
    assert place.repository.ref(branch) == second == remote.head()


def test_a_place_that_is_not_there_is_no_missing_branch(place: Place) -> None:
    """A repository that cannot be read raises; it is never taken for one without the branch."""
    take_away(place)
    with pytest.raises(RemoteFailed):
        place.open().head()


def test_pushes_of_many_threads_all_land(place: Place) -> None:
    """Racing writers that read and try again all get their commit onto one line of history, each exactly once."""
    contents = [f"VBYSTAT1 {number}".encode() for number in range(4)]
    pushed: list[str] = []

    def write(number: int) -> None:
        remote = place.open(cache=f"cache-{number % 2}")
        source = place.sealed(contents[number])
        for _ in range(40):
            try:
                pushed.append(remote.push({PATH: source}, remote.head()))
            except RemoteMoved:
                continue
            return

    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    history = place.repository.history(BRANCH)
    assert sorted(history) == sorted(pushed)
    assert sorted(place.repository.read(commit, PATH) for commit in history) == contents


def test_nothing_is_left_behind(place: Place) -> None:
    """After work only cached files and their facts are on this machine, all private."""
    remote = place.open()
    commit = remote.push({PATH: place.sealed()}, None)
    remote.discard(commit)
    remote.fetch(commit)
    found = [path for path in (place.folder / "cache").rglob("*") if path.is_file()]
    assert sorted(path.name for path in found) == [commit, f"{commit}.facts"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in found} == {0o600}


def test_the_cache_cannot_be_written(place: Place) -> None:
    """A cache that cannot be used is said with its place and what to do."""
    commit = place.repository.commit_files(BRANCH, {PATH: b"VBYSTAT1"})
    Path(place.folder / "cache").write_text("a file in the way")
    with pytest.raises(RemoteFailed) as caught:
        place.open().fetch(commit)
    assert "XDG_CACHE_HOME" in caught.value.hint
