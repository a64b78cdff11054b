"""Files on the branch that are no state, and keys that are not the key: refused before anything is written anywhere."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults.cases import CHANGES_HERE, PLANTED, ROWS
from tests.support.machines import PATH, Branch, Machine, Rows
from vibey_actions.errors import NotAStateBranch, RolledBack, SchemaMismatch, Unreadable, VibeyError, WrongKey
from vibey_actions.keys import format_key
from vibey_actions.state.documents import sealed_file

Machines = Callable[..., Machine]


def sealed(folder: Path, key: bytes, text: bytes) -> bytes:
    with sealed_file(folder, key) as (write, close, path):
        write(text)
        close()
        return path.read_bytes()


def bad_files(folder: Path, branch: Branch) -> dict[str, tuple[dict[str, bytes], type[VibeyError]]]:
    """What may stand on the branch instead of a state, and the error each has to give."""
    plain = branch.document(folder)
    good = sealed(folder, branch.key, plain)
    document = json.loads(plain)
    document["tables"]["customer"].reverse()
    reversed_rows = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    one = {
        "another key": (sealed(folder, secrets.token_bytes(32), plain), WrongKey),
        "cut short": (good[:-7], Unreadable),
        "cut to its header": (good[:20], Unreadable),
        "one bit changed": (bytes(flipped), Unreadable),
        "something behind": (good + b"\0", Unreadable),
        "not sealed": (plain, Unreadable),
        "foreign": (b"PK\x03\x04" + secrets.token_bytes(500), Unreadable),
        "empty": (b"", Unreadable),
        "an empty text": (sealed(folder, branch.key, b""), Unreadable),
        "no document": (sealed(folder, branch.key, b"{}"), Unreadable),
        "another format": (sealed(folder, branch.key, plain.replace(b"vibey-state/1", b"vibey-state/9")), Unreadable),
        "half a document": (sealed(folder, branch.key, plain[: len(plain) // 2]), Unreadable),
        "rows out of order": (sealed(folder, branch.key, reversed_rows), Unreadable),
    }
    files: dict[str, tuple[dict[str, bytes], type[VibeyError]]] = {
        name: ({PATH: content}, error) for name, (content, error) in one.items()
    }
    return {
        **files,
        "a file beside it": ({PATH: good, "README.md": b"hello"}, NotAStateBranch),
        "another file alone": ({"README.md": b"hello"}, NotAStateBranch),
    }


def empty(machines: Machines, branch: Branch) -> Machine:
    return machines(branch, "b")


def to_be_filled(machines: Machines, branch: Branch) -> Machine:
    """An empty database that takes the whole state in one stream."""
    return empty(machines, branch)


def filled_without_base(machines: Machines, branch: Branch) -> Machine:
    return machines(branch, "b", rows=ROWS)


def agreed(machines: Machines, branch: Branch) -> Machine:
    machine = machines(branch, "b")
    machine.sync()
    machine.sync()
    return machine


def changed(machines: Machines, branch: Branch) -> Machine:
    machine = agreed(machines, branch)
    machine.execute(CHANGES_HERE)
    return machine


def held(machine: Machine) -> Rows:
    """Every row and who wrote it; a table of ours that was made and is empty is no change."""
    return {name: rows for name, rows in machine.rows(versions=True, own=True).items() if rows}


@pytest.mark.parametrize("local", [empty, to_be_filled, filled_without_base, agreed, changed])
def test_a_bad_file_on_the_branch_changes_nothing(
    machines: Machines,
    git_branch: Branch,
    tmp_path: Path,
    local: Callable[[Machines, Branch], Machine],
    request: pytest.FixtureRequest,
) -> None:
    """Whatever this database holds, each bad file is one clear error with both ends and the watermark untouched."""
    if local is to_be_filled:
        request.getfixturevalue("monkeypatch").setattr("vibey_actions.state.cycle.LARGE_FILL", 1)
    machines(git_branch, "a", rows=ROWS).sync()
    good_head = git_branch.head
    machine = local(machines, git_branch)
    before = held(machine)
    for name, (files, error) in bad_files(tmp_path, git_branch).items():
        bad_head = git_branch.put(files)
        with pytest.raises(error) as raised:
            machine.sync()
        assert held(machine) == before, name
        assert git_branch.head == bad_head, name
        assert PLANTED not in f"{raised.value.message} {raised.value.hint}", name
        with pytest.raises(error):
            machine.operations.status()
        git_branch.git("update-ref", "refs/heads/vibey-state", str(good_head))
    machine.sync()
    assert machine.base == git_branch.head


# What may stand in the head of an exact document in place of the columns that are serialized, and the error.
HEADS: dict[str, tuple[str, type[VibeyError]]] = {
    "of another type": (',"serialized":["audit"]', Unreadable),
    "columns of another type": (',"serialized":{"audit":"body"}', Unreadable),
    "empty": (',"serialized":{}', Unreadable),
    "missing": ("", Unreadable),
    "unsorted": (',"serialized":{"audit":["seq","body"]}', Unreadable),
    "twice": (',"serialized":{"audit":["body","body"]}', Unreadable),
    "a member twice": (',"serialized":{"audit":["body"]},"serialized":{"audit":["body"]}', Unreadable),
    "an empty member of keys": (',"serialized":{"audit":["body"]},"keys":{}', Unreadable),
    "of too few columns": (',"serialized":{"nothing":["body"]}', SchemaMismatch),
    "of a column that is not there": (',"serialized":{"audit":["body","none"]}', SchemaMismatch),
    "of a column that is a number": (',"serialized":{"audit":["body","seq"]}', SchemaMismatch),
}


@pytest.mark.parametrize("local", [to_be_filled, changed])
def test_a_head_that_names_other_columns_changes_nothing(
    machines: Machines,
    git_branch: Branch,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    local: Callable[[Machines, Branch], Machine],
) -> None:
    """Whatever an exact document says of its columns but the truth is one clear error before anything is written."""
    machines(git_branch, "a", rows=ROWS).sync()
    machine = local(machines, git_branch)
    if local is to_be_filled:
        monkeypatch.setattr("vibey_actions.state.cycle.LARGE_FILL", 1)
    before, good_head, plain = held(machine), str(git_branch.head), git_branch.document(tmp_path)
    said = b',"serialized":{"audit":["body"]}'
    assert plain.startswith(b'{"format":"vibey-state/1x"')
    assert said in plain
    heads = {name: (plain.replace(said, head.encode()), error) for name, (head, error) in HEADS.items()}
    heads["in format 1"] = (plain.replace(b"vibey-state/1x", b"vibey-state/1"), Unreadable)
    for name, (text, error) in heads.items():
        bad_head = git_branch.put({PATH: sealed(tmp_path, git_branch.key, text)})
        with pytest.raises(error) as raised:
            machine.sync()
        assert type(raised.value) is error, name
        assert held(machine) == before, name
        assert git_branch.head == bad_head, name
        git_branch.git("update-ref", "refs/heads/vibey-state", good_head)
    machine.sync()
    assert machine.base == git_branch.head


def test_a_key_that_was_swapped_is_noticed_before_anything_is_written(machines: Machines, git_branch: Branch) -> None:
    """Although both ends agree and a file of this commit was read before, another key does not pass for the key."""
    machine = agreed_alone(machines, git_branch)
    before, head = machine.rows(versions=True, own=True), git_branch.head
    old = machine.env["VIBEY_STATE_KEY"]
    machine.env["VIBEY_STATE_KEY"] = new = format_key(secrets.token_bytes(32))
    for change in ("", "INSERT INTO audit VALUES ('later', 1, '{}')"):
        if change:
            machine.execute(change)
            before = machine.rows(versions=True, own=True)
        with pytest.raises(WrongKey) as raised:
            machine.sync()
        assert old not in str(raised.value)
        assert new not in f"{raised.value.message} {raised.value.hint}"
        assert machine.rows(versions=True, own=True) == before
        assert git_branch.head == head
    machine.env["VIBEY_STATE_KEY"] = old
    assert machine.sync().pushed


def agreed_alone(machines: Machines, branch: Branch) -> Machine:
    machine = machines(branch, "a", rows=ROWS)
    machine.sync()
    machine.sync()
    return machine


def test_an_old_state_put_back_by_hand_is_refused(machines: Machines, git_branch: Branch) -> None:
    """A head that holds what an earlier commit held is refused by name; --accept-rollback goes on."""
    machine = agreed_alone(machines, git_branch)
    first = str(git_branch.head)
    machine.execute("UPDATE customer SET name = 'other' WHERE id = 1; DELETE FROM invoice WHERE id = 2")
    machine.sync()
    git_branch.put({PATH: git_branch.git("cat-file", "blob", f"{first}:{PATH}")})
    before = machine.rows(versions=True, own=True)
    with pytest.raises(RolledBack):
        machine.sync()
    assert machine.rows(versions=True, own=True) == before
    report = machine.operations.sync(accept_rollback=True)
    assert report.to_pull > 0
    assert machine.base == git_branch.head
