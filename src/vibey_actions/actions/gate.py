"""The gate: may this run open the state?

Source: docs/action.md. It takes the key, and either a private repository or a public one that
declares ``[state] public = true``; what cannot be learned counts as public. The declaration is read on every decision.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from vibey_actions.actions import declared, summary
from vibey_actions.actions.event import Event, told_private
from vibey_actions.actions.inputs import Inputs
from vibey_actions.actions.runner import Runner
from vibey_actions.config import Config
from vibey_actions.errors import RemoteFailed
from vibey_actions.keys import parse_key
from vibey_actions.remotes.http import Api, Refused
from vibey_actions.remotes.open import DEFAULT_API, find_token, parse_api_url

WAIT_CAP: Final = 60.0
"""Seconds that asking GitHub may wait for its rate limits."""


class Reason(str, Enum):
    """Why the gate opened, or did not."""

    PRIVATE = "private"
    DECLARED = "declared"
    NO_KEY = "no-key"
    PUBLIC = "public"
    UNKNOWN = "unknown"


_TEXTS: Final = {
    Reason.PRIVATE: "The key is here, and the repository is private.",
    Reason.DECLARED: "The key is here, and this public repository declares that its runs may open the state.",
    Reason.NO_KEY: (
        "No key was given, so the state stays closed. Runs for forks and for Dependabot are given no secrets."
    ),
    Reason.PUBLIC: (
        "This repository is public and does not declare that its runs may open the state, so it stays closed: anyone "
        "can read a public repository's logs and artifacts."
    ),
    Reason.UNKNOWN: (
        "Whether this repository is private could not be learned, and it does not declare that its runs may open the "
        "state, so it stays closed."
    ),
}


@dataclass(frozen=True, slots=True)
class Decision:
    """``opened``, the reason as a code and as a sentence, and the configuration that was read for it, as text too."""

    reason: Reason
    event: Event
    config: Config
    declaration: str = ""

    @property
    def opened(self) -> bool:
        return self.reason in {Reason.PRIVATE, Reason.DECLARED}

    @property
    def text(self) -> str:
        return _TEXTS[self.reason]


def decide(
    event: Event, key_text: str, config_at_sha: Callable[[], Config], ask_private: Callable[[], bool | None]
) -> Decision:
    """Whether a run may open the state. ``ask_private`` asks GitHub and is called only where the payload is silent.

    Raises SettingError for a declaration that cannot be used, KeyUnusable for a key that is none.
    """
    config = config_at_sha()
    if not key_text.strip():
        return Decision(Reason.NO_KEY, event, config)
    parse_key(key_text, "the input key")
    private = event.private if event.private is not None else ask_private()
    if private:
        reason = Reason.PRIVATE
    elif config.public:
        reason = Reason.DECLARED
    else:
        reason = Reason.UNKNOWN if private is None else Reason.PUBLIC
    return Decision(reason, event, config)


def ask(runner: Runner, inputs: Inputs, step: str, *, known: str | None = None) -> Decision:
    """The decision for this step, written into its outputs, log and summary.

    ``known`` is the configuration's text as an earlier step of the job read it: where it cannot be read again it goes
    on to say what is synced, and declares nothing. Raises what ``decide`` raises, RemoteFailed where the declaration
    cannot be read, and SettingError where an open gate meets a work tree that is not the run's commit.
    """
    event = Event.from_env(runner.env)
    api = run_api(runner, inputs)
    text, config = _declared(runner, event, api, known)
    found = replace(decide(event, inputs.key, lambda: config, lambda: _ask_github(event, api)), declaration=text)
    if found.opened:
        declared.check_work_tree(event, runner.workspace)
    # `open` says that it is open once the database is filled, so that a step that fails never has said so.
    runner.output("opened", "true" if found.opened and step != "open" else "false")
    runner.output("reason", found.reason.value)
    runner.say(f"gate: {'open' if found.opened else 'closed'} ({found.reason.value}). {found.text}")
    runner.summary(summary.gate(step, opened=found.opened, reason=found.reason.value, text=found.text))
    return found


def _declared(runner: Runner, event: Event, api: Api, known: str | None) -> tuple[str, Config]:
    """The configuration as text and read."""
    try:
        text = declared.text_at(event, runner.workspace, api)
    except RemoteFailed as error:
        if known is None:
            raise
        runner.say(f"note: {error.message}; this job's opening read it, and what it syncs is known from there")
        return known, replace(declared.parsed(known, event, runner.workspace), public=False)
    return text, declared.parsed(text, event, runner.workspace)


def api_of(runner: Runner, inputs: Inputs) -> Api:
    """GitHub's API for this run, with the step's token."""
    root = parse_api_url(runner.env.get("GITHUB_API_URL", "") or DEFAULT_API)
    token = find_token({"GH_TOKEN": inputs.token}) if inputs.token else None
    return Api(root, token, notice=runner.say, wait_cap=WAIT_CAP)


def run_api(runner: Runner, inputs: Inputs) -> Api:
    """GitHub's API for this run, with the run's own token: the step's may be for another repository's state."""
    return api_of(runner, replace(inputs, token=inputs.run_token or inputs.token))


def _ask_github(event: Event, api: Api) -> bool | None:
    try:
        answer = api.get(f"repos/{event.repository}").data
    except (Refused, RemoteFailed):
        return None
    if not isinstance(answer, dict) or str(answer.get("full_name", "")).lower() != event.repository.lower():
        return None
    return told_private(answer)
