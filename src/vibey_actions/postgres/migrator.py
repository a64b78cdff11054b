"""A migrator of the database's own (``command`` in [migrations]): run with little, heard, and ended as a whole."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from vibey_actions.errors import MigrationFailed
from vibey_actions.postgres.connection import as_uri, mask
from vibey_actions.text import visible

BASICS: Final = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ",
)  # fmt: skip
"""The variables every command gets; source: ADR 0086, decision 12, "the system basics"."""
DSN_VARIABLES: Final = ("VIBEY_PG_URL", "VIBEY_PG_MIGRATE_URL", "VIBEY_STATE_PG_URL", "DATABASE_URL")
_TAIL_LINES: Final = 15
_LINE_BYTES: Final = 2000
_PATIENCE: Final = 5.0


def run_migrator(
    command: tuple[str, ...],
    dsn: str,
    *,
    environment: Mapping[str, str],
    names: tuple[str, ...] = (),
    cwd: Path | None = None,
    notice: Callable[[str], None],
) -> None:
    """Run ``command`` with the system basics, the variables ``names`` of ``environment`` and the DSN; wait for it.

    Raises MigrationFailed with the end of its output, passwords masked, where it fails or cannot be started.
    """
    chosen = _environment(environment, names, dsn, notice)
    program = shutil.which(command[0], path=chosen.get("PATH", os.defpath))
    if program is None and "/" not in command[0]:
        raise MigrationFailed(
            f"the migrator {visible(command[0])} was not found on PATH",
            "install it, or correct command in [migrations] of .github/vibey-state.toml",
        )
    try:
        process = subprocess.Popen(
            [program or command[0], *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=chosen,
            cwd=cwd,
            start_new_session=True,
        )
    except OSError as error:
        raise MigrationFailed(f"the migrator {visible(command[0])} cannot be started: {error.strerror}") from None
    code, tail = _wait(process)
    if code != 0:
        how = f"was ended by signal {-code}" if code < 0 else f"failed with exit code {code}"
        said = " | ".join(visible(mask(line, dsn)) for line in tail) or "nothing"
        raise MigrationFailed(f"the migrator {visible(command[0])} {how}; its output ends with: {said}")


def _environment(
    environment: Mapping[str, str], names: tuple[str, ...], dsn: str, notice: Callable[[str], None]
) -> dict[str, str]:
    for name in names:
        if name not in environment:
            notice(f"env in [migrations] names {visible(name)}, which is not set")
    chosen = {name: environment[name] for name in (*BASICS, *names) if name in environment}
    return chosen | dict.fromkeys(DSN_VARIABLES, as_uri(dsn))


def _wait(process: subprocess.Popen[bytes]) -> tuple[int, list[str]]:
    """The exit code and the last lines. Whatever the command left running in its group is ended with it."""
    tail: deque[str] = deque(maxlen=_TAIL_LINES)
    output = process.stdout
    reader = threading.Thread(target=_collect, args=(output, tail), daemon=True)
    reader.start()
    try:
        code = process.wait()
    except BaseException:
        _end_group(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_PATIENCE)
        _end_group(process, signal.SIGKILL)
        process.wait()
        raise
    else:
        _end_group(process, signal.SIGTERM)
        reader.join(_PATIENCE)
        _end_group(process, signal.SIGKILL)
        reader.join(_PATIENCE)
        return code, list(tail)
    finally:
        if output is not None and not reader.is_alive():
            output.close()


def _collect(output: IO[bytes] | None, tail: deque[str]) -> None:
    if output is None:
        return
    while line := output.readline(_LINE_BYTES):
        text = line.decode("utf-8", "replace").strip()
        if text:
            tail.append(text)


def _end_group(process: subprocess.Popen[bytes], kind: signal.Signals) -> None:
    # The group is named after the command, so it is ours as long as anyone is in it.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, kind)
