"""Addresses in the configuration: https, and nothing secret in them."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from vibey_actions.documents.declare import Part

LOOPBACK: Final = frozenset({"127.0.0.1", "::1", "localhost"})


def address(part: Part, key: str, default: str | None = None) -> str:
    """The address that the setting ``key`` holds: https, but for a server on this machine. Raises MachineInvalid."""
    return checked_address(part, key, default if default is not None and key not in part.values else part.text(key))


def checked_address(part: Part, key: str, value: str) -> str:
    """``value``, which the setting ``key`` leads to, where it is an address. Raises MachineInvalid."""
    if not _usable(value):
        raise part.wrong(key, "is no address of the form https://HOST/PATH", "secrets go into variables of their own")
    return value


def _usable(value: str) -> bool:
    try:
        parts = urlsplit(value)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    secure = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    plain = value.isascii() and value.isprintable() and not any(each in value for each in " #@\\")
    return secure and plain and bool(host) and port != 0
