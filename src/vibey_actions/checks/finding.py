"""What a check found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Level(str, Enum):
    """How a finding bears on a sync."""

    OK = "ok"
    NOTE = "note"
    """Worth knowing; stops nothing."""
    UNKNOWN = "unknown"
    """Could not be checked, and the text says why."""
    PROBLEM = "problem"
    """Stops a sync."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the answer: which check, how bad, what, and what cures it.

    ``exit_code`` is that of a problem: 2 for a setting that cannot be used, else 1.
    """

    check: str
    level: Level
    text: str
    cure: str = ""
    exit_code: int = 1


def ok(check: str, text: str) -> Finding:
    """All is well."""
    return Finding(check, Level.OK, text)


def note(check: str, text: str, cure: str = "") -> Finding:
    """Worth knowing."""
    return Finding(check, Level.NOTE, text, cure)


def unknown(check: str, text: str, cure: str = "") -> Finding:
    """Not to be known from here."""
    return Finding(check, Level.UNKNOWN, text, cure)


def problem(check: str, text: str, cure: str, exit_code: int = 1) -> Finding:
    """Stops a sync."""
    return Finding(check, Level.PROBLEM, text, cure, exit_code)
