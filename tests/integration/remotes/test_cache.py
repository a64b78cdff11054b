"""The folder of sealed files: whole or not there, bounded, private, shared by processes."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.cache import Facts, SealedCache, default_cache_folder
from vibey_actions.state.owned import create_owned, remove_unowned, scratch_folder

CONTENT = b"VBYSTAT1 content"


def commit(number: int) -> str:
    return f"{number:040x}"


def keep(cache: SealedCache, number: int, content: bytes = CONTENT) -> Path:
    with cache.writing(commit(number), Facts(len(content))) as file:
        file.write(content)
    return cache.path(commit(number))


def kept(cache: SealedCache) -> list[str]:
    return sorted(path.name for path in cache.folder.iterdir())


def test_a_file_comes_back(tmp_path: Path) -> None:
    """What was kept is found by another object, with its facts."""
    facts = Facts(len(CONTENT), "t" * 40, (commit(9),), "tree x\n")
    with SealedCache(tmp_path, "a").writing(commit(1), facts) as file:
        file.write(CONTENT)
    other = SealedCache(tmp_path, "a")
    found = other.find(commit(1))
    assert found is not None
    assert found.read_bytes() == CONTENT
    assert other.facts(commit(1)) == facts


def test_remotes_do_not_share_files(tmp_path: Path) -> None:
    """The name of the remote decides the folder, and is not readable from it."""
    keep(SealedCache(tmp_path, "secret-project:a"), 1)
    assert SealedCache(tmp_path, "secret-project:b").find(commit(1)) is None
    assert not [path for path in tmp_path.rglob("*") if "secret" in path.name]


def test_a_file_of_another_size_is_not_kept(tmp_path: Path) -> None:
    """What arrived shorter or longer than announced never becomes visible."""
    cache = SealedCache(tmp_path, "a")
    with pytest.raises(RemoteFailed, match="another size"), cache.writing(commit(1), Facts(17)) as file:
        file.write(CONTENT)
    assert kept(cache) == []


def test_an_interrupted_write_leaves_nothing(tmp_path: Path) -> None:
    """An error while the file is written is passed on, and nothing of it stays."""
    cache = SealedCache(tmp_path, "a")

    def interrupt() -> None:
        with cache.writing(commit(1), Facts(100)) as file:
            file.write(CONTENT)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert kept(cache) == []


def test_the_write_is_flushed_before_it_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes are on disk before the name exists."""
    cache = SealedCache(tmp_path, "a")
    seen: list[bool] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        seen.append(cache.path(commit(1)).exists())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    keep(cache, 1)
    assert seen == [False]


FACTS = [b"", b"{", b"[]", b"{}", b"\xff", b'{"size":"16"}', b'{"size":16,"parents":["x"]}']
FACTS += [b'{"size":16,"tree":1,"parents":[]}']


@pytest.mark.parametrize("facts", FACTS)
def test_damaged_facts_are_no_hit(tmp_path: Path, facts: bytes) -> None:
    """Without readable facts a file does not count."""
    cache = SealedCache(tmp_path, "a")
    keep(cache, 1)
    (cache.folder / f"{commit(1)}.facts").write_bytes(facts)
    assert SealedCache(tmp_path, "a").find(commit(1)) is None


def test_a_link_in_place_of_a_file_is_no_hit(tmp_path: Path) -> None:
    """A symbolic link is not followed."""
    cache = SealedCache(tmp_path, "a")
    path = keep(cache, 1)
    (tmp_path / "elsewhere").write_bytes(CONTENT)
    path.unlink()
    path.symlink_to(tmp_path / "elsewhere")
    assert SealedCache(tmp_path, "a").find(commit(1)) is None


def test_everything_is_private(tmp_path: Path) -> None:
    """Folders 0700 and files 0600 whatever the umask is."""
    old = os.umask(0)
    try:
        cache = SealedCache(tmp_path / "x" / "vibey", "a")
        keep(cache, 1)
    finally:
        os.umask(old)
    for path in (tmp_path / "x").rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)


def test_the_number_is_bounded(tmp_path: Path) -> None:
    """Beyond the bound the files used longest ago go, with their facts."""
    for number in range(6):
        keep(SealedCache(tmp_path, "a", max_files=3), number)
    cache = SealedCache(tmp_path, "a")
    assert kept(cache) == sorted(name for n in (3, 4, 5) for name in (commit(n), f"{commit(n)}.facts"))


def test_the_size_is_bounded(tmp_path: Path) -> None:
    """The newest file stays whatever its size; older ones go while the sum is too large."""
    for number in range(3):
        keep(SealedCache(tmp_path, "a", max_bytes=250), number, b"VBYSTAT1" + bytes(92))
    keep(SealedCache(tmp_path, "a", max_bytes=250), 3, b"VBYSTAT1" + bytes(500))
    assert [name for name in kept(SealedCache(tmp_path, "a")) if "." not in name] == [commit(3)]


