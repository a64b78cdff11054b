"""SQL text: the one function that quotes an identifier, and the named blocks of ``sql/*.sql``."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources

_BLOCK = re.compile(r"^-- name: (?P<name>[a-z_]+)\n(?P<body>.*?)(?=^-- name: |\Z)", re.M | re.S)


def identifier(name: str) -> str:
    """``name`` quoted as a PostgreSQL identifier, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def identifiers(names: tuple[str, ...] | list[str], prefix: str = "") -> str:
    """Quoted names separated by commas, each behind ``prefix`` (an alias with its dot)."""
    return ", ".join(prefix + identifier(name) for name in names)


@cache
def blocks(module: str) -> dict[str, str]:
    """The SQL blocks of ``sql/<module>.sql`` by name.

    A block starts with ``-- name: x``; the comment lines under it say what goes in and out.
    """
    text = resources.files("vibey_actions.postgres").joinpath(f"sql/{module}.sql").read_text("utf-8")
    return {match["name"]: match["body"].strip() for match in _BLOCK.finditer(text)}


def value(name: str) -> str:
    """The place of a bound value in SQL that ``bound`` is to finish. No identifier can hold the NUL that marks it."""
    return f"\0{name}\0"


def bound(text: str) -> bytes:
    """SQL made of names and ``value`` places as psycopg takes it: a ``%`` in a name is no placeholder."""
    return re.sub("\0([a-z_0-9]+)\0", r"%(\1)s", text.replace("%", "%%")).encode()
