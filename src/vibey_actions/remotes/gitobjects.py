"""git's names for what it stores: computed here, to check what a server answers and to spare git slow work.

Source: gitformat-pack(5) and the object model of git: an object's name is the digest of ``TYPE SIZE NUL CONTENT``.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vibey_actions.errors import RemoteFailed
from vibey_actions.state.owned import create_owned

if TYPE_CHECKING:
    from hashlib import _Hash

CHUNK = 1 << 18
SHA1_LENGTH = 40


def object_format(name: str) -> str:
    """``sha1`` or ``sha256``, by the length of an object's name."""
    return "sha1" if len(name) == SHA1_LENGTH else "sha256"


def blob_digest(size: int, algorithm: str) -> _Hash:
    """The digest of a blob of ``size`` bytes, to be fed with exactly these bytes."""
    return hashlib.new(algorithm, f"blob {size}\0".encode("ascii"), usedforsecurity=False)


def tree_name(blobs: Mapping[str, str], algorithm: str) -> str:
    """The name of the tree that holds exactly ``blobs`` (path to blob), folders included."""
    names: dict[str, tuple[bytes, str]] = {}
    folders: dict[str, dict[str, str]] = {}
    for path, blob in blobs.items():
        name, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(name, {})[rest] = blob
        else:
            names[name] = (b"100644", blob)
    for name, inside in folders.items():
        names[name + "/"] = (b"40000", tree_name(inside, algorithm))
    content = b"".join(
        b"%s %s\0%s" % (mode, name.rstrip("/").encode("utf-8", "surrogateescape"), bytes.fromhex(child))
        for name, (mode, child) in sorted(names.items(), key=lambda item: item[0].encode("utf-8", "surrogateescape"))
    )
    return hashlib.new(algorithm, b"tree %d\0" % len(content) + content, usedforsecurity=False).hexdigest()


def write_blob(repository: Path, source: Path, algorithm: str) -> str:
    """Store the file ``source`` as a blob in a bare repository and return its name.

    What ``git hash-object -w`` does, in one pass and a quarter of the time for a large file: sealed bytes are stored,
    not compressed. Raises RemoteFailed where the file changes meanwhile, OSError where it cannot be read or written.
    """
    with source.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        digest, packer = blob_digest(size, algorithm), zlib.compressobj(0)
        loose, descriptor = create_owned(repository / "objects", ".blob")
        with os.fdopen(descriptor, "wb") as out:
            out.write(packer.compress(f"blob {size}\0".encode("ascii")))
            left = size
            while chunk := file.read(CHUNK):
                digest.update(chunk)
                out.write(packer.compress(chunk))
                left -= len(chunk)
            out.write(packer.flush())
    if left:
        raise RemoteFailed("the sealed file changed while it was read", "run again")
    name = digest.hexdigest()
    target = repository / "objects" / name[:2]
    target.mkdir(exist_ok=True)
    loose.replace(target / name[2:])
    return name
