"""What programs and platforms say, made fit for a document: without secrets, of bounded length."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

from vibey_actions.text import shown

MASK: Final = "***"
SHORTEST: Final = 6
"""Shorter values are words and numbers that stand everywhere; hiding them would hide the message."""
MOST_LINES: Final = 12
MOST_TAIL: Final = 440
"""Characters of output that are kept: a reason has room for them."""

_SECRET_NAME: Final = re.compile(
    r"key|token|secret|passw|credential|device|cert|auth(?!or)|dsn|pg_url|database_url", re.I
)
_PATTERNS: Final = (
    re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*"),
    re.compile(r"\bgh[a-z]_[A-Za-z0-9]{16,}|\bgithub_pat_[A-Za-z0-9_]{16,}"),
    re.compile(r"(?<=://)[^\s/@]+:[^\s/@]+(?=@)"),
    re.compile(r"(?i)(?<=bearer )[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.S),
    re.compile(r"(?i)(?<=access_token=)[^\s&\"']+"),
)


class Masker:
    """Hides ``secrets``, every value in ``environment`` whose name sounds like one, and texts of a secret's form."""

    def __init__(self, environment: Mapping[str, str], secrets: Iterable[str] = ()) -> None:
        named = (value for name, value in environment.items() if _SECRET_NAME.search(name))
        found = {form for value in (*named, *secrets) for form in _forms(value)}
        # The longest first, so that a secret within another one leaves nothing of that.
        ordered = sorted((form for form in found if len(form) >= SHORTEST), key=lambda form: (-len(form), form))
        self._secrets = re.compile("|".join(map(re.escape, ordered))) if ordered else None

    def hide(self, text: str) -> str:
        """``text`` with a mask in the place of each secret."""
        if self._secrets is not None:
            text = self._secrets.sub(MASK, text)
        for pattern in _PATTERNS:
            text = pattern.sub(MASK, text)
        return text

    def tail(self, output: bytes) -> str:
        """The last lines of an output as one line: masked first, then cut at the front."""
        # More is masked than is kept: of a secret that is cut through, no mask would find the rest.
        text = self.hide(output[-131_072:].decode("utf-8", "replace"))[-65_536:]
        lines = [shown(line, MOST_TAIL) for line in text.splitlines() if line.strip()]
        joined = " | ".join(lines[-MOST_LINES:])
        return joined if len(joined) <= MOST_TAIL else f"…{joined[1 - MOST_TAIL :]}"


def _forms(value: str) -> Iterable[str]:
    """How a secret may stand in an output: whole, line by line, and as a part of an address."""
    stripped = value.strip()
    yield stripped
    yield quote(stripped, safe="")
    yield quote_plus(stripped)
    yield from (line.strip() for line in stripped.splitlines())
