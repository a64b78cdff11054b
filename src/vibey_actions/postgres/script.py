"""A look at a SQL file before it runs: what would leave its transaction, and what only psql understands.

No parser: it knows strings, comments, dollar quotes, parentheses and SQL-standard function bodies, which is enough to
tell where statements start.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

_TOKEN: Final = re.compile(
    r"""
      (?P<comment>--[^\n]*)
    | (?P<block>/\*)
    | (?P<string>[eE]'(?:[^'\\]|\\.|'')*'? | '(?:[^']|'')*'? | "(?:[^"]|"")*"?)
    | (?P<dollar>\$(?:[^\W\d]\w*)?\$)
    | (?P<word>[^\W\d][\w$]*)
    | (?P<meta>\\\S*)
    | (?P<open>\()
    | (?P<close>\))
    | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)
_NESTED: Final = re.compile(r"/\*|\*/")
_CONTROL: Final = frozenset({"BEGIN", "COMMIT", "END", "ABORT", "ROLLBACK"})


@dataclass(slots=True)
class _Statement:
    """The words outside parentheses of one statement, in capitals; ``body`` counts BEGIN ATOMIC and CASE open in it."""

    line: int = 0
    words: list[str] = field(default_factory=list)
    parentheses: int = 0
    body: int = 0

    def add(self, word: str) -> None:
        if self.body:
            self.body += {"CASE": 1, "END": -1}.get(word, 0)
        elif word == "ATOMIC" and self.words[:1] == ["CREATE"] and self.words[-1] == "BEGIN":
            self.body = 1
        if not self.parentheses:
            self.words.append(word)


def problem(sql: str) -> str | None:
    """Why ``sql`` cannot run as one transaction through a driver, with its line; None where nothing is seen.

    A statement that the server itself refuses in a transaction (VACUUM, CREATE INDEX CONCURRENTLY) is left to it.
    """
    for found in _problems(sql):
        return found
    return None


def _problems(sql: str) -> Iterator[str]:
    statement = _Statement()
    position = 0
    while token := _TOKEN.search(sql, position):
        kind, text, position = token.lastgroup, token[0], token.end()
        if kind == "block":
            position = _end_of_comment(sql, position)
        elif kind == "dollar":
            position = _after(sql, text, position)
        elif kind == "meta":
            yield f"line {_line(sql, token.start())}: {text} is a command of psql, not SQL"
        elif kind == "word":
            statement.line = statement.line or _line(sql, token.start())
            statement.add(text.upper())
        elif kind == "open":
            statement.parentheses += 1
        elif kind == "close":
            statement.parentheses = max(0, statement.parentheses - 1)
        elif kind == "end" and not statement.parentheses and not statement.body:
            yield from _judge(statement)
            statement = _Statement()
    yield from _judge(statement)


def _judge(statement: _Statement) -> Iterator[str]:
    words = statement.words
    if _controls_transaction(words):
        yield (
            f"line {statement.line}: {' '.join(words[:2]).split(' WORK')[0]} controls the transaction, "
            "and a migration runs in one of its own, together with its record"
        )
    elif words[:1] == ["COPY"] and any(word in {"STDIN", "STDOUT"} for word in words):
        yield f"line {statement.line}: COPY from stdin or to stdout needs psql: write INSERT instead"


def _controls_transaction(words: list[str]) -> bool:
    if words[:2] in (["START", "TRANSACTION"], ["PREPARE", "TRANSACTION"]):
        return True
    return words[:1] != [] and words[0] in _CONTROL and not (words[0] == "ROLLBACK" and "TO" in words)


def _end_of_comment(sql: str, position: int) -> int:
    depth = 1
    while depth:
        mark = _NESTED.search(sql, position)
        if mark is None:
            return len(sql)
        depth += 1 if mark[0] == "/*" else -1
        position = mark.end()
    return position


def _after(sql: str, text: str, position: int) -> int:
    found = sql.find(text, position)
    return len(sql) if found < 0 else found + len(text)


def _line(sql: str, position: int) -> int:
    return line_of(sql, position + 1)


def line_of(sql: str, position: int) -> int:
    """The line that the ``position``-th character (from 1, as PostgreSQL counts) of ``sql`` stands in."""
    return sql.count("\n", 0, position - 1) + 1
