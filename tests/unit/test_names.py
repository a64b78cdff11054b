"""Names from settings: what is taken, what is refused, and what is never shown."""

from __future__ import annotations

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.names import is_commit, parse_branch, parse_repository, parse_tree_path


@pytest.mark.parametrize("name", ["example/app", "Example-Org/my.app_2", "a/b", "user_corp/x", " example/app\n"])
def test_repositories_that_are_taken(name: str) -> None:
    """OWNER/NAME in the characters that GitHub allows, white space around it ignored."""
    assert parse_repository(name) == name.strip()


NO_REPOSITORIES = [
    "",
    "app",
    "a/b/c",
    "/b",
    "a/",
    "a/..",
    "a/.",
    "-a/b",
    "a b/c",
    "a/b?x",
    "a/b#c",
    "ü/b",
    "a/b\nc",
    "a%2Fb/c",
]
NO_REPOSITORIES += ["https://github.com/a/b", "a/" + "b" * 101, "a/b:c", "../a"]


@pytest.mark.parametrize("name", NO_REPOSITORIES)
def test_repositories_that_are_refused(name: str) -> None:
    """Anything that could be another path of the API, or no name at all, is a setting that cannot be used."""
    with pytest.raises(SettingError, match="VIBEY_STATE_REPOSITORY"):
        parse_repository(name)


@pytest.mark.parametrize(
    "name", ["vibey-state", "team/state", "grün", "a.b", "state@2", "#1", "50%", "a'b", 'a"b', "(x)"]
)
def test_branches_that_are_taken(name: str) -> None:
    """Every name that git takes, as it is."""
    assert parse_branch(name) == name


NO_BRANCHES = [
    "",
    " ",
    "a b",
    "a..b",
    "-a",
    "a~b",
    "a^b",
    "a:b",
    "a?b",
    "a*b",
    "a[b",
    "a\\b",
    "a\x00b",
    "a\nb",
    "a\x7fb",
]
NO_BRANCHES += ["/a", "a/", "a//b", "a.", "a.lock", "a/b.lock/c", ".a", "a/.b", "@", "HEAD", "a@{b", "refs/heads/a"]
NO_BRANCHES += ["a" * 245, "\udcff"]


@pytest.mark.parametrize("name", NO_BRANCHES)
def test_branches_that_are_refused(name: str) -> None:
    """What git would refuse, or take for something else, is a setting that cannot be used."""
    with pytest.raises(SettingError, match="VIBEY_STATE_BRANCH"):
        parse_branch(name)


@pytest.mark.parametrize("path", ["state.vibey", "a/b/state.vibey", "a b", ".state", "grün"])
def test_paths_that_are_taken(path: str) -> None:
    """A relative path of plain names."""
    assert parse_tree_path(path) == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "./a",
        "a/../b",
        "..",
        ".git/config",
        "a/.GIT/b",
        "a\nb",
        "a\x00",
        "a\\b",
        "é" * 128,
        "\udcff",
    ],
)
def test_paths_that_are_refused(path: str) -> None:
    """A path that leads out of the tree, or into git's own files, cannot be used."""
    with pytest.raises(SettingError, match="VIBEY_STATE_PATH"):
        parse_tree_path(path)


def test_what_is_refused_is_not_repeated_where_it_may_hold_a_password() -> None:
    """A URL given as the repository is not shown; a branch's name is, with nothing in it that a terminal obeys."""
    with pytest.raises(SettingError) as caught:
        parse_repository("https://someone:hunter2@host.example/a/b")
    assert "hunter2" not in caught.value.message + caught.value.hint
    with pytest.raises(SettingError, match=r"is a\\x1bb, which cannot be a branch's name"):
        parse_branch("a\x1bb")


@pytest.mark.parametrize("name", ["a" * 40, "0123456789abcdef" * 4])
def test_commits(name: str) -> None:
    """40 or 64 lower-case hex digits."""
    assert is_commit(name)


@pytest.mark.parametrize("name", ["", "a" * 39, "a" * 41, "A" * 40, "g" * 40, "a" * 40 + "\n", None, 1, b"a" * 40])
def test_no_commits(name: object) -> None:
    """Nothing else."""
    assert not is_commit(name)
