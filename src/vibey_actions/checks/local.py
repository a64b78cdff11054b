"""This machine's side: Python, the settings, the configuration file, the key."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Final

from vibey_actions import __version__
from vibey_actions.checks.facts import Facts
from vibey_actions.checks.finding import Finding, note, ok
from vibey_actions.config import DEFAULT_FILE
from vibey_actions.settings import PREFIX, VARIABLES
from vibey_actions.text import counted, visible

NEWEST_PYTHON: Final = (3, 14)


def python(_facts: Facts) -> Iterator[Finding]:
    """The version of Python, and of this program."""
    running = f"vibey-actions {__version__} on Python {'.'.join(map(str, sys.version_info[:3]))}"
    if sys.version_info[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        yield note("python", f"{running}, which is newer than {newest}, the newest this was tested with")
    else:
        yield ok("python", running)


def settings(facts: Facts) -> Iterator[Finding]:
    """Every VIBEY_STATE_* variable, and those that nothing reads."""
    found = facts.settings()
    yield ok("settings", f"branch {found.branch}, file {found.path}")
    for name in sorted(set(facts.env) - set(VARIABLES)):
        if name.startswith(PREFIX):
            near = get_close_matches(name, VARIABLES, n=1)
            cure = f"did you mean {near[0]}?" if near else "docs/settings.md has those that are read"
            yield note("settings", f"{visible(name)} is set, and nothing reads it", cure)


def configuration(facts: Facts) -> Iterator[Finding]:
    """The configuration file."""
    found, config = facts.settings(), facts.config()
    path = found.config_file or found.root / DEFAULT_FILE
    if path.is_file():
        tables = f", {counted(len(config.tables), 'declared table')}" if config.tables else ""
        yield ok("configuration", f"{path} can be used{tables}")
    else:
        yield ok("configuration", f"there is no {path}: the defaults hold, and every table of schema public is synced")


def key(facts: Facts) -> Iterator[Finding]:
    """Where the key is. Whether it fits is the branch's check."""
    yield ok("key", f"the key is in {facts.key().where}")
