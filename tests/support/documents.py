"""Documents for tests: made from plain values, sealed, and read whole."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from vibey_actions.rows.canonical import encode
from vibey_actions.state.document import DocumentReader
from vibey_actions.state.seal import MAGIC, NONCE_SIZE, SealWriter

KEY = bytes(range(32))

Tables = Mapping[str, Sequence[Mapping[str, Any]]]
Keys = Mapping[str, tuple[str, ...]]


def document(tables: Tables, schema: Sequence[str] = ()) -> bytes:
    """The text of a document: rows as given, tables by name."""
    return encode(
        {"format": "vibey-state/1", "schema": list(schema), "tables": {n: list(r) for n, r in tables.items()}}
    )


def export(text: bytes, base: str | None = None, remote: str = "OWNER/NAME:vibey-state") -> bytes:
    """The text of an export of a document."""
    head = encode({"base": base, "format": "vibey-state-export/1", "remote": remote})
    return head[:-1] + b',"state":' + text + b"}"


def in_pieces(text: bytes, size: int) -> Iterator[bytes]:
    """The text in chunks of ``size`` bytes."""
    return (text[start : start + size] for start in range(0, len(text), size))


def content(reader: DocumentReader) -> dict[str, list[bytes]]:
    """Every row of a document by table, read to the end."""
    return {name: [row for batch in batches for row in batch.rows] for name, batches in reader.tables()}


def read(text: bytes | Iterable[bytes], keys: Keys | None = None) -> tuple[list[str], dict[str, list[bytes]]]:
    """The schema and the rows of a document's text; checked where ``keys`` are given."""
    chunks = [text] if isinstance(text, bytes) else text
    reader = DocumentReader(chunks, key_of=None if keys is None else keys.get)
    return reader.schema, content(reader)


def seal(text: bytes, key: bytes = KEY) -> bytes:
    """A sealed file of the product's own writer."""
    file = io.BytesIO()
    writer = SealWriter(file, key)
    writer.write(text)
    writer.close()
    return file.getvalue()


def seal_packed(packed: bytes, key: bytes = KEY) -> bytes:
    """A sealed file of another writer, who packed the text."""
    nonce = os.urandom(NONCE_SIZE)
    return MAGIC + nonce + AESGCM(key).encrypt(nonce, packed, MAGIC)


def seal_elsewhere(text: bytes, key: bytes = KEY, level: int = 6) -> bytes:
    """A sealed file of a writer that packs with zlib at ``level``."""
    return seal_packed(gzip.compress(text, level, mtime=0), key)


def sealed_file(path: Path, text: bytes, key: bytes = KEY) -> Path:
    """``path``, holding the sealed text."""
    path.write_bytes(seal(text, key))
    return path
