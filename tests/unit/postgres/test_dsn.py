"""A DSN is read in both forms, handed on as a URI, and shown without what is secret in it."""

from __future__ import annotations

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.postgres.connection import as_uri, mask, parse_dsn, redact

SECRET = "s3cr:et/@?#%"
URI = "postgresql://owner:s3cr%3Aet%2F%40%3F%23%25@db.example.com:5433/shop?sslmode=disable"


@pytest.mark.parametrize(
    "dsn",
    [
        URI,
        URI.replace("postgresql:", "postgres:"),
        f"host=db.example.com port=5433 user=owner password='{SECRET}' dbname=shop sslmode=disable",
        "postgresql://db.example.com:5433/shop?user=owner&sslmode=disable&password=s3cr%3Aet%2F%40%3F%23%25",
    ],
)
def test_redact_keeps_the_place_and_drops_the_password(dsn: str) -> None:
    """Host, port, user and database remain readable; no form of the password does."""
    shown = redact(dsn)
    assert "s3cr" not in shown
    assert {"host=db.example.com", "port=5433", "user=owner", "dbname=shop"} <= set(shown.split())


@pytest.mark.parametrize("sign", ["?", "#", "&", "=", ":"])
def test_signs_that_a_password_may_hold_unescaped_are_taken_with_it(sign: str) -> None:
    """PostgreSQL's own reading of a URI is followed, so nothing of the password is shown as a part of the place."""
    dsn = f"postgresql://owner:s3cr{sign}et@db.example.com/shop"
    assert parse_dsn(dsn)["password"] == f"s3cr{sign}et"
    assert "et@" not in redact(dsn)


def test_redact_drops_every_secret_there_is() -> None:
    """The password of a client certificate's key is a password too."""
    assert "hidden" not in redact("host=a sslpassword=hidden password=hidden2")


@pytest.mark.parametrize(
    "dsn",
    [
        "postgresql://owner:s3cr@et@db.example.com/shop",
        "postgresql://owner:s3cr/et@db.example.com/shop",
        "postgresql://owner:123/s3cret@db.example.com/shop",
        "postgresql://owner:s3cr%zzet@db.example.com/shop",
        "host=a password='s3cr",
        "password s3cret",
        "host=a port=s3cret",
    ],
)
def test_a_dsn_that_cannot_be_read_is_refused_without_a_word_of_it(dsn: str) -> None:
    """An unescaped character in a password makes its rest look like a host, a port or a name: none of it is shown."""
    with pytest.raises(SettingError) as caught:
        parse_dsn(dsn)
    assert "s3cr" not in caught.value.message + caught.value.hint
    assert "percent-encode" in caught.value.hint
    assert "s3cr" not in redact(dsn)


def test_an_encoded_at_sign_is_no_mistake() -> None:
    """A user name may hold an @ when it is written as %40."""
    assert parse_dsn("postgresql://me%40example.com:x@db.example.com/shop")["user"] == "me@example.com"


@pytest.mark.parametrize(
    "parameters",
    [
        "host=db.example.com port=5433 user='o wner' password='p:/@?#%& x' dbname='my shop' sslmode=disable",
        "host=::1 user=a dbname=b",
        "host=/var/run/postgresql port=5499 user=a dbname=b",
        "host=a.example.com,b.example.com port=1,2 user=a dbname=b",
        "dbname=b",
        "host=a options='-c search_path=x,y -c work_mem=1MB'",
    ],
)
def test_a_uri_means_the_same_as_the_pairs_it_was_made_of(parameters: str) -> None:
    """Whatever characters the parameters hold, reading the URI gives them back."""
    uri = as_uri(parameters)
    assert uri.startswith("postgresql://")
    assert parse_dsn(uri) == parse_dsn(parameters)


def test_a_uri_is_handed_on_as_it_is() -> None:
    """Nothing is rewritten that is in the wanted form already."""
    assert as_uri(f" {URI}\n") == URI


@pytest.mark.parametrize(
    "form", [URI, f"password {SECRET} refused", "s3cr%3Aet%2F%40%3F%23%25", "s3cr%3Aet/%40%3F%23%25"]
)
def test_mask_finds_the_password_in_every_form(form: str) -> None:
    """A program's output is shown without the DSN and without the password, plain or percent-encoded."""
    assert "s3cr" not in mask(f"before {form} after", URI)
    assert mask(f"before {form} after", URI).startswith("before ")
