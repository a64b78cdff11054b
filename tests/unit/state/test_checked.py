"""Files that were checked before: known by what they hold and how it was checked, never by their name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.documents import document, sealed_file
from vibey_actions.state.checked import CheckedFiles
from vibey_actions.state.declaration import Declaration, Rule, Table

TEXT = document({"t": [{"id": 1}]})


def declared(*key: str, rule: Rule = Rule.REFUSE) -> Declaration:
    return Declaration({"t": Table("t", key, ("a", "id"), rule)})


@pytest.fixture
def marks(tmp_path: Path) -> CheckedFiles:
    return CheckedFiles(tmp_path / "marks")


def test_a_noted_file_is_known(marks: CheckedFiles, tmp_path: Path) -> None:
    """Only what was noted is known, also by another object and under another name."""
    path = sealed_file(tmp_path / "a", TEXT)
    assert not marks.knows(path, declared("id"))
    marks.note(path, declared("id"))
    assert marks.knows(path, declared("id"))
    assert CheckedFiles(tmp_path / "marks").knows(path.rename(tmp_path / "b"), declared("id"))


def test_other_content_is_not_known(marks: CheckedFiles, tmp_path: Path) -> None:
    """The same text sealed anew, and a file changed in its place, are not known."""
    path = sealed_file(tmp_path / "a", TEXT)
    marks.note(path, declared("id"))
    assert not marks.knows(sealed_file(tmp_path / "b", TEXT), declared("id"))
    assert not marks.knows(sealed_file(path, TEXT), declared("id"))


def test_other_keys_are_not_known(marks: CheckedFiles, tmp_path: Path) -> None:
    """The order of rows was checked for these keys: other keys, their order, other tables make it unchecked."""
    path = sealed_file(tmp_path / "a", TEXT)
    marks.note(path, declared("id", "a"))
    assert marks.knows(path, declared("id", "a", rule=Rule.MINE))
    for other in (
        declared("a", "id"),
        declared("id"),
        Declaration({}),
        Declaration({"u": declared("id", "a").tables["t"]}),
    ):
        assert not marks.knows(path, other)


@pytest.mark.parametrize("size", [0, 1, 15])
def test_a_file_too_short_for_a_tag_is_not_known(marks: CheckedFiles, tmp_path: Path, size: int) -> None:
    """A damaged file of a few bytes is unknown, so that whoever opens it says what is wrong."""
    path = tmp_path / "a"
    path.write_bytes(bytes(size))
    marks.note(path, declared("id"))
    assert not marks.knows(path, declared("id"))
    assert not marks.knows(tmp_path / "missing", declared("id"))


def test_marks_that_cannot_be_kept_do_no_harm(tmp_path: Path) -> None:
    """Where no mark can be written the file is just checked again."""
    (tmp_path / "file").write_text("")
    marks = CheckedFiles(tmp_path / "file" / "below")
    path = sealed_file(tmp_path / "a", TEXT)
    marks.note(path, declared("id"))
    assert not marks.knows(path, declared("id"))


def test_marks_say_nothing_and_are_private(marks: CheckedFiles, tmp_path: Path) -> None:
    """A mark is an empty file with a digest for a name, mode 0600 in a folder of mode 0700."""
    marks.note(sealed_file(tmp_path / "a", TEXT), declared("id"))
    folder = tmp_path / "marks"
    (mark,) = folder.iterdir()
    assert mark.read_bytes() == b""
    assert len(mark.name) == 64
    assert (mark.stat().st_mode & 0o777, folder.stat().st_mode & 0o777) == (0o600, 0o700)


def test_old_marks_go(marks: CheckedFiles, tmp_path: Path) -> None:
    """The oldest marks make room; the last one noted stays known."""
    folder = tmp_path / "marks"
    folder.mkdir()
    for number in range(300):
        mark = folder / f"{number:064}"
        mark.touch()
        os.utime(mark, (number, number))
    path = sealed_file(tmp_path / "a", TEXT)
    marks.note(path, declared("id"))
    names = sorted(mark.name for mark in folder.iterdir())
    assert len(names) == 257
    assert f"{299:064}" in names
    assert f"{0:064}" not in names
    assert marks.knows(path, declared("id"))
