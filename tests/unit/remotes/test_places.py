"""Places of remotes: what is taken, what is refused, and what is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.remotes.places import parse_place, watermark_name

BASE = Path("/home/example/work")


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
