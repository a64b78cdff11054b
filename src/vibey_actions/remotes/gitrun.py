"""Running git: a private bare repository for one operation, a clean environment, a deadline, nothing of the user's.

Every operation gets a repository of its own that is gone afterwards, so there is nothing that two processes share,
that a kill can leave locked, or that can rot. What is worth keeping is in the cache of sealed files.
"""

from __future__ import annotations

import errno
import os
import shlex
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from vibey_actions.errors import RemoteFailed
from vibey_actions.remotes.places import Place
from vibey_actions.state.owned import scratch_folder
from vibey_actions.text import shown

IDENTITY_NAME = "vibey-actions"
IDENTITY_ADDRESS = "noreply@vibey-actions.invalid"
_DISK_TROUBLE = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
_PASSED_ON = (
    "PATH",
    "HOME",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    *(name for lower in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (lower, lower.upper())),
)
# The bytes are sealed: packing tighter costs seconds and saves nothing. Nothing here outlives the operation, so
# nothing is flushed to disk.
_SETTINGS = {
    "core": {
        "bare": "true",
        "hooksPath": "/dev/null",
        "attributesFile": "/dev/null",
        "compression": "0",
        "looseCompression": "0",
        "bigFileThreshold": "64k",
        "fsync": "none",
        "fsyncObjectFiles": "false",
    },
    "pack": {"compression": "0", "threads": "1", "writeReverseIndex": "false"},
    "gc": {"auto": "0"},
    "maintenance": {"auto": "false"},
    "fetch": {"unpackLimit": "1", "writeCommitGraph": "false"},
    "push": {"recurseSubmodules": "no", "gpgSign": "false"},
    "commit": {"gpgSign": "false"},
    "protocol": {"version": "2"},
    "http": {"lowSpeedLimit": "1000", "lowSpeedTime": "60"},
}
# git runs its own server side for a repository on this machine: the same thrift there, and the filter that leaves
# sealed files out when only the history is asked for. Servers elsewhere have their own settings.
_LOCAL_SERVER = (
    "git -c core.compression=0 -c core.looseCompression=0 -c pack.compression=0 -c pack.threads=1 "
    "-c core.bigFileThreshold=64k "
)
_LOCAL_READER = _LOCAL_SERVER + "-c uploadpack.allowFilter=true -c uploadpack.allowAnySHA1InWant=true upload-pack"
_LOCAL_WRITER = _LOCAL_SERVER + "-c receive.unpackLimit=1 -c receive.autogc=false receive-pack"

# The last: a newer git about a setting that an older one needs.
_STANDING_ADVICE = ("hint:", "To ", "Please make sure", "and the repo", "warning: core.fsyncObjectFiles")


@dataclass(frozen=True, slots=True)
class Ended:
    """How a git command ended: its exit code and what it wrote."""

    code: int
    out: bytes
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0


class Git:
    """A private bare repository with one remote, ``state``, and the commands run in it."""

    def __init__(self, folder: Path, object_format: str, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.object_format = object_format
        self._environment = environment

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        stdout: BinaryIO | None = None,
        deadline: float = 60,
    ) -> Ended:
        """Run ``git ARGUMENTS``; the whole process group is killed at the deadline or when the caller is interrupted.

        Raises RemoteFailed where git is not installed or the deadline passed.
        """
        try:
            process = subprocess.Popen(
                ["git", *arguments],
                stdin=subprocess.PIPE,
                stdout=stdout if stdout is not None else subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**self._environment, "GIT_DIR": str(self.folder)},
                cwd=self.folder,
                start_new_session=True,
            )
        except FileNotFoundError as error:
            raise RemoteFailed("git is not installed, or not on PATH", "install git and run again") from error
        try:
            out, err = process.communicate(stdin, timeout=deadline)
        except subprocess.TimeoutExpired as error:
            _end(process)
            raise RemoteFailed(
                f"git {arguments[0]} did not end within {deadline:.0f} seconds and was stopped",
                "check the connection to the remote and run again",
            ) from error
        except BaseException:
            _end(process)
            raise
        said = err.decode("utf-8", "replace")
        if process.returncode < 0:
            said += f"\ngit {arguments[0]} was ended by signal {-process.returncode}"
        return Ended(process.returncode, out or b"", said)

    def has(self, commit: str) -> bool:
        """Whether the commit object is at hand without asking the remote."""
        return self.run("cat-file", "-e", f"{commit}^{{commit}}").ok

    def answer(self, *arguments: str, stdin: bytes = b"", deadline: float = 60) -> str:
        """The output of a command that has to succeed in a sound repository. Raises RemoteFailed where it does not."""
        ended = self.run(*arguments, stdin=stdin, deadline=deadline)
        if not ended.ok:
            raise RemoteFailed(f"git {arguments[0]} failed: {git_words(ended.err)}", "run again")
        return ended.out.decode("utf-8", "replace").strip()


