"""The real ``vibes-diy`` client, one call at a time: what it is started with, and what its answers mean.

The client gives no reason but its text: every failure exits 1, and exit 0 with nothing printed happens. So a call has
succeeded where it exited 0, its output is JSON of the right form, and the id in it is the one that was asked for.
Anything else of a write that may have been sent is an unknown outcome, for the store to read back.
"""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from vibey_actions.documents import program
from vibey_actions.documents.model import ID, Document, body, check_id, checked, dump, id_of, number
from vibey_actions.errors import (
    DocumentConflict,
    DocumentDenied,
    DocumentInvalid,
    OutcomeUnknown,
    SettingError,
    StoreFailed,
    VibeyError,
)
from vibey_actions.rows.canonical import NotJson, decode
from vibey_actions.text import shown

CLIENT: Final = "vibes-diy"
TRIED_WITH: Final = "13.1.2"
"""The version of the client whose behaviour this module and its tests know."""
DEADLINE: Final = 90.0
"""Seconds; the client itself gives up on a silent server after 33 (writes) or 63 (reads)."""
OLDEST_NODE: Final = 22
DEVICE: Final = "VIBES_DEVICE_ID"

_VIBE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*/[A-Za-z0-9][A-Za-z0-9._-]*")
_DB: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*")
_VAULT: Final = "vault"
_TOKEN: Final = re.compile(r"eyJ[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)*")
_NOISE: Final = re.compile(r"\s*(?:at .*:\d+|\[warn\].*|Warning:.*|\(node:\d+\).*|)")
_PREFIX: Final = re.compile(r"(?:(?:Error in vibes-diy cli|Error): ?)+")
_ABSENT: Final = "Document not found"
_CONFLICT: Final = "write conflict"
_LOGIN: Final = ("Not logged in", "Authentication required")
_NOT_SENT: Final = ("WebSocket error", "WebSocket is not defined", "Invalid JSON", "JSON input required")
_LOST: Final = ("WebSocket closed", "Request idle", "Response schema mismatch")


class Rows(NamedTuple):
    """What a query gave: ``documents``, and what could not be read as one, by its id, or else by its place."""

    documents: list[Document]
    unreadable: tuple[str, ...] = ()


class Client(Protocol):
    """Whole documents of one vibe, read and written one at a time. ``deadline`` is in seconds."""

    def get(self, db: str, identifier: str, deadline: float | None = None) -> Document | None:
        """The document with ``_id``, exactly; None where it is absent. Raises StoreFailed for a read that failed."""
        ...

    def query(self, db: str, deadline: float | None = None) -> Rows:
        """The documents of a database, as many as one reply holds. Raises StoreFailed."""
        ...

    def put(self, db: str, identifier: str, document: Document, deadline: float | None = None) -> None:
        """Write a document over whatever is there.

        Raises StoreFailed where it was not sent, DocumentDenied and DocumentConflict for the vibe's refusals, and
        OutcomeUnknown where it may have been applied.
        """
        ...

    def delete(self, db: str, identifier: str, deadline: float | None = None) -> None:
        """Delete a document; raises as ``put`` does."""
        ...


