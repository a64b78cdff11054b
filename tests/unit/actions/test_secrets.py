"""Which texts are starred out."""

from __future__ import annotations

import pytest

from vibey_actions.actions.secrets import secrets_of_dsn, written_forms
from vibey_actions.keys import format_key

KEY = format_key(bytes([251, 255] * 16))


def test_a_key_in_every_form_it_may_be_written() -> None:
    """Both alphabets, with and without padding, and the text as it was pasted."""
    assert set(written_forms(f" {KEY}\n")) == {
        KEY, f"{KEY}=", KEY.replace("-", "+").replace("_", "/"), KEY.replace("-", "+").replace("_", "/") + "=",
    }  # fmt: skip
    assert written_forms("\n") == []
    assert written_forms("x\n::add-mask::y") == ["x\n::add-mask::y"]


@pytest.mark.parametrize(
    ("dsn", "expected"),
    [
        ("postgresql://u:longenough@h/d", {"longenough"}),
        ("postgresql://u:long%20enough@h/d", {"long enough", "long%20enough"}),
        ("host=h user=u password=longenough", {"longenough"}),
        ("postgresql://u:short@h/d", set()),
        ("postgresql://postgres:postgres@h/d", set()),
        ("postgresql://u:application@h/application", set()),
        ("postgresql://u@h/d?sslpassword=longenough", {"longenough"}),
        ("", set()),
        ("no dsn at all: longenough", set()),
    ],
)
def test_a_given_password_unless_it_would_star_out_names(dsn: str, expected: set[str]) -> None:
    """From 8 characters on, and where it is no user's or database's name; the percent-encoded form as well."""
    assert set(secrets_of_dsn(dsn)) == expected
