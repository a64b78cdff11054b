"""What a step writes for the person who reads only the summary: what happened, to which tables, and what to do next.

Markdown, made here and nowhere else. Whatever comes from rows, servers and settings passes ``plain`` or ``code``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from vibey_actions.errors import Conflicts, KeyMissing, RemoteDenied, VibeyError
from vibey_actions.state.report import Conflict, Counts
from vibey_actions.text import visible

MOST_ROWS: Final = 200
"""Rows of one table in a summary; the log has them all."""

_MARKUP: Final = re.compile(r"[&<>\"'|`*\[\]\\~#!@$^=]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=/)|^[-+]|(?<=^\d)[.)]")

_USE_KEY: Final = """\
      - uses: OWNER/vibey-actions@v1
        with:
          step: {step}
          key: ${{{{ secrets.VIBEY_STATE_KEY }}}}"""
_PERMISSION: Final = """\
    permissions:
      contents: write # on the job that runs this step"""
_SERVICE: Final = """\
    services:
      postgres:
        image: postgres:17
        env:
          POSTGRES_PASSWORD: postgres
        ports: ["5432:5432"]
    # and under with: of the step
          pg-url: postgresql://postgres:postgres@localhost:5432/postgres"""
_DECLARE: Final = """\
# .github/vibey-state.toml: whatever a run prints of the state is then public
[state]
public = true"""
_CHECKOUT: Final = """\
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false"""


def plain(text: str) -> str:
    """``text`` for a summary: one line in which nothing is markup, neither of Markdown nor of HTML."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", visible(text))


def code(text: str) -> str:
    """``text`` in the typeface of code. Entities, not backticks: those do not hold everything inside a table."""
    return f"<code>{plain(text)}</code>"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already, the first column to the left and the others to the right."""
    lines = [f"| {' | '.join(headers)} |", f"|---{'|--:' * (len(headers) - 1)}|"]
    found = list(rows)
    lines += [f"| {' | '.join(row)} |" for row in found[:MOST_ROWS]]
    more = len(found) - MOST_ROWS
    return "\n".join(lines) + (f"\n\nand {more} more, in the log" if more > 0 else "")


def gate(step: str, *, opened: bool, reason: str, text: str) -> str:
    """The gate's decision, and for a closed one what would open it."""
    lines = [f"### vibey-actions {step}", f"Gate: **{'open' if opened else 'closed'}** ({reason}). {plain(text)}"]
    paste = {"no-key": _fenced(_USE_KEY.format(step=step)), "public": _fenced(_DECLARE, "toml")}
    paste["unknown"] = paste["public"]
    if not opened:
        lines += ["To open it:" if reason == "no-key" else "To open it nevertheless:", paste[reason]]
    return "\n\n".join(lines)


def rows_of(tables: Mapping[str, int]) -> str:
    """How many rows each table holds."""
    return table(("table", "rows"), ((code(name), str(rows)) for name, rows in sorted(tables.items())))


def changes(pull: Mapping[str, Counts], push: Mapping[str, Counts]) -> str:
    """Per table the rows that came from the branch and those that go there; nothing where there are none."""
    rows = [
        (code(name), *(str(number) for counts in (pull.get(name), push.get(name)) for number in _numbers(counts)))
        for name in sorted({*pull, *push})
    ]
    names = [f"{way} {what}" for way in ("pulled", "to push") for what in ("new", "changed", "deleted")]
    return table(("table", *names), rows) if rows else ""


def conflicts(found: Sequence[Conflict]) -> str:
    """Each conflicting row: table, key, why, and what to do next."""
    lines = ["| table | key | why | what to do |", "|---|---|---|---|"]
    lines += [
        f"| {code(one.table)} | {code(one.key)} | {plain(one.why)} | {plain(one.advice)} |" for one in found[:MOST_ROWS]
    ]
    more = len(found) - MOST_ROWS
    return "\n".join(lines) + (f"\n\nand {more} more, in the log" if more > 0 else "")


def cure(step: str, error: VibeyError) -> str:
    """The YAML to paste against ``error``, nothing where there is none."""
    if isinstance(error, KeyMissing) or error.code == "key-unusable":
        return _USE_KEY.format(step=step)
    if isinstance(error, RemoteDenied):
        return _PERMISSION
    if error.code == "database" and "pg-url" in error.hint:
        return _SERVICE
    if "check the repository out" in error.hint or "check out the run's own commit" in error.hint:
        return _CHECKOUT
    return ""


def failure(step: str, error: VibeyError, paste: str) -> str:
    """Why a step failed, what mends it and, for a conflict, every row."""
    lines = [f"### vibey-actions {step}: failed ({code(error.code)})", plain(error.message)]
    if isinstance(error, Conflicts):
        lines.append(conflicts(error.conflicts))
    if error.hint:
        lines.append(f"**What to do:** {plain(error.hint)}")
    if paste:
        lines.append(_fenced(paste))
    return "\n\n".join(lines)


def internal(step: str, told: str) -> str:
    """A fault of ours."""
    return f"### vibey-actions {step}: failed\n\n{plain(told)}. This is a fault of vibey-actions; please report it."


def _numbers(counts: Counts | None) -> tuple[int, int, int]:
    return (counts.inserted, counts.updated, counts.deleted) if counts is not None else (0, 0, 0)


def _fenced(text: str, language: str = "yaml") -> str:
    """A block of our own text, which holds no fence."""
    return f"```{language}\n{text}\n```"