def git_words(err: str) -> str:
    """What git and the server said, on one line, without progress and git's standing advice."""
    lines = (line.rstrip().rsplit("\r", 1)[-1].strip() for line in err.split("\n"))
    told = [line for line in lines if line and not line.startswith(_STANDING_ADVICE)]
    return (
        shown("; ".join(line.removeprefix("remote: ").removeprefix("fatal: ").strip() for line in told)) or "no reason"
    )


@contextmanager
def private_repository(folder: Path, place: Place, object_format: str, environment: Mapping[str, str]) -> Iterator[Git]:
    """A fresh private bare repository under ``folder`` for the time of the block, with ``place`` as its remote.

    Raises RemoteFailed where the folder cannot be used.
    """
    with ExitStack() as stack:
        try:
            scratch = stack.enter_context(scratch_folder(folder))
            _lay_out(scratch, place, object_format)
        except OSError as error:
            raise _cannot_keep(folder, error) from error
        try:
            yield Git(scratch, object_format, git_environment(place, environment))
        except OSError as error:
            if error.errno not in _DISK_TROUBLE and not str(error.filename or "").startswith(str(folder)):
                raise
            raise _cannot_keep(folder, error) from error


def _cannot_keep(folder: Path, error: OSError) -> RemoteFailed:
    return RemoteFailed(
        f"a private repository cannot be kept in {folder}: {error.strerror or type(error).__name__}",
        "free some space, or set XDG_CACHE_HOME to a folder that can be written",
    )


def git_environment(place: Place, env: Mapping[str, str]) -> dict[str, str]:
    """The whole environment git gets: the system's basics from ``env`` and our own switches, never anything secret.

    The one exception is the password of ``place``, which only the credential helper of that host reads.
    """
    passed = {name: env[name] for name in _PASSED_ON if name in env}
    login = f" -l {shlex.quote(place.user)}" if place.scheme == "ssh" and place.user else ""
    ours = {
        "LANG": "C",
        "LC_ALL": "C",
        "TZ": "UTC0",
        "GIT_ALLOW_PROTOCOL": "file:ssh:https",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_SYSTEM": os.devnull,
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_SSH_COMMAND": f"ssh -o BatchMode=yes -o ConnectTimeout=15{login}",
        "GIT_SSH_VARIANT": "ssh",
        "GIT_AUTHOR_NAME": IDENTITY_NAME,
        "GIT_AUTHOR_EMAIL": IDENTITY_ADDRESS,
        "GIT_COMMITTER_NAME": IDENTITY_NAME,
        "GIT_COMMITTER_EMAIL": IDENTITY_ADDRESS,
    }
    secret = {"VIBEY_GIT_USER": place.user, "VIBEY_GIT_PASSWORD": place.password} if place.scheme == "https" else {}
    return {**passed, **ours, **secret}


def _lay_out(folder: Path, place: Place, object_format: str) -> None:
    for name in ("objects/pack", "refs/heads"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/none\n")
    settings: dict[str, dict[str, str]] = {name: dict(values) for name, values in _SETTINGS.items()}
    settings["core"]["repositoryFormatVersion"] = "1" if object_format != "sha1" else "0"
    if object_format != "sha1":
        settings["extensions"] = {"objectFormat": object_format}
    _borrow(folder, place)
    settings['remote "state"'] = {"url": place.url}
    if place.scheme == "file":
        settings['remote "state"'] |= {"uploadpack": _LOCAL_READER, "receivepack": _LOCAL_WRITER}
    if place.scheme == "https" and (place.user or place.password):
        settings[f'credential "https://{urlsplit(place.url).netloc}"'] = {"helper": _CREDENTIAL_HELPER}
    (folder / "config").write_text(
        "".join(_section(name, values) for name, values in settings.items()), "utf-8", "surrogateescape"
    )


def _borrow(folder: Path, place: Place) -> None:
    """Read the objects of a repository on this machine where they are: nothing has to be fetched from it."""
    local = place.local_path
    homes = [] if local is None else [local, local / ".git"]
    whole = (home / "objects" for home in homes if (home / "objects").is_dir() and not (home / "shallow").exists())
    borrowed = next(whole, None)
    if borrowed is not None:
        (folder / "objects" / "info").mkdir()
        (folder / "objects" / "info" / "alternates").write_text(f"{borrowed}\n", "utf-8", "surrogateescape")


_CREDENTIAL_HELPER = (
    '!f() { test "$1" = get && printf \'username=%s\\npassword=%s\\n\' "$VIBEY_GIT_USER" "$VIBEY_GIT_PASSWORD"; }; f'
)


def _section(name: str, values: Mapping[str, str]) -> str:
    lines = (f"\t{key} = {_quoted(value)}\n" for key, value in values.items())
    return f"[{name}]\n{''.join(lines)}"


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _end(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
