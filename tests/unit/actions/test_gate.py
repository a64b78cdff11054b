"""The gate's decision, row by row of the specification."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from vibey_actions.actions.event import Event, told_private
from vibey_actions.actions.gate import Decision, Reason, decide
from vibey_actions.config import Config, parse_config
from vibey_actions.errors import KeyUnusable, SettingError
from vibey_actions.keys import format_key

KEY = format_key(bytes(range(32)))
SHA = "0123456789" * 4


def config(text: str) -> Callable[[], Config]:
    return lambda: parse_config(text, "vibey-state.toml", Path("/workspace"))


def event(tmp_path: Path, payload: Any, name: str = "push") -> Event:
    """The event of a run with this payload."""
    path = tmp_path / "event.json"
    path.write_text(payload if isinstance(payload, str) else json.dumps(payload))
    env = {"GITHUB_EVENT_NAME": name, "GITHUB_SHA": SHA, "GITHUB_REPOSITORY": "example/app"}
    return Event.from_env({**env, "GITHUB_EVENT_PATH": str(path)})


def asked(answer: bool | None) -> Callable[[], bool | None]:  # noqa: FBT001
    return lambda: answer


def never() -> bool | None:
    raise AssertionError("GitHub was asked although the event says it")


def decision(
    tmp_path: Path,
    repository: Any,
    *,
    declared: str = "",
    key: str = KEY,
    ask: Callable[[], bool | None] = never,
    name: str = "push",
) -> Decision:
    return decide(event(tmp_path, {"repository": repository}, name), key, config(declared), ask)


PUBLIC = "[state]\npublic = true\n"
NOT_PUBLIC = "[state]\npublic = false\n"


@pytest.mark.parametrize(
    ("repository", "declared", "reason"),
    [
        ({"private": True}, "", Reason.PRIVATE),
        ({"private": True}, NOT_PUBLIC, Reason.PRIVATE),
        ({"private": True, "visibility": "internal"}, "", Reason.PRIVATE),
        ({"visibility": "internal"}, "", Reason.PRIVATE),
        ({"private": False}, PUBLIC, Reason.DECLARED),
        ({"private": False, "visibility": "public"}, PUBLIC, Reason.DECLARED),
        ({"private": False}, "", Reason.PUBLIC),
        ({"private": False}, NOT_PUBLIC, Reason.PUBLIC),
        ({"private": False, "full_name": "Example/App"}, "", Reason.PUBLIC),
    ],
)
def test_key_and_repository_decide(tmp_path: Path, repository: Any, declared: str, reason: Reason) -> None:
    """With the key: private opens, public opens only where it declares that, and nobody is asked."""
    found = decision(tmp_path, repository, declared=declared)
    assert found.reason is reason
    assert found.opened is (reason in {Reason.PRIVATE, Reason.DECLARED})
    assert found.text


@pytest.mark.parametrize(
    "silent",
    [None, {}, [], "x", {"private": "true"}, {"private": 1}, {"private": None}, {"visibility": "x"},
     {"private": True, "visibility": "public"}, {"private": False, "visibility": "private"},
     {"private": True, "full_name": "other/app"}],
)  # fmt: skip
@pytest.mark.parametrize(
    ("answer", "declared", "reason"),
    [
        (True, "", Reason.PRIVATE),
        (False, "", Reason.PUBLIC),
        (False, PUBLIC, Reason.DECLARED),
        (None, "", Reason.UNKNOWN),
        (None, PUBLIC, Reason.DECLARED),
    ],
)
def test_a_silent_event_is_asked_of_github(
    tmp_path: Path, silent: Any, *, answer: bool | None, declared: str, reason: Reason
) -> None:
    """What the payload does not plainly say is asked; an answer that cannot be got counts as public."""
    assert decision(tmp_path, silent, declared=declared, ask=asked(answer)).reason is reason


@pytest.mark.parametrize("payload", ["", "not json", "[]", "[" * 100_000, "null"])
def test_a_payload_that_cannot_be_read_says_nothing(tmp_path: Path, payload: str) -> None:
    """A damaged payload is no private repository."""
    assert event(tmp_path, payload).private is None


def test_a_schedule_is_always_asked(tmp_path: Path) -> None:
    """The payload of a schedule is not trusted, whatever it says."""
    assert decision(tmp_path, {"private": True}, name="schedule", ask=lambda: False).reason is Reason.PUBLIC


@pytest.mark.parametrize("key", ["", "\n", "   ", "\t\r\n"])
@pytest.mark.parametrize("repository", [{"private": True}, {"private": False}, {}])
def test_no_key_is_closed_without_asking(tmp_path: Path, key: str, repository: Any) -> None:
    """An empty key (forks, Dependabot, an unset secret) closes the gate before anybody is asked."""
    assert decision(tmp_path, repository, key=key, declared=PUBLIC).reason is Reason.NO_KEY


@pytest.mark.parametrize("key", ["x\n::add-mask::y", "AAAA", KEY[:-1], KEY + KEY, "0" * 64, KEY[:-1] + "*"])
@pytest.mark.parametrize("repository", [{"private": True}, {"private": False}])
def test_a_key_that_is_none_is_refused(tmp_path: Path, key: str, repository: Any) -> None:
    """A key that is not one ends with exit 2 and does not repeat it."""
    with pytest.raises(KeyUnusable) as caught:
        decision(tmp_path, repository, key=key)
    assert caught.value.exit_code == 2
    assert key not in caught.value.message
    assert "add-mask" not in caught.value.message + caught.value.hint


@pytest.mark.parametrize("key", [KEY + "\n", f"  {KEY}  ", KEY + "=", KEY.replace("_", "/").replace("-", "+")])
def test_a_pasted_key_is_one(tmp_path: Path, key: str) -> None:
    """White space, padding and the other alphabet (F07) make no difference."""
    assert decision(tmp_path, {"private": True}, key=key).opened


@pytest.mark.parametrize("declared", ["[state]\npublik = true", "[state]\npublic = 1", '[state]\npublic = "true"', "["])
@pytest.mark.parametrize("key", [KEY, "", "nonsense"])
@pytest.mark.parametrize("repository", [{"private": True}, {"private": False}])
def test_a_bad_declaration_is_refused_on_every_decision(
    tmp_path: Path, declared: str, key: str, repository: Any
) -> None:
    """Key or not, private or not: an unknown key, a public that is no boolean, a file that is no TOML end with 2."""
    with pytest.raises(SettingError, match=r"vibey-state\.toml") as caught:
        decision(tmp_path, repository, declared=declared, key=key)
    assert caught.value.exit_code == 2


def test_internal_is_not_public() -> None:
    """GitHub's third kind of repository is one that not everybody reads."""
    assert told_private({"private": True, "visibility": "internal"}) is True
    assert told_private({"private": False, "visibility": "internal"}) is None


@pytest.mark.parametrize(
    "env",
    [{}, {"GITHUB_EVENT_NAME": "push"}, {"GITHUB_EVENT_NAME": "push", "GITHUB_SHA": "main"},
     {"GITHUB_EVENT_NAME": "push", "GITHUB_SHA": SHA}, {"GITHUB_SHA": SHA, "GITHUB_REPOSITORY": "a/b"}],
)  # fmt: skip
def test_outside_of_a_run_there_is_no_event(env: dict[str, str]) -> None:
    """Without an event's name, commit and repository nothing is decided."""
    with pytest.raises(SettingError, match="GITHUB_"):
        Event.from_env(env)


def test_a_pull_request_names_its_head(tmp_path: Path) -> None:
    """Where a pull request's code comes from is known, also where its repository is gone."""
    fork = {"pull_request": {"head": {"repo": {"full_name": "someone/app"}}}}
    assert event(tmp_path, fork, "pull_request").head_repository == "someone/app"
    assert event(tmp_path, {"pull_request": {"head": {"repo": None}}}).head_repository == "example/app"
