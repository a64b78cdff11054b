"""The seal: what opens, what never does, and what is said of it."""

from __future__ import annotations

import gzip
import hashlib
import io
import subprocess
import sys
import tracemalloc
import zlib
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.support.documents import KEY, seal, seal_elsewhere, seal_packed
from vibey_actions.errors import Unreadable, WrongKey
from vibey_actions.keys import parse_key
from vibey_actions.state import seal as sealing
from vibey_actions.state.seal import MAGIC, NONCE_SIZE, TAG_SIZE, SealWriter, open_sealed

VECTORS = Path(__file__).parents[2] / "data" / "format-1"
TEXT = b'{"format":"vibey-state/1","schema":[],"tables":{"t":[{"id":1}]}}'
OTHER_KEY = bytes(range(1, 33))
START = len(MAGIC) + NONCE_SIZE


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state.vibey"


def opened(path: Path, content: bytes, key: bytes = KEY, **options: int) -> bytes:
    path.write_bytes(content)
    return b"".join(open_sealed(path, key, **options))


def refusal(path: Path, content: bytes, key: bytes = KEY) -> Unreadable:
    """What is raised; nothing may come out before it where the file does not authenticate."""
    path.write_bytes(content)
    with pytest.raises(Unreadable) as caught:
        next(open_sealed(path, key))
    return caught.value


@pytest.mark.parametrize(
    ("name", "plain"), [("state.vibey", "plain.json"), ("state.vibey-export", "export.plain.json")]
)
def test_vectors_open(name: str, plain: str) -> None:
    """Files of the system whose format this is open to exactly their plain text."""
    key = parse_key((VECTORS / "key.txt").read_text("ascii"), "the vectors' key")
    assert b"".join(open_sealed(VECTORS / name, key)) == (VECTORS / plain).read_bytes()


def test_layout(path: Path) -> None:
    """Magic, 12 bytes of nonce, the ciphertext of one gzip stream with mtime 0, the tag; the magic is authenticated."""
    sealed = seal(TEXT)
    assert sealed.startswith(b"VBYSTAT1")
    packed = AESGCM(KEY).decrypt(sealed[8:20], sealed[20:], b"VBYSTAT1")
    assert packed[:3] == b"\x1f\x8b\x08"
    assert packed[4:8] == bytes(4)
    assert gzip.decompress(packed) == TEXT


@pytest.mark.parametrize("level", range(10))
def test_files_packed_at_any_level_open(path: Path, level: int) -> None:
    """Other writers pack with zlib at levels 0 to 9; large, small, empty, dull and random texts open the same."""
    noise = hashlib.shake_128(b"noise").digest(600_000)
    for text in (b"", b"x", TEXT, b"0" * 3_000_000, noise, (b"abc" * 500 + noise[:99]) * 300):
        assert opened(path, seal_elsewhere(text, level=level)) == text


@pytest.mark.parametrize("size", [0, 1, 255, 256 * 1024 - 1, 256 * 1024, 256 * 1024 + 1, 2_000_000])
def test_what_was_sealed_opens(path: Path, size: int) -> None:
    """Any size comes out as it went in, in pieces or at once."""
    text = hashlib.shake_128(b"text").digest(size)
    assert opened(path, seal(text)) == text
    file = io.BytesIO()
    writer = SealWriter(file, KEY)
    for start in range(0, size, 100_001):
        writer.write(text[start : start + 100_001])
    writer.close()
    assert opened(path, file.getvalue()) == text


def test_gzip_headers_of_other_writers(path: Path) -> None:
    """A gzip header may hold a name, a comment, a time or an extra field."""
    plain = gzip.compress(TEXT, mtime=0)
    named = io.BytesIO()
    with gzip.GzipFile("state.json", "wb", fileobj=named, mtime=1_700_000_000) as file:
        file.write(TEXT)
    extra = plain[:3] + b"\x04" + plain[4:10] + b"\x03\x00abc" + plain[10:]
    for packed in (plain, named.getvalue(), extra):
        assert opened(path, seal_packed(packed)) == TEXT


