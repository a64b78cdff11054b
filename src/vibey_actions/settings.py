"""The settings: every ``VIBEY_STATE_*`` variable, its default, and what it may hold.

Source: docs/settings.md. An empty value counts as not set, because that is what an unset secret
or input of a workflow becomes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vibey_actions.config import check_table_name
from vibey_actions.errors import SettingError
from vibey_actions.names import DEFAULT_BRANCH, DEFAULT_PATH, parse_branch, parse_repository, parse_tree_path
from vibey_actions.state.declaration import Rule
from vibey_actions.text import visible

DEFAULT_ATTEMPTS: Final = 5
MAX_ATTEMPTS: Final = 1000
PREFIX: Final = "VIBEY_STATE_"
VARIABLES: Final = tuple(
    PREFIX + name
    for name in (
        "PG_URL", "REMOTE", "REPOSITORY", "BRANCH", "PATH", "KEY", "KEY_FILE", "CONFLICTS", "ATTEMPTS", "CONFIG",
    )
)  # fmt: skip
"""Every variable that begins so and is read."""

_OBJECT: Final = '{"customer":"mine","invoice":"theirs"}'
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the environment says, checked. Nothing that may hold a password is part of the representation.

    ``root`` is the checkout's top folder, where the configuration file is looked for. ``key_file`` is None where
    neither a home nor a configuration folder is known.
    """

    cwd: Path
    root: Path
    remote: str | None = field(default=None, repr=False)
    repository: str | None = None
    branch: str = DEFAULT_BRANCH
    path: str = DEFAULT_PATH
    dsn: str | None = field(default=None, repr=False)
    key_file: Path | None = None
    conflicts: Mapping[str, Rule] = field(default_factory=dict)
    attempts: int = DEFAULT_ATTEMPTS
    config_file: Path | None = None

    @classmethod
    def from_env(cls, env: Mapping[str, str], cwd: Path) -> Settings:
        """The settings that ``env`` holds; relative paths are taken from ``cwd``.

        Raises SettingError, naming the variable, for a value that cannot be used.
        """
        config_file = _value(env, "VIBEY_STATE_CONFIG")
        return cls(
            cwd=cwd,
            root=repository_root(cwd),
            remote=_plain(env, "VIBEY_STATE_REMOTE"),
            repository=_repository(env),
            branch=_branch(env),
            path=_path(env),
            dsn=_plain(env, "VIBEY_STATE_PG_URL") or _plain(env, "VIBEY_PG_URL"),
            key_file=_key_file(env, cwd),
            conflicts=_conflicts(env),
            attempts=_attempts(env),
            config_file=cwd / config_file if config_file else None,
        )

    def require_dsn(self) -> str:
        """The database's connection string. Raises SettingError where none is set."""
        if self.dsn is None:
            raise SettingError(
                "no database is set: VIBEY_STATE_PG_URL and VIBEY_PG_URL are both empty",
                "set VIBEY_STATE_PG_URL to the owner's connection string, postgresql://USER@HOST/DATABASE; in a "
                "workflow the step open sets it",
            )
        return self.dsn


def repository_root(cwd: Path) -> Path:
    """The top folder of the checkout that holds ``cwd``, or ``cwd`` itself outside of one.

    Folders of another owner end the search: the file found there may name a program to run.
    """
    try:
        owner = cwd.stat().st_uid
        for folder in (cwd, *cwd.parents):
            if folder.stat().st_uid != owner:
                break
            git = folder / ".git"
            if git.exists() and git.stat().st_uid == owner:
                return folder
    except OSError:
        pass
    return cwd


def _value(env: Mapping[str, str], name: str) -> str | None:
    return env.get(name, "").strip() or None


def _plain(env: Mapping[str, str], name: str) -> str | None:
    """A value without control characters or bytes that are no UTF-8."""
    value = _value(env, name)
    if value is not None and _CONTROL.search(value):
        raise SettingError(
            f"{name} holds a control character or is not UTF-8 text", "set it anew, on one line and without it"
        )
    return value


