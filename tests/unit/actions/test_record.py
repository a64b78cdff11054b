"""What `open` leaves for `close`: whole or not at all, ours or refused."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from vibey_actions.actions.record import Phase, Place, Record
from vibey_actions.errors import FileFailed

JOB = {"GITHUB_JOB": "build (3.11)", "GITHUB_RUN_ID": "77", "GITHUB_RUN_ATTEMPT": "2"}
RECORD = Record(Phase.OPENED, "dsn", "app", "/t/vibey-pg-x", ("/t/vpg-x",), 12, "role", "c" * 40, "remote", 5)


class Killed(BaseException):
    """The process ended here."""


def place(tmp_path: Path) -> Place:
    return Place.of(tmp_path, JOB)


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    """Every field survives, in a file of mode 0600 in folders of mode 0700."""
    where = place(tmp_path)
    assert where.read() is None
    where.write(RECORD)
    assert where.read() == RECORD
    file = where.folder / "record.json"
    assert [stat.S_IMODE(path.stat().st_mode) for path in (file, where.folder, where.folder.parent)] == [
        0o600, 0o700, 0o700,
    ]  # fmt: skip
    assert where.folder.name == "build-3-11--77-2"
    where.remove()
    assert where.read() is None
    assert not where.folder.exists()


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
def test_a_kill_leaves_one_of_two_records(tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed before any step of a write, the record is the one before, and the next write works."""
    where = place(tmp_path)
    where.write(Record())

    def kill(*_: object, **__: object) -> object:
        raise Killed

    with monkeypatch.context() as patch:
        target: Callable[[], None] = {
            "open": lambda: patch.setattr(os, "open", kill),
            "fsync": lambda: patch.setattr(os, "fsync", kill),
            "replace": lambda: patch.setattr(Path, "replace", kill),
        }[call]
        target()
        with pytest.raises(Killed):
            where.write(RECORD)
    assert where.read() == Record()
    where.write(RECORD)
    assert where.read() == RECORD


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"phase": "opened"}', "null", "x" * 100])
def test_a_damaged_record_is_refused_by_name(tmp_path: Path, text: str) -> None:
    """A record that is not one is an error that names the file, never half a record."""
    where = place(tmp_path)
    where.write(RECORD)
    (where.folder / "record.json").write_text(text)
    with pytest.raises(FileFailed, match=r"record\.json, cannot be read: it is damaged"):
        where.read()


def test_another_users_and_open_files_are_not_read(tmp_path: Path) -> None:
    """A link, or a record that others may have written, names folders that would be deleted: refused."""
    where = place(tmp_path)
    where.write(RECORD)
    file = where.folder / "record.json"
    file.chmod(0o620)
    with pytest.raises(FileFailed):
        where.read()
    file.rename(tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileFailed):
        where.read()


def test_a_folder_that_is_a_link_is_not_used(tmp_path: Path) -> None:
    """The job's folder has to be a folder of ours before anything with a password is written into it."""
    (tmp_path / "vibey-actions").symlink_to(tmp_path / "other")
    (tmp_path / "other").mkdir()
    with pytest.raises(FileFailed, match="cannot be written"):
        place(tmp_path).write(RECORD)
    assert list((tmp_path / "other").rglob("record.json")) == []


def test_only_the_export_outlives_the_record(tmp_path: Path) -> None:
    """What waits to be uploaded stays; the record, its DSNs and the cache of the state go."""
    where = place(tmp_path)
    where.write(RECORD)
    for path in (where.export, where.cache / "sealed" / "x"):
        path.parent.mkdir(parents=True)
        path.write_text("sealed")
    where.remove(keep_export=True)
    assert [path for path in where.folder.rglob("*") if path.is_file()] == [where.export]
    where.remove()
    where.remove(keep_export=True)


def test_no_secret_is_in_the_representation() -> None:
    """A record that is printed shows no DSN."""
    assert "dsn" not in repr(RECORD.replace(dsn="the-dsn", app_dsn="the-dsn")).replace("dsn=", "")
