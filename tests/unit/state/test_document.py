"""Documents: read the same whatever the windows, refused whole for the smallest fault, written as they are read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.support.documents import document, export, in_pieces, read
from vibey_actions.errors import Unreadable
from vibey_actions.rows.canonical import encode
from vibey_actions.state import scanner
from vibey_actions.state.document import DocumentReader, DocumentWriter, keys_of
from vibey_actions.state.export import ExportReader, export_writer
from vibey_actions.state.profiles import profile

VECTORS = Path(__file__).parents[2] / "data" / "format-1"
COMMIT = "0123456789abcdef" * 2 + "01234567"

BOUNDARY = '"},{"id":9'
TRICKY: dict[str, list[dict[str, Any]]] = {
    "a": [
        {"id": 1, "list": [{"id": 1}, {"id": 2}], "s": BOUNDARY},
        {"id": 2, "list": [{"id": 1, "list": [{"id": 3}, {"id": 4}]}], "s": '\\"},{"id":'},
        {"id": 3, "list": [], "s": "\\\\"},
        {"id": 4, "list": [[[{"id": 5}]], {"id": 6}], "s": "\u00e4\U0001f600\x7f\x00]}}"},
    ],
    "b": [{"id": 1, "huge": "x" * 300 + BOUNDARY * 20}],
    "c": [{"id": number, "n": Decimal("1.50")} for number in range(9)],
    "d\u00e4\u00fc": [{"weird},{": 1, "id": 1}, {"weird},{": 2, "id": 2}],
    "e": [{'q":': [], "id": 1}],
    "f": [{"id": 1, "same first member as the next": 1}],
    "g": [{"id": 1, "same first member as the next": 1}, {"id": 2, "same first member as the next": 1}],
}
KEYS = dict.fromkeys(TRICKY, ("id",))
TEXT = document(TRICKY, ["0001", "0002"])


@pytest.mark.parametrize("size", [*range(1, 40), 63, 64, 65, 100, 127, 200, 333, 500, 1000, 5000])
@pytest.mark.parametrize("checked", [True, False])
def test_every_window_reads_the_same(window: Callable[[int], None], size: int, *, checked: bool) -> None:
    """Rows that hold the text between rows, rows larger than the window, escapes at its edge: always the same rows."""
    window(size)
    schema, tables = read(in_pieces(TEXT, max(1, size * 2 // 3)), KEYS if checked else None)
    assert schema == ["0001", "0002"]
    assert tables == {name: [encode(row) for row in rows] for name, rows in TRICKY.items()}


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 64])
def test_chunks_of_any_size_read_the_same(pieces: int) -> None:
    """However the text arrives, the rows are the same."""
    assert read(in_pieces(TEXT, pieces), KEYS) == read(TEXT, KEYS)


@pytest.mark.parametrize("size", [1, 50, 512 * 1024])
def test_batches_hold_what_they_say(window: Callable[[int], None], size: int) -> None:
    """A batch's text, rows, length, ends, values and keys are of the same rows."""
    window(size)
    for name, batches in DocumentReader([TEXT], key_of=KEYS.get).tables():
        seen = []
        for batch in batches:
            rows = batch.rows
            assert batch.text == b",".join(rows)
            assert batch.ends == rows[0] + b"," + rows[-1]
            assert len(batch) == len(rows)
            assert batch.values == [json.loads(row, parse_float=Decimal) for row in rows]
            assert batch.keys == keys_of(batch.text, ("id",))
            seen += batch.values
        assert seen == TRICKY[name]


def test_rows_come_many_at_a_time() -> None:
    """A window's rows are one batch, and only what a window does not hold is the next one."""
    text = document({"t": [{"id": f"{number:06}", "v": "},{"} for number in range(60_000)]})
    ((_, batches),) = ((name, list(batches)) for name, batches in DocumentReader([text], key_of=KEYS.get).tables())
    assert len(text) > 2 * scanner.WINDOW
    assert len(batches) <= len(text) // scanner.WINDOW + 2


