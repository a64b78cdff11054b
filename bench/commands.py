"""The commands that are measured, one function each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from bench.database import Ground
from bench.measure import Run

DUMP, RESTORE = "pg_dump -Fc", "pg_restore, one job"
FIRST, PUSH = "state sync: first push", "state sync: one changed row"
IDLE, FILL = "state sync: nothing to do", "state sync --no-push: fill"
STATUS, SHOW, EXPORT, IMPORT = "state status", "state show", "state export", "state import"

Measured = Iterator[tuple[str, Run]]


class Commands:
    """The event ledger at one scale, in the database ``ledger``, with the machine that syncs it."""

    def __init__(self, ground: Ground, scale: int) -> None:
        self._ground = ground
        self._numbers = count(1)
        ground.create("ledger")
        self._machine = ground.machine("ledger")
        self._machine.run("migrate")
        ground.fill("ledger", scale)
        self._dump = str(ground.scratch / "ledger.dump")
        self._export = str(ground.scratch / "ledger.vibey-export")

    def first(self) -> Measured:
        """The first push of everything; once, before all else that syncs."""
        yield FIRST, self._machine.run("state", "sync")

    def dump(self) -> Measured:
        """What a push is compared with."""
        yield DUMP, self._ground.program("pg_dump", "-Fc", "--file", self._dump, database="ledger")

    def push(self) -> Measured:
        """One row changed since the last sync."""
        number = next(self._numbers)
        self._ground.execute("ledger", f"UPDATE job SET state = 'run {number}' WHERE payload @> '{{\"number\": 4711}}'")
        yield PUSH, self._machine.run("state", "sync")

    def idle(self) -> Measured:
        """Nothing changed since the last sync."""
        yield IDLE, self._machine.run("state", "sync")

    def restore(self) -> Measured:
        """What a fill is compared with: schema, data, indexes and foreign keys into an empty database."""
        with self._fresh() as name:
            yield RESTORE, self._ground.program("pg_restore", self._dump, database=name)

    def fill(self) -> Measured:
        """A machine that has never seen the branch; its empty database was migrated beforehand."""
        with self._fresh() as name:
            machine = self._ground.machine(name)
            machine.run("migrate")
            yield FILL, machine.run("state", "sync", "--no-push")
            self._ground.same("ledger", name)

    def others(self) -> Measured:
        """The other commands that go through all rows, for their memory."""
        yield STATUS, self._machine.run("state", "status")
        yield SHOW, self._machine.run("state", "show")
        yield EXPORT, self._machine.run("state", "export", "--out", self._export)
        with self._fresh() as name:
            machine = self._ground.machine(name)
            machine.run("migrate")
            yield IMPORT, machine.run("state", "import", self._export)
            self._ground.same("ledger", name)

    @contextmanager
    def _fresh(self) -> Iterator[str]:
        name = f"fresh_{next(self._numbers)}"
        self._ground.create(name)
        try:
            yield name
        finally:
            self._ground.drop(name)
