"""The document: every row of a state as one canonical text, read and written as a stream (docs/format.md).

``{"format":"vibey-state/1","schema":[...],"tables":{NAME:[ROW,...],...}}``. An exact one says ``vibey-state/1x``, with
``"keys":{NAME:{COLUMN:FOLD,...},...}`` before ``schema`` where equal keys may have different texts, and
``"serialized":{NAME:[COLUMN,...],...}`` after it where columns are carried as their type's text output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, KeysView, Mapping, Sequence
from functools import cache
from itertools import pairwise
from operator import itemgetter, lt
from types import MappingProxyType
from typing import Any

import msgspec

from vibey_actions.errors import Unreadable
from vibey_actions.rows.canonical import NotJson, decode, encode, encode_each
from vibey_actions.state.identity import NO_FOLDS, Fold, Folds, folded
from vibey_actions.state.scanner import Batch, Scanner

FORMAT = "vibey-state/1"
EXACT_FORMAT = "vibey-state/1x"

Serialized = Mapping[str, tuple[str, ...]]
"""By table, the columns that are carried as text output, sorted; tables without such are left out."""

_NOTHING: Serialized = MappingProxyType({})

_NOT_FOLDED: Mapping[str, Fold] = MappingProxyType({})

_BUFFERED = 256 * 1024

_ANOTHER_KEY = (
    "a table whose primary key is another here than where the state was written reads like that: bring both ends to "
    "the same schema (`vibey-actions migrate`), then sync"
)


def keys(batch: Batch, key: tuple[str, ...]) -> list[bytes]:
    """The keys of a batch's rows: canonical, and folded where equal values may have different texts."""
    return batch.keys if batch.keys is not None else keys_of(batch.text, key, batch.folds)


def end_keys(batch: Batch, key: tuple[str, ...]) -> list[bytes]:
    """The keys of a batch's first and last row."""
    return keys_of(batch.ends, key, batch.folds)


def keys_of(text: bytes, key: tuple[str, ...], folds: Mapping[str, Fold] = _NOT_FOLDED) -> list[bytes]:
    """The keys of canonical rows joined by commas. Raises Unreadable where a row lacks a key column."""
    try:
        if any(_NO_FIELD_NAME.search(column) for column in key):
            rows = _members_decoder.decode(b"[" + text + b"]")
            parts = [tuple(row[column] for column in key) for row in rows]
        else:
            parts = [msgspec.structs.astuple(struct) for struct in _key_decoder(key).decode(b"[" + text + b"]")]
    except (msgspec.MsgspecError, RecursionError, KeyError):
        raise _no_key(key) from None
    if not folds:
        return [b"[" + b",".join(map(bytes, part)) + b"]" for part in parts]
    found = [folds.get(column) for column in key]
    return [b"[" + b",".join(map(folded, found, map(bytes, part))) + b"]" for part in parts]


def _no_key(key: Sequence[str]) -> Unreadable:
    return Unreadable(f"the state holds a row without the key column(s) {', '.join(key)}")


def key_of(row: Mapping[str, Any], key: Sequence[str], folds: Mapping[str, Fold]) -> bytes:
    """The key of a decoded row."""
    return b"[" + b",".join(folded(folds.get(column), encode(row[column])) for column in key) + b"]"


_NO_FIELD_NAME = re.compile(r'[\x00-\x1f"\\]')
"""What msgspec takes in no field's name; PostgreSQL takes it in a column's."""

_members_decoder = msgspec.json.Decoder(list[dict[str, msgspec.Raw]])


@cache
def _key_decoder(key: tuple[str, ...]) -> msgspec.json.Decoder[list[msgspec.Struct]]:
    names = {f"k{i}": column for i, column in enumerate(key)}
    struct: Any = msgspec.defstruct("Key", [(name, msgspec.Raw) for name in names], rename=names)
    return msgspec.json.Decoder(list[struct])


