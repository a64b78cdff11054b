"""What the client's answers mean: the texts it prints, the numbers it keeps, the databases it may touch."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from vibey_actions.documents import program
from vibey_actions.documents.client import VibesClient, check_db, find_client, script_text, words
from vibey_actions.errors import (
    DocumentConflict,
    DocumentDenied,
    DocumentInvalid,
    OutcomeUnknown,
    SettingError,
    StoreFailed,
    VibeyError,
)

ACCEPTED = b'{\n  "id": "m-1",\n  "ok": true\n}\n'


class Scripted(VibesClient):
    """A client whose program ends as the test says."""

    ended: program.Ended
    asked: tuple[str, ...] = ()

    def run(self, *arguments: str, **_: object) -> program.Ended:
        object.__setattr__(self, "asked", arguments)
        return self.ended


def client(code: int | None, out: bytes = b"", err: bytes = b"") -> Scripted:
    scripted = Scripted(("vibes-diy",), "maker/hub", {})
    object.__setattr__(scripted, "ended", program.Ended(code, out, err))
    return scripted


WRITES = [
    ("not-logged-in", 1, b"", b"Error: Error: Not logged in. Run 'vibes-diy login' first.\n", StoreFailed),
    ("refused-login", 1, b"", b"Error: Error: Authentication required\n", StoreFailed),
    ("no-connection", 1, b"", b"Error: Error: WebSocket error: Received network error or non-101\n", StoreFailed),
    ("old-node", 1, b"", b"Error: Error: WebSocket is not defined\n", StoreFailed),
    ("denied", 1, b"", b"Error: Error: Access denied\n", DocumentDenied),
    ("own-message", 1, b"", b"Error: Error: no transition a -> b\n", DocumentDenied),
    ("conflict", 1, b"", b"Error: Error: write conflict: head is at seq 7, retry the write\n", DocumentConflict),
    ("closed", 1, b"", b"Error: Error: WebSocket closed before response (server disconnected)\n", OutcomeUnknown),
    ("silent", 1, b"", b"Error: Error: Request idle for 30000ms (no progress)\n", OutcomeUnknown),
    ("odd-reply", 1, b"", b"Error: Error: Error: Response schema mismatch for res-put-doc\n", OutcomeUnknown),
    ("crash", 1, b"", b"TypeError: x is no function\n    at file:///x.js:1:2\n", OutcomeUnknown),
    ("says-nothing", 1, b"", b"", OutcomeUnknown),
    ("killed-by-others", -9, b"", b"", OutcomeUnknown),
    ("deadline", None, b"", b"", OutcomeUnknown),
    ("deadline-after-reply", None, ACCEPTED, b"", OutcomeUnknown),
    ("empty-success", 0, b"", b"", OutcomeUnknown),
    ("cut-success", 0, ACCEPTED[:20], b"", OutcomeUnknown),
    ("other-id", 0, ACCEPTED.replace(b"m-1", b"m-2"), b"", OutcomeUnknown),
    ("not-ok", 0, ACCEPTED.replace(b"true", b"false"), b"", OutcomeUnknown),
]


@pytest.mark.parametrize(("code", "out", "err", "error"), [case[1:] for case in WRITES], ids=[one[0] for one in WRITES])
def test_a_write_that_did_not_succeed_is_told_by_what_it_left(
    code: int | None, out: bytes, err: bytes, error: type[VibeyError]
) -> None:
    """Not sent, refused, in the way of another, or unknown: each end of the client is exactly one of them."""
    with pytest.raises(VibeyError) as raised:
        client(code, out, err).put("requests", "m-1", {"status": "pending"})
    assert type(raised.value) is error
    assert "the write of m-1 to requests" in raised.value.message


def test_a_write_succeeds_with_its_own_id() -> None:
    """Exit 0, JSON, ok and the id that was asked for: nothing else counts as written."""
    writer = client(0, ACCEPTED, b'[warn] --id "m-1" overrides body _id "b"; body _id ignored\n')
    writer.put("requests", "m-1", {"status": "pending"})
    assert "--admin" not in writer.asked
    assert {"--id=m-1", "--db=requests", "-"} <= set(writer.asked)


@pytest.mark.parametrize(
    ("code", "out", "err"),
    [
        pytest.param(1, b"", b"Error: Error: Document not found: m-2\n", id="of-another-id"),
        pytest.param(1, b"", b"Error: Error: WebSocket closed before response\n", id="closed"),
        pytest.param(1, b"", b"Error: Error: Access denied\n", id="denied"),
        pytest.param(1, b"", b"", id="says-nothing"),
        pytest.param(None, b"", b"", id="deadline"),
        pytest.param(0, b"", b"", id="empty-success"),
        pytest.param(0, b'{"_id": "m-1", "sta', b"", id="cut"),
        pytest.param(0, b'{"_id": "m-2"}', b"", id="another-document"),
        pytest.param(0, b"[1]", b"", id="no-document"),
    ],
)
def test_a_read_that_failed_is_never_an_absent_document(code: int | None, out: bytes, err: bytes) -> None:
    """Only the client's own word about this id means that the document is not there."""
    with pytest.raises(StoreFailed):
        client(code, out, err).get("requests", "m-1")


