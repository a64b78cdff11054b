"""The two streams: results on stdout, what is said about them on stderr. All text passes ``visible`` here.

In a run of GitHub Actions the runner reads both for commands of its own: there no text of ours is one.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress

from vibey_actions.text import harmless, visible


class OutputFailed(Exception):
    """Standard output cannot be written: the reader is gone (``closed``), or the place is full."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror)
        self.reason = error.strerror or "unknown error"
        self.closed = isinstance(error, BrokenPipeError)


def prepare() -> None:
    """Let no character that a narrow encoding lacks end a command."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def out(text: str = "") -> None:
    """One line of the result."""
    _write(_line(text) + "\n")


def json_line(value: object) -> None:
    """One JSON value on one line, at once: the reader may be waiting for it."""
    _write(_json(json.dumps(value, ensure_ascii=True)) + "\n")
    flush()


def raw(data: bytes) -> None:
    """Bytes that are canonical JSON already, so ASCII without control characters."""
    _write(_json(data.decode("ascii")))


def err(text: str) -> None:
    """One line on stderr. A closed stderr loses it, and ends nothing."""
    with suppress(OSError):
        sys.stderr.write(_line(text) + "\n")
        sys.stderr.flush()


def note(text: str) -> None:
    """Something worth knowing that changes no outcome."""
    err(f"note: {text}")


def flush() -> None:
    """Hand on what was written. Raises OutputFailed where it cannot be."""
    try:
        sys.stdout.flush()
    except OSError as error:
        raise OutputFailed(error) from error


def abandon() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not fail a second time."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows under headers, the first column to the left and numbers to the right; drawn by rich on a terminal."""
    cells = [[visible(cell) for cell in row] for row in rows]
    if sys.stdout.isatty():
        _drawn(headers, cells)
    else:
        _plain(headers, cells)


def _in_a_run() -> bool:
    return os.environ.get("GITHUB_ACTIONS", "").strip().lower() == "true"


def _line(text: str) -> str:
    return harmless(text) if _in_a_run() else visible(text)


def _json(text: str) -> str:
    """The same value in other letters, where a runner would look for a command in the midst of a line."""
    return text.replace("##[", "##\\u005b") if _in_a_run() else text


def _plain(headers: Sequence[str], rows: list[list[str]]) -> None:
    widths = [max(len(row[column]) for row in [list(headers), *rows]) for column in range(len(headers))]
    for row in [list(headers), *rows]:
        first, *rest = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        out("  ".join([first, *rest]).rstrip())


def _drawn(headers: Sequence[str], rows: list[list[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, header_style="bold")
    for column, header in enumerate(headers):
        drawn.add_column(Text(header), justify="right" if column else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(Text(cell) for cell in row))
    try:
        Console(file=sys.stdout, highlight=False).print(drawn)
    except OSError as error:
        raise OutputFailed(error) from error


def _write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except OSError as error:
        raise OutputFailed(error) from error
