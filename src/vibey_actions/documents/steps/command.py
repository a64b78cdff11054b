"""A step that is a program of the adopter's: document in, result out, the exit code says the rest.

It finds the document and leaves its result in files, named by VIBEY_DOCUMENT and VIBEY_RESULT; its effects are to be
keyed by VIBEY_WORK_KEY. Exit 0 with a result finishes, 75 asks for another try, anything else fails. Where it was
killed, by its deadline or from outside, nobody knows what it did: that is an unknown outcome, which a machine with
``retry: once`` does not repeat.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path
from time import monotonic
from typing import Final

from vibey_actions.documents import program
from vibey_actions.documents.declare import Part
from vibey_actions.documents.machine import Machine, Retry
from vibey_actions.documents.masking import Masker
from vibey_actions.documents.model import ID, STATUS, Document, body, dump, parse
from vibey_actions.documents.steps.base import (
    Decision,
    Invalid,
    Ready,
    StepResult,
    Work,
    again,
    done,
    failed,
    unknown,
)
from vibey_actions.documents.steps.surroundings import Surroundings, settings_of
from vibey_actions.errors import DocumentInvalid, MachineInvalid, StoreFailed
from vibey_actions.text import shown

TRY_AGAIN: Final = 75
"""EX_TEMPFAIL: the program asks for another try."""
BASICS: Final = ("PATH", "LANG", "LC_ALL", "TMPDIR", "RUNNER_TRACKING_ID")
"""Without these most programs do not start; none of them is a secret. A runner ends what carries its tracking id."""
MOST_RESULT: Final = 16 << 20
_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_SETTINGS: Final = ("command", "variables", "deadline", "needs")


class How(str, Enum):
    """How a run of a program ended."""

    RESULT = "result"
    AGAIN = "again"
    FAILED = "failed"
    UNREADABLE = "unreadable"
    """It says that it succeeded, but left no result that can be read."""
    CUT = "cut"
    """It was ended from outside."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a program: ``fields`` of its result, else the ``reason``."""

    how: How
    reason: str = ""
    fields: Document = field(default_factory=dict)


@dataclass(frozen=True)
class Program:
    """A declared command, and all that it gets to see."""

    command: tuple[str, ...]
    folder: Path
    variables: dict[str, str] = field(repr=False)
    basics: dict[str, str] = field(repr=False)
    masker: Masker = field(repr=False)
    deadline_ms: int | None = None

    @classmethod
    def read(cls, part: Part, surroundings: Surroundings) -> Program:
        """The command that ``part`` declares: ``command``, ``variables``, ``deadline``. Raises MachineInvalid."""
        command = _command(part)
        variables = surroundings.variables(part)
        for name in variables:
            if not _VARIABLE.fullmatch(name):
                raise part.wrong("variables", f"names {shown(name, 60)}, which is no variable's name", "name variables")
        environment = surroundings.environment
        basics = {name: environment[name] for name in BASICS if name in environment}
        found = cls(
            _findable(command, part, surroundings.root, (basics | variables).get("PATH")),
            surroundings.root,
            variables,
            basics,
            Masker(environment, variables.values()),
        )
        return replace(found, deadline_ms=part.duration("deadline")) if "deadline" in part.values else found

    def run(self, work: Work) -> Answer:
        """Run it for a claimed document, within the lease, which is renewed where the deadline is not shorter."""
        time = _Time.of(work, self.deadline_ms)
        if time.seconds <= 0:
            return Answer(How.AGAIN, "the lease left no time for its command")
        with tempfile.TemporaryDirectory(prefix="vibey-actions-", ignore_cleanup_errors=True) as folder:
            document, result, home = Path(folder, "document.json"), Path(folder, "result.json"), Path(folder, "home")
            document.write_bytes(dump({**body(work.document), ID: work.document[ID]}))
            home.mkdir()
            given = {"VIBEY_DOCUMENT": str(document), "VIBEY_RESULT": str(result), "VIBEY_WORK_KEY": work.key}
            try:
                ended = program.run(
                    self.command,
                    environment={**self.basics, "HOME": str(home), **self.variables, **given},
                    folder=self.folder,
                    deadline=time.seconds,
                    what=f"the command {shown(self.command[0], 120)}",
                    alive=time.alive,
                )
            except program.NotStarted as error:
                return Answer(How.AGAIN, error.message)
            except StoreFailed as error:
                return Answer(How.CUT, error.message)
            return self._answer(ended, result, time)

    def _answer(self, ended: program.Ended, result: Path, time: _Time) -> Answer:
        said = self.masker.tail(ended.err) or self.masker.tail(ended.out)
        if ended.code is None:
            reason = "its claim was lost" if time.lost else f"it did not end within {time.seconds:.0f} seconds"
            return Answer(How.CUT, _joined(f"the command was stopped: {reason}", said))
        if ended.code < 0:
            return Answer(How.CUT, _joined(f"the command was ended by signal {-ended.code}", said))
        if ended.code == TRY_AGAIN:
            return Answer(How.AGAIN, _joined("the command asks for another try", said))
        if ended.code != 0:
            return Answer(How.FAILED, _joined(f"the command ended with {ended.code}", said))
        try:
            return Answer(How.RESULT, fields=read_result(result))
        except DocumentInvalid as error:
            return Answer(How.UNREADABLE, f"the command ended with 0, but {error.message}")


