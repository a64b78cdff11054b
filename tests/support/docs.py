"""The docs commands in this process, over a store in memory and a folder with a declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.lanes import NOON, FakeStep, SetClock
from vibey_actions.cli.main import main
from vibey_actions.documents.report import Due
from vibey_actions.documents.status import LastTick
from vibey_actions.documents.steps.base import Registry
from vibey_actions.documents.stores.memory import MemoryStore
from vibey_actions.lanes import opening
from vibey_actions.lanes.opening import Opened
from vibey_actions.lanes.setup import Setup, read_setup

DECLARED = """\
machines:
  job: {attempts: 2}
  mention-build: {}
"""


@dataclass
class Kept:
    """A record of ticks in memory."""

    clock: SetClock
    dues: list[Due] = field(default_factory=list)
    done: dict[int, str] = field(default_factory=dict)
    at: int | None = None

    def began(self, due: Due) -> int:
        self.dues.append(due)
        self.at = self.clock.now_ms()
        return len(self.dues)

    def ended(self, number: int, did: str) -> None:
        self.done[number] = did

    def last(self) -> LastTick:
        return LastTick(self.at, self.done.get(len(self.dues), ""))


@dataclass
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@dataclass
class Place:
    """A folder with a declaration, the store of its commands, and a step that every machine uses."""

    folder: Path
    capture: pytest.CaptureFixture[str]
    clock: SetClock = field(default_factory=lambda: SetClock(NOON))
    step: FakeStep = field(default_factory=FakeStep)

    def __post_init__(self) -> None:
        self.ticks = Kept(self.clock)
        self.declare(DECLARED)
        self.store = MemoryStore(self.setup.machines, self.clock)

    @property
    def setup(self) -> Setup:
        return read_setup({}, self.folder)

    def declare(self, text: str) -> None:
        """Write the declaration."""
        file = self.folder / ".github" / "vibey-docs.yml"
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, "utf-8")

    def run(self, *arguments: str) -> Outcome:
        """Run ``docs ARGUMENTS``."""
        code = main(["docs", *arguments])
        captured = self.capture.readouterr()
        return Outcome(code, captured.out, captured.err)

    @property
    def opened(self) -> Opened:
        names = ("command", "build", "daily", "publish-request")
        return Opened(self.store, self.ticks, Registry(dict.fromkeys(names, lambda _: self.step)))


def at(folder: Path, monkeypatch: pytest.MonkeyPatch, capture: pytest.CaptureFixture[str]) -> Place:
    """A place whose commands are started in ``folder``."""
    place = Place(folder, capture)

    @contextmanager
    def opened(_setup: Setup, _env: Mapping[str, str], _notice: Callable[[str], None]) -> Iterator[Opened]:
        yield place.opened

    monkeypatch.chdir(folder)
    monkeypatch.setattr(opening, "opened", opened)
    return place
