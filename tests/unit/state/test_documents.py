"""Sealed files on this machine: drafts that are sealed from the first byte, and copies opened once more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.documents import KEY, content, document, sealed_file
from vibey_actions.errors import Unreadable, WrongKey
from vibey_actions.state import documents as documenting
from vibey_actions.state.checked import CheckedFiles
from vibey_actions.state.declaration import Declaration, Table
from vibey_actions.state.document import DocumentReader
from vibey_actions.state.documents import Documents, reopen

DECLARED = Declaration({"t": Table("t", ("id",), ("id", "v"))})
MARK = "text that nobody may read"
TEXT = document({"t": [{"id": 1, "v": MARK}]}, ["1"])
OUT_OF_ORDER = document({"t": [{"id": 2}, {"id": 1}]})


@pytest.fixture
def documents(tmp_path: Path) -> Documents:
    return Documents(tmp_path / "drafts", CheckedFiles(tmp_path / "checked"), KEY)


def test_a_draft_opens_and_goes(documents: Documents, tmp_path: Path) -> None:
    """What was written is there, sealed and private, until the block ends."""
    with documents.draft(["1"], {}) as (writer, path):
        writer.table("t")
        writer.rows(b'{"id":1,"v":"%s"}' % MARK.encode())
        writer.close()
        assert path.stat().st_mode & 0o777 == 0o600
        assert (tmp_path / "drafts").stat().st_mode & 0o777 == 0o700
        assert MARK.encode() not in path.read_bytes()
        assert path.read_bytes().startswith(b"VBYSTAT1")
        reader = documents.open(path, DECLARED)
        assert (reader.schema, content(reader)) == (["1"], {"t": [b'{"id":1,"v":"%s"}' % MARK.encode()]})
    assert not path.exists()


def test_a_draft_goes_when_its_work_fails(documents: Documents, tmp_path: Path) -> None:
    """Nothing is left behind by an error."""

    def fail() -> None:
        with documents.draft([], {}) as (writer, _):
            writer.table("t")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert list((tmp_path / "drafts").iterdir()) == []


def test_a_draft_that_is_not_closed_does_not_open(documents: Documents) -> None:
    """A file that was never completed is unreadable, not an empty state."""
    with documents.draft([], {}) as (writer, path):
        writer.table("t")
        writer.rows(b'{"id":1,"v":null}')
        with pytest.raises(Unreadable):
            documents.open(path, DECLARED)


def test_a_sealed_file_may_be_moved_to_its_place(documents: Documents, tmp_path: Path) -> None:
    """A completed file that was moved away by its maker stays."""
    with documenting.sealed_file(tmp_path, KEY) as (write, close, path):
        write(TEXT)
        close()
        path.replace(tmp_path / "out")
    assert content(documents.open(tmp_path / "out", DECLARED))
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["out"]


def test_rows_are_checked_until_they_were(documents: Documents, tmp_path: Path) -> None:
    """A file's rows are checked when it is opened, and no more once that was noted."""
    path = sealed_file(tmp_path / "a", OUT_OF_ORDER)
    for _ in range(2):
        with pytest.raises(Unreadable, match="out of order"):
            content(documents.open(path, DECLARED))
    documents.note_checked(path, DECLARED)
    assert content(documents.open(path, DECLARED)) == {"t": [b'{"id":2}', b'{"id":1}']}
    with pytest.raises(Unreadable, match="out of order"):
        content(documents.open(sealed_file(path, OUT_OF_ORDER), DECLARED))


def test_a_checked_file_still_authenticates(documents: Documents, tmp_path: Path) -> None:
    """That rows were checked before never stands in for the seal."""
    path = sealed_file(tmp_path / "a", TEXT)
    documents.note_checked(path, DECLARED)
    sealed = bytearray(path.read_bytes())
    sealed[40] ^= 1
    path.write_bytes(sealed)
    assert documents.checked.knows(path, DECLARED)
    with pytest.raises(Unreadable):
        documents.open(path, DECLARED)


def read(path: Path) -> DocumentReader:
    return DocumentReader([path.read_bytes()])


def test_reopening(tmp_path: Path) -> None:
    """A copy that does not open is discarded and fetched once more; then it is believed."""
    path = tmp_path / "copy"
    contents = [b"damaged", TEXT]
    done: list[str] = []

    def fetch() -> Path:
        done.append("fetch")
        path.write_bytes(contents[done.count("discard")])
        return path

    assert reopen(fetch, lambda: done.append("discard"), read).schema == ["1"]
    assert done == ["fetch", "discard", "fetch"]
    contents[:] = [b"damaged", b"damaged", TEXT]
    done.clear()
    with pytest.raises(Unreadable):
        reopen(fetch, lambda: done.append("discard"), read)
    assert done == ["fetch", "discard", "fetch"]


def test_reopening_a_good_copy_fetches_once(tmp_path: Path) -> None:
    """Nothing is discarded where all is well, and other failures are passed on."""
    done: list[str] = []
    path = tmp_path / "copy"
    path.write_bytes(TEXT)
    assert reopen(lambda: path, lambda: done.append("discard"), read).schema == ["1"]
    with pytest.raises(FileNotFoundError):
        reopen(lambda: tmp_path / "missing", lambda: done.append("discard"), read)
    assert done == []


def test_the_key_does_not_show(documents: Documents, tmp_path: Path) -> None:
    """Neither the representation nor a refusal holds the key."""
    other = Documents(tmp_path, documents.checked, bytes(32))
    with pytest.raises(WrongKey) as caught:
        other.open(sealed_file(tmp_path / "a", TEXT), DECLARED)
    for shown in (repr(documents), repr(other), repr(caught.value), caught.value.hint):
        assert repr(KEY) not in shown
        assert repr(bytes(32)) not in shown
