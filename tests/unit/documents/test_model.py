"""Documents, and the fields of them that a lane relies on."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tests.support.lanes import NOON
from vibey_actions.documents.model import (
    MAX_DEPTH,
    Document,
    attempts_of,
    changed,
    check_id,
    checked,
    expired,
    iso,
    number,
    parse,
    reason_text,
    same,
    time_ms,
)
from vibey_actions.errors import DocumentInvalid


def test_a_document_is_read_exactly() -> None:
    """No digit of a number is lost."""
    assert parse(b'{"a": 0.10, "b": 9007199254740993}', "it") == {"a": Decimal("0.10"), "b": 9007199254740993}


BAD = [b"[]", b'"x"', b"", b"{", b'{"a": NaN}', b'{"a":1,"a":2}', b'{"b":{"a":1,"a":2}}', b'{"a":"\\ud800"}', b"\xff{}"]


@pytest.mark.parametrize("text", BAD, ids=ascii)
def test_what_is_no_document_is_refused(text: bytes) -> None:
    """Something else than an object, broken JSON, a field twice: refused, with a name for what it was."""
    with pytest.raises(DocumentInvalid, match="the file"):
        parse(text, "the file")


def nested(levels: int) -> Document:
    """A document whose lists and objects stand ``levels`` deep in each other, itself counted."""
    value: object = "marker"
    for level in range(levels - 1):
        value = [value] if level % 2 else {"in": value}
    return {"deep": value}


def test_a_document_of_any_depth_is_read_or_refused() -> None:
    """What is deeper than every reader can follow is refused when it is written, in words; what is not is kept."""
    assert checked(nested(MAX_DEPTH), "it")
    for levels in (MAX_DEPTH + 1, 900, 5000):
        with pytest.raises(DocumentInvalid, match="nested more than 100 deep") as caught:
            checked(nested(levels), "it")
        assert "marker" not in str(caught.value)


TIMES = {
    "2026-01-01T12:00:00Z": NOON,
    "2026-01-01T12:00Z": NOON,
    "2026-01-01T12:00:00.5Z": NOON + 500,
    "2026-01-01T12:00:00.123456789Z": NOON + 123,
    "2026-01-01T14:30:00+02:30": NOON,
    "2026-01-01T04:00:00-0800": NOON,
    "2026-02-30T12:00:00Z": None,
    "2026-01-01T24:00:00Z": None,
    "2026-01-01T12:00:00": None,
    "2026-01-01": None,
    "tomorrow": None,
    "٢٠٢٦-01-01T12:00:00Z": None,
    "0000-01-01T12:00:00Z": None,
    "0001-01-01T00:00:00Z": -62_135_596_800_000,
    "0001-01-01T00:00:00+00:01": None,
    "9999-12-31T23:59:59.999Z": 253_402_300_799_999,
    "9999-12-31T23:59:00-00:01": None,
}


@pytest.mark.parametrize(("text", "ms"), TIMES.items())
def test_a_time_is_read_or_not_at_all(text: str, ms: int | None) -> None:
    """ISO 8601 with Z or an offset, of a day that there is."""
    assert time_ms(text) == ms


def test_a_time_is_written_in_utc() -> None:
    """What is written is read back."""
    assert iso(NOON + 7) == "2026-01-01T12:00:00.007Z"
    assert time_ms(iso(NOON + 7)) == NOON + 7


@pytest.mark.parametrize(
    ("value", "count"),
    [(None, 0), (0, 0), (3, 3), (Decimal("2.0"), 2), (2.0, 2), (-1, None), (1.5, None), ("1", None), (True, None)],
    ids=repr,
)
def test_attempts_are_a_count_or_unreadable(value: object, count: int | None) -> None:
    """Nothing counts as none; anything that is no count is not taken for zero."""
    assert attempts_of({"attempts": value}) == count


@pytest.mark.parametrize("value", [Decimal("1E+999999999"), Decimal("-1E+400"), float("inf"), float("nan")], ids=repr)
def test_a_number_beyond_any_double_is_no_number(value: object) -> None:
    """It is not even spelled out: that would take all memory."""
    assert number(value) is None


def test_equality_is_that_of_json() -> None:
    """1 is 1.0, but not true; a missing field is not null; the order of fields does not matter."""
    assert same({"a": 1, "b": [1]}, {"b": [Decimal("1.0")], "a": 1.0})
    assert not same([1], [True])
    assert not same([False], [0])
    assert not same([1], [1, 2])
    assert changed({"a": None, "_rev": "1"}, {"_rev": "2"}) == {"a"}


def test_an_id_is_bounded_in_bytes() -> None:
    """What PostgreSQL's indexes and other stores can hold."""
    assert check_id("é" * 256) == "é" * 256
    with pytest.raises(DocumentInvalid):
        check_id("é" * 257)


def test_a_reason_is_one_visible_line() -> None:
    """What a command printed cannot forge lines, colours or endless text."""
    assert reason_text("a\n::error::\x1b[31mb") == "a ::error::\\x1b[31mb"
    assert len(reason_text("x" * 10_000)) == 500


def test_a_lease_ends_after_its_last_millisecond() -> None:
    """The lease is whole: at its end it still stands, one later it does not."""
    assert not expired({"leaseUntil": NOON}, 1000, NOON)
    assert expired({"leaseUntil": NOON}, 1000, NOON + 1)


@pytest.mark.parametrize(
    "lease", [{}, {"leaseUntil": "soon"}, {"leaseUntil": NOON * 1000}], ids=["none", "text", "absurd"]
)
def test_a_claim_without_a_lease_that_can_be_read_ends_by_its_last_write(lease: Document) -> None:
    """It stands for a lease from then; a last write that is days ahead of the clock, or none, is not believed."""
    day = 24 * 3_600_000
    written = {**lease, "updatedAt": iso(NOON)}
    assert not expired(written, 1000, NOON + 1000)
    assert expired(written, 1000, NOON + 1001)
    assert not expired(written, 1000, NOON - day)
    assert expired(written, 1000, NOON - day - 1)
    assert expired(lease, 1000, NOON)
