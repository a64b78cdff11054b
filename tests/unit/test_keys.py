"""The written form of a key: what is read, and that an error says lengths and never the key."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibey_actions.errors import KeyUnusable
from vibey_actions.keys import format_key, parse_key

KEY = bytes(range(224, 256))
URL_SAFE = base64.urlsafe_b64encode(KEY).decode().rstrip("=")
STANDARD = base64.b64encode(KEY).decode().rstrip("=")


@given(st.binary(min_size=32, max_size=32))
def test_what_is_written_is_read(key: bytes) -> None:
    """Any 32 bytes come back from 43 characters, in both alphabets, padded or not, white space around them or not."""
    text = format_key(key)
    assert len(text) == 43
    standard = base64.b64encode(key).decode()
    for form in (text, text + "=", standard, standard.rstrip("="), f" \n{text}\r\n", f"\t{standard}\n"):
        assert parse_key(form) == key


@given(st.binary(max_size=80).filter(lambda key: len(key) != 32))
def test_another_length_is_refused(key: bytes) -> None:
    """No other number of bytes is a key, padded or not."""
    for text in (base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode().rstrip("=")):
        with pytest.raises(KeyUnusable):
            parse_key(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("=", "is empty"),
        (URL_SAFE[:22], "has 22 characters, which is 16 bytes, not 32 bytes in 43"),
        (URL_SAFE[:-1], "has 42 characters"),
        (URL_SAFE + "A", "has 44 characters"),
        (URL_SAFE + "==", "not base64 (character 44 of 45)"),
        ("=" + URL_SAFE, "not base64 (character 1 of 44)"),
        (URL_SAFE[:20] + " " + URL_SAFE[20:], "not base64 (character 21 of 44)"),
        (URL_SAFE[:20] + "\n" + URL_SAFE[20:], "not base64"),
        ("\ufeff" + URL_SAFE, "not base64 (character 1 of 44)"),
        ("é" + URL_SAFE[1:], "not base64 (character 1 of 43)"),
        ("-+" + "A" * 41, "mixes the two base64 alphabets"),
        (KEY.hex(), "is 64 characters of hexadecimal"),
        (f'"{URL_SAFE}"', "not base64 (character 1 of 45)"),
        ("A" * 42 + "B", "its last character was changed"),
        ("x" * 100_000, "has 100000 characters"),
    ],
)
def test_what_is_no_key_is_refused(text: str, words: str) -> None:
    """The error says what was found, with numbers, under exit code 2."""
    with pytest.raises(KeyUnusable) as caught:
        parse_key(text, "the key in VIBEY_STATE_KEY")
    assert caught.value.message.startswith("the key in VIBEY_STATE_KEY ")
    assert words in caught.value.message
    assert caught.value.exit_code == 2


@given(st.text(min_size=20, max_size=40).filter(lambda text: len(text.strip()) >= 20))
def test_an_error_never_holds_the_text(text: str) -> None:
    """Whatever was given, no error repeats it."""
    with pytest.raises(KeyUnusable) as caught:
        parse_key(text, "it")
    assert text.strip() not in caught.value.message + caught.value.hint


def test_each_changed_last_character_is_refused() -> None:
    """Of the 64 last characters only the 16 whose spare bits are zero are a key: one key has one text."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    read = 0
    for last in alphabet:
        try:
            parse_key("A" * 42 + last)
            read += 1
        except KeyUnusable:
            pass
    assert read == 16