class CommandStep:
    """The step ``command``: one program for every document of a machine. ``needs`` are the fields that must say
    something before anything is spent."""

    def __init__(self, program: Program, needs: tuple[str, ...]) -> None:
        self._program = program
        self._needs = needs

    @classmethod
    def make(cls, machine: Machine, surroundings: Surroundings) -> CommandStep:
        """The step as the machine declares it under ``with``. Raises MachineInvalid."""
        part = settings_of(machine)
        part.known(_SETTINGS)
        needs = part.texts("needs", optional=True) if "needs" in part.values else tuple(sorted(machine.fixed))
        return cls(Program.read(part, surroundings), needs)

    def decide(self, document: Document, now_ms: int) -> Decision:  # noqa: ARG002
        for name in self._needs:
            if empty(document.get(name)):
                return Invalid(f"its {name} is empty, so there is nothing to work on")
        return Ready()

    def run(self, work: Work) -> StepResult:
        return concluded(self._program.run(work), once=work.machine.retry is Retry.ONCE)


def concluded(answer: Answer, *, once: bool) -> StepResult:
    """What a program's answer means for the lane; under ``once`` an unreadable result proves nothing."""
    match answer.how:
        case How.RESULT:
            fields = dict(answer.fields)
            status = fields.pop(STATUS, None)
            return done(fields, status if isinstance(status, str) else None)
        case How.AGAIN:
            return again(answer.reason)
        case How.CUT:
            return unknown(answer.reason)
        case How.UNREADABLE if once:
            return unknown(answer.reason)
        case _:
            return failed(answer.reason)


def empty(value: object) -> bool:
    """Whether an input says nothing."""
    return value is None or (isinstance(value, str) and not value.strip()) or value in ([], {})


def read_result(path: Path) -> Document:
    """The JSON object that a program left. Raises DocumentInvalid for anything else, a link or a pipe included."""
    try:
        # A pipe would be waited on, and a link could name a file that was never the program's.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise DocumentInvalid("it left no result in the file that VIBEY_RESULT names") from None
    except OSError:
        raise DocumentInvalid("its result is no file that can be read") from None
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise DocumentInvalid("its result is no regular file")
        text = file.read(MOST_RESULT + 1)
    if len(text) > MOST_RESULT:
        raise DocumentInvalid(f"its result is larger than {MOST_RESULT >> 20} MiB")
    return parse(text, "its result")


@dataclass
class _Time:
    """How long a program may run. ``renewing`` keeps the claim while it does."""

    seconds: float
    renewing: _Renewal | None = None

    @classmethod
    def of(cls, work: Work, deadline_ms: int | None) -> _Time:
        """The deadline: the declared one, else what the lease leaves. A margin is kept for the finish."""
        lease, left = work.machine.lease_ms, work.until_ms - work.now_ms()
        usable = min(left, lease) - margin_ms(lease)
        if deadline_ms is None or deadline_ms <= usable:
            return cls((usable if deadline_ms is None else deadline_ms) / 1000)
        return cls(deadline_ms / 1000, _Renewal.of(work))

    def alive(self) -> bool:
        return self.renewing is None or self.renewing.keep()

    @property
    def lost(self) -> bool:
        return self.renewing is not None and self.renewing.lost


@dataclass
class _Renewal:
    """Moves the lease whenever a third of it is gone. ``at`` is when, by this machine's steady clock."""

    work: Work
    every: float
    at: float
    lost: bool = False

    @classmethod
    def of(cls, work: Work) -> _Renewal:
        third = work.machine.lease_ms / 3000
        left = (work.until_ms - work.now_ms()) / 1000
        return cls(work, third, monotonic() + max(0.0, left - 2 * third))

    def keep(self) -> bool:
        if monotonic() >= self.at:
            self.lost = not self.work.renew()
            self.at = monotonic() + self.every
        return not self.lost


def margin_ms(lease_ms: int) -> int:
    """The end of a lease that no step uses: the finish has to be written in it."""
    return min(max(lease_ms // 6, 500), 60_000)


def _joined(what: str, said: str) -> str:
    return f"{what}: {said}" if said else what


def _command(part: Part) -> tuple[str, ...]:
    if isinstance(part.values.get("command"), str):
        raise part.wrong("command", "is a text, not a list", 'write program and arguments as ["sh", "-c", "..."]')
    if part.values.get("command") is None:
        raise part.wrong("command", "is missing", "say which program does the work: command: [python3, work.py]")
    command = part.values["command"]
    if not isinstance(command, list) or not command or not all(isinstance(each, str) for each in command):
        raise part.wrong("command", "is no list of texts", "put numbers and words like yes in quotes")
    if not command[0].strip() or any("\x00" in each for each in command):
        raise part.wrong("command", "names no program", "begin the list with a program")
    return tuple(command)


def _findable(command: tuple[str, ...], part: Part, root: Path, path: str | None) -> tuple[str, ...]:
    """``command`` with the program's place: a typing error is found before a document pays for it."""
    name = command[0]
    found = shutil.which(str(root / name)) if "/" in name else shutil.which(name, path=path or os.defpath)
    if found is None and "/" in name and (root / name).is_file():
        raise MachineInvalid(
            f"{part.file}: with.command: {shown(name, 120)} may not be executed",
            f"chmod +x {shown(name, 120)}, and commit that",
        )
    if found is None:
        raise MachineInvalid(
            f"{part.file}: with.command: there is no program {shown(name, 120)}",
            "install it, or name it from the checkout's top folder",
        )
    return (found, *command[1:])
