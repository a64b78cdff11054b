"""How an export's tables are keyed and carried, sealed beside it, so that it can be merged without its database.

``{"export":SHA-256 of the export's file,"format":"vibey-actions-shapes/1","tables":{NAME:{"columns":[...],
"folds":{...},"key":[...],"serialized":[...]},...}}``, canonical. An export does not say what its primary keys are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from vibey_actions.errors import Unreadable
from vibey_actions.rows.canonical import encode
from vibey_actions.state.declaration import Table
from vibey_actions.state.document import canonical_value
from vibey_actions.state.documents import put_in_place, sealed_file
from vibey_actions.state.identity import Fold
from vibey_actions.state.seal import open_sealed

FORMAT: Final = "vibey-actions-shapes/1"
_LARGEST: Final = 64 << 20


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file, in lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_shapes(path: Path, export: Path, tables: Mapping[str, Table], key: bytes) -> None:
    """Seal into ``path`` how the tables of the file ``export`` are keyed and carried. Raises FileFailed."""
    found = {"export": sha256_of(export), "format": FORMAT, "tables": {name: _shape(tables[name]) for name in tables}}
    with sealed_file(path.absolute().parent, key) as (write, close, made):
        write(encode(found))
        close()
        put_in_place(made, path)


def read_shapes(path: Path, export: Path, key: bytes) -> dict[str, Table]:
    """The tables of ``export`` by name, without any rule. Raises Unreadable (WrongKey) where ``path`` does not say."""
    text = b"".join(open_sealed(path, key, max_unpacked=_LARGEST))
    found = canonical_value(text)
    if not isinstance(found, dict) or found.get("format") != FORMAT or not isinstance(found.get("tables"), dict):
        raise Unreadable(f"the file beside the export does not say {FORMAT}", _AGAIN)
    if found.get("export") != sha256_of(export):
        raise Unreadable("the file beside the export belongs to another export", _AGAIN)
    try:
        return {name: _table(name, shape) for name, shape in found["tables"].items()}
    except (KeyError, TypeError, ValueError):
        raise Unreadable("the file beside the export does not describe its tables", _AGAIN) from None


_AGAIN: Final = "nothing was written; use the version of vibey-actions that made the export"


def _shape(table: Table) -> dict[str, Any]:
    return {
        "columns": list(table.columns),
        "folds": {column: fold.value for column, fold in table.folds},
        "key": list(table.key),
        "serialized": list(table.serialized),
    }


def _table(name: str, shape: Mapping[str, Any]) -> Table:
    if not shape["key"] or not set(shape["key"]) <= set(shape["columns"]):
        raise ValueError
    return Table(
        name=name,
        key=tuple(map(str, shape["key"])),
        columns=tuple(map(str, shape["columns"])),
        serialized=tuple(map(str, shape["serialized"])),
        folds=tuple(sorted((column, Fold(fold)) for column, fold in shape["folds"].items())),
    )
