"""Names from settings: what is taken, what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.remotes.names import (
    is_commit,
    parse_branch,
    parse_place,
    parse_repository,
    parse_tree_path,
    watermark_name,
)

BASE = Path("/home/example/work")


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
    "path", ["", "/a", "a/", "a//b", "./a", "a/../b", "..", ".git/config", "a/.GIT/b", "a\nb", "a\x00"]
)
def test_paths_that_are_refused(path: str) -> None:
    """A path that leads out of the tree, or into git's own files, cannot be used."""
    with pytest.raises(SettingError, match="VIBEY_STATE_PATH"):
        parse_tree_path(path)


PLACES = {
    "/srv/state.git": ("/srv/state.git", "file"),
    "../state.git": ("/home/example/state.git", "file"),
    "state.git": ("/home/example/work/state.git", "file"),
    "./a:b": ("/home/example/work/a:b", "file"),
    "file:///srv/state.git": ("file:///srv/state.git", "file"),
    "file://localhost/srv/state.git": ("file:///srv/state.git", "file"),
    "ssh://host.example/srv/state.git": ("ssh://host.example/srv/state.git", "ssh"),
    "ssh://git@host.example:2222/state.git": ("ssh://host.example:2222/state.git", "ssh"),
    "ssh://[::1]:22/state.git": ("ssh://[::1]:22/state.git", "ssh"),
    "git@host.example:team/state.git": ("host.example:team/state.git", "ssh"),
    "host.example:state.git": ("host.example:state.git", "ssh"),
    "[::1]:state.git": ("[::1]:state.git", "ssh"),
    "https://host.example/state.git": ("https://host.example/state.git", "https"),
    "https://someone:secret@host.example:8443/x/state.git": ("https://host.example:8443/x/state.git", "https"),
    "https://token@host.example/state.git": ("https://host.example/state.git", "https"),
    "HTTPS://host.example/state.git": ("https://host.example/state.git", "https"),
}


@pytest.mark.parametrize("text", PLACES)
def test_places_that_are_taken(text: str) -> None:
    """Paths made absolute, file, ssh in both forms and https, without any user or password."""
    place = parse_place(text, BASE)
    assert (place.url, place.scheme) == PLACES[text]


def test_user_and_password_are_kept_apart() -> None:
    """They serve the connection, decoded, and are in no text that could be shown."""
    place = parse_place("https://some%40one:se%3Acret@host.example/state.git")
    assert (place.user, place.password) == ("some@one", "se:cret")
    assert "se" not in repr(place).replace("scheme", "")
    assert "cret" not in watermark_name("b", place=place)
    assert parse_place("git@host.example:x").user == "git"
    assert parse_place("ssh://git:secret@host.example/x").password == ""


NO_PLACES = [
    "",
    " ",
    "http://host.example/x",
    "git://host.example/x",
    "ftp://host.example/x",
    "ext::sh -c id",
    "fd::17",
]
NO_PLACES += ["transport::/x", "https://", "https://host.example", "https://host.example/"]
NO_PLACES += [
    "ssh://-oProxyCommand=x/y",
    "-oProxyCommand=x:y",
    "https://host.example:99999/x",
    "https://host.example:0/x",
    "https://ho st/x",
    "file://x",
]
NO_PLACES += ["file://host.example/x", "file:///", "https://host.example/x?token=1", "https://host.example/x#y", "a\nb"]
NO_PLACES += [
    "https:/host.example/x",
    "ssh:x",
    "host.example:",
    ":x",
    "https://[::1/x",
    "ssh://-x@host.example/y",
    "a\x00b",
]
NO_PLACES += ["-x@host.example:y", "javascript://x/y", "https://host.example\\@other.example/x"]


@pytest.mark.parametrize("text", NO_PLACES)
def test_places_that_are_refused(text: str) -> None:
    """Other protocols, remote helpers, what ssh would take for an option, and what is no place."""
    with pytest.raises(SettingError, match="VIBEY_STATE_REMOTE"):
        parse_place(text, BASE)


@pytest.mark.parametrize(
    "text", ["http://u:hidden@host.example/x", "https://u:hidden@host.example", "ssh://u:hidden@-x/y"]
)
def test_a_refusal_never_shows_a_password(text: str) -> None:
    """Not even where the URL is refused."""
    with pytest.raises(SettingError) as caught:
        parse_place(text)
    assert "hidden" not in f"{caught.value.message} {caught.value.hint}"


def test_the_watermark_names_the_repository_or_the_place() -> None:
    """OWNER/NAME:BRANCH where a repository is named, else the URL or absolute path and the branch."""
    assert watermark_name("vibey-state", "example/app", parse_place("/srv/x.git")) == "example/app:vibey-state"
    assert watermark_name("b", place=parse_place("../x.git", BASE)) == "/home/example/x.git:b"
    assert watermark_name("b", place=parse_place("git@host.example:x.git")) == "host.example:x.git:b"


def test_the_path_of_a_local_place() -> None:
    """A file URL is decoded, another place has no path here."""
    assert parse_place("file:///srv/a%20b.git").local_path == Path("/srv/a b.git")
    assert parse_place("/srv/a%20b.git").local_path == Path("/srv/a%20b.git")
    assert parse_place("ssh://host.example/srv").local_path is None


@pytest.mark.parametrize("name", ["a" * 40, "0123456789abcdef" * 4])
def test_commits(name: str) -> None:
    """40 or 64 lower-case hex digits."""
    assert is_commit(name)


@pytest.mark.parametrize("name", ["", "a" * 39, "a" * 41, "A" * 40, "g" * 40, "a" * 40 + "\n", None, 1, b"a" * 40])
def test_no_commits(name: object) -> None:
    """Nothing else."""
    assert not is_commit(name)