class DocumentReader:
    """Reads a document from its text in chunks.

    ``schema`` is known once constructed; ``tables`` goes through the tables once, in name order. With ``key_of``, a
    function from a table's name to its key, every row is checked as the format demands: canonical text, in key order,
    no key twice. Without it rows are trusted to have been checked before. Raises Unreadable.
    """

    def __init__(
        self,
        chunks: Iterable[bytes] | Scanner,
        *,
        key_of: Callable[[str], tuple[str, ...] | None] | None = None,
    ) -> None:
        self._scanner = chunks if isinstance(chunks, Scanner) else Scanner(iter(chunks))
        self._owns_text = not isinstance(chunks, Scanner)
        self._key_of = key_of
        self.serialized: Serialized = _NOTHING
        self.folds: Folds = NO_FOLDS
        self.schema = self._read_head()

    def check_rows(self, key_of: Callable[[str], tuple[str, ...] | None]) -> None:
        """Check the rows after all, where their keys become known only now; before any table is read."""
        self._key_of = key_of

    @property
    def format(self) -> str:
        """The document's format: with serialized columns or folded keys the exact one."""
        return EXACT_FORMAT if self.serialized or self.folds else FORMAT

    def _read_head(self) -> list[str]:
        scanner = self._scanner
        scanner.expect(b'{"format":')
        found = scanner.value()
        if found not in (encode(FORMAT), encode(EXACT_FORMAT)):
            raise Unreadable(
                f"the state says format {found[:60].decode('ascii', 'backslashreplace')}, this version reads "
                f"{FORMAT} and {EXACT_FORMAT}",
                "use the version of vibey-actions that wrote it, or a newer one",
            )
        exact = found == encode(EXACT_FORMAT)
        if exact and scanner.take(b',"keys":'):
            self.folds = _folds_by_table(scanner.value())
        scanner.expect(b',"schema":')
        schema = _string_list(scanner.value())
        if exact and (scanner.at(b',"serialized":') or not self.folds):
            scanner.expect(b',"serialized":')
            self.serialized = _columns_by_table(scanner.value())
        scanner.expect(b',"tables":{')
        return schema

    def tables(self) -> Iterator[tuple[str, Iterator[Batch]]]:
        """The tables' names and batches of rows; a table's batches are read before the next name."""
        scanner = self._scanner
        previous: str | None = None
        while not scanner.at(b"}"):
            if previous is not None:
                scanner.expect(b",")
            name = _string(scanner.value())
            if previous is not None and name <= previous:
                raise Unreadable("the state's tables are out of order or one stands in it twice")
            previous = name
            scanner.expect(b":[")
            batches = self._batches(name)
            yield name, batches
            for _ in batches:
                pass
        scanner.expect(b"}}")
        if self._owns_text and not scanner.at_end():
            raise Unreadable("the state goes on behind its end")

    def _batches(self, name: str) -> Iterator[Batch]:
        scanner = self._scanner
        row_start = b'{"'
        folds = self.folds.get(name, _NOT_FOLDED)
        check = _RowCheck(name, self._key_of(name), self.serialized.get(name, ()), folds) if self._key_of else None
        first = True
        while not scanner.take(b"]"):
            if not first:
                scanner.expect(b",")
            batch = scanner.batch(row_start, decoded=check is not None)
            if first:
                row_start = _row_start(batch)
                first = False
            batch.folds = folds
            if check is not None:
                check(batch)
            yield batch
        if first:
            raise Unreadable(f"the state lists the table {name} without a row")


class _RowCheck:
    """Canonical text, the same columns in every row, those that the head names among them, keys in ascending order."""

    def __init__(
        self, name: str, key: tuple[str, ...] | None, serialized: tuple[str, ...], folds: Mapping[str, Fold]
    ) -> None:
        self._name = name
        self._key = key
        self._serialized = serialized
        self._named = {*serialized, *folds}
        self._last = b""
        self._columns: KeysView[str] | None = None

    def __call__(self, batch: Batch) -> None:
        try:
            values = decode(b"[" + batch.text + b"]") if batch.values is None else batch.values
            rewritten = encode(values)
        except NotJson:
            rewritten = b""
        if rewritten[1:-1] != batch.text:
            raise Unreadable(f"the state's rows of {self._name} are not canonical text")
        batch.values = values
        batch.columns = self._check_columns(values)
        if self._key is None:
            return
        batch.keys = self._keys(values, self._key, batch.folds)
        if self._last >= batch.keys[0] or not all(map(lt, batch.keys, batch.keys[1:])):
            raise Unreadable(f"the state's rows of {self._name} are out of order, or two have one key", _ANOTHER_KEY)
        self._last = batch.keys[-1]

    def _check_columns(self, rows: list[Any]) -> tuple[str, ...]:
        if set(map(type, rows)) != {dict}:
            raise Unreadable(f"the state holds a row of {self._name} that is no object")
        columns = self._columns = rows[0].keys() if self._columns is None else self._columns
        if any(map(columns.__ne__, map(dict.keys, rows))):
            raise Unreadable(f"the state's rows of {self._name} do not all have the same columns")
        if not self._named <= columns:
            raise Unreadable(f"the state's head names columns of {self._name} that its rows do not have")
        if not all(set(map(type, map(itemgetter(name), rows))) <= {str, type(None)} for name in self._serialized):
            raise Unreadable(f"the state's rows of {self._name} hold something else than text where its head says text")
        return tuple(columns)

    def _keys(self, rows: list[Any], key: tuple[str, ...], folds: Mapping[str, Fold]) -> list[bytes]:
        # The rows are canonical and have the same columns: so the text of a value is what it is encoded as.
        if not all(column in rows[0] for column in key):
            raise _no_key(key)
        if folds:
            return [key_of(row, key, folds) for row in rows]
        return encode_each(map(itemgetter(*key), rows) if len(key) > 1 else ([row[key[0]]] for row in rows))


