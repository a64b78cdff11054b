"""The service's own environment file, ``state-sync.env``: made once from a template, read by its owner alone.

It holds the database owner's connection string, which neither the unit nor any other service's file ever does. It is
read by this program, so that it means the same under systemd and launchd: ``NAME=VALUE`` lines, the value as it stands.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Final

from vibey_actions.errors import FileFailed, SettingError

_MOST: Final = 1 << 16
_LINE: Final = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)\s*=\s*(?P<value>.*)")
_QUOTES: Final = ("'", '"')


def create(path: Path, search_path: str) -> bool:
    """Make the file from its template, mode 0600, with ``search_path`` as PATH. False where it exists: it is kept.

    Raises FileFailed where it cannot be made.
    """
    template = resources.files("vibey_actions.service").joinpath("state-sync.env").read_text("utf-8")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        return False
    except OSError as error:
        raise FileFailed(f"{path} cannot be made: {error.strerror}", "make its folder one of your own") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            os.fchmod(descriptor, 0o600)
            file.write(template.replace("@PATH@", search_path))
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise FileFailed(f"{path} cannot be written: {error.strerror}", "free some space") from error
    return True


def read(path: Path) -> dict[str, str]:
    """The variables that the file sets; a commented or empty line sets none.

    Raises SettingError, never quoting a line, where it is missing, open to others, or no list of NAME=VALUE.
    """
    values: dict[str, str] = {}
    for number, line in enumerate(_text(path).splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith("#"):
            continue
        found = _LINE.fullmatch(stripped)
        if found is None:
            raise SettingError(f"{path}, line {number}: this is not NAME=VALUE", "write one variable a line, or #")
        if found["name"] in values:
            raise SettingError(f"{path}, line {number}: {found['name']} is set a second time", "keep one of the lines")
        values[found["name"]] = _unquoted(found["value"])
    return values


def _unquoted(value: str) -> str:
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in _QUOTES
    return value[1:-1] if quoted else value


def _text(path: Path) -> str:
    try:
        # O_NONBLOCK: opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise SettingError(f"there is no {path}", "`vibey-actions service install` makes it") from None
    except OSError as error:
        raise SettingError(f"{path} cannot be opened: {error.strerror}", f"ls -l {path}") from error
    try:
        _check(path, os.fstat(descriptor))
        return os.read(descriptor, _MOST).decode("utf-8")
    except UnicodeDecodeError:
        raise SettingError(f"{path} is not UTF-8 text", "save it as UTF-8") from None
    finally:
        os.close(descriptor)


def _check(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode) or found.st_size >= _MOST:
        raise SettingError(f"{path} is not a file of variables", "move it away and run `vibey-actions service install`")
    if found.st_uid != os.geteuid():
        raise SettingError(f"{path} belongs to another user", "use a file of your own")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise SettingError(
            f"{path} is open to others (mode {stat.S_IMODE(found.st_mode):04o}), and it holds a connection string",
            f"chmod 600 {path}",
        )
