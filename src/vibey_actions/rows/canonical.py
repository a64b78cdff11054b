"""Canonical JSON: the one text of a value (docs/format.md, "Canonical JSON").

Values are ``None``, ``bool``, ``int``, ``Decimal``, ``str``, ``list`` and ``dict`` with string keys; a number with a
fraction or an exponent is a Decimal, never a float. Two values are equal when their canonical texts are.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import msgspec

_fast_decoder = msgspec.json.Decoder(float_hook=Decimal)
_members_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_encoder = msgspec.json.Encoder(order="sorted", decimal_format="number")

_ESCAPES = "vibey-json-escapes"


def _escape_unencodable(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    run = error.object[error.start : error.end]
    return (_escape_short(run) if len(run) <= _SHORT else _escape(run)), error.end


def _escape(run: str) -> str:
    units = run.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


_SHORT = 8
_escape_short = lru_cache(4096)(_escape)  # a text uses the same few letters and signs over and over


codecs.register_error(_ESCAPES, _escape_unencodable)


class NotJson(ValueError):
    """Text that is not JSON as PostgreSQL or a state document can hold it."""


_INT_DIGITS = 4000  # Python refuses to turn more than 4,300 digits into an int; PostgreSQL's numeric has up to 131,072


def _exact_int(digits: str) -> int | Decimal:
    return int(digits) if len(digits) <= _INT_DIGITS else Decimal(digits)


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


_exact_decoder = json.JSONDecoder(parse_float=Decimal, parse_int=_exact_int, parse_constant=_no_constant)


def decode(text: bytes) -> Any:
    """The value of a JSON text, every number exact. Raises NotJson."""
    try:
        return _fast_decoder.decode(text)
    except RecursionError:
        raise NotJson("the value is nested too deeply") from None
    except msgspec.MsgspecError:
        return _decode_slowly(text)
    except (UnicodeDecodeError, ArithmeticError):
        raise NotJson("the text is not UTF-8, or holds a number out of any range") from None


def _decode_slowly(text: bytes) -> Any:
    # msgspec refuses integers of more than 4,300 digits; what it refuses for another reason json refuses as well.
    try:
        value = _exact_decoder.decode(text.decode("utf-8"))
    except (ValueError, ArithmeticError, RecursionError):
        raise NotJson("the text is not valid JSON") from None
    encode(value)  # but half a surrogate pair, which has no place in a string
    return value


def encode(value: Any) -> bytes:
    """The canonical text of a value. Raises NotJson for a string with half a surrogate pair."""
    try:
        text = _encoder.encode(value)
    except (UnicodeEncodeError, RecursionError):
        raise _not_json() from None
    return _ascii(text)


def encode_each(values: Iterable[Any]) -> list[bytes]:
    """The canonical texts of many values, faster than one by one. Raises NotJson as ``encode`` does."""
    try:
        texts = list(map(_encoder.encode, values))
    except (UnicodeEncodeError, RecursionError):
        raise _not_json() from None
    joined = b"".join(texts)
    return texts if joined.isascii() and b"\x7f" not in joined else list(map(_ascii, texts))


def _not_json() -> NotJson:
    return NotJson("the value holds half a surrogate pair or is nested too deeply")


def _ascii(text: bytes) -> bytes:
    if b"\x7f" in text:
        text = text.replace(b"\x7f", b"\\u007f")
    return text if text.isascii() else _escaped(text)


_FEW = 4
_SPARSE = 16


def _escaped(text: bytes) -> bytes:
    """JSON text with everything above ASCII as escapes."""
    decoded = text.decode("utf-8")
    if len(text) - len(decoded) <= max(_FEW, len(text) // _SPARSE):
        return decoded.encode("ascii", _ESCAPES)
    # Much of it is not ASCII: json escapes a string at the speed of C. What has a meaning in JSON text is hidden from
    # it behind control characters, of which JSON text holds none.
    hidden = json.dumps(decoded.replace("\\", "\x01").replace('"', "\x02"))[1:-1]
    return hidden.replace("\\u0002", '"').replace("\\u0001", "\\").encode("ascii")


def json_lines(values: Sequence[Any]) -> str:
    """JSON texts of many values, one a line: canonical but for being UTF-8 instead of ASCII. For PostgreSQL alone."""
    return b"\n".join(map(_encoder.encode, values)).decode("utf-8")


def canonical(text: bytes) -> bytes:
    """The canonical text of any JSON text. Raises NotJson."""
    return encode(decode(text))


def members(text: bytes) -> dict[str, bytes]:
    """The text of each member of an object in canonical text, by name. Raises NotJson."""
    try:
        return {name: bytes(value) for name, value in _members_decoder.decode(text).items()}
    except (msgspec.MsgspecError, RecursionError):
        raise NotJson("the text is not a JSON object") from None


def object_of(texts: Mapping[str, bytes]) -> bytes:
    """The canonical object whose members have these canonical texts."""
    return b"{" + b",".join(encode(name) + b":" + texts[name] for name in sorted(texts)) + b"}"


def key_text(row: Mapping[str, Any], key: Sequence[str]) -> bytes:
    """A row's key: the canonical array of the key columns' values, in declared order."""
    return encode([row[column] for column in key])
