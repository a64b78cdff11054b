"""Places of git repositories: a URL or a path from a setting, checked before anything uses it.

Source of the rules: docs/settings.md.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from vibey_actions.errors import SettingError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_URL = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://", re.A)
_SCP = re.compile(r"(?:(?P<user>[^@/:]+)(?::[^@/]*)?@)?(?P<host>\[[0-9A-Fa-f:.%]+\]|[^@/:\[\]]*):(?P<path>.*)", re.S)
_HOST = re.compile(r"(?:[A-Za-z0-9_](?:[A-Za-z0-9_.-]*)|\[[0-9A-Fa-f:.%]+\])(?::[0-9]{1,5})?")
_PLACES = "use a path, file:///PATH, ssh://HOST/PATH, USER@HOST:PATH or https://HOST/PATH"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a git repository is.

    ``url`` is what git is told and what may be stored and shown: it never holds a user or a password. ``user`` and
    ``password`` are kept apart, out of the repr, for the connection alone.
    """

    url: str
    scheme: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)

    @property
    def local_path(self) -> Path | None:
        """The repository's folder where it is on this machine."""
        if self.scheme != "file":
            return None
        if self.url.startswith("file://"):
            return Path(unquote(self.url.removeprefix("file://").removeprefix("localhost")))
        return Path(self.url)


def parse_place(text: str, base: Path | None = None, setting: str = "VIBEY_STATE_REMOTE") -> Place:
    """A remote's URL or path as a Place; a path is made absolute against ``base`` (default: the working folder).

    Raises SettingError for every other protocol than file, ssh and https, and for what is no place at all. The
    message never holds a user or a password.
    """
    place = text.strip()
    if not place or _CONTROL.search(place):
        raise SettingError(f"{setting} is empty or holds control characters", _PLACES)
    if "::" in place.split("/", 1)[0] and not place.startswith("["):
        raise SettingError(
            f"{setting} asks for a remote helper ({place.split('::')[0]}::), which is never run", _PLACES
        )
    url = _URL.match(place)
    if url:
        return _from_url(place, url["scheme"].lower(), setting)
    if ":" in place.split("/", 1)[0]:
        return _from_scp(place, setting)
    absolute = os.path.abspath(os.path.join(base or Path.cwd(), os.path.expanduser(place)))  # noqa: PTH100, PTH111, PTH118
    return Place(absolute, "file")


def _from_url(text: str, scheme: str, setting: str) -> Place:
    if scheme not in {"file", "ssh", "https"}:
        raise SettingError(f"{setting} uses the protocol {scheme}, which is not supported", _PLACES)
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError as error:
        raise SettingError(f"{setting} is not a URL that can be read", _PLACES) from error
    userinfo, _, host = parts.netloc.rpartition("@")
    if scheme == "file":
        if host not in {"", "localhost"} or userinfo or parts.path in {"", "/"}:
            raise SettingError(
                f"{setting}: a file URL has three slashes and a path", "for example file:///srv/state.git"
            )
        return Place("file://" + text.split("://", 1)[1].removeprefix("localhost"), "file")
    if parts.query or parts.fragment:
        raise SettingError(f"{setting}: a remote's URL has no ? or # part", _PLACES)
    if not _HOST.fullmatch(host) or "\\" in userinfo or port == 0 or parts.path in {"", "/"}:
        raise SettingError(f"{setting} needs a host and a path", f"for example {scheme}://host.example/state.git")
    user, _, password = userinfo.partition(":")
    return Place(
        f"{scheme}://{host}{parts.path}",
        scheme,
        _user(unquote(user), scheme, setting),
        unquote(password) if scheme == "https" else "",
    )


def _from_scp(text: str, setting: str) -> Place:
    match = _SCP.fullmatch(text)
    if not match or not _HOST.fullmatch(match["host"]) or not match["path"]:
        raise SettingError(f"{setting} is neither a path nor a URL that can be used", _PLACES)
    if match["host"].lower() in {"file", "http", "https", "ssh", "git"}:
        raise SettingError(f"{setting}: a URL has two slashes after {match['host']}:", _PLACES)
    return Place(f"{match['host']}:{match['path']}", "ssh", _user(match["user"] or "", "ssh", setting))


def _user(user: str, scheme: str, setting: str) -> str:
    unusable = _CONTROL.search(user) or (scheme == "ssh" and user.startswith("-"))
    if unusable:
        raise SettingError(f"{setting} names a user that cannot be used", _PLACES)
    return user


def watermark_name(branch: str, repository: str = "", place: Place | None = None) -> str:
    """How watermarks and exports call a remote: ``OWNER/NAME:BRANCH``, else the URL or absolute path and the branch."""
    where = repository or (place.url if place else "")
    return f"{where}:{branch}"