@pytest.mark.parametrize("writer", [seal, seal_elsewhere])
def test_cut_at_every_byte(path: Path, writer: type) -> None:
    """A file cut anywhere is unreadable, and nothing of it comes out."""
    sealed: bytes = writer(TEXT)
    for end in range(len(sealed)):
        refusal(path, sealed[:end])


def test_every_flipped_bit(path: Path) -> None:
    """A file with one bit changed anywhere is unreadable, and nothing of it comes out."""
    sealed = seal(TEXT)
    for position in range(len(sealed)):
        for bit in range(8):
            flipped = bytearray(sealed)
            flipped[position] ^= 1 << bit
            refusal(path, bytes(flipped))


def test_bytes_behind_the_end(path: Path) -> None:
    """A byte more, a newline, CRLF line ends, and a file twice in one are unreadable."""
    sealed = seal(b"".join(bytes([byte]) for byte in range(256)) * 4)
    for changed in (
        sealed + b"\n",
        sealed + b"\x00",
        sealed + sealed,
        b"\n" + sealed,
        sealed.replace(b"\n", b"\r\n") + b"\r\n",
    ):
        refusal(path, changed)


def test_wrong_key_and_damage_are_told_apart(path: Path) -> None:
    """Under another key: WrongKey. Changed behind the first bytes, or cut: the key fits, and that is said."""
    sealed = seal(TEXT)
    assert isinstance(refusal(path, sealed, OTHER_KEY), WrongKey)
    for damaged in (sealed[:-1], sealed[:-1] + bytes([sealed[-1] ^ 1]), sealed[: START + 40]):
        found = refusal(path, damaged)
        assert not isinstance(found, WrongKey)
        assert "the key fits" in found.message
    for damaged in (sealed[:-1], sealed[:-1] + b"\x00"):
        assert isinstance(refusal(path, damaged, OTHER_KEY), WrongKey)


def test_large_files_say_the_same(path: Path) -> None:
    """The difference is told from a file's first bytes, however many pieces it is read in."""
    sealed = bytearray(seal(hashlib.shake_128(b"x").digest(1_000_000)))
    sealed[600_000] ^= 4
    assert "the key fits" in refusal(path, bytes(sealed)).message
    assert isinstance(refusal(path, bytes(sealed), OTHER_KEY), WrongKey)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "empty (0 bytes)"),
        (TEXT, "plain JSON"),
        (b"\n " + TEXT, "plain JSON"),
        (gzip.compress(TEXT, mtime=0), "begins with the bytes 1f8b"),
        (b"VBYSTAT2" + bytes(60), "begins with the bytes 5642595354415432"),
        (b"vbystat1" + bytes(60), "begins with"),
        (b"x", "begins with"),
        (b"V", "cut short: 1 bytes"),
        (b"VBYSTAT1", "cut short: 8 bytes"),
        (b"VBYSTAT1" + bytes(28), "cut short: 36 bytes"),
    ],
)
def test_files_that_are_no_sealed_state(path: Path, content: bytes, said: str) -> None:
    """Plain, foreign, empty and short files are unreadable, each with what was found; a plain one is never read."""
    found = refusal(path, content)
    assert said in found.message
    assert not isinstance(found, WrongKey)
    assert found.hint


@pytest.mark.parametrize(
    "behind", [b"\x00", b"x", gzip.compress(b"", mtime=0), gzip.compress(TEXT, mtime=0), bytes(300_000)]
)
def test_one_gzip_stream_only(path: Path, behind: bytes) -> None:
    """Text behind the stream, or a second stream, is unreadable although it authenticates."""
    path.write_bytes(seal_packed(gzip.compress(TEXT, mtime=0) + behind))
    with pytest.raises(Unreadable, match="more than one gzip stream"):
        list(open_sealed(path, KEY))


def test_what_is_sealed_has_to_be_gzip(path: Path) -> None:
    """Plain text, zlib, raw deflate, a stream cut anywhere and a changed checksum are unreadable although sealed."""
    packed = gzip.compress(TEXT, mtime=0)
    wrong = [TEXT, b"x", zlib.compress(TEXT), packed[10:], packed[:-8] + bytes(8), packed[:-4] + bytes(4)]
    for content in [*wrong, *(packed[:end] for end in range(1, len(packed)))]:
        path.write_bytes(seal_packed(content))
        with pytest.raises(Unreadable):
            list(open_sealed(path, KEY))