def test_a_table_left_unread_is_read_past() -> None:
    """Whoever does not look at a table's rows gets the next table all the same, and the rows are checked."""
    assert [name for name, _ in DocumentReader([TEXT], key_of=KEYS.get).tables()] == sorted(TRICKY)
    broken = TEXT.replace(b'"n":1.50}', b'"n":1.5e0}', 1)
    with pytest.raises(Unreadable):
        list(DocumentReader([broken], key_of=KEYS.get).tables())


def test_an_empty_state_is_a_document() -> None:
    """No tables and no migrations is a whole document."""
    assert read(b'{"format":"vibey-state/1","schema":[],"tables":{}}', {}) == ([], {})


def test_tables_nobody_declared_are_checked_too() -> None:
    """Without a key a row is still canonical text."""
    text = document({"t": [{"id": 1}]})
    assert read(text, {}) == ([], {"t": [b'{"id":1}']})
    with pytest.raises(Unreadable):
        read(text.replace(b"1}", b"01}"), {})


ROWS: dict[str, list[dict[str, Any]]] = {
    "t": [{"id": 1, "v": "\u00e4"}, {"id": 2, "v": 1}],
    "u": [{"id": 1, "v": None}],
}
GOOD = document(ROWS, ["0001", "0002"])
T_KEYS = {"t": ("id",), "u": ("id",)}


def changed(*edits: tuple[bytes, bytes]) -> bytes:
    text = GOOD
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


HEAD = b'{"format":"vibey-state/1","schema":["0001","0002"],"tables":'