def _row_start(batch: Batch) -> bytes:
    """How every row of the table begins: its first member's name."""
    row = batch.ends
    end = row.find(b'":')
    return row[: end + 2] if row.startswith(b'{"') and end > 0 else b'{"'


def canonical_value(text: bytes) -> Any:
    """The value of a canonical text; None where the text is not canonical (or is ``null``)."""
    try:
        value = decode(text)
        return value if encode(value) == text else None
    except NotJson:
        return None


def _string(text: bytes) -> str:
    value = canonical_value(text)
    if not isinstance(value, str):
        raise Unreadable("the state is not a document of this format: a name is not canonical text")
    return value


def _string_list(text: bytes) -> list[str]:
    value = canonical_value(text)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Unreadable("the state's list of migrations is not a list of strings in canonical text")
    if any(left >= right for left, right in pairwise(value)):
        raise Unreadable("the state's list of migrations is not sorted, or one stands in it twice")
    return value


def _columns_by_table(text: bytes) -> Serialized:
    value = canonical_value(text)
    if not isinstance(value, dict) or not value:
        raise Unreadable("the state's serialized columns are not an object in canonical text")
    for columns in value.values():
        if not isinstance(columns, list) or not columns or not all(isinstance(name, str) for name in columns):
            raise Unreadable("the state's serialized columns of a table are not a list of names")
        if any(left >= right for left, right in pairwise(columns)):
            raise Unreadable("the state's serialized columns of a table are not sorted, or one stands there twice")
    return {name: tuple(columns) for name, columns in value.items()}


def _folds_by_table(text: bytes) -> Folds:
    value = canonical_value(text)
    known = {fold.value for fold in Fold}
    if not isinstance(value, dict) or not value:
        raise Unreadable("the state's folded keys are not an object in canonical text")
    for columns in value.values():
        if not isinstance(columns, dict) or not columns or not known.issuperset(map(str, columns.values())):
            raise Unreadable("the state folds the keys of a table in a way that this version does not know")
    return {name: {column: Fold(fold) for column, fold in columns.items()} for name, columns in value.items()}


class DocumentWriter:
    """Writes a document as text into ``write``; tables in name order, rows in key order, both as the caller gives them.

    A table without rows is left out. ``close`` ends the document and then calls ``end``.
    """

    def __init__(
        self,
        write: Callable[[bytes], None],
        schema: Sequence[str],
        end: Callable[[], None],
        serialized: Serialized = _NOTHING,
        folds: Folds = NO_FOLDS,
    ) -> None:
        self._write = write
        self._end = end
        head = b'{"format":' + encode(EXACT_FORMAT if serialized or folds else FORMAT)
        if folds:
            head += b',"keys":' + encode({name: dict(columns) for name, columns in folds.items()})
        head += b',"schema":' + encode(list(schema))
        if serialized:
            head += b',"serialized":' + encode({name: list(columns) for name, columns in serialized.items()})
        head += b',"tables":{'
        self._parts = [head]
        self._size = len(head)
        self._before_row = b""
        self._any_table = False
        self._in_table = False

    def table(self, name: str) -> None:
        """Begin a table; what is written next are its rows."""
        self._end_table()
        self._before_row = (b"," if self._any_table else b"") + encode(name) + b":["

    def rows(self, text: bytes) -> None:
        """One row, or several joined by commas."""
        self._parts.append(self._before_row)
        self._parts.append(text)
        self._size += len(text) + 1
        self._before_row = b","
        self._in_table = self._any_table = True
        if self._size >= _BUFFERED:
            self._flush()

    def close(self) -> None:
        self._end_table()
        self._parts.append(b"}}")
        self._flush()
        self._end()

    def _end_table(self) -> None:
        if self._in_table:
            self._parts.append(b"]")
            self._in_table = False

    def _flush(self) -> None:
        self._write(b"".join(self._parts))
        self._parts.clear()
        self._size = 0
