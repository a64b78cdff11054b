"""The key: its written form, where it is looked for, and how one is made exactly once.

Source: docs/settings.md, "Where the key is looked for". A key is never replaced,
because replacing it makes every state sealed under it unreadable; nothing here ever puts one into a message, a
process's arguments or a file that others can read.
"""

from __future__ import annotations

import base64
import os
import re
import secrets
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vibey_actions.errors import KeyExists, KeyMissing, KeyUnusable, KeyWithheld
from vibey_actions.settings import Settings

KEY_BYTES: Final = 32
SERVICE: Final = "dev.vibey.state"

_TEXT_LENGTH: Final = 43
_HEX_LENGTH: Final = 64
_ALPHABET: Final = re.compile(r"[A-Za-z0-9_-]*|[A-Za-z0-9+/]*")
_MAX_FILE: Final = 4096
_ITEM_NOT_FOUND: Final = 44
"""Exit status of security(1) for errSecItemNotFound."""
_KEYCHAIN_SECONDS: Final = 120
"""Long enough for a person to answer the keychain's question."""
_MAKE_HINT: Final = (
    "make one once with `vibey-actions state key --new`; in a workflow, pass the secret VIBEY_STATE_KEY to the step"
)


def parse_key(text: str, where: str = "the key") -> bytes:
    """The 32 bytes that ``text`` writes in base64, either alphabet, with or without its one ``=``.

    White space around it is ignored. Raises KeyUnusable saying ``where`` and what is wrong (a length), never the key.
    """
    stripped = text.strip()
    body = stripped.removesuffix("=")
    if not _ALPHABET.fullmatch(body):
        raise _unusable(where, _foreign(body, len(stripped)))
    if len(body) != _TEXT_LENGTH:
        raise _unusable(where, _wrong_length(body, len(stripped)))
    standard = body.translate(str.maketrans("-_", "+/")) + "="
    key = base64.b64decode(standard, validate=True)
    if len(key) != KEY_BYTES or base64.b64encode(key).decode("ascii") != standard:
        raise _unusable(where, "ends in bits that no 32 bytes have (its last character was changed)")
    return key


def format_key(key: bytes) -> str:
    """``key`` as it is written: base64url without padding, 43 characters."""
    return base64.urlsafe_b64encode(key).decode("ascii").rstrip("=")


def _unusable(where: str, what: str) -> KeyUnusable:
    return KeyUnusable(
        f"{where} {what}",
        "a key is 43 characters of base64: copy it whole, from `vibey-actions state key --show` where it works",
    )


def _foreign(body: str, length: int) -> str:
    if re.fullmatch(r"[A-Za-z0-9+/_-]*", body):
        return "mixes the two base64 alphabets (- _ and + /)"
    position = next(i for i, c in enumerate(body, 1) if not re.fullmatch(r"[A-Za-z0-9+/_-]", c))
    return f"is not base64 (character {position} of {length})"


def _wrong_length(body: str, length: int) -> str:
    if not body:
        return "is empty"
    if length == _HEX_LENGTH and re.fullmatch(r"[0-9a-fA-F]+", body):
        return "is 64 characters of hexadecimal, not 43 of base64"
    size = f", which is {len(body) * 6 // 8} bytes" if len(body) % 4 != 1 else ""
    return f"has {length} characters{size}, not {KEY_BYTES} bytes in 43"


@dataclass(frozen=True, slots=True)
class FoundKey:
    """A key and, in words, where it was found."""

    key: bytes = field(repr=False)
    where: str


class KeyStore:
    """The places a key may be in: VIBEY_STATE_KEY, then the macOS keychain, then the key file."""

    def __init__(self, settings: Settings, env: Mapping[str, str], platform: str = sys.platform) -> None:
        self._env = env
        self._file = settings.key_file
        self._keychain = Keychain(settings.repository or "default", env) if platform == "darwin" else None

    def find(self) -> FoundKey | None:
        """The first key there is, None where there is none. Raises KeyUnusable for one that cannot be used."""
        text = self._env.get("VIBEY_STATE_KEY", "")
        if text.strip():
            return FoundKey(parse_key(text, "the key in VIBEY_STATE_KEY"), "the variable VIBEY_STATE_KEY")
        if self._keychain is not None and (found := self._keychain.read()) is not None:
            return FoundKey(parse_key(found, "the key in the macOS keychain"), self._keychain.where)
        if self._file is not None and (found := _read_file(self._file)) is not None:
            return FoundKey(parse_key(found, f"the key in {self._file}"), f"the file {self._file}")
        return None

    def load(self) -> bytes:
        """The key. Raises KeyMissing, naming every place that was looked in, or KeyUnusable."""
        return self._found().key

    def _found(self) -> FoundKey:
        found = self.find()
        if found is None:
            raise KeyMissing(f"no key was found: {'; '.join(self._looked_in())}", _MAKE_HINT)
        return found

    def locate(self) -> str:
        """Where the key is, in words. Raises as ``load`` does."""
        return self._found().where

    def new(self) -> str:
        """Make the key and return where it is kept.

        Raises KeyExists while there is one anywhere, KeyUnusable where one is there or the place refuses it,
        KeyWithheld inside a GitHub Actions run.
        """
        self._outside_runs("made")
        found = self.find()
        if found is not None:
            raise KeyExists(
                f"a key exists already, in {found.where}, and is never replaced",
                "every state sealed under it would become unreadable; to use another key on purpose, move this one away"
                " first, and keep it",
            )
        text = format_key(secrets.token_bytes(KEY_BYTES))
        if self._keychain is not None:
            self._keychain.write(text)
            return self._keychain.where
        if self._file is None:
            raise KeyMissing("there is no place for a key file: HOME is not set", "set VIBEY_STATE_KEY_FILE")
        _write_file(self._file, text)
        return f"the file {self._file}"

    def show(self) -> str:
        """The key as it is written. Raises as ``load`` does, and KeyWithheld inside a GitHub Actions run."""
        self._outside_runs("shown")
        return format_key(self.load())

    def _outside_runs(self, verb: str) -> None:
        if self._env.get("GITHUB_ACTIONS", "").strip().lower() == "true":
            raise KeyWithheld(
                f"a key is not {verb} inside a GitHub Actions run, whose log others read",
                "do it on your own machine, and store the key as the repository's secret VIBEY_STATE_KEY",
            )

    def _looked_in(self) -> list[str]:
        blank = "holds nothing" if "VIBEY_STATE_KEY" in self._env else "is not set"
        places = [f"VIBEY_STATE_KEY {blank}"]
        if self._keychain is not None:
            places.append(f"nothing in {self._keychain.where}")
        places.append(f"no file {self._file}" if self._file is not None else "no key file, as HOME is not set")
        return places


