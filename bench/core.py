"""The pure core by itself: three sealed documents opened, merged side by side, the merge written and sealed.

``python -m bench.core FOLDER ROWS`` measures itself and prints one JSON object; no PostgreSQL, git or network.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from vibey_actions.rows.canonical import encode
from vibey_actions.state.bounds import EVERYTHING, KeyRange
from vibey_actions.state.declaration import Declaration, Table
from vibey_actions.state.document import DocumentReader, DocumentWriter, keys_of
from vibey_actions.state.merge import merge
from vibey_actions.state.progress import Silent
from vibey_actions.state.seal import SealWriter, open_sealed

WORDS = ("merge", "branch", "failed", "after", "review", "engine", "proposed", "change", "prüft", "naïve", "✓", "rows")
TEXTS = [" ".join(WORDS[(number * step + step) % len(WORDS)] for step in range(1, 64)) for number in range(997)]
EVENT = Table(
    "event", ("project_id", "seq"), ("digest", "kind", "payload", "produced_at", "project_id", "seq"), append_only=False
)


def text_of(number: int, version: int) -> bytes:
    """The canonical row ``number``; ``version`` changes one member."""
    return encode(
        {
            "digest": f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}" * 4,
            "kind": f"kind {number % 20}",
            "payload": {
                "ok": number % 3 == 0,
                "text": TEXTS[number % len(TEXTS)],
                "tokens": number % 1000,
                "version": version,
            },
            "produced_at": f"2026-01-01T00:00:00.{number % 1000:03}+00:00",
            "project_id": f"project {number // 100_000:04}",
            "seq": 100_000 + number % 100_000,
        }
    )


def numbers_changed(rows: int, offset: int) -> set[int]:
    """Every thousandth row, beginning with ``offset``."""
    return set(range(offset, rows, 1000))


def write_document(path: Path, key: bytes, rows: int, changed: set[int]) -> int:
    """Seal a document of ``rows`` rows into ``path``; returns the length of its text."""
    size = 0

    def write(text: bytes) -> None:
        nonlocal size
        size += len(text)
        seal.write(text)

    with path.open("wb") as file:
        seal = SealWriter(file, key)
        document = DocumentWriter(write, ["0001"], seal.close)
        document.table("event")
        for number in range(rows):
            document.rows(text_of(number, int(number in changed)))
        document.close()
    return size


class EveryRow:
    """This database's rows, all of them to be compared: the most that a merge can have to do."""

    bounds: Sequence[bytes] = ()
    ranges: Sequence[KeyRange] = (EVERYTHING,)

    def __init__(self, path: Path, key: bytes) -> None:
        self._path, self._key = path, key

    def rows(self) -> Iterator[tuple[bytes, bytes]]:
        """Key and text of every row."""
        for _, batches in DocumentReader(open_sealed(self._path, self._key)).tables():
            for batch in batches:
                yield from zip(keys_of(batch.text, EVENT.key), map(bytes, batch.rows), strict=True)


def peak_mib() -> float:
    """This process's own peak resident memory."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii", "replace"))
    return int(found[1]) / 1024 if found else 0.0


def measure_core(folder: Path, rows: int) -> dict[str, float]:
    """Seconds, rows, MB of text and peak MiB of one merge of ``rows`` rows with a change in a thousand at each end."""
    key = os.urandom(32)
    paths = [folder / name for name in ("base", "theirs", "mine", "merged")]
    base, theirs, mine, merged = paths
    size = write_document(base, key, rows, set())
    write_document(theirs, key, rows, numbers_changed(rows, 1))
    write_document(mine, key, rows, numbers_changed(rows, 501))
    started = time.perf_counter()
    with merged.open("wb") as file:
        seal = SealWriter(file, key)
        outcome = merge(
            Declaration({"event": EVENT}),
            DocumentReader(open_sealed(base, key)),
            DocumentReader(open_sealed(theirs, key)),
            lambda _: EveryRow(mine, key),
            writer=DocumentWriter(seal.write, ["0001"], seal.close),
            progress=Silent(),
        )
    seconds = time.perf_counter() - started
    pulled, pushed = outcome.pull_counts["event"].updated, outcome.push_counts["event"].updated
    assert (outcome.rows, pulled, pushed) == (rows, len(numbers_changed(rows, 1)), len(numbers_changed(rows, 501)))
    outcome.close()
    for path in paths:
        path.unlink()
    return {"rows": rows, "text_mb": size / 1e6, "seconds": seconds, "peak_mib": peak_mib()}


if __name__ == "__main__":
    print(json.dumps(measure_core(Path(sys.argv[1]), int(sys.argv[2]))))