def test_a_file_in_use_by_this_process_stays(tmp_path: Path) -> None:
    """A file that was handed out is there until its user is done."""
    cache = SealedCache(tmp_path, "a", max_files=1)
    old = keep(cache, 1)
    user = SealedCache(tmp_path, "a")
    assert user.find(commit(1)) is not None
    for number in (2, 3):
        keep(SealedCache(tmp_path, "a", max_files=1), number)
    assert old.exists()
    user.close()
    cache.close()
    keep(SealedCache(tmp_path, "a", max_files=1), 4)
    assert not old.exists()


def test_a_file_in_use_by_another_process_stays(tmp_path: Path) -> None:
    """Another process's file is not removed while that lives; after a kill -9 it is."""
    old = keep(SealedCache(tmp_path, "a"), 1)
    script = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from vibey_actions.remotes.cache import SealedCache
        cache = SealedCache(Path(sys.argv[1]), "a")
        print(cache.find(sys.argv[2]), flush=True)
        time.sleep(600)
    """)
    command = [sys.executable, "-c", script, str(tmp_path), commit(1)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        assert user.stdout.readline().strip() == str(old)
        keep(SealedCache(tmp_path, "a", max_files=1), 2)
        assert old.exists()
        user.kill()
        user.wait()
    keep(SealedCache(tmp_path, "a", max_files=1), 3)
    assert not old.exists()


def test_what_a_killed_writer_left_is_swept(tmp_path: Path) -> None:
    """A part of a file whose writer is gone is removed by the next writer; one of a living writer is not."""
    cache = SealedCache(tmp_path, "a")
    keep(cache, 1)
    (cache.folder / ".0123456789abcdef.part").write_bytes(b"VBYSTAT1 half")
    alive, descriptor = create_owned(cache.folder, ".part")
    keep(cache, 2)
    assert [name for name in kept(cache) if name.endswith(".part")] == [alive.name]
    os.close(descriptor)


def test_two_writers_of_one_commit(tmp_path: Path) -> None:
    """Both finish, one file is there, and the first user's file is not taken from under it."""
    first, second = SealedCache(tmp_path, "a"), SealedCache(tmp_path, "a")
    with first.writing(commit(1), Facts(len(CONTENT))) as one, second.writing(commit(1), Facts(len(CONTENT))) as two:
        one.write(CONTENT)
        two.write(CONTENT)
    assert kept(first) == [commit(1), f"{commit(1)}.facts"]
    assert first.path(commit(1)).read_bytes() == CONTENT


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_descriptors_do_not_pile_up(tmp_path: Path) -> None:
    """A long-running process holds only the last few files."""
    cache = SealedCache(tmp_path, "a", max_files=2)
    before = descriptors()
    for number in range(20):
        keep(cache, number)
        cache.find(commit(number))
        cache.find(commit(number))
    assert descriptors() <= before + 2
    cache.close()
    assert descriptors() == before


def test_discard_of_nothing(tmp_path: Path) -> None:
    """Forgetting what is not there does no harm."""
    SealedCache(tmp_path, "a").discard(commit(1))


def test_a_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the disk names the folder and what to do."""
    cache = SealedCache(tmp_path, "a")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RemoteFailed, match="No space left on device") as caught:
        keep(cache, 1)
    assert str(tmp_path) in caught.value.message
    assert kept(cache) == []


def test_a_scratch_folder_is_gone_afterwards(tmp_path: Path) -> None:
    """With everything in it, after an error too."""

    def fail() -> None:
        with scratch_folder(tmp_path / "git") as folder:
            (folder / "file").write_text("x")
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list((tmp_path / "git").iterdir()) == []


def test_scratch_folders_of_the_living_and_the_dead(tmp_path: Path) -> None:
    """A folder in use is left alone; one whose process died is removed on the way in."""
    with scratch_folder(tmp_path) as living:
        (tmp_path / ".dead").mkdir()
        (tmp_path / ".dead" / "file").write_text("x")
        (tmp_path / ".dead.owner").write_text("")
        with scratch_folder(tmp_path) as mine:
            assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {living.name, mine.name}
        assert living.is_dir()


def test_what_is_owned_is_not_removed(tmp_path: Path) -> None:
    """A file stays while its owner holds it."""
    path, descriptor = create_owned(tmp_path, ".part")
    assert not remove_unowned(path)
    os.close(descriptor)
    assert remove_unowned(path)
    assert remove_unowned(path)


@pytest.mark.parametrize(
    ("env", "folder"),
    [
        ({"XDG_CACHE_HOME": "/x", "HOME": "/home/example"}, "/x/vibey"),
        ({"XDG_CACHE_HOME": "", "HOME": "/home/example"}, "/home/example/.cache/vibey"),
        ({"XDG_CACHE_HOME": "relative", "HOME": "/home/example"}, "/home/example/.cache/vibey"),
    ],
)
def test_where_the_cache_is(env: dict[str, str], folder: str) -> None:
    """XDG_CACHE_HOME where it is an absolute path, else under the home folder."""
    assert str(default_cache_folder(env)) == folder


def test_where_the_cache_is_without_a_home() -> None:
    """Without a home there is a folder of the user's own for temporary files."""
    assert default_cache_folder({}).name == f"vibey-{os.getuid()}"
