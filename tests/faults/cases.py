"""Scenarios of whole commands, what holds wherever one of them stops, and how the next run completes it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.support import forked
from tests.support.machines import Branch, Machine, Rows, Saved
from tests.support.steps import Steps, watching

CONFIG = """
[migrations]
directory = "migrations"

[tables.customer]
conflict = "newest"
newest-by = "updated_at"

[tables.audit]
append-only = true
"""

FIRST_MIGRATION = """
CREATE TABLE customer (
    id serial PRIMARY KEY,
    name text NOT NULL,
    introduced_by int REFERENCES customer,
    updated_at timestamptz
);
CREATE TABLE invoice (
    id int PRIMARY KEY,
    customer_id int NOT NULL REFERENCES customer,
    amount numeric NOT NULL
);
CREATE TABLE audit (stream text, seq bigint, body jsonb NOT NULL, PRIMARY KEY (stream, seq));
"""
ROWS = """
INSERT INTO customer (name, introduced_by, updated_at)
    SELECT 'planted-secret-' || n, nullif(n / 2, 0), '2025-01-01' FROM generate_series(1, 20) n;
INSERT INTO invoice SELECT n, n, n * 1.50 FROM generate_series(1, 20) n;
INSERT INTO audit SELECT 'main', n, jsonb_build_object('n', n) FROM generate_series(1, 20) n;
"""
PLANTED = "planted-secret"
"""Part of a value in every customer's row: it must never be seen in a message."""

ALL = os.environ.get("VIBEY_TEST_FAULTS") == "all"
SAMPLE = 3
"""Steps that are tried in each scenario, spread evenly, unless VIBEY_TEST_FAULTS=all asks for every one."""

Machines = Callable[..., Machine]


@dataclass
class Scenario:
    """``prepare`` makes the machine whose ``work`` is killed; ``finish`` is what a person runs afterwards."""

    prepare: Callable[[Machines, Branch], Machine]
    work: Callable[[Machine], object] = Machine.sync
    finish: Callable[[Machine], object] = Machine.sync
    between: bool = False
    """Whether the database may be seen half way (migrations are applied one by one)."""
    settings: dict[str, str] = field(default_factory=dict)


def alone(machines: Machines, branch: Branch) -> Machine:
    return machines(branch, "a", rows=ROWS)


def both_level(machines: Machines, branch: Branch) -> tuple[Machine, Machine]:
    first, second = machines(branch, "a", rows=ROWS), machines(branch, "b")
    first.sync()
    second.sync()
    return first, second


CHANGES_THERE = """
UPDATE customer SET name = 'planted-secret-there', updated_at = '2025-03-01' WHERE id IN (3, 4);
INSERT INTO customer (name, introduced_by, updated_at) VALUES ('planted-secret-new', 3, '2025-02-01');
DELETE FROM invoice WHERE id = 7;
INSERT INTO audit VALUES ('there', 1, '{"n": 1}');
"""
CHANGES_HERE = """
UPDATE customer SET name = 'planted-secret-here', updated_at = '2025-02-01' WHERE id IN (4, 5);
INSERT INTO invoice VALUES (100, 5, 12.30);
DELETE FROM invoice WHERE id = 8;
INSERT INTO audit VALUES ('here', 1, '{"n": 1}');
"""


def pull_only(machines: Machines, branch: Branch) -> Machine:
    here, there = both_level(machines, branch)
    there.execute(CHANGES_THERE)
    there.sync()
    return here


def push_only(machines: Machines, branch: Branch) -> Machine:
    here, _ = both_level(machines, branch)
    here.execute(CHANGES_HERE)
    return here


def both_changed(machines: Machines, branch: Branch) -> Machine:
    here = pull_only(machines, branch)
    here.execute(CHANGES_HERE)
    return here


def without_base(machines: Machines, branch: Branch) -> Machine:
    """The branch and a database that never met hold rows of their own."""
    machines(branch, "b", rows=ROWS).sync()
    here = machines(branch, "a")
    here.execute("INSERT INTO customer VALUES (500, 'planted-secret-own', NULL, '2025-05-05')")
    here.execute("INSERT INTO audit VALUES ('own', 1, '{}')")
    return here


def fill(machines: Machines, branch: Branch) -> Machine:
    machines(branch, "b", rows=ROWS).sync()
    return machines(branch, "a")


def exported(machines: Machines, branch: Branch) -> Machine:
    there = machines(branch, "b", rows=ROWS)
    there.sync()
    here = machines(branch, "a")
    there.execute(CHANGES_HERE)
    there.operations.export(here.folder / "state.vibey-export")
    return here


def import_again(machine: Machine) -> None:
    if machine.base is None:
        machine.operations.import_(machine.folder / "state.vibey-export")
    machine.sync()


def export_again(machine: Machine) -> None:
    machine.operations.export(machine.folder / "out.vibey-export")
    assert [path.name for path in machine.folder.iterdir() if path.name.startswith(".vibey-")] == []
    machine.sync()


def excluding(machines: Machines, branch: Branch) -> Machine:
    machine = alone(machines, branch)
    machine.execute("CREATE TABLE note (id int PRIMARY KEY); INSERT INTO note VALUES (1), (2)")
    machine.sync()
    machine.config = replace(machine.config, exclude=("note",))
    return machine


def unmigrated(machines: Machines, branch: Branch) -> Machine:
    machine = machines(branch, "a", migrated=False)
    (machine.folder / "migrations" / "0002_second.sql").write_text("INSERT INTO customer VALUES (1, 'one', NULL, NULL)")
    (machine.folder / "migrations" / "0003_third.sql").write_text("CREATE TABLE later (id int PRIMARY KEY)")
    return machine


