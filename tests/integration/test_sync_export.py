"""An export goes into a new database and nowhere else, and leaves its base behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.ends import End, Ends
from vibey_actions.errors import (
    Conflicts,
    ImportRefused,
    SchemaMismatch,
    TableRefused,
    Unreadable,
    VibeyError,
    WrongKey,
)
from vibey_actions.keys import format_key
from vibey_actions.postgres.store import PgStore

SCHEMA = "CREATE TABLE t (id int PRIMARY KEY, v text); CREATE TABLE c (id int PRIMARY KEY, t int REFERENCES t)"


@pytest.fixture
def origin(ends: Ends) -> End:
    """An end that has synced and then changed a row."""
    end = ends.make(SCHEMA)
    end.run("INSERT INTO t VALUES (1, 'MARKER'), (2, 'b')", "INSERT INTO c VALUES (1, 1)")
    end.sync()
    end.run("UPDATE t SET v = 'changed' WHERE id = 2")
    return end


@pytest.fixture
def export(origin: End, tmp_path: Path) -> Path:
    """Its export."""
    path = tmp_path / "out.vibey-export"
    summary = origin.operations.export(path)
    assert (summary.rows, summary.tables) == (3, {"c": 1, "t": 2})
    return path


def refused(end: End, kind: type[VibeyError], file: Path, **options: Any) -> VibeyError:
    """The error of an import that writes nothing."""
    before = end.everything(), end.value("SELECT array_agg(s::text) FROM state_sync s")
    with pytest.raises(kind) as caught:
        end.operations.import_(file, **options)
    assert type(caught.value) is kind, caught.value.message
    assert (end.everything(), end.value("SELECT array_agg(s::text) FROM state_sync s")) == before
    assert "MARKER" not in caught.value.message + caught.value.hint
    return caught.value


@pytest.mark.parametrize("large", [False, True])
def test_an_export_comes_back_with_its_base(
    ends: Ends, origin: End, export: Path, monkeypatch: pytest.MonkeyPatch, *, large: bool
) -> None:
    """Rows and base are the exporting database's, so that the next sync pushes just what that had changed."""
    if large:
        monkeypatch.setattr("vibey_actions.operations.LARGE_FILL", 0)
    other = ends.make(SCHEMA)
    summary = other.operations.import_(export)
    base = origin.value("SELECT base_commit FROM state_sync")
    assert (summary.rows, summary.base) == (3, base)
    assert other.everything() == origin.everything()
    assert other.value("SELECT base_commit FROM state_sync") == base
    report = other.sync()
    assert (report.to_pull, report.to_push) == (0, 1)
    refused(other, ImportRefused, export, replace=True)
    other.operations.forget()
    refused(other, ImportRefused, export)
    assert origin.sync().to_pull == 0


def test_rows_give_way_only_when_that_is_said(ends: Ends, origin: End, export: Path) -> None:
    """A database that holds rows refuses; with --replace its rows become the export's, children and parents too."""
    other = ends.make(SCHEMA)
    other.run("INSERT INTO t VALUES (1, 'mine'), (7, 'mine')", "INSERT INTO c VALUES (1, 7), (9, 1)")
    assert "--replace" in refused(other, ImportRefused, export).hint
    other.operations.import_(export, replace=True)
    assert other.everything() == origin.everything()


def test_what_does_not_belong_is_refused(ends: Ends, origin: End, export: Path, tmp_path: Path) -> None:
    """Another branch, another key, a state instead of an export, a cut file, other tables, no file: each by name."""
    elsewhere = ends.make(SCHEMA, settings={"VIBEY_STATE_BRANCH": "elsewhere"})
    assert "vibey-state" in refused(elsewhere, ImportRefused, export).message
    stranger = ends.make(SCHEMA, settings={"VIBEY_STATE_KEY": format_key(bytes(32))})
    refused(stranger, WrongKey, export)
    other = ends.make(SCHEMA)
    refused(other, ImportRefused, tmp_path / "missing")
    cut = tmp_path / "cut"
    cut.write_bytes(export.read_bytes()[:-20])
    refused(other, Unreadable, cut)
    cut.write_bytes(b"")
    refused(other, Unreadable, cut)
    cut.write_bytes(b'{"base":null}')
    refused(other, Unreadable, cut)
    sealed = next(file for file in Path(origin.env["HOME"]).rglob("*") if file.is_file() and file.stat().st_size > 99)
    if sealed.read_bytes().startswith(b"VBYSTAT1"):
        refused(other, Unreadable, sealed)
    refused(ends.make("CREATE TABLE t (id int PRIMARY KEY, v text)"), TableRefused, export)
    refused(ends.make(SCHEMA.replace("v text", "w text")), SchemaMismatch, export)


def test_migrations_have_to_be_the_same(ends: Ends, tmp_path: Path) -> None:
    """Older, newer and other migrations: none is imported, and each refusal names them."""
    folders = [tmp_path / name for name in ("old", "new", "odd")]
    for folder in folders:
        folder.mkdir()
        (folder / "1.sql").write_text(SCHEMA)
    (folders[1] / "2.sql").write_text("CREATE TABLE n (id int PRIMARY KEY)")
    (folders[2] / "3.sql").write_text("CREATE TABLE o (id int PRIMARY KEY)")
    old, new, odd = (ends.make(migrations=folder) for folder in folders)
    files = []
    for number, end in enumerate((old, new)):
        end.run("INSERT INTO t VALUES (1, 'MARKER')")
        files.append(tmp_path / f"export{number}")
        end.operations.export(files[-1])
        end.run("DELETE FROM t")
    assert "2" in refused(old, SchemaMismatch, files[1]).message
    refused(new, ImportRefused, files[0])
    assert "3" in refused(odd, SchemaMismatch, files[1]).message


@pytest.mark.parametrize("after", [False, True])
def test_an_import_that_died_is_done_again(
    ends: Ends, origin: End, export: Path, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    """Before its one transaction nothing is there; after it everything is, the base too."""

    class Died(BaseException):
        pass

    other = ends.make(SCHEMA)
    real = PgStore.apply

    def die(*arguments: Any, **options: Any) -> Any:
        if after:
            real(*arguments, **options)
        raise Died

    with monkeypatch.context() as patch:
        patch.setattr(PgStore, "apply", die)
        with pytest.raises(Died):
            other.operations.import_(export)
    if after:
        refused(other, ImportRefused, export)
    else:
        assert other.everything() == {"c": [], "t": []}
        other.operations.import_(export)
    assert other.everything() == origin.everything()
    assert other.sync().to_push == 1


def test_an_export_without_a_base_is_merged_as_a_first_sync(ends: Ends, tmp_path: Path) -> None:
    """A database that never synced exports a null base: nothing is recorded, and rows that differ conflict."""
    first, second, third = (ends.make(SCHEMA) for _ in range(3))
    first.run("INSERT INTO t VALUES (1, 'a')")
    assert first.operations.export(tmp_path / "e").base is None
    second.run("INSERT INTO t VALUES (1, 'b')")
    second.sync()
    third.operations.import_(tmp_path / "e")
    assert third.value("SELECT count(*) FROM state_sync") == 0
    third.refused(Conflicts)
