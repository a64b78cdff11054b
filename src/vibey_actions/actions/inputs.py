"""The inputs of the action, as ``VIBEY_INPUT_*`` variables hand them over: never an expansion inside a script.

Each is checked where it is read, and a bad one is refused by its name in the workflow. The defaults are those of
action.yml; an empty value is one that was not given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, TypeVar

from vibey_actions.errors import SettingError
from vibey_actions.text import shown

PREFIX: Final = "VIBEY_INPUT_"
DEFAULT_ARTIFACT_PREFIX: Final = "vibey-state"
DEFAULT_RETENTION_DAYS: Final = 30
DEFAULT_TIMEOUT_MINUTES: Final = 60

_ARTIFACT_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,39}")
_ARTIFACT: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")
_RUN_ID: Final = re.compile(r"[0-9]{1,20}")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_NUMBER: Final = re.compile(r"[0-9]{1,6}")
_MACHINES: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]*(?: *, *[A-Za-z][A-Za-z0-9_-]*)*")
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST_TIMEOUT: Final = 6 * 60 * 24
_LONGEST_RETENTION: Final = 90

T = TypeVar("T", bound=Enum)


def variable_of(name: str) -> str:
    """The variable that hands the input ``name`` over."""
    return PREFIX + name.upper().replace("-", "_")


class WhenClosed(str, Enum):
    """What ``open`` does where the gate stays closed."""

    SKIP = "skip"
    EMPTY = "empty"
    FAIL = "fail"


class Isolation(str, Enum):
    """How far ``run`` sets its command apart from the job."""

    USER = "user"
    PROCESS = "process"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the workflow gave. ``key`` is the text as it came: the gate says whether it is one.

    ``run_token`` is no input: action.yml hands over the run's own token, where ``token`` may be another.
    """

    key: str = field(default="", repr=False)
    pg_url: str = field(default="", repr=False)
    token: str = field(default="", repr=False)
    run_token: str = field(default="", repr=False)
    when_closed: WhenClosed = WhenClosed.SKIP
    push: bool = False
    export: str = ""
    run_id: str = ""
    discard: tuple[str, ...] = ()
    command: str = ""
    isolation: Isolation = Isolation.USER
    timeout_minutes: int = DEFAULT_TIMEOUT_MINUTES
    artifact_prefix: str = DEFAULT_ARTIFACT_PREFIX
    retention_days: int = DEFAULT_RETENTION_DAYS
    machine: str = ""
    limit: int | None = None
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_env(cls, env: Mapping[str, str]) -> Inputs:
        """The inputs that ``env`` holds. Raises SettingError naming the input."""
        given = _Given(env)
        return cls(
            key=env.get(f"{PREFIX}KEY", ""),
            pg_url=given.secret("pg-url"),
            token=given.secret("token"),
            run_token=given.secret("run-token"),
            when_closed=given.choice("when-closed", WhenClosed, WhenClosed.SKIP),
            push=given.boolean("push"),
            export=given.matching("export", _ARTIFACT, "the name of an artifact, as `close` gives it out"),
            run_id=given.matching("run-id", _RUN_ID, "the number of a run, as its address ends"),
            discard=_digests(given.text("discard")),
            command=env.get(f"{PREFIX}COMMAND", "").strip(),
            isolation=given.choice("isolation", Isolation, Isolation.USER),
            timeout_minutes=given.number("timeout-minutes", DEFAULT_TIMEOUT_MINUTES, 1, _LONGEST_TIMEOUT),
            artifact_prefix=given.matching(
                "artifact-prefix", _ARTIFACT_PREFIX, "at most 40 letters, digits, . _ and -", DEFAULT_ARTIFACT_PREFIX
            ),
            retention_days=given.number("retention-days", DEFAULT_RETENTION_DAYS, 1, _LONGEST_RETENTION),
            machine=given.matching("machine", _MACHINES, "the name of a machine, or several with commas between"),
            limit=given.number("limit", 0, 1, 999_999) or None,
            variables=given.variables("variables"),
        )


@dataclass(frozen=True, slots=True)
class _Given:
    env: Mapping[str, str]

    def text(self, name: str) -> str:
        return self.env.get(variable_of(name), "").strip()

    def secret(self, name: str) -> str:
        value = self.text(name)
        if not value.isprintable():
            raise SettingError(
                f"the input {name} holds a line end or another control character", "set it anew, on one line"
            )
        return value

    def variables(self, name: str) -> dict[str, str]:
        """Lines NAME=VALUE; one without a value, as of a secret that is not there, is left out."""
        found = {}
        for number, line in enumerate(self.text(name).split("\n"), 1):
            variable, _, value = (part.strip() for part in line.partition("="))
            if line.strip() and not (_VARIABLE.fullmatch(variable) and value.isprintable() and "=" in line):
                raise SettingError(
                    f"the input {name} has a line that is not NAME=VALUE: line {number}",
                    "write each variable on a line of its own; a value with line ends can only be given with `env:` of "
                    "the step, as in workflows-templates/advance-docs.yml",
                )
            if value:
                found[variable] = value
        return found

    def boolean(self, name: str) -> bool:
        value = self.text(name)
        if value not in {"", "true", "false"}:
            raise _refused(name, value, "true or false")
        return value == "true"

    def choice(self, name: str, kind: type[T], default: T) -> T:
        value = self.text(name)
        if not value:
            return default
        try:
            return kind(value)
        except ValueError:
            raise _refused(name, value, " or ".join(str(one.value) for one in kind)) from None

    def matching(self, name: str, pattern: re.Pattern[str], what: str, default: str = "") -> str:
        value = self.text(name)
        if not value:
            return default
        if not pattern.fullmatch(value):
            raise _refused(name, value, what)
        return value

    def number(self, name: str, default: int, lowest: int, highest: int) -> int:
        value = self.text(name)
        if not value:
            return default
        if not _NUMBER.fullmatch(value) or not lowest <= int(value) <= highest:
            raise _refused(name, value, f"a number from {lowest} to {highest}")
        return int(value)


def _digests(text: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(text.replace(",", " ").split()))
    for digest in found:
        if not _SHA256.fullmatch(digest):
            raise _refused("discard", digest, "the SHA-256 of an export, 64 hexadecimal digits, as write-back names it")
    return found


def _refused(name: str, value: str, what: str) -> SettingError:
    return SettingError(
        f"the input {name} is {shown(value, 80)}, and has to be {what}", f"correct `{name}:` under with:"
    )
