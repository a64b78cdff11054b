"""The key's places for real: variable, key file with its modes, and a stand-in for the macOS keychain."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from vibey_actions.errors import KeyExists, KeyMissing, KeyUnusable, KeyWithheld
from vibey_actions.keys import KeyStore, format_key, parse_key
from vibey_actions.settings import Settings

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))

SECURITY = """#!/bin/sh
# Keeps one item per service and account in files, answers as security(1) does, and records how it was called.
here=$(dirname "$0")
echo "$*" >> "$here/calls"
env > "$here/environment"
[ -e "$here/locked" ] && { echo "security: SecKeychainSearchCopyNext: User interaction is not allowed." >&2; exit 36; }
case "$1" in
find-generic-password)
    [ "$2 $4 $6" = "-s -a -w" ] || exit 2
    item="$here/item-$3-$(echo "$5" | tr / _)"
    [ -e "$item" ] || { echo "The specified item could not be found in the keychain." >&2; exit 44; }
    cat "$item" ;;
-i)
    read -r verb s service a account w key
    [ "$verb $s $a $w" = "add-generic-password -s -a -w" ] || exit 0
    [ -e "$here/full" ] && exit 0
    item="$here/item-$service-$(echo "$account" | tr / _)"
    [ -e "$item" ] || echo "$key" > "$item" ;;
esac
"""


def store(folder: Path, platform: str = "linux", **env: str) -> KeyStore:
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), **env}
    return KeyStore(Settings.from_env(given, folder), given, platform)


def key_file(folder: Path) -> Path:
    return folder / ".config" / "vibey" / "state.key"


def write(path: Path, text: str, mode: int = 0o600) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


@pytest.fixture
def keychain(tmp_path: Path) -> Path:
    """A folder for PATH with the stand-in of security(1)."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "security"
    program.write_text(SECURITY)
    program.chmod(0o755)
    return folder


def with_keychain(tmp_path: Path, keychain: Path, **env: str) -> KeyStore:
    return store(tmp_path, "darwin", **{"PATH": f"{keychain}:{os.environ['PATH']}", **env})


def test_a_new_key_is_kept_once(tmp_path: Path) -> None:
    """The file has mode 0600 in folders closed to others, holds a key, and is never replaced."""
    keys = store(tmp_path)
    assert str(key_file(tmp_path)) in keys.new()
    path = key_file(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path.parent, path.parent.parent)] == [0o700, 0o700]
    text = path.read_text()
    assert keys.load() == parse_key(text)
    assert keys.show() == text.strip()
    with pytest.raises(KeyExists):
        keys.new()
    assert path.read_text() == text


def test_two_new_keys_differ(tmp_path: Path) -> None:
    """A key is random."""
    one, two = store(tmp_path / "a"), store(tmp_path / "b")
    one.new()
    two.new()
    assert one.load() != two.load()


@pytest.mark.parametrize("umask", [0o000, 0o077, 0o277])
def test_the_mode_holds_under_any_umask(tmp_path: Path, umask: int) -> None:
    """Neither a lax nor a strict umask changes the file's mode."""
    (tmp_path / ".config" / "vibey").mkdir(parents=True)
    before = os.umask(umask)
    try:
        store(tmp_path).new()
    finally:
        os.umask(before)
    assert stat.S_IMODE(key_file(tmp_path).stat().st_mode) == 0o600