@dataclass(frozen=True)
class VibesClient:
    """The program ``command`` on one ``vibe``, HANDLE/SLUG. Of ``environment`` the client gets the system's basics and
    the device's credential, nothing else; without a credential it uses the login of this machine's user."""

    command: tuple[str, ...]
    vibe: str
    environment: Mapping[str, str] = field(repr=False)
    api_url: str | None = None
    deadline: float = DEADLINE

    def __post_init__(self) -> None:
        if not _VIBE.fullmatch(self.vibe):
            raise SettingError(f"{shown(self.vibe) or 'an empty text'} names no vibe", "write it as HANDLE/SLUG")

    def get(self, db: str, identifier: str, deadline: float | None = None) -> Document | None:
        what = f"the read of {shown(identifier, 120)} in {shown(db, 80)}"
        ended = self._db("get", db, "--admin", f"--id={identifier}", deadline=deadline)
        if ended.code == 1 and _is_absence(ended.err, identifier):
            return None
        document = _answer(ended, what, _not_read)
        if not isinstance(document, dict) or document.get(ID) != identifier:
            raise StoreFailed(f"{what} failed: the client answered with another document", _AGAIN)
        return checked(document, what)

    def query(self, db: str, deadline: float | None = None) -> Rows:
        what = f"the query of {shown(db, 80)}"
        # By _id alone: a field that holds an object in one document breaks the query for all of them.
        answer = _answer(self._db("query", db, "--admin", ID, deadline=deadline), what, _not_read, _any_json)
        if not isinstance(answer, list):
            raise StoreFailed(f"{what} failed: the client answered with something that is no list of documents", _AGAIN)
        unreadable = [_name(row, place) for place, row in enumerate(answer, 1) if not _usable(row)]
        return Rows([row for row in answer if _usable(row)] if unreadable else answer, tuple(unreadable))

    def put(self, db: str, identifier: str, document: Document, deadline: float | None = None) -> None:
        what = f"the write of {shown(identifier, 120)} to {shown(db, 80)}"
        ended = self._db("put", db, f"--id={identifier}", "-", stdin=script_text(document, what), deadline=deadline)
        _acknowledged(ended, identifier, what)

    def delete(self, db: str, identifier: str, deadline: float | None = None) -> None:
        what = f"the deletion of {shown(identifier, 120)} from {shown(db, 80)}"
        _acknowledged(self._db("del", db, f"--id={identifier}", deadline=deadline), identifier, what)

    def run(
        self, *arguments: str, folder: Path, stdin: bytes = b"", deadline: float, home: Path | None = None
    ) -> program.Ended:
        """Any call of the client, in ``folder``, which should be empty: a ``.env`` there would speak louder than its
        environment. Raises StoreFailed where it cannot be started."""
        options = ("--api-url", self.api_url) if self.api_url else ()
        return program.run(
            [*self.command, *arguments, *options],
            environment=self._variables(home or folder),
            folder=folder,
            stdin=stdin,
            deadline=deadline,
            what=f"the client {CLIENT}",
        )

    def _db(self, verb: str, db: str, *arguments: str, stdin: bytes = b"", deadline: float | None) -> program.Ended:
        check_db(db)
        limit = self.deadline if deadline is None else min(deadline, self.deadline)
        options = ("--vibe", self.vibe, f"--db={db}")
        with tempfile.TemporaryDirectory(prefix="vibey-actions-", ignore_cleanup_errors=True) as folder:
            return self.run("db", verb, *options, *arguments, folder=Path(folder), stdin=stdin, deadline=limit)

    def _variables(self, home: Path) -> dict[str, str]:
        given = program.basics(self.environment) | self._node_options
        device = self.environment.get(DEVICE)
        if device:
            # Kept in memory: in its usual place the credential would be readable by others, and win from then on.
            return given | {DEVICE: device, "FP_KEYBAG_URL": "memory://lane", "HOME": str(home)}
        return given | {name: self.environment[name] for name in ("HOME", "FP_KEYBAG_URL") if name in self.environment}

    @cached_property
    def _node_options(self) -> dict[str, str]:
        """What lets an older Node open a WebSocket."""
        if Path(self.command[0]).name != "node":
            return {}
        with tempfile.TemporaryDirectory(prefix="vibey-actions-", ignore_cleanup_errors=True) as folder:
            ended = program.run(
                [self.command[0], "--version"],
                environment=program.basics(self.environment),
                folder=Path(folder),
                deadline=30,
                what="Node.js",
            )
        major = re.match(rb"v(\d+)\.", ended.out)
        older = major is not None and int(major[1]) < OLDEST_NODE
        return {"NODE_OPTIONS": "--experimental-websocket"} if older else {}