def test_a_bomb_stops_at_the_cap(path: Path) -> None:
    """A small file that unpacks without end is refused at the cap, without the memory it asks for."""
    path.write_bytes(seal(bytes(64 * 1024 * 1024)))
    assert path.stat().st_size < 1024 * 1024
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match="more than 5000000 bytes"):
            for _ in open_sealed(path, KEY, max_unpacked=5_000_000):
                pass
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
    finally:
        tracemalloc.stop()


def test_the_cap_itself_is_allowed(path: Path) -> None:
    """A text of exactly the cap opens, one byte more does not."""
    assert opened(path, seal(bytes(1000)), max_unpacked=1000) == bytes(1000)
    with pytest.raises(Unreadable):
        opened(path, seal(bytes(1001)), max_unpacked=1000)


def test_two_seals_differ(path: Path) -> None:
    """The same text sealed twice is other bytes under another nonce, and opens the same."""
    seals = [seal(TEXT) for _ in range(100)]
    assert len({sealed[8:START] for sealed in seals}) == 100
    assert all(opened(path, sealed) == TEXT for sealed in seals[:3])


FORKS = """
import io, os, sys
from vibey_actions.state.seal import SealWriter
def nonce():
    file = io.BytesIO()
    SealWriter(file, bytes(32)).close()
    return file.getvalue()[8:20].hex().encode() + b"\\n"
nonce()
for _ in range(2):
    if (child := os.fork()) == 0:
        os.write(1, nonce())
        os._exit(0)
    os.waitpid(child, 0)
os.write(1, nonce())
"""


def test_forked_processes_use_other_nonces() -> None:
    """Processes forked from one, which share all its memory, never share a nonce."""
    nonces = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, check=True).stdout.split()
    assert [len(nonce) for nonce in nonces] == [24, 24, 24]
    assert len(set(nonces)) == 3


def changing(path: Path, change: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the file become ``change`` between the two passes."""
    first_pass = sealing._authenticated_size

    def then_change(file: io.BufferedReader, key: bytes) -> int:
        size = first_pass(file, key)
        path.write_bytes(change)
        return size

    monkeypatch.setattr(sealing, "_authenticated_size", then_change)


@pytest.mark.parametrize("position", [START, START + 60, -TAG_SIZE - 1, -1])
def test_changed_between_the_passes(path: Path, position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is changed after it authenticated does not end as a whole text."""
    text = hashlib.shake_128(b"x").digest(3000)
    sealed = seal(text)
    changed = bytearray(sealed)
    changed[position] ^= 1
    path.write_bytes(sealed)
    changing(path, bytes(changed), monkeypatch)
    with pytest.raises(Unreadable):
        list(open_sealed(path, KEY))


def test_cut_between_the_passes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is cut after it authenticated, in its tag too, is unreadable and no other error."""
    sealed = seal(TEXT)
    for end in (0, 10, START, START + 5, len(sealed) - TAG_SIZE, len(sealed) - TAG_SIZE + 1, len(sealed) - 1):
        with monkeypatch.context() as patch:
            path.write_bytes(sealed)
            changing(path, sealed[:end], patch)
            with pytest.raises(Unreadable):
                list(open_sealed(path, KEY))


def test_sealed_anew_between_the_passes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another whole file under the same key, put there after the first pass, does not pass for the first one."""
    sealed, other = seal(b"a" * 2000), seal(b"b" * 5000)
    path.write_bytes(sealed)
    changing(path, other, monkeypatch)
    with pytest.raises(Unreadable):
        list(open_sealed(path, KEY))


def test_the_key_is_in_no_message(path: Path) -> None:
    """No refusal holds the key, in any form."""
    sealed = seal(TEXT)
    for content in (b"", TEXT, sealed[:-1], sealed, b"\x00" * 99, seal_packed(b"x")):
        path.write_bytes(content)
        for key in (KEY, OTHER_KEY):
            try:
                list(open_sealed(path, key))
            except Unreadable as found:
                said = f"{found!r} {found.message} {found.hint} {found.__cause__!r}"
                assert key.hex() not in said
                assert repr(key)[2:20] not in said
