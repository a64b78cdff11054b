"""What a document is, and how the fields that a lane relies on are read from one.

Source: docs/documents.md. A field that cannot be read is None here;
what that means is decided where the rule is.
"""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final, Protocol, TypeAlias

from vibey_actions.errors import DocumentInvalid
from vibey_actions.rows.canonical import NotJson, decode, encode
from vibey_actions.text import shown, visible

Document: TypeAlias = dict[str, object]
"""A JSON object, numbers exact (int or Decimal); ``_id`` and ``_rev`` on every read, ``_rev`` never stored."""

ID: Final = "_id"
REV: Final = "_rev"
STATUS: Final = "status"
ATTEMPTS: Final = "attempts"
CLAIM: Final = "claimId"
LAST_CLAIM: Final = "lastClaimId"
"""Proof of a finish that clears ``claimId``: whose it was."""
LEASE: Final = "leaseUntil"
EARLIER: Final = "earlierAttempts"
"""Attempts before the last retry of an operator: so that no two attempts of a document have the same work key."""
STEP: Final = "step"
UPDATED: Final = "updatedAt"
CREATED: Final = "createdAt"
ERROR: Final = "lastError"
PREVIOUS_ERROR: Final = "previousError"
HELD: Final = "heldReason"
UNKNOWN: Final = "outcomeUnknown"
"""true where nobody knows whether the step took effect: it is never repeated without ``--again``."""
CLAIM_DAY: Final = "claimDay"
DAY_CLAIMS: Final = "dayClaims"

MAX_SAFE: Final = 2**53 - 1
"""The largest integer that JavaScript holds exactly."""
BELIEVABLE_MS: Final = 24 * 60 * 60 * 1000
"""A lease that ends later than its length and this much from now was not written in milliseconds; it is unreadable."""
MAX_ID_BYTES: Final = 512
MAX_ERROR: Final = 500
MAX_DEPTH: Final = 100
"""How deep lists and objects may stand in each other. No work is that deep, and what is would break its readers."""
_DOUBLE_DIGITS: Final = 308
_FIRST_MS: Final = -62_135_596_800_000
_LAST_MS: Final = 253_402_300_799_999
"""From the year 1 to the end of the year 9999: what has a date."""

_TIME: Final = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d\d):?(\d\d))", re.ASCII
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Whose time decides, in milliseconds since 1970."""

    def now_ms(self) -> int: ...


class SystemClock:
    """The clock of this machine."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def parse(text: bytes, what: str) -> Document:
    """The document that ``text`` holds, every number exact. Raises DocumentInvalid; ``what`` names it there."""
    try:
        value = decode(text)
        repeated = _repeated(text)
    except (NotJson, RecursionError) as error:
        reason = str(error) if isinstance(error, NotJson) else "it is nested too deeply"
        raise DocumentInvalid(f"{what} is no document: {reason}", "write one JSON object") from None
    if repeated is not None:
        raise DocumentInvalid(f"{what} holds the field {visible(repeated)} twice", "keep one of the two")
    return checked(value, what)


def checked(value: object, what: str) -> Document:
    """``value`` as a document that any JSON store can hold. Raises DocumentInvalid."""
    if not isinstance(value, dict):
        raise DocumentInvalid(f"{what} is no JSON object", "a document is an object with named fields")
    try:
        dump(value)
    except _TooDeep:
        raise DocumentInvalid(
            f"{what} is nested more than {MAX_DEPTH} deep", "keep such a structure as one text, or elsewhere"
        ) from None
    except (NotJson, TypeError, ValueError, OverflowError):
        raise DocumentInvalid(
            f"{what} holds a value that JSON does not have", "use texts, numbers, lists, objects, true, false and null"
        ) from None
    return value


def dump(value: object) -> bytes:
    """Canonical JSON. Raises NotJson, TypeError, ValueError or OverflowError for what no document can hold."""
    _finite(value, MAX_DEPTH)
    return encode(value)


def too_deep(value: object) -> bool:
    """Whether lists and objects stand more than ``MAX_DEPTH`` deep in each other."""
    try:
        _finite(value, MAX_DEPTH)
    except (TypeError, ValueError) as error:
        return isinstance(error, _TooDeep)
    return False


def copied(document: Mapping[str, object]) -> Document:
    """A copy that shares nothing with ``document``."""
    return {name: _copy(value) for name, value in document.items()}


def body(document: Mapping[str, object]) -> Document:
    """What is stored of a document: all but ``_id`` and ``_rev``, which its place and its revision say."""
    return {name: value for name, value in document.items() if name not in (ID, REV)}


