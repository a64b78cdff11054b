"""One file out of an archive that somebody else made: exactly that file, and nothing else of it."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from vibey_actions.errors import ArtifactUnusable, FileFailed
from vibey_actions.remotes import archives
from vibey_actions.remotes.archives import take_out

WANTED = "state.export"


def zipped(*members: tuple[str, bytes], kind: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", kind) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, kind)
    return made.getvalue()


def taken(folder: Path, packed: bytes) -> bytes | None:
    """What is taken out of an archive; nothing else may be in the folder afterwards."""
    (folder / "archive.zip").write_bytes(packed)
    inside = folder / "inside"
    inside.mkdir(exist_ok=True)
    found = take_out(folder / "archive.zip", {WANTED: inside / "file"})
    assert {path.name for path in folder.iterdir()} == {"archive.zip", "inside"}
    return (inside / "file").read_bytes() if found else None


@pytest.mark.parametrize("kind", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_the_file_that_is_wanted(tmp_path: Path, kind: int) -> None:
    """It comes out byte for byte, for this user alone, whatever stands beside it."""
    content = os.urandom(400_000)
    assert taken(tmp_path, zipped(("other", b"x"), (WANTED, content), kind=kind)) == content
    assert (tmp_path / "inside" / "file").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "name", ["../state.export", "/state.export", "..\\state.export", "a/state.export", "state.export/", "STATE.EXPORT"]
)
def test_names_are_no_paths(tmp_path: Path, name: str) -> None:
    """A member under another name is not taken for the file, and none is written where its name leads."""
    assert taken(tmp_path, zipped((name, b"evil"))) is None


def test_a_file_that_is_there_twice(tmp_path: Path) -> None:
    """Two members of one name: it cannot be told which one was meant."""
    with pytest.warns(UserWarning, match="Duplicate name"):
        packed = zipped((WANTED, b"one"), (WANTED, b"two"))
    with pytest.raises(ArtifactUnusable, match="twice"):
        taken(tmp_path, packed)


def test_a_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What unpacks to more than an export can have is given up on the way."""
    monkeypatch.setattr(archives, "LARGEST", 100_000)
    with pytest.raises(ArtifactUnusable, match="more than"):
        taken(tmp_path, zipped((WANTED, bytes(10_000_000))))
    assert (tmp_path / "inside" / "file").stat().st_size <= 100_000


def test_a_size_that_is_a_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The size is counted, not believed: a bomb that says it is small is none the less one, or does not unpack."""
    monkeypatch.setattr(archives, "LARGEST", 100_000)
    packed = zipped((WANTED, bytes(10_000_000))).replace(struct.pack("<L", 10_000_000), struct.pack("<L", 10))
    with pytest.raises(ArtifactUnusable):
        taken(tmp_path, packed)


def test_a_listing_that_would_fill_the_memory(tmp_path: Path) -> None:
    """An archive of very many members is refused before its listing is read."""
    packed = zipped(*((f"{number:0100}", b"") for number in range(8000)))
    with pytest.raises(ArtifactUnusable, match="more files"):
        taken(tmp_path, packed)


def test_a_listing_that_hides_behind_64_bits(tmp_path: Path) -> None:
    """The same where the archive says its sizes in 64 bits; an ordinary one that does so is read."""
    packed = zipped((WANTED, b"content"))
    end = packed.rindex(b"PK\x05\x06")
    size, offset = struct.unpack("<LL", packed[end + 12 : end + 20])

    def with_record(listing: int) -> bytes:
        record = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, listing, offset)
        return packed[:end] + record + struct.pack("<4sLQL", b"PK\x06\x07", 0, end, 1) + packed[end:]

    assert taken(tmp_path, with_record(size)) == b"content"
    with pytest.raises(ArtifactUnusable, match="more files"):
        taken(tmp_path, with_record(1 << 40))


def encrypted(packed: bytes) -> bytes:
    """The archive with the flag that its members are encrypted."""
    changed = bytearray(packed)
    changed[6] |= 1
    changed[packed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(changed)


def unknown_method(packed: bytes) -> bytes:
    changed = bytearray(packed)
    changed[8] = changed[packed.index(b"PK\x01\x02") + 10] = 99
    return bytes(changed)


def flipped(packed: bytes) -> bytes:
    changed = bytearray(packed)
    changed[200] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "damage",
    [
        lambda packed: b"",
        lambda packed: b"PK",
        lambda packed: b"no archive at all" * 10,
        lambda packed: packed[:-1],
        lambda packed: packed[: len(packed) // 2],
        lambda packed: packed[50:],
        flipped,
        encrypted,
        unknown_method,
    ],
    ids=["empty", "two bytes", "text", "cut by one", "cut in half", "begun late", "changed", "encrypted", "unknown"],
)
def test_an_archive_that_is_damaged(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Every damage is one clear error, never a part of a file."""
    with pytest.raises(ArtifactUnusable):
        taken(tmp_path, damage(zipped((WANTED, os.urandom(3000)))))


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    """A link in the file's place is not followed, and a folder that is not there is said."""
    (tmp_path / "archive.zip").write_bytes(zipped((WANTED, b"content")))
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for place in (tmp_path / "link", tmp_path / "gone" / "file"):
        with pytest.raises(FileFailed):
            take_out(tmp_path / "archive.zip", {WANTED: place})
    assert not (tmp_path / "elsewhere").exists()
