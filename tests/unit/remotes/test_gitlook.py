"""Reading what git prints."""

from __future__ import annotations

import pytest

from vibey_actions.errors import NotAStateBranch, RemoteDenied, RemoteFailed, TooLarge
from vibey_actions.remotes.gitlook import failure, is_passing, push_refusal, read_commit, read_listing, read_state_entry
from vibey_actions.remotes.gitrun import git_words

A, B = "a" * 40, "b" * 40


def test_a_listing() -> None:
    """The exact branch, the default branch, and nothing that only ends like it."""
    text = f"ref: refs/heads/main\tHEAD\n{A}\tHEAD\n{B}\trefs/heads/state\n{A}\trefs/x/refs/heads/state\n"
    listing = read_listing(text.encode(), "state")
    assert (listing.commit, listing.default_branch, listing.object_format) == (B, "main", "sha1")


def test_an_empty_listing() -> None:
    """No line is no branch."""
    assert read_listing(b"", "state").commit is None


def test_the_object_format_is_seen_in_any_name() -> None:
    """A repository without the branch still shows how long its names are."""
    assert read_listing(b"c" * 64 + b"\tHEAD\n", "state").object_format == "sha256"


def test_a_listing_with_rubbish() -> None:
    """A branch at something that is no commit is not believed."""
    with pytest.raises(RemoteFailed, match="none"):
        read_listing(b"rubbish\trefs/heads/state\n", "state")


def test_the_entry_of_the_state_file() -> None:
    """Folders on the way to the file do not count as other files."""
    blob, tree = f"100644 blob {A}    1234\tdir/state\0", f"040000 tree {B}       -\tdir\0"
    entry = read_state_entry((tree + blob).encode(), "dir/state", A)
    assert (entry.blob, entry.size) == (A, 1234)
    with pytest.raises(NotAStateBranch, match="does not hold other"):
        read_state_entry((tree + blob).encode(), "other", A)
    with pytest.raises(NotAStateBranch, match="dir/state"):
        read_state_entry(b"", "dir/state", A)


def test_the_names_of_other_files_are_escaped() -> None:
    """A hostile file name cannot act on a terminal."""
    text = f"100644 blob {A}  1\tstate\0100644 blob {A}  1\t\x1b[2J\0"
    with pytest.raises(NotAStateBranch) as caught:
        read_state_entry(text.encode(), "state", A)
    assert caught.value.message.isprintable()


def test_the_head_of_a_commit() -> None:
    """Tree and parents are read from the head; what a message says does not count."""
    raw = f"tree {A}\nparent {B}\nparent {A}\nauthor x <x> 1 +0000\n\nparent {A}\ntree {B}\n"
    assert read_commit(raw) == (A, (B, A))
    assert read_commit("") == ("", ())


def test_the_fate_of_a_push() -> None:
    """The server's refusal is told apart from a lease that failed."""
    assert push_refusal(b"To x\n!\tx:refs/heads/s\t[remote rejected] (hook declined)\nDone\n") == "hook declined"
    assert push_refusal(b"!\tx:refs/heads/s\t[rejected] (stale info)\n") == ""
    assert push_refusal(b"") == ""


@pytest.mark.parametrize(
    "words",
    [
        "Connection reset by peer",
        "ssh: connect to host x port 22: Connection timed out",
        "Could not resolve host: x",
        "The remote end hung up unexpectedly",
        "The requested URL returned error: 502",
        "cannot lock ref 'refs/heads/x'",
        "early EOF",
    ],
)
def test_trouble_of_the_moment(words: str) -> None:
    """Broken connections, servers that are down and locks are worth another try."""
    assert is_passing(words)


@pytest.mark.parametrize(
    "words",
    [
        "git@x: Permission denied (publickey). The remote end hung up unexpectedly",
        "Authentication failed for 'https://x/'",
        "could not read Username for 'https://x': terminal prompts disabled",
        "The requested URL returned error: 403",
        "Host key verification failed.",
        "hook declined",
        "'x' does not appear to be a git repository",
    ],
)
def test_trouble_for_good(words: str) -> None:
    """A refusal of the caller is final, even where git also says that the connection ended."""
    assert not is_passing(words)


def test_errors_of_their_own() -> None:
    """Permissions, sizes and other users' folders have their own message; the rest is a failure."""
    assert isinstance(failure("read", "x", "Permission denied (publickey)"), RemoteDenied)
    assert isinstance(failure("push to", "x", "remote: error: GH001: Large files detected."), TooLarge)
    assert "owner" in failure("read", "x", "fatal: detected dubious ownership in repository").hint
    assert "known_hosts" in failure("read", "x", "Host key verification failed.").hint
    assert type(failure("read", "x", "not found")) is RemoteFailed


def test_the_words_of_git() -> None:
    """Progress and standing advice are left out, prefixes removed."""
    said = "remote: Counting: 1\rremote: no way\nhint: try this\nTo /srv/x\nfatal: it failed\n\n"
    assert git_words(said) == "no way; it failed"
    assert git_words("") == "no reason"
