"""The inputs as the environment hands them over: typed, with defaults, refused by name."""

from __future__ import annotations

import pytest

from vibey_actions.actions.inputs import Inputs, Isolation, WhenClosed, variable_of
from vibey_actions.errors import SettingError

SHA = "ab" * 32


def inputs(**values: str) -> Inputs:
    return Inputs.from_env({variable_of(name.replace("_", "-")): value for name, value in values.items()})


def test_nothing_given_is_the_defaults() -> None:
    """An input that was left out, or is an empty secret, has its default."""
    assert inputs() == Inputs() == inputs(pg_url=" ", push="", when_closed="", retention_days="", run_id="")


def test_every_input_is_read() -> None:
    """What the workflow gives arrives, trimmed, and the key exactly as it came."""
    found = inputs(
        key=" k\n", pg_url=" dsn ", token="t", when_closed="empty", push="true", export="p-export-1", run_id="12",
        discard=f"{SHA}, {'cd' * 32}\n{SHA}", command=" make x ", isolation="process", timeout_minutes="5",
        artifact_prefix="mine.v-1", retention_days="90", machine="a", limit="3",
        variables="\n A=b=c \r\n\nNONE=\n_B2 = d e\n",
    )  # fmt: skip
    assert found == Inputs(
        key=" k\n", pg_url="dsn", token="t", when_closed=WhenClosed.EMPTY, push=True, export="p-export-1", run_id="12",
        discard=(SHA, "cd" * 32), command="make x", isolation=Isolation.PROCESS, timeout_minutes=5,
        artifact_prefix="mine.v-1", retention_days=90, machine="a", limit=3, variables={"A": "b=c", "_B2": "d e"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("push", "yes"), ("push", "True"), ("when-closed", "open"), ("isolation", "none"), ("retention-days", "0"),
        ("retention-days", "91"), ("retention-days", "-1"), ("retention-days", "٣"), ("timeout-minutes", "1e3"),
        ("run-id", "12x"), ("run-id", "../1"), ("export", "a/b"), ("export", "a\nb"), ("artifact-prefix", "a b"),
        ("artifact-prefix", "x" * 41), ("artifact-prefix", ".hidden"), ("discard", "abc"), ("discard", SHA + "0"),
        ("limit", "many"), ("pg-url", "postgresql://a\nb"), ("token", "a\x00b"),
        ("variables", "A=postgresql://b\nsecond"), ("variables", "1A=postgresql"), ("variables", "A=postgresql\x00"),
    ],
)  # fmt: skip
def test_a_bad_input_is_refused_by_name(name: str, value: str) -> None:
    """Exit 2, the input's name as the workflow writes it, and never the text of one that holds secrets."""
    with pytest.raises(SettingError, match=f"input {name} ") as caught:
        Inputs.from_env({variable_of(name): value})
    assert caught.value.exit_code == 2
    assert "\n" not in caught.value.message
    if name in {"pg-url", "token", "variables"}:
        assert "postgresql" not in caught.value.message


def test_no_secret_is_in_the_representation() -> None:
    """Neither key, token nor DSN is shown where the inputs are printed."""
    shown = repr(inputs(key="the-key", pg_url="the-dsn", token="the-token", variables="A=the-value"))
    assert not any(word in shown for word in ("the-key", "the-dsn", "the-token", "the-value"))