@pytest.mark.parametrize("identifier", ["m-1", " x\ny: é ", "at x:1"], ids=["plain", "spaces", "like-a-stack"])
def test_an_absent_document_is_none(identifier: str) -> None:
    """The client's word that it found nothing is taken for ids of any form."""
    reader = client(1, b"", f"Error: Error: Document not found: {identifier}\n".encode())
    assert reader.get("requests", identifier) is None
    assert "--admin" in reader.asked


def test_one_unusable_document_hides_no_other() -> None:
    """A text that no other program could hold, an id that is none, endless lists: the rest of a query is read all the
    same, and what was left out is named."""
    deep = b"[" * 300 + b"]" * 300
    rows = (
        b'[{"_id": "a", "n": 1.50}, {"_id": "b", "t": "\\ud800"}, {"_id": {"x": 1}}, 7, {"_id": ""}, {"_id": "c"},'
        b'{"_id": "\\u001b[31m", "deep": ' + deep + b"}]"
    )
    read, unreadable = client(0, rows).query("requests")
    assert [row["_id"] for row in read] == ["a", "c"]
    assert read[0]["n"] == Decimal("1.5")
    assert unreadable == ("b", "row 3", "row 4", "row 5", "\\x1b[31m")


def test_a_query_that_is_no_list_is_refused() -> None:
    """An answer of another form is a failed read, not an empty database."""
    with pytest.raises(StoreFailed):
        client(0, b'{"docs": []}').query("requests")


@pytest.mark.parametrize(
    "number", [0, -5, 2**53, 1152921504606847000, 1.5, Decimal("0.1"), Decimal("1e21"), True], ids=str
)
def test_numbers_that_javascript_keeps_are_written(number: object) -> None:
    """What a double holds, in the digits that JavaScript prints for it, is passed on."""
    assert script_text({"n": number}, "the write of x").startswith(b'{"n":')


@pytest.mark.parametrize(
    "number",
    [2**53 + 1, 12345678901234567890, 10**400, 9 * 10**308, Decimal("0.1000000000000000055")],
    ids=["beyond-2-53", "twenty-digits", "no-double", "rounds-to-infinity", "too-many-digits"],
)
def test_numbers_that_javascript_would_change_are_refused(number: object) -> None:
    """A number that would come back as another one is named and not written."""
    with pytest.raises(DocumentInvalid, match=r"the number in a\.b\[1\]"):
        script_text({"a": {"b": [0, number]}}, "the write of x")


def test_ids_and_revisions_are_not_written() -> None:
    """``_id`` and ``_rev`` stay out of the body, where they would mislead queries."""
    assert script_text({"_id": "x", "_rev": "1", "a": 1}, "the write of x") == b'{"a":1}'


@pytest.mark.parametrize("db", ["vault", "", "-r", "a b", "a/b", "--admin"])
def test_a_database_that_a_lane_must_not_touch_is_refused(db: str) -> None:
    """The vault, and names that the client would read as something else, are refused before any call."""
    with pytest.raises(SettingError):
        client(0, ACCEPTED).put(db, "m-1", {})
    with pytest.raises(SettingError):
        check_db(db)


def test_words_keep_the_reason_and_drop_the_rest() -> None:
    """Of what the client printed, the stack, warnings, control characters and credentials are not shown."""
    err = (
        b"(node:7) ExperimentalWarning: x\nWarning: ignoring y\nError in vibes-diy cli: Error: no \x1b[31m access for "
        b"eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ4In0.abc-_\nsecond line\n    at file:///home/someone/x.js:98:23\n"
    )
    assert words(err) == "no \\x1b[31m access for *** second line"


def test_a_vibe_is_named_by_handle_and_slug() -> None:
    """What names no vibe is refused when it is set, not at the first call."""
    for name in ("", "hub", "a/b/c", "--x/y", "a/b c"):
        with pytest.raises(SettingError, match="names no vibe"):
            VibesClient(("vibes-diy",), name, {})


def test_the_client_is_found_with_the_node_beside_it(tmp_path: Path) -> None:
    """A script is run by the Node.js of its own node_modules, else by the one on PATH; a program by itself."""
    script = tmp_path / "node_modules" / "vibes-diy" / "cli" / "run.js"
    program_file, on_path = tmp_path / "bin" / "vibes", tmp_path / "bin" / "node"
    for file in (script, program_file, on_path):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        file.chmod(0o755)
    link = tmp_path / "bin" / "vibes-diy"
    link.symlink_to(script)
    environment = {"PATH": str(link.parent)}
    assert find_client(None, environment) == (str(on_path), str(script))
    assert find_client(str(program_file), environment) == (str(program_file),)
    beside = tmp_path / "node_modules" / ".bin" / "node"
    beside.parent.mkdir()
    beside.write_text("")
    assert find_client(None, environment) == (str(beside), str(script))


def test_a_missing_client_says_how_to_install_it(tmp_path: Path) -> None:
    """Neither the client nor Node.js there: the error names the command that brings them."""
    with pytest.raises(SettingError) as raised:
        find_client(None, {"PATH": str(tmp_path)})
    assert "npm install --global vibes-diy" in raised.value.hint
    with pytest.raises(SettingError, match="was not found at"):
        find_client(str(tmp_path / "none.js"), {"PATH": str(tmp_path)})
    (tmp_path / "run.js").write_text("")
    with pytest.raises(SettingError, match="needs Node"):
        find_client(str(tmp_path / "run.js"), {"PATH": str(tmp_path)})
