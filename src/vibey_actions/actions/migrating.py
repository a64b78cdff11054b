"""Migrations in a process of their own, which is handed a DSN and nothing else: no key, no token, no job's variables.

``python -I -m vibey_actions.actions.migrating`` reads what to do from its standard input and answers on its output.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from vibey_actions.config import Config, Migrations
from vibey_actions.errors import MigrationFailed, VibeyError
from vibey_actions.postgres.migrate import migrate
from vibey_actions.postgres.migrator import BASICS
from vibey_actions.text import shown

_SECONDS: Final = 3600
_LARGEST_ANSWER: Final = 1 << 20


def migrate_apart(
    dsn: str,
    config: Config,
    upto: Collection[str],
    *,
    env: Mapping[str, str],
    notice: Callable[[str], None],
) -> None:
    """Bring the database at ``dsn`` to the migrations ``upto`` of the configuration's directory.

    Of ``env`` the other process gets the system basics. Raises what ``migrate`` raises.
    """
    directory = config.migrations.directory if config.migrations is not None else None
    order = {"dsn": dsn, "directory": str(directory) if directory is not None else None, "upto": sorted(upto)}
    answer = _asked(order, {name: env[name] for name in BASICS if name in env})
    for text in answer.get("notices", []):
        notice(str(text))
    if (error := answer.get("error")) is not None:
        kind = _errors().get(str(error.get("code")), MigrationFailed)
        raise kind(str(error.get("message")), str(error.get("hint")))


def _asked(order: Mapping[str, Any], env: Mapping[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-I", "-X", "utf8", "-m", __name__]
    try:
        done = subprocess.run(
            command, input=json.dumps(order).encode(), env=env, capture_output=True, timeout=_SECONDS, check=False
        )
        answer = json.loads(done.stdout[:_LARGEST_ANSWER])
    except subprocess.TimeoutExpired:
        raise MigrationFailed(f"the migrations did not end within {_SECONDS} seconds", "make them faster") from None
    except (OSError, ValueError) as error:
        why = done.stderr.decode("utf-8", "replace") if isinstance(error, ValueError) else str(error)
        raise MigrationFailed(
            f"the process that runs migrations ended without an answer: {shown(why)}", "run the job again"
        ) from None
    assert isinstance(answer, dict)  # noqa: S101 - our own
    return answer


def _errors() -> dict[str, type[VibeyError]]:
    """Every error by its code."""

    def below(kind: type[VibeyError]) -> Iterator[type[VibeyError]]:
        yield kind
        for each in kind.__subclasses__():
            yield from below(each)

    return {kind.code: kind for kind in below(VibeyError)}


def main() -> None:
    """Do what standard input says, and say on standard output how it ended."""
    order = json.load(sys.stdin)
    notices: list[str] = []
    directory = order["directory"]
    migrations = Migrations(directory=Path(directory)) if directory is not None else None
    answer: dict[str, Any] = {"notices": notices}
    try:
        migrate(order["dsn"], Config(migrations=migrations), upto=order["upto"], environment={}, notice=notices.append)
    except VibeyError as error:
        answer["error"] = {"code": error.code, "message": error.message, "hint": error.hint}
    sys.stdout.write(json.dumps(answer))
    sys.stdout.flush()


if __name__ == "__main__":
    os.chdir("/")
    main()
