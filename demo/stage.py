"""What the demonstration prints, and the checks that make it fail where a sentence would not be true."""

from __future__ import annotations

import os
import shlex
import sys
import textwrap
from collections.abc import Sequence

_COLOUR = sys.stdout.isatty() and "NO_COLOR" not in os.environ


class Untrue(Exception):
    """Something is not as the demonstration said."""


def title(number: int, text: str) -> None:
    """The heading of a scene."""
    print(f"\n{_bold(f'{number}. {text}')}")


def say(text: str) -> None:
    """One plain sentence or two."""
    print("\n" + textwrap.fill(" ".join(text.split()), 96))


def show_command(machine: str, settings: Sequence[str], command: Sequence[str]) -> None:
    """The command as one would type it at ``machine``, with the settings it is given in front."""
    print(_bold(f"  {machine}$ {' '.join([*settings, shlex.join(command)])}"))


def show_sql(machine: str, statement: str) -> None:
    """A statement as one would type it in psql."""
    print(_bold(f"  {machine}=# {' '.join(statement.split())};"))


def show_output(text: str) -> None:
    """What a command printed."""
    print(textwrap.indent(text.rstrip(), "    ", lambda _: True), flush=True)


def check(claim: str, holds: object) -> None:
    """Print a claim that was looked up; raise Untrue where it does not hold."""
    if not holds:
        raise Untrue(claim)
    print(f"  {_green('✓')} {claim}", flush=True)


def _bold(text: str) -> str:
    return f"\x1b[1m{text}\x1b[0m" if _COLOUR else text


def _green(text: str) -> str:
    return f"\x1b[32m{text}\x1b[0m" if _COLOUR else text
