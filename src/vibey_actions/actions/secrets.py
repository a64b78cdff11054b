"""Which texts of a step have to be starred out of the log, and in which forms they may be written."""

from __future__ import annotations

import base64
from urllib.parse import quote

from vibey_actions.errors import SettingError, VibeyError
from vibey_actions.keys import format_key, parse_key
from vibey_actions.postgres.connection import parse_dsn

_SHORTEST = 8


def written_forms(key: str) -> list[str]:
    """A key's text as it came, and where it is one, both base64 alphabets with and without padding."""
    text = key.strip()
    if not text:
        return []
    try:
        found = parse_key(text)
    except VibeyError:
        return [text]
    standard = base64.b64encode(found).decode("ascii")
    return [text, format_key(found), f"{format_key(found)}=", standard, standard.rstrip("=")]


def secrets_of_dsn(dsn: str) -> list[str]:
    """The passwords of a DSN that somebody gave, plain and percent-encoded.

    One under 8 characters, or that is the name of a user or database, is left out: starring it out would hide what has
    to be read.
    """
    try:
        parameters = parse_dsn(dsn.strip()) if dsn.strip() else {}
    except SettingError:
        return []
    names = {parameters.get(name) for name in ("user", "dbname", "host")}
    found = [value for name, value in parameters.items() if "password" in name]
    return [
        form
        for value in found
        if len(value) >= _SHORTEST and value not in names
        for form in dict.fromkeys((value, quote(value, safe=""), quote(value)))
    ]