def _repository(env: Mapping[str, str]) -> str | None:
    value = _plain(env, "VIBEY_STATE_REPOSITORY")
    return parse_repository(value) if value is not None else None


def _branch(env: Mapping[str, str]) -> str:
    return parse_branch(_value(env, "VIBEY_STATE_BRANCH") or DEFAULT_BRANCH)


def _path(env: Mapping[str, str]) -> str:
    return parse_tree_path(_plain(env, "VIBEY_STATE_PATH") or DEFAULT_PATH)


def _key_file(env: Mapping[str, str], cwd: Path) -> Path | None:
    """VIBEY_STATE_KEY_FILE, else ``vibey/state.key`` in the user's configuration folder (XDG base directories)."""
    named = _value(env, "VIBEY_STATE_KEY_FILE")
    if named is not None:
        return cwd / named
    folder = config_folder(env)
    return folder / "vibey" / "state.key" if folder is not None else None


def config_folder(env: Mapping[str, str]) -> Path | None:
    """The user's configuration folder (XDG base directories), None where neither it nor a home is known."""
    configured = _value(env, "XDG_CONFIG_HOME")
    if configured is not None and Path(configured).is_absolute():
        return Path(configured)
    home = _value(env, "HOME")
    return Path(home) / ".config" if home is not None else None


def _conflicts(env: Mapping[str, str]) -> dict[str, Rule]:
    """``table=rule`` with commas between, or a JSON object, which can name every table."""
    value = _value(env, "VIBEY_STATE_CONFLICTS")
    if value is None:
        return {}
    rules: dict[str, Rule] = {}
    for table, rule in _members(value) if value.startswith("{") else map(_entry, _listed(env)):
        if table in rules:
            raise SettingError(f"VIBEY_STATE_CONFLICTS names the table {visible(table)} twice", "give each one rule")
        rules[table] = _known_rule(table, rule)
    return rules


def _listed(env: Mapping[str, str]) -> list[str]:
    return (_plain(env, "VIBEY_STATE_CONFLICTS") or "").split(",")


def _entry(entry: str) -> tuple[str, object]:
    table, equals, rule = (part.strip() for part in entry.partition("="))
    if not equals or not table or "=" in rule:
        raise SettingError(
            f"VIBEY_STATE_CONFLICTS holds {entry.strip() or 'an empty entry'}, which is not table=rule",
            "write table=rule, with commas between: customer=mine,invoice=theirs; a table with a comma or = in its "
            f"name takes a JSON object: {_OBJECT}",
        )
    return table, rule


def _members(text: str) -> list[tuple[str, object]]:
    """The members of a JSON object, a name that stands there twice included."""
    try:
        found = json.loads(text, object_pairs_hook=list)
    except (ValueError, RecursionError):
        raise SettingError(
            "VIBEY_STATE_CONFLICTS begins with { and is not one JSON object", f"write tables and rules: {_OBJECT}"
        ) from None
    return [(str(table), rule) for table, rule in found]


def _known_rule(table: str, rule: object) -> Rule:
    check_table_name(table, "VIBEY_STATE_CONFLICTS")
    try:
        return Rule(rule)
    except ValueError:
        said = visible(rule) if isinstance(rule, str) else "of another type than a text"
        raise SettingError(
            f"VIBEY_STATE_CONFLICTS gives the table {visible(table)} the rule {said or '(empty)'}, which there is not",
            f"the rules are {', '.join(known.value for known in Rule)}",
        ) from None


def _attempts(env: Mapping[str, str]) -> int:
    value = _value(env, "VIBEY_STATE_ATTEMPTS")
    if value is None:
        return DEFAULT_ATTEMPTS
    if not re.fullmatch(r"0*[0-9]{1,4}", value, re.ASCII) or not 1 <= int(value[-4:]) <= MAX_ATTEMPTS:
        raise SettingError(
            f"VIBEY_STATE_ATTEMPTS is {value}, which is no number from 1 to {MAX_ATTEMPTS}",
            f"write how often a sync may start again, for example {DEFAULT_ATTEMPTS}",
        )
    return int(value[-4:])