def find_client(setting: str | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """How the client is started: ``setting`` (its ``run.js``, or a program), else the ``vibes-diy`` on PATH.

    A script is started by the Node.js beside it (the npm package ``node``), else by the one on PATH: without npx, which
    adds seconds and processes of its own. Raises SettingError where the client or Node.js is not there.
    """
    search = environment.get("PATH")
    found = setting or shutil.which(CLIENT, path=search)
    if found is None or not Path(found).is_file():
        raise SettingError(
            f"the client {CLIENT} was not found {f'at {shown(found)}' if found else 'on PATH'}",
            f"install it: npm install --global {CLIENT}@{TRIED_WITH} (it needs Node.js {OLDEST_NODE} or newer)",
        )
    script = Path(found).resolve()
    if script.suffix not in {".js", ".mjs", ".cjs"}:
        return (str(script),)
    beside = (folder / ".bin" / "node" for folder in script.parents if folder.name == "node_modules")
    node = next((str(path) for path in beside if path.is_file()), None) or shutil.which("node", path=search)
    if node is None:
        raise SettingError(
            f"the client {CLIENT} needs Node.js, and node is not on PATH", f"install Node.js {OLDEST_NODE} or newer"
        )
    return node, str(script)


def check_db(db: str) -> None:
    """Refuse a name that is none of a database, and the vault, where a vibe keeps its secrets. Raises SettingError."""
    if db == _VAULT:
        raise SettingError("a lane never reads or writes the database vault", "keep documents in another database")
    if not _DB.fullmatch(db):
        raise SettingError(f"{shown(db)} names no database of a vibe", "use letters, digits, '.', '_' and '-'")


def script_text(document: Document, what: str) -> bytes:
    """What the client is given to write. Raises DocumentInvalid for a number that JavaScript would change."""
    inexact = _inexact(body(document))
    if inexact is not None:
        raise DocumentInvalid(
            f"{what} failed: the number in {shown(inexact, 120)} would change, since a vibe keeps JavaScript's numbers",
            "keep it as a text",
        )
    return dump(body(document))


def words(err: bytes, hide: Callable[[str], str] = lambda said: said) -> str:
    """The reason that the client printed, on one line: no stack, no warnings, no credential. ``hide`` masks more."""
    lines = (line.strip() for line in err.decode("utf-8", "replace").splitlines() if not _NOISE.fullmatch(line))
    said = _PREFIX.sub("", " ".join(lines), count=1) if err else ""
    return shown(hide(_TOKEN.sub("***", said)))


def kept_out(said: str) -> bool:
    """Whether what the client printed proves that nothing was begun: it did not get through, or was not let in."""
    return said.startswith((*_NOT_SENT, *_LOGIN))


_AGAIN: Final = "run again; what is due is found by its status"


def _answer(
    ended: program.Ended,
    what: str,
    error: Callable[[program.Ended, str], VibeyError],
    reading: Callable[[bytes], object] = decode,
) -> object:
    """The JSON that a successful call printed; raises the ``error`` of any other."""
    if not ended.ok:
        raise error(ended, what)
    try:
        return reading(ended.out)
    except ValueError:
        raise error(ended, what) from None


def _acknowledged(ended: program.Ended, identifier: str, what: str) -> None:
    answer = _answer(ended, what, _not_written)
    if not isinstance(answer, dict) or answer.get("ok") is not True or answer.get("id") != identifier:
        raise OutcomeUnknown(f"{what} may have been applied: the client acknowledged something else", _AGAIN)


def _any_json(text: bytes) -> object:
    """JSON that may hold texts which no other program could: one such document does not hide the others."""
    try:
        return decode(text)
    except NotJson:
        try:
            return json.loads(text, parse_float=Decimal)
        except RecursionError:
            raise NotJson("a document is nested too deeply") from None


def _usable(row: object) -> bool:
    try:
        return isinstance(row, dict) and bool(check_id(id_of(row)) and checked(row, "a document"))
    except DocumentInvalid:
        return False


def _name(row: object, place: int) -> str:
    """A row that is no document, for a person."""
    identifier = row.get(ID) if isinstance(row, dict) else None
    return shown(identifier, 80) if isinstance(identifier, str) and identifier else f"row {place}"


def _is_absence(err: bytes, identifier: str) -> bool:
    said = err.decode("utf-8", "replace").strip()
    return said.startswith("Error: ") and said.endswith(f": {_ABSENT}: {identifier}".rstrip())


def _not_read(ended: program.Ended, what: str) -> VibeyError:
    said = words(ended.err)
    return _not_logged_in(said, what) or StoreFailed(f"{what} failed: {_reason(ended, said)}", _hint(said))


def _not_written(ended: program.Ended, what: str) -> VibeyError:
    said = words(ended.err)
    if said.startswith(_NOT_SENT):
        return StoreFailed(f"{what} failed: {said}", _hint(said))
    if said.startswith(_CONFLICT):
        return DocumentConflict(f"{what} failed: {said}", "read it again and decide anew")
    refused = ended.code == 1 and said and ended.err.lstrip().startswith(b"Error: ") and not said.startswith(_LOST)
    return _not_logged_in(said, what) or (
        DocumentDenied(f"{what} was refused by the vibe: {said}", "its access.js says who may write what")
        if refused
        else OutcomeUnknown(f"{what} may have been applied: {_reason(ended, said)}", _AGAIN)
    )


def _not_logged_in(said: str, what: str) -> StoreFailed | None:
    hint = f"set {DEVICE} to the device's credential as `npx {CLIENT} login` left it, and check that it has not ended"
    return StoreFailed(f"{what} failed: {said}", hint) if said.startswith(_LOGIN) else None


def _reason(ended: program.Ended, said: str) -> str:
    if ended.code is None:
        return "the client did not end in time and was stopped"
    if ended.code < 0:
        return f"the client was ended by signal {-ended.code}"
    if ended.ok:
        return "the client said that it succeeded, but its answer cannot be read"
    return said or f"the client ended with {ended.code} and gave no reason"


def _hint(said: str) -> str:
    if said.startswith("WebSocket is not defined"):
        return f"install Node.js {OLDEST_NODE} or newer"
    if said.startswith("Response schema mismatch"):
        return "one of the documents is no object; look for it and delete it"
    return "check the connection to the vibe and its name, and run again"


def _inexact(value: object, path: str = "") -> str | None:
    """Where the first number stands that a JavaScript number does not hold exactly."""
    if isinstance(value, dict):
        places = ((each, f"{path}.{name}" if path else name) for name, each in value.items())
    elif isinstance(value, list):
        places = ((each, f"{path}[{index}]") for index, each in enumerate(value))
    else:
        return path if not _survives(value) else None
    return next((found for each, place in places if (found := _inexact(each, place)) is not None), None)


def _survives(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return True
    exact = number(value)
    # The shortest digits that name the same double are what JavaScript prints, and Python too.
    return exact is not None and Decimal(repr(float(Decimal(exact)))) == exact