def check_id(identifier: str) -> str:
    """``identifier`` where it can name a document. Raises DocumentInvalid."""
    try:
        size = len(identifier.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= MAX_ID_BYTES or "\x00" in identifier:
        raise DocumentInvalid(
            f"a document's id has 1 to {MAX_ID_BYTES} bytes of UTF-8 and no NUL", "derive a shorter id"
        )
    return identifier


def id_of(document: Mapping[str, object]) -> str:
    """The document's ``_id``. Raises DocumentInvalid where it has none."""
    identifier = document.get(ID)
    if not isinstance(identifier, str):
        raise DocumentInvalid("a document has no _id", "read it from its store, or give it one")
    return identifier


def rev_of(document: Mapping[str, object]) -> str | None:
    """The revision it was read at; None from a store without revisions."""
    revision = document.get(REV)
    return revision if isinstance(revision, str) else None


def text_of(document: Mapping[str, object], field: str) -> str | None:
    """A field that holds a text that is not empty."""
    value = document.get(field)
    return value if isinstance(value, str) and value else None


def status_of(document: Mapping[str, object]) -> str | None:
    """Its status; None where it has none that can be read."""
    return text_of(document, STATUS)


def number(value: object) -> int | Decimal | None:
    """A number that can be compared; None for anything else, true, false and what no double reaches included."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    if isinstance(value, int):
        return value
    if not math.isfinite(value):
        return None
    exact = Decimal(value)
    if exact.adjusted() > _DOUBLE_DIGITS:
        return None
    return int(exact) if exact == exact.to_integral_value() else exact


def attempts_of(document: Mapping[str, object]) -> int | None:
    """How often it was claimed; 0 where it does not say, None where what it says is no count."""
    value = document.get(ATTEMPTS)
    if value is None:
        return 0
    count = number(value)
    return count if isinstance(count, int) and 0 <= count <= MAX_SAFE else None


def attempts_ever(document: Mapping[str, object]) -> int:
    """How often it was claimed, the attempts before an operator's retry counted in."""
    earlier = number(document.get(EARLIER))
    before = earlier if isinstance(earlier, int) and 0 <= earlier <= MAX_SAFE else 0
    return min(before + (attempts_of(document) or 0), MAX_SAFE)


def work_key(document: Mapping[str, object]) -> str:
    """``id:attempt`` of a claimed document: no two attempts of it have the same, however often it was sent back."""
    return f"{id_of(document)}:{attempts_ever(document)}"


def time_ms(value: object) -> int | None:
    """A moment in milliseconds since 1970 from ISO 8601 text with Z or an offset; None where it cannot be read, or is
    in no year from 1 to 9999 of UTC."""
    match = _TIME.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        return None
    year, month, day, hour, minute = (int(match[part]) for part in range(1, 6))
    offset = int(match[9] or 0) * 60 + int(match[10] or 0)
    try:
        moment = datetime(year, month, day, hour, minute, int(match[6] or 0), tzinfo=UTC)
    except ValueError:
        return None
    whole = (moment - _EPOCH) // timedelta(milliseconds=1)
    found = whole + int((match[7] or "").ljust(3, "0")[:3]) - (-offset if match[8] == "-" else offset) * 60_000
    return found if _FIRST_MS <= found <= _LAST_MS else None


def iso(ms: int) -> str:
    """Milliseconds since 1970 as ISO 8601 in UTC with Z."""
    moment = _EPOCH + timedelta(milliseconds=ms)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def expired(document: Mapping[str, object], lease_ms: int, now: int) -> bool:
    """Whether the claim on it has run out.

    Without a readable ``leaseUntil``: once ``updatedAt`` is older than the lease; without that either, at once, because
    no claim of a lane lacks both and nothing may stay for ever.
    """
    until = number(document.get(LEASE))
    if until is not None and until <= now + lease_ms + BELIEVABLE_MS:
        return until < now
    updated = time_ms(document.get(UPDATED))
    return updated is None or updated > now + BELIEVABLE_MS or updated < now - lease_ms


def same(one: object, other: object) -> bool:
    """Whether two values are the same JSON: 1 and 1.0 are, 1 and true are not, the order of fields does not matter."""
    if type(one) is type(other) is str:
        return one == other
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    numbers = number(one), number(other)
    if numbers != (None, None):
        return numbers[0] == numbers[1]
    return type(one) is type(other) and one == other


def changed(old: Mapping[str, object], new: Mapping[str, object]) -> frozenset[str]:
    """The fields that differ between two versions, ``_id`` and ``_rev`` aside."""
    names = (old.keys() | new.keys()) - {ID, REV}
    return frozenset(name for name in names if (name in old) != (name in new) or not same(old.get(name), new.get(name)))


def without(document: Mapping[str, object], names: Iterable[str]) -> Document:
    """``document`` without these fields."""
    dropped = frozenset(names)
    return {name: value for name, value in document.items() if name not in dropped}


def reason_text(reason: str) -> str:
    """A reason as ``lastError`` and ``heldReason`` keep it: one visible line of bounded length."""
    return shown(reason, MAX_ERROR)


def _repeated(text: bytes) -> str | None:
    """The first field name that stands twice in one object."""
    found: list[str] = []

    def look(pairs: list[tuple[str, object]]) -> None:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            found.append(next(name for name in names if names.count(name) > 1))

    json.loads(text, object_pairs_hook=look, parse_int=str, parse_float=str)
    return found[0] if found else None


class _TooDeep(ValueError):
    """More than ``MAX_DEPTH``."""


def _finite(value: object, room: int) -> None:
    match value:
        case None | bool() | int() | str():
            return
        case float() | Decimal():
            if not math.isfinite(value):
                raise ValueError("not a number")
        case dict() | list() if room == 0:
            raise _TooDeep
        case dict():
            for name, each in value.items():
                if not isinstance(name, str):
                    raise TypeError("a field's name is a text")
                _finite(each, room - 1)
        case list():
            for each in value:
                _finite(each, room - 1)
        case _:
            raise TypeError("no JSON value")


def _copy(value: object) -> object:
    if isinstance(value, dict):
        return {name: _copy(each) for name, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value