class Keychain:
    """The macOS keychain, through security(1). The key goes in on stdin, so that no list of processes shows it."""

    def __init__(self, account: str, env: Mapping[str, str]) -> None:
        self._account = account
        self._env = {name: env[name] for name in ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR") if name in env}

    @property
    def where(self) -> str:
        return f"the macOS keychain (service {SERVICE}, account {self._account})"

    def read(self) -> str | None:
        """The item's text, None where there is no such item. Raises KeyUnusable where that cannot be known."""
        done = self._run(["find-generic-password", "-s", SERVICE, "-a", self._account, "-w"], "")
        if done.returncode == _ITEM_NOT_FOUND:
            return None
        if done.returncode != 0:
            raise KeyUnusable(
                f"the macOS keychain did not hand out the key (security ended with {done.returncode})",
                "unlock the keychain (`security unlock-keychain`) and allow the access, or set VIBEY_STATE_KEY",
            )
        return done.stdout

    def write(self, text: str) -> None:
        """Add the item; an existing one is never updated. Raises KeyUnusable where it cannot be read back."""
        # security -i answers 0 whatever its commands did, so only reading the item back proves the write.
        self._run(["-i"], f"add-generic-password -s {SERVICE} -a {self._account} -w {text}\n")
        if (self.read() or "").strip() != text:
            raise KeyUnusable(
                "the macOS keychain did not keep the new key", "unlock it (`security unlock-keychain`) and try again"
            )

    def _run(self, arguments: list[str], stdin: str) -> subprocess.CompletedProcess[str]:
        program = shutil.which("security", path=self._env.get("PATH"))
        if program is None:
            raise KeyUnusable(
                "the macOS keychain cannot be asked: the program security is not on PATH", "add /usr/bin to PATH"
            )
        try:
            return subprocess.run(
                [program, *arguments],
                input=stdin,
                capture_output=True,
                text=True,
                env=self._env,
                timeout=_KEYCHAIN_SECONDS,
                check=False,
            )
        except (OSError, ValueError, subprocess.TimeoutExpired):
            # from None: the exception would carry what was written to stdin.
            raise KeyUnusable(
                "the macOS keychain did not answer", "answer its question, or set VIBEY_STATE_KEY"
            ) from None


def _read_file(path: Path) -> str | None:
    """The key file's text, None where there is none. Raises KeyUnusable while others may read it."""
    try:
        # O_NONBLOCK: opening a named pipe would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise KeyUnusable(f"the key file {path} cannot be opened: {error.strerror}", f"ls -l {path}") from error
    try:
        _check_file(path, os.fstat(descriptor))
        return os.read(descriptor, _MAX_FILE).decode("ascii", "replace")
    except OSError as error:
        raise KeyUnusable(f"the key file {path} cannot be read: {error.strerror}", f"ls -l {path}") from error
    finally:
        os.close(descriptor)


def _check_file(path: Path, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise KeyUnusable(f"the key file {path} is not a regular file", "name a file in VIBEY_STATE_KEY_FILE")
    if found.st_uid != os.geteuid():
        raise KeyUnusable(f"the key file {path} belongs to another user", "use a file of your own")
    if found.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise KeyUnusable(
            f"the key file {path} is open to others (mode {stat.S_IMODE(found.st_mode):04o})", f"chmod 600 {path}"
        )
    if found.st_size > _MAX_FILE:
        raise KeyUnusable(f"the key file {path} holds {found.st_size} bytes, more than any key", "name the key's file")


def _write_file(path: Path, text: str) -> None:
    """Create the key file, mode 0600 from its first moment. Raises KeyExists where anything has its name."""
    try:
        _make_folders(path.parent)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise KeyExists(
            f"{path} exists already and is never replaced", f"look at what it is, `ls -l {path}`, and move it away"
        ) from None
    except OSError as error:
        raise KeyUnusable(
            f"the key file {path} cannot be made: {error.strerror}", "name a place of yours in VIBEY_STATE_KEY_FILE"
        ) from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(text.encode("ascii") + b"\n")
            file.flush()
            os.fsync(descriptor)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            path.unlink()
        raise KeyUnusable(f"the key file {path} cannot be written: {error.strerror}", "free some space") from error


def _make_folders(folder: Path) -> None:
    """Make ``folder`` and what is missing above it, each closed to others."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    for each in reversed(missing):
        each.mkdir(mode=0o700, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