def test_the_file_is_closed_from_its_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode is given to open itself: at no time can another user open the new file."""
    opened = os.open
    modes: list[int] = []

    def watched(path: str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            modes.append(mode)
        return opened(path, flags, mode)

    monkeypatch.setattr(os, "open", watched)
    store(tmp_path).new()
    assert modes == [0o600]


def test_the_places_in_their_order(tmp_path: Path, keychain: Path) -> None:
    """The variable wins over the keychain, and the keychain over the file."""
    write(key_file(tmp_path), format_key(KEY))
    keys = with_keychain(tmp_path, keychain)
    assert keys.load() == KEY
    write(keychain / "item-dev.vibey.state-default", format_key(OTHER))
    assert keys.load() == OTHER
    assert "keychain" in keys.locate()
    assert with_keychain(tmp_path, keychain, VIBEY_STATE_KEY=format_key(KEY)).load() == KEY


@pytest.mark.parametrize("empty", ["", "\n", "   "])
def test_an_empty_variable_is_no_key(tmp_path: Path, empty: str) -> None:
    """An unset secret ends in "no key was found", which names each place, and nothing is made."""
    with pytest.raises(KeyMissing) as caught:
        store(tmp_path, VIBEY_STATE_KEY=empty).load()
    assert "VIBEY_STATE_KEY holds nothing" in caught.value.message
    assert str(key_file(tmp_path)) in caught.value.message
    assert caught.value.exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_bad_variable_does_not_fall_through(tmp_path: Path) -> None:
    """A key that cannot be used is an error, even where the next place holds a good one."""
    write(key_file(tmp_path), format_key(KEY))
    with pytest.raises(KeyUnusable, match="VIBEY_STATE_KEY has 5 characters"):
        store(tmp_path, VIBEY_STATE_KEY="short").load()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610, 0o601, 0o660, 0o644, 0o700 | 0o040])
def test_a_file_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    """Any permission of group or others, and `state key --new` makes no second key beside it."""
    write(key_file(tmp_path), format_key(KEY), mode)
    with pytest.raises(KeyUnusable) as caught:
        store(tmp_path).load()
    assert f"{mode:04o}" in caught.value.message
    assert caught.value.hint == f"chmod 600 {key_file(tmp_path)}"
    with pytest.raises(KeyUnusable):
        store(tmp_path).new()


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_file_of_its_owner_is_read(tmp_path: Path, mode: int) -> None:
    """Read-only is fine too, and so is a link to such a file."""
    write(tmp_path / "real", format_key(KEY) + "\n", mode)
    (tmp_path / "link").symlink_to("real")
    assert store(tmp_path, VIBEY_STATE_KEY_FILE="link").load() == KEY


def test_a_link_is_judged_by_its_target(tmp_path: Path) -> None:
    """A link to a file that others can read is refused."""
    write(tmp_path / "real", format_key(KEY), 0o644)
    (tmp_path / "link").symlink_to("real")
    with pytest.raises(KeyUnusable, match="open to others"):
        store(tmp_path, VIBEY_STATE_KEY_FILE="link").load()


def test_what_is_no_regular_file_is_refused(tmp_path: Path) -> None:
    """A folder or a named pipe at the key's place is an error at once, never a wait."""
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("folder", "pipe"):
        with pytest.raises(KeyUnusable, match="not a regular file"):
            store(tmp_path, VIBEY_STATE_KEY_FILE=name).load()


@pytest.mark.parametrize(("text", "words"), [("", "is empty"), ("x" * 5000, "5000 bytes"), ("\xff" * 43, "not base64")])
def test_a_file_that_holds_no_key_is_refused(tmp_path: Path, text: str, words: str) -> None:
    """An empty, huge or binary key file is unusable; no key is made in its place."""
    path = key_file(tmp_path)
    write(path, "")
    path.write_bytes(text.encode("latin-1"))
    for action in (store(tmp_path).load, store(tmp_path).new):
        with pytest.raises(KeyUnusable, match=words):
            action()
    assert path.read_bytes() == text.encode("latin-1")


def test_another_users_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has to belong to who runs the command."""
    write(key_file(tmp_path), format_key(KEY))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(KeyUnusable, match="another user"):
        store(tmp_path).load()


def test_a_dangling_link_is_not_written_through(tmp_path: Path) -> None:
    """O_EXCL: a link that somebody put at the key's place never leads the key elsewhere."""
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(KeyExists):
        store(tmp_path, VIBEY_STATE_KEY_FILE="link").new()
    assert not (tmp_path / "elsewhere").exists()