def migrate_and_sync(machine: Machine) -> None:
    machine.operations.migrate()
    machine.sync()


def ahead(machines: Machines, branch: Branch) -> Machine:
    """Changes here, and migrations that the branch does not have yet."""
    machine = push_only(machines, branch)
    (machine.folder / "migrations" / "0002_more.sql").write_text(
        "ALTER TABLE customer ADD COLUMN note text NOT NULL DEFAULT 'none'; CREATE TABLE later (id int PRIMARY KEY)"
    )
    machine.operations.migrate()
    return machine


SCENARIOS = {
    "first-push": Scenario(alone),
    "pull-only": Scenario(pull_only),
    "push-only": Scenario(push_only),
    "both-changed": Scenario(both_changed),
    "without-base": Scenario(without_base),
    "no-push": Scenario(both_changed, lambda machine: machine.sync(push=False)),
    "fill": Scenario(fill),
    "import": Scenario(exported, lambda m: m.operations.import_(m.folder / "state.vibey-export"), import_again),
    "import-fill": Scenario(exported, lambda m: m.operations.import_(m.folder / "state.vibey-export"), import_again),
    "export": Scenario(push_only, lambda m: m.operations.export(m.folder / "out.vibey-export"), export_again),
    "forget": Scenario(
        both_changed,
        lambda machine: machine.operations.forget(),
        lambda machine: (machine.operations.forget(), machine.sync()),
    ),
    "forget-table": Scenario(
        excluding,
        lambda machine: machine.operations.forget_table("note"),
        lambda machine: (machine.operations.forget_table("note"), machine.sync()),
    ),
    "migrate": Scenario(unmigrated, lambda m: m.operations.migrate(), migrate_and_sync, between=True),
    "lift": Scenario(ahead),
}
ONLY_ONCE = {"export", "migrate", "forget"}
"""Scenarios in which the remote has no part: at git alone."""


@dataclass
class Whole:
    """Both ends, as they are seen from outside."""

    rows: Rows
    document: bytes

    @classmethod
    def of(cls, machine: Machine, branch: Branch, folder: Path) -> Whole:
        return cls(machine.rows(), branch.document(folder))


@dataclass
class Case:
    """A prepared scenario, with the states before, after the work, and after everything is level."""

    scenario: Scenario
    machine: Machine
    branch: Branch
    folder: Path
    saved: Saved
    before: Whole
    head_before: str | None
    base_before: str | None
    after: Whole
    steps: list[str]
    level: Whole

    def work(self) -> object:
        return self.scenario.work(self.machine)

    def now(self) -> Whole:
        return Whole.of(self.machine, self.branch, self.folder)

    def check_whole(self, what: str) -> None:
        """The invariants that hold whenever a command stopped anywhere."""
        now, base, head = self.now(), self.machine.base, self.branch.head
        assert now.document in (self.before.document, self.after.document), f"{what}: the branch holds a third state"
        if not self.scenario.between:
            assert now.rows in (self.before.rows, self.after.rows), f"{what}: the database holds a third state"
        if base not in (self.base_before, None):
            assert now.rows == self.after.rows, f"{what}: the watermark names what was not applied"
            assert base in (self.head_before, head), f"{what}: the watermark names a commit that is not on the branch"
        if base is None and self.base_before is not None:
            assert self.scenario is SCENARIOS["forget"], f"{what}: the watermark is lost"

    def check_completed(self, what: str) -> None:
        """What a person runs next completes it, and a sync straight after that writes nothing."""
        self.scenario.finish(self.machine)
        assert self.now() == self.level, f"{what}: the ends are not what the merge has to give"
        assert self.machine.base == self.branch.head, what
        before = self.machine.rows(versions=True, own=True)
        head = self.branch.head
        report = self.machine.sync()
        assert (report.to_pull, report.to_push, report.pushed) == (0, 0, False), what
        assert self.branch.head == head, f"{what}: a second sync pushed"
        assert self.machine.rows(versions=True, own=True) == before, f"{what}: a second sync wrote"
        self.check_swept(what)

    def check_swept(self, what: str) -> None:
        """What a killed process left in the cache goes with the next push, if not before."""
        if self.machine.leftovers():
            self.machine.execute("INSERT INTO audit VALUES ('to be pushed', 1, '{}')")
            self.machine.sync()
            assert self.machine.leftovers() == [], what


def prepared(scenario: Scenario, machines: Machines, branch: Branch, folder: Path) -> Case:
    """Run the scenario once without a fault to learn its steps and what has to come out."""
    machine = scenario.prepare(machines, branch)
    saved = Saved.of(machine, folder / "saved")
    before, head, base = Whole.of(machine, branch, folder), branch.head, machine.base

    def counted() -> list[str]:
        with watching(Steps()) as steps:
            scenario.work(machine)
        return steps.seen

    ended = forked.run(counted)
    assert ended.ok, ended.message
    after = Whole.of(machine, branch, folder)
    scenario.finish(machine)
    level = Whole.of(machine, branch, folder)
    return Case(scenario, machine, branch, folder, saved, before, head, base, after, ended.value, level)


def sampled(steps: list[str], name: str) -> Iterator[int]:
    """The steps to try: all, or an even sample that begins elsewhere in every scenario."""
    sample = 2 if "lift" in name else SAMPLE
    every = 1 if ALL else max(1, len(steps) // sample)
    yield from range(1 + (len(name) % every), len(steps) + 1, every)


EVERYWHERE = [
    (place, name) for name in SCENARIOS for place in ("git", "github") if place == "git" or name not in ONLY_ONCE
]
