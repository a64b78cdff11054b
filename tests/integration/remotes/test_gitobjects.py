"""Names of git objects, as git itself computes them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.settings import bounded
from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes import gitobjects
from vibey_actions.remotes.gitobjects import blob_digest, tree_name, write_blob

EMPTY_BLOB = {
    "sha1": "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "sha256": "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
}
EMPTY_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_well_known_names() -> None:
    """The empty blob and the empty tree have the names everybody knows."""
    assert {algorithm: blob_digest(0, algorithm).hexdigest() for algorithm in EMPTY_BLOB} == EMPTY_BLOB
    assert tree_name({}, "sha1") == EMPTY_TREE


def test_the_order_in_a_tree() -> None:
    """git sorts a folder as if its name ended in a slash: a-b, a.b, a/, a0."""
    blob = EMPTY_BLOB["sha1"]
    assert tree_name({"a0": blob, "a/x": blob, "a.b": blob, "a-b": blob}, "sha1") == _mktree(
        f"100644 blob {blob}\ta-b\n100644 blob {blob}\ta.b\n"
        f"040000 tree {tree_name({'x': blob}, 'sha1')}\ta\n100644 blob {blob}\ta0\n"
    )


def _mktree(text: str) -> str:
    command = ["git", "mktree", "--missing"]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout.strip()


@bounded(20)
@given(content=st.binary(max_size=2000))
def test_a_blob_that_git_reads(content: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    """What is written is the loose object that git would write, and reads."""
    repository = tmp_path_factory.mktemp("repository")
    (repository / "objects").mkdir()
    (repository / "source").write_bytes(content)
    name = write_blob(repository, repository / "source", "sha1")
    (repository / "refs").mkdir()
    (repository / "HEAD").write_text("ref: refs/heads/main\n")
    read = ["git", "--git-dir", str(repository), "cat-file", "blob", name]
    assert subprocess.run(read, capture_output=True, check=True).stdout == content


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A blob of another size than was announced is never stored under a name."""
    (tmp_path / "objects").mkdir()
    source = tmp_path / "source"
    source.write_bytes(b"x" * 100)
    real = gitobjects.blob_digest

    def grow(size: int, algorithm: str) -> object:
        source.write_bytes(b"x" * 200)
        return real(size, algorithm)

    monkeypatch.setattr(gitobjects, "blob_digest", grow)
    with pytest.raises(RemoteFailed, match="changed"):
        write_blob(tmp_path, source, "sha1")
    assert [path for path in (tmp_path / "objects").iterdir() if path.is_dir()] == []