def test_a_place_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    """A file where a folder is needed ends in an error with a hint, not a traceback."""
    (tmp_path / "file").write_text("")
    with pytest.raises(KeyUnusable, match="cannot be made"):
        store(tmp_path, VIBEY_STATE_KEY_FILE="file/state.key").new()


def test_without_a_home_there_is_no_place() -> None:
    """Where neither HOME nor a file is named, both making and finding say so."""
    keys = KeyStore(Settings.from_env({}, Path("/")), {}, "linux")
    with pytest.raises(KeyMissing, match="HOME"):
        keys.load()
    with pytest.raises(KeyMissing, match="HOME"):
        keys.new()


def test_a_runner_neither_makes_nor_shows(tmp_path: Path) -> None:
    """Inside a GitHub Actions run a key is used, and never made or printed."""
    keys = store(tmp_path, GITHUB_ACTIONS="true", VIBEY_STATE_KEY=format_key(KEY))
    for action in (keys.new, keys.show):
        with pytest.raises(KeyWithheld) as caught:
            action()
        assert caught.value.exit_code == 1
    assert keys.load() == KEY
    with pytest.raises(KeyWithheld):
        store(tmp_path, GITHUB_ACTIONS="true").new()
    assert list(tmp_path.iterdir()) == []


def test_the_keychain_keeps_a_new_key(tmp_path: Path, keychain: Path) -> None:
    """On macOS the key goes into the keychain under the repository's name, and no file is made."""
    keys = with_keychain(tmp_path, keychain, VIBEY_STATE_REPOSITORY="example/app")
    assert "account example/app" in keys.new()
    item = keychain / "item-dev.vibey.state-example_app"
    assert keys.load() == parse_key(item.read_text())
    assert not key_file(tmp_path).exists()
    with pytest.raises(KeyExists):
        keys.new()


def test_the_key_is_in_no_argument_and_no_environment(tmp_path: Path, keychain: Path) -> None:
    """A list of processes never shows the key: it goes to `security -i` on stdin, with a small environment."""
    keys = with_keychain(tmp_path, keychain)
    keys.new()
    calls = (keychain / "calls").read_text()
    assert calls.splitlines()[1] == "-i"
    assert keys.show() not in calls
    other = with_keychain(tmp_path, keychain, GH_TOKEN="token-1234")
    other.load()
    assert "token-1234" not in (keychain / "environment").read_text()


def test_a_locked_keychain_is_not_an_absent_key(tmp_path: Path, keychain: Path) -> None:
    """Where the keychain refuses, nothing else is tried and no second key is made."""
    write(key_file(tmp_path), format_key(KEY))
    (keychain / "locked").touch()
    keys = with_keychain(tmp_path, keychain)
    for action in (keys.load, keys.new):
        with pytest.raises(KeyUnusable, match="36"):
            action()


def test_a_keychain_that_kept_nothing_is_noticed(tmp_path: Path, keychain: Path) -> None:
    """security -i ends with 0 whatever happened, so the new key is read back before it counts."""
    (keychain / "full").touch()
    with pytest.raises(KeyUnusable, match="did not keep"):
        with_keychain(tmp_path, keychain).new()


def test_without_the_program_the_keychain_cannot_be_asked(tmp_path: Path) -> None:
    """macOS without security(1) on PATH is an error: a key may be there."""
    with pytest.raises(KeyUnusable, match="not on PATH"):
        store(tmp_path, "darwin", PATH=str(tmp_path)).load()


def test_the_command_line(tmp_path: Path) -> None:
    """`state key`: made, located and shown by the real program; --show prints the key and nothing else."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "vibey_actions", "state", "key", *arguments]
        return subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)

    assert run().returncode == 2
    made = run("--new")
    assert made.returncode == 0
    text = key_file(tmp_path).read_text()
    assert text.strip() not in made.stdout + made.stderr
    located = run()
    assert (located.returncode, text.strip() in located.stdout + located.stderr) == (0, False)
    shown = run("--show")
    assert (shown.stdout, shown.stderr) == (text, "")
    assert run("--new").returncode == 1
    assert run("--new", "--show").returncode == 2