BROKEN = {
    "another format": changed((b"state/1", b"state/2")),
    "the exact encoding": changed((b"state/1", b"state/1x")),
    "an export's format": changed((b"vibey-state/1", b"vibey-state-export/1")),
    "a format that is no string": changed((b'"vibey-state/1"', b"1")),
    "a format written another way": changed((b"vibey", b"\\u0076ibey")),
    "half a surrogate pair as the format": changed((b"vibey-state/1", b"\\ud83d")),
    "no format": changed((b'"format":"vibey-state/1",', b"")),
    "no schema": changed((b'"schema":["0001","0002"],', b"")),
    "no tables": b'{"format":"vibey-state/1","schema":["0001","0002"]}',
    "an additional member in front": changed((b'{"format"', b'{"a":1,"format"')),
    "an additional member between": changed((b',"tables"', b',"t":1,"tables"')),
    "an additional member at the end": GOOD[:-1] + b',"z":1}',
    "format twice": changed((b',"schema"', b',"format":"vibey-state/1","schema"')),
    "schema twice": changed((b',"tables"', b',"schema":["0001","0002"],"tables"')),
    "tables twice": GOOD[:-1] + b',"tables":{}}',
    "members in another order": b'{"schema":[],"format":"vibey-state/1","tables":{}}',
    "schema not sorted": changed((b'"0001","0002"', b'"0002","0001"')),
    "a migration twice": changed((b'"0002"', b'"0001"')),
    "schema not a list": changed((b'["0001","0002"]', b'"0001"')),
    "a migration that is a number": changed((b'"0002"', b"2")),
    "a migration written another way": changed((b'"0001"', b'"\\u0030001"')),
    "half a surrogate pair as a migration": changed((b'"0002"', b'"\\ud83d"')),
    "a space in the schema": changed((b'"0001",', b'"0001", ')),
    "tables not an object": HEAD + b"[]}",
    "tables null": HEAD + b"null}",
    "a table that is no list": HEAD + b'{"t":{}}}',
    "a table that is null": HEAD + b'{"t":null}}',
    "a table without a row": HEAD + b'{"t":[]}}',
    "an empty table behind another": GOOD[:-2] + b',"z":[]}}',
    "tables out of order": HEAD + b'{"u":[{"id":1}],"t":[{"id":1}]}}',
    "a table twice": HEAD + b'{"t":[{"id":1}],"t":[{"id":2}]}}',
    "a name written another way": changed((b'"u":[', b'"\\u0075":[')),
    "half a surrogate pair as a name": changed((b'"u":[', b'"\\ud83d":[')),
    "a name in UTF-8": changed((b'"u":[', '"\xfc":['.encode())),
    "an upper-case escape": changed((b"\\u00e4", b"\\u00E4")),
    "an escape that is not needed": changed((b'"\\u00e4"', b'"\\u0041"')),
    "a long escape where there is a short one": changed((b"\\u00e4", b"\\u000a")),
    "an escaped solidus": changed((b"\\u00e4", b"\\/")),
    "UTF-8": changed((b"\\u00e4", b"\xc3\xa4")),
    "DEL": changed((b"\\u00e4", b"\x7f")),
    "a control character": changed((b"\\u00e4", b"\n")),
    "a byte that is not UTF-8": changed((b"\\u00e4", b"\xff")),
    "half a surrogate pair in a value": changed((b"\\u00e4", b"\\ud83d")),
    "half a surrogate pair as a column": changed((b'"v":null', b'"\\ud83d":null')),
    "a space in a row": changed((b'"v":1}', b'"v": 1}')),
    "a space between rows": changed((b'},{"id":2', b'}, {"id":2')),
    "a space behind a table": changed((b"1}],", b"1}] ,")),
    "columns not sorted": changed((b'{"id":2,"v":1}', b'{"v":1,"id":2}')),
    "a column twice": changed((b'"v":1}', b'"v":1,"v":1}')),
    "a key column twice": changed((b'{"id":2,', b'{"id":2,"id":2,')),
    "a member of a value twice": changed((b'"v":1}', b'"v":{"a":1,"a":1}}')),
    "an exponent in lower case": changed((b'"v":1}', b'"v":1.0e5}')),
    "an exponent without a sign": changed((b'"v":1}', b'"v":1E5}')),
    "an exponent that is not needed": changed((b'"v":1}', b'"v":1E-1}')),
    "minus zero": changed((b'"v":1}', b'"v":-0}')),
    "a leading zero": changed((b'"v":1}', b'"v":01}')),
    "a plus sign": changed((b'"v":1}', b'"v":+1}')),
    "NaN": changed((b'"v":1}', b'"v":NaN}')),
    "Infinity": changed((b'"v":1}', b'"v":-Infinity}')),
    "an exponent out of any range": changed((b'"v":1}', b'"v":1E+9999999999999999999999}')),
    "nesting without end": changed((b'"v":1}', b'"v":' + b"[" * 30_000 + b"]" * 30_000 + b"}")),
    "nesting without end, cut": HEAD + b'{"t":[{"a":' + b"[" * 30_000,
    "nesting without end as the schema": changed((b'["0001","0002"]', b"[" * 30_000 + b"]" * 30_000)),
    "rows out of order": HEAD + b'{"t":[{"id":2},{"id":1}]}}',
    "rows in the order of numbers": HEAD + b'{"t":[{"id":2},{"id":10}]}}',
    "two rows under one key": HEAD + b'{"t":[{"id":1,"v":1},{"id":1,"v":2}]}}',
    "one row twice": HEAD + b'{"t":[{"id":1},{"id":1}]}}',
    "a row without its key": HEAD + b'{"t":[{"v":1}]}}',
    "a second row without its key": HEAD + b'{"t":[{"id":1},{"v":1}]}}',
    "a second row with a column more": HEAD + b'{"t":[{"id":1},{"id":2,"v":1}]}}',
    "a second row with a column less": HEAD + b'{"t":[{"id":1,"v":1},{"id":2}]}}',
    "a row that is a number": HEAD + b'{"t":[1]}}',
    "a row that is a string": HEAD + b'{"t":["a"]}}',
    "a row that is null": HEAD + b'{"t":[null]}}',
    "a row that is a list": HEAD + b'{"t":[[1]]}}',
    "a second row that is a list": HEAD + b'{"t":[{"id":1},[2]]}}',
    "a comma behind the last row": HEAD + b'{"t":[{"id":1},]}}',
    "two commas between rows": HEAD + b'{"t":[{"id":1},,{"id":2}]}}',
    "no comma between rows": HEAD + b'{"t":[{"id":1}{"id":2}]}}',
    "a comma in front of the rows": HEAD + b'{"t":[,{"id":1}]}}',
    "a comma behind the last table": HEAD + b'{"t":[{"id":1}],}}',
    "a comma in front of the tables": HEAD + b'{,"t":[{"id":1}]}}',
    "a newline at the end": GOOD + b"\n",
    "text behind the end": GOOD + b"x",
    "a second document": GOOD + GOOD,
    "a NUL behind the end": GOOD + b"\x00",
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "a space in front": b" " + GOOD,
    "nothing": b"",
    "an empty object": b"{}",
    "a list": b"[]",
    "no JSON": b"hello",
    "UTF-16": GOOD.decode().encode("utf-16"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_faults_make_it_unreadable(name: str) -> None:
    """Each fault is Unreadable, with a message, and no other exception."""
    with pytest.raises(Unreadable) as caught:
        read(BROKEN[name], T_KEYS)
    assert caught.value.message


@pytest.mark.parametrize("size", [1, 2, 7, 30])
def test_faults_are_found_in_any_window(window: Callable[[int], None], size: int) -> None:
    """The same with windows smaller than a row, and with text that arrives in small chunks."""
    window(size)
    accepted = []
    for name, text in BROKEN.items():
        try:
            read(in_pieces(text, size), T_KEYS)
            accepted.append(name)
        except Unreadable:
            pass
    assert not accepted


ONLY_BY_KEY = {
    "rows out of order",
    "rows in the order of numbers",
    "two rows under one key",
    "one row twice",
    "a row without its key",
}


def test_undeclared_tables_are_checked_but_for_their_keys() -> None:
    """In a table that nobody declared, everything but the order of keys is checked all the same."""
    accepted = set()
    for name, text in BROKEN.items():
        try:
            read(text, {})
            accepted.add(name)
        except Unreadable:
            pass
    assert accepted == ONLY_BY_KEY


def test_cut_at_every_byte() -> None:
    """A document cut anywhere is unreadable as a whole, checked or not."""
    for end in range(len(GOOD)):
        for keys in (T_KEYS, None):
            with pytest.raises(Unreadable):
                read(GOOD[:end], keys)


def test_order_is_checked_across_batches(window: Callable[[int], None]) -> None:
    """A row under the last key of the batch before it is found."""
    window(1)
    rows: list[dict[str, Any]] = [{"id": f"{number:03}"} for number in range(50)]
    assert len(read(document({"t": rows}), {"t": ("id",)})[1]["t"]) == 50
    for at in (1, 25, 49):
        for wrong in (rows[at - 1], {"id": "000"}):
            text = document({"t": [*rows[:at], wrong, *rows[at:]]})
            with pytest.raises(Unreadable, match="out of order"):
                read(text, {"t": ("id",)})


def test_columns_are_checked_across_batches(window: Callable[[int], None]) -> None:
    """Rows of one table have the same columns, also in different batches."""
    window(1)
    for last in ({"id": 3}, {"id": 3, "v": 1, "w": 2}, {"id": 3, "w": 1}):
        text = document({"t": [{"id": 1, "v": 1}, {"id": 2, "v": 1}, last]})
        with pytest.raises(Unreadable, match="same columns"):
            read(text, {"t": ("id",)})


def test_a_row_over_the_limit_is_refused(monkeypatch: pytest.MonkeyPatch, window: Callable[[int], None]) -> None:
    """A value that never ends within the largest row's size is refused, not read for ever."""
    window(8)
    monkeypatch.setattr(scanner, "MAX_ROW", 64)
    taken = []

    def chunks() -> Iterator[bytes]:
        yield HEAD + b'{"t":[{"id":"'
        while True:
            taken.append(1)
            yield b"x" * 64

    with pytest.raises(Unreadable, match="1 GiB"):
        read(chunks(), {"t": ("id",)})
    assert len(taken) < 10


@pytest.mark.parametrize(
    "column",
    [
        "id",
        "Id",
        "select",
        'weird "q',
        "back\\slash",
        "new\nline",
        "tab\t",
        "\x7f",
        "\u00e4",
        "\U0001f600",
        "a.b",
        "",
        "k0",
    ],
)
def test_keys_of_columns_with_any_name(column: str) -> None:
    """A key column may have every name that PostgreSQL allows."""
    rows = [{column: "a\u00e4", "other": 1, "z": 2}, {column: "b", "other": 1, "z": 2}]
    for key in ((column,), ("z", column)):
        expected = [encode([row[part] for part in key]) for row in rows]
        assert keys_of(encode(rows)[1:-1], key) == expected
        assert read(document({"t": rows}), {"t": key})[1] == {"t": [encode(row) for row in rows]}
    with pytest.raises(Unreadable, match="without the key"):
        keys_of(b'{"nothing":1}', (column,))


def test_keys_are_exact_texts() -> None:
    """A key is the columns' own text: scale, big integers, nested values and nulls included."""
    row = b'{"a":1.00,"b":123456789012345678901234567890,"c":{"x":[1.50,null]},"d":null}'
    assert keys_of(row, ("d", "c", "b", "a")) == [b'[null,{"x":[1.50,null]},123456789012345678901234567890,1.00]']


def written(tables: dict[str, list[bytes]], schema: list[str], *, together: bool) -> bytes:
    parts: list[bytes] = []
    ended: list[bool] = []
    writer = DocumentWriter(parts.append, schema, lambda: ended.append(True))
    for name, rows in tables.items():
        writer.table(name)
        for text in [b",".join(rows)] if together and rows else rows:
            writer.rows(text)
    assert not ended
    writer.close()
    assert ended == [True]
    return b"".join(parts)


@pytest.mark.parametrize("together", [True, False])
def test_writing_gives_the_same_bytes(*, together: bool) -> None:
    """What was read is written as the same document, row by row or in batches."""
    schema, tables = read(TEXT)
    assert written(tables, schema, together=together) == TEXT
    assert written({}, [], together=together) == document({})


def test_tables_without_rows_are_left_out() -> None:
    """First, in the middle, last and all of them."""
    row = encode({"id": 1})
    tables = {"a": [], "b": [row], "c": [], "d": [], "e": [row], "f": []}
    assert written(tables, ["1"], together=False) == document({"b": [{"id": 1}], "e": [{"id": 1}]}, ["1"])
    assert written({"a": [], "b": []}, ["1"], together=False) == document({}, ["1"])


def test_writing_is_piecewise() -> None:
    """A large document leaves the writer in pieces, not at its end."""
    parts: list[bytes] = []
    writer = DocumentWriter(parts.append, [], lambda: None)
    writer.table("t")
    for number in range(20_000):
        writer.rows(encode({"id": f"{number:06}", "text": "x" * 100}))
    assert len(parts) > 5
    writer.close()
    assert len(read(b"".join(parts), {"t": ("id",)})[1]["t"]) == 20_000


def test_the_vectors_document_is_written_the_same_again() -> None:
    """A document of the system whose format this is passes every check and is written as the same bytes."""
    text = (VECTORS / "plain.json").read_bytes()
    keys = {name: table.key for name, table in profile("vibey").tables.items()}
    schema, tables = read(in_pieces(text, 1000), keys)
    assert written(tables, schema, together=False) == text


def read_export(text: bytes) -> tuple[str | None, str, dict[str, list[bytes]]]:
    reader = ExportReader([text], key_of=T_KEYS.get)
    tables = {name: [row for batch in batches for row in batch.rows] for name, batches in reader.document.tables()}
    reader.finish()
    return reader.base, reader.remote, tables


EXPORT = export(GOOD, COMMIT)


@pytest.mark.parametrize("base", [None, COMMIT, "a" * 64])
def test_exports_are_read(base: str | None) -> None:
    """Base (a commit of 40 or 64 digits, or null), remote and document come out."""
    rows = {name: [encode(row) for row in table] for name, table in ROWS.items()}
    assert read_export(export(GOOD, base)) == (base, "OWNER/NAME:vibey-state", rows)


BROKEN_EXPORT = {
    "a document instead": GOOD,
    "no base": EXPORT.replace(b'"base":"' + COMMIT.encode() + b'",', b""),
    "an empty base": export(GOOD, ""),
    "a base too short": export(GOOD, COMMIT[:-1]),
    "a base too long": export(GOOD, COMMIT + "0"),
    "a base of 63 digits": export(GOOD, "a" * 63),
    "a base in upper case": export(GOOD, COMMIT.upper()),
    "a base that is a branch": export(GOOD, "vibey-state"),
    "a base with a newline": export(GOOD, COMMIT + "\n"),
    "a base that is a number": EXPORT.replace(b'"' + COMMIT.encode() + b'"', b"1"),
    "a base that is false": EXPORT.replace(b'"' + COMMIT.encode() + b'"', b"false"),
    "a base written another way": EXPORT.replace(b'"0123', b'"\\u0030123', 1),
    "null and more": EXPORT.replace(b'"' + COMMIT.encode() + b'"', b"nullx"),
    "another format": EXPORT.replace(b"export/1", b"export/2"),
    "a document's format": EXPORT.replace(b"vibey-state-export/1", b"vibey-state/1"),
    "a remote that is null": EXPORT.replace(b'"OWNER/NAME:vibey-state"', b"null"),
    "a remote that is a list": EXPORT.replace(b'"OWNER/NAME:vibey-state"', b"[]"),
    "a remote written another way": EXPORT.replace(b"OWNER", b"\\u004fWNER"),
    "a remote with half a surrogate pair": EXPORT.replace(b"OWNER", b"\\ud83d"),
    "no remote": EXPORT.replace(b'"remote":"OWNER/NAME:vibey-state",', b""),
    "the remote twice": EXPORT.replace(b',"state":', b',"remote":"OWNER/NAME:vibey-state","state":'),
    "an additional member": EXPORT.replace(b',"state":', b',"s":1,"state":'),
    "an additional member at the end": EXPORT[:-1] + b',"z":1}',
    "a state that is null": EXPORT[: -len(GOOD) - 1] + b"null}",
    "an export inside an export": export(EXPORT),
    "a document of another format": EXPORT.replace(b'"vibey-state/1"', b'"vibey-state/1x"'),
    "a fault in a row": EXPORT.replace(b'"v":1}', b'"v":01}'),
    "a space": EXPORT.replace(b'"base":', b'"base": '),
    "text behind the end": EXPORT + b"\n",
    "a bracket too many": EXPORT + b"}",
    "nothing": b"",
}


@pytest.mark.parametrize("name", BROKEN_EXPORT)
def test_faults_make_an_export_unreadable(name: str) -> None:
    """Each fault is Unreadable and no other exception."""
    assert BROKEN_EXPORT[name] != EXPORT
    with pytest.raises(Unreadable):
        read_export(BROKEN_EXPORT[name])


def test_an_export_cut_at_every_byte() -> None:
    """An export cut anywhere is unreadable as a whole."""
    for end in range(len(EXPORT)):
        with pytest.raises(Unreadable):
            read_export(EXPORT[:end])


@pytest.mark.parametrize("base", [None, COMMIT])
def test_writing_an_export(base: str | None) -> None:
    """An export is written canonically: what was read is the same bytes again."""
    parts: list[bytes] = []
    writer = export_writer(
        parts.append,
        base=base,
        remote="OWNER/N\u00c4ME:x",
        schema=["0001", "0002"],
        end=lambda: parts.append(b"END"),
        serialized={},
    )
    for name, rows in ROWS.items():
        writer.table(name)
        writer.rows(encode(rows)[1:-1])
    writer.close()
    assert b"".join(parts) == export(GOOD, base, "OWNER/N\u00c4ME:x") + b"END"


def test_the_vectors_export_is_written_the_same_again() -> None:
    """An export of the system whose format this is comes out as the same bytes."""
    text = (VECTORS / "export.plain.json").read_bytes()
    reader = ExportReader(in_pieces(text, 777), key_of=lambda name: profile("vibey").tables[name].key)
    parts: list[bytes] = []
    writer = export_writer(
        parts.append,
        base=reader.base,
        remote=reader.remote,
        schema=reader.document.schema,
        end=lambda: None,
        serialized={},
    )
    for name, batches in reader.document.tables():
        writer.table(name)
        for batch in batches:
            writer.rows(batch.text)
    reader.finish()
    writer.close()
    assert b"".join(parts) == text
