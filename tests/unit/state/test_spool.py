"""The spool: changes come back as they went in, and nothing of them is readable on disk."""

from __future__ import annotations

import os
from typing import IO

import pytest

from vibey_actions.state import spool as spooling
from vibey_actions.state.spool import Change, Spool

MARK = b"a row that nobody may read"


def change(number: int, size: int = 10) -> Change:
    text = MARK + str(number).encode() + b"x" * size
    return Change(f"[{number}]".encode(), (None, text, b"")[number % 3], (text, b"", None)[number % 3])


def filled(changes: list[Change]) -> Spool:
    spool = Spool()
    for one in changes:
        spool.add(one)
    return spool


@pytest.mark.parametrize("limit", [1, 100, 1000, 10**9])
@pytest.mark.parametrize("block", [1, 13, 100, 10**6])
def test_order_and_content(monkeypatch: pytest.MonkeyPatch, limit: int, block: int) -> None:
    """In memory, in the file and on both sides of the spill: the same changes in the same order, as often as asked."""
    monkeypatch.setattr(spooling, "_IN_MEMORY", limit)
    monkeypatch.setattr(spooling, "_BLOCK", block)
    changes = [change(number, number % 50) for number in range(60)]
    spool = filled(changes)
    try:
        assert spool.count == 60
        assert list(spool) == changes
        assert list(spool) == changes
        spool.add(change(60))
        assert list(spool) == [*changes, change(60)]
    finally:
        spool.close()


def test_no_row_is_not_an_empty_one() -> None:
    """None and an empty text are told apart."""
    changes = [Change(b"", None, b""), Change(b"k", b"", None), Change(b"k", None, None), Change(b"", b"", b"")]
    spool = filled(changes)
    assert list(spool) == changes
    spool.close()


def test_an_empty_spool_is_empty(temporary_files: list[IO[bytes]]) -> None:
    """Nothing in, nothing out, no file."""
    spool = Spool()
    assert list(spool) == []
    spool.close()
    assert temporary_files == []


def test_few_changes_make_no_file(temporary_files: list[IO[bytes]]) -> None:
    """Below the limit everything stays in memory; from it on there is one file."""
    spool = filled([change(1, spooling._IN_MEMORY - 200)])
    assert temporary_files == []
    spool.add(change(2, 400))
    spool.add(change(4, spooling._IN_MEMORY))
    assert len(temporary_files) == 1
    spool.close()


def test_nothing_is_readable_on_disk(temporary_files: list[IO[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has no name, and holds neither keys nor rows in the clear; two spools of the same rows differ."""
    monkeypatch.setattr(spooling, "_IN_MEMORY", 1000)
    changes = [change(number, 100) for number in range(100)]
    spools = [filled(changes), filled(changes)]
    contents = []
    for spool, file in zip(spools, temporary_files, strict=True):
        assert list(spool) == changes
        status = os.fstat(file.fileno())
        assert status.st_nlink == 0
        contents.append(os.pread(file.fileno(), status.st_size, 0))
    first, second = contents
    assert len(first) == len(second) > 9_000
    for content in contents:
        assert MARK not in content
        assert b"[10]" not in content
        assert b"xxxx" not in content
    assert first != second
    assert bytes(a ^ b for a, b in zip(first[:64], first[64:128], strict=True)).count(0) < 16
    for spool in spools:
        spool.close()


def test_closing_closes_the_file(temporary_files: list[IO[bytes]], monkeypatch: pytest.MonkeyPatch) -> None:
    """After close the file is closed, and closing twice does no harm."""
    monkeypatch.setattr(spooling, "_IN_MEMORY", 10)
    spool = filled([change(1)])
    spool.close()
    spool.close()
    assert temporary_files[0].closed


def test_large_rows_are_put_together_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of many blocks is looked at once it is there, not again with every block: the work grows with its size, not
    with its square."""

    class Counted:
        size = spooling._LENGTHS.size
        pack = staticmethod(spooling._LENGTHS.pack)

        def unpack_from(self, data: bytes, position: int) -> tuple[int, ...]:
            looks.append(position)
            found: tuple[int, ...] = lengths.unpack_from(data, position)
            return found

    looks: list[int] = []
    lengths = spooling._LENGTHS
    monkeypatch.setattr(spooling, "_BLOCK", 1024)
    monkeypatch.setattr(spooling, "_LENGTHS", Counted())
    row = bytes(8 * 1024 * 1024)
    spool = filled([Change(b"[1]", None, row), Change(b"[2]", row, b"x")])
    assert [found.key for found in spool] == [b"[1]", b"[2]"]
    assert len(looks) <= 4
    spool.close()
