"""A directory of migrations is read in one order, and what cannot be applied is named before anything runs."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from vibey_actions.errors import MigrationFailed, SettingError
from vibey_actions.postgres.migration_files import check_runnable, read_migrations


def test_files_come_in_the_order_of_their_names_bytes(tmp_path: Path) -> None:
    """Capitals before small letters, umlauts last, whatever the locale; folders, hidden and other files left out."""
    for name in ("b.sql", "a.sql", "B.sql", "ä.sql", "10.sql", "9.sql", ".c.sql", "d.txt", "README"):
        (tmp_path / name).write_text("SELECT 1")
    (tmp_path / "folder.sql").mkdir()
    assert [file.version for file in read_migrations(tmp_path)] == ["10", "9", "B", "a", "b", "ä"]


def test_a_file_is_known_by_the_checksum_of_its_bytes(tmp_path: Path) -> None:
    """The checksum covers the bytes as they are, the mark that some editors put in front too."""
    content = b"\xef\xbb\xbfSELECT 'x';\r\n"
    (tmp_path / "1.sql").write_bytes(content)
    (file,) = read_migrations(tmp_path)
    assert (file.checksum, file.sql) == (hashlib.sha256(content).hexdigest(), "SELECT 'x';\r\n")


@pytest.mark.parametrize("content", [b"SELECT '\xff'", b"SELECT 1\0"])
def test_content_that_is_no_text_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    """Latin-1 or NUL in a file is said before anything is applied."""
    (tmp_path / "1.sql").write_bytes(content)
    with pytest.raises(MigrationFailed, match=r"1\.sql"):
        read_migrations(tmp_path)


def test_a_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """A version has to be text; a name of other bytes is shown escaped."""
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.sql")).write_text("SELECT 1")
    with pytest.raises(MigrationFailed, match="udcff"):
        read_migrations(tmp_path)


def test_a_suffix_in_capitals_is_refused(tmp_path: Path) -> None:
    """A file that would silently not be applied is an error instead."""
    (tmp_path / "1.SQL").write_text("SELECT 1")
    with pytest.raises(MigrationFailed, match=r"1\.SQL does not end in \.sql"):
        read_migrations(tmp_path)


def test_a_missing_directory_is_a_setting(tmp_path: Path) -> None:
    """A wrong path is not a directory without migrations."""
    with pytest.raises(SettingError, match="cannot be read"):
        read_migrations(tmp_path / "none")


def test_a_file_that_cannot_run_is_named_with_the_line(tmp_path: Path) -> None:
    """The refusal names the migration and the line in it."""
    (tmp_path / "0002_more.sql").write_text("SELECT 1;\nCOMMIT;")
    with pytest.raises(MigrationFailed, match="0002_more cannot be applied: line 2: COMMIT"):
        check_runnable(read_migrations(tmp_path)[0])
