"""Keys that are equal in the database are one row, whatever their text: 1.0 and 1.00, spaces at the end, minus zero.

A row's identity is the canonical array of its key's values, those of such types folded to one text. The same is done
by PostgreSQL (`expressions.key_text`); docs/format.md says it in words ("Exact rows").
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final


class Fold(str, Enum):
    """What of a key column's canonical text does not count."""

    SCALE = "scale"
    """Zeros at the end of a number's fraction, as in numeric."""
    PADDING = "padding"
    """Spaces at the end of a text, as in bpchar."""
    SIGN = "sign"
    """The sign of zero in a text, as in float8."""


Folds = Mapping[str, Mapping[str, Fold]]
"""By table and key column; tables without such are left out."""

NO_FOLDS: Final[Folds] = MappingProxyType({})


def folded(fold: Fold | None, text: bytes) -> bytes:
    """The canonical text of a key's value, made the same for equal values."""
    if fold is Fold.SCALE:
        return _without_zeros(text)
    if fold is Fold.PADDING:
        return text[:-1].rstrip(b" ") + b'"'
    return b'"0"' if fold is Fold.SIGN and text == b'"-0"' else text


def _without_zeros(text: bytes) -> bytes:
    """A canonical number without zeros at the fraction's end, canonical again; a text (NaN) as it is.

    Digits are not moved through a context of decimals: numeric has more of them than any precision.
    """
    if text.startswith(b'"') or not (b"." in text or b"E-" in text):
        return text
    digits, _, exponent = text.partition(b"E")
    whole, _, fraction = digits.partition(b".")
    sign, whole = (b"-", whole[1:]) if whole.startswith(b"-") else (b"", whole)
    places = len(fraction) - int(exponent or b"0")
    coefficient = (whole + fraction).rjust(places + 1, b"0")
    kept = coefficient[-places:].rstrip(b"0")
    return _number(sign, coefficient[:-places].lstrip(b"0"), kept)


def _number(sign: bytes, whole: bytes, fraction: bytes) -> bytes:
    """Digits as canonical JSON writes the number (as str(Decimal) does: 1.5E-7 below a millionth)."""
    if not fraction:
        return sign + whole if whole else b"0"
    digits = fraction.lstrip(b"0")
    zeros = len(fraction) - len(digits)
    if whole or zeros < _ZEROS_WRITTEN_OUT:
        return sign + (whole or b"0") + b"." + fraction
    point = b"." if len(digits) > 1 else b""
    return sign + digits[:1] + point + digits[1:] + b"E-%d" % (zeros + 1)


_ZEROS_WRITTEN_OUT: Final = 6
