"""A job without rights exports, and the reusable workflow writes back; conflicts, and runs that were cancelled."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from tests.support.act import Act
from tests.support.act.example import Halt, Shop, template, work
from tests.support.ends import End

TWO = "INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace');"
RESOLVE = {".github/workflows/resolve-conflicts.yml": template("resolve-conflicts.yml")}
MARK = re.compile(r"vibey-state-taken-[0-9a-f]{64}")


def conflict(shop: Shop, laptop: End, folder: Path) -> str:
    """A run whose change meets another one to the same row; gives the SHA-256 of its export, which is left."""
    halt = Halt(folder)
    script = work(f"UPDATE customer SET name = 'Ada of the {folder.name} job' WHERE id = 1;", then=halt.script)
    shop.app.write(script)
    run = shop.start()
    halt.reached()
    laptop.run(f"UPDATE customer SET name = 'Ada of the {folder.name} laptop' WHERE id = 1")
    laptop.sync()
    halt.release()
    outcome = run.wait()
    assert outcome.result("work") == "success", outcome.explain()
    assert outcome.result("write") == "failure"
    assert "customer" in outcome.summary("write")
    assert "Ada of" not in outcome.summary() + outcome.log() + str(outcome.annotations())
    return outcome.outputs("close")["export"].rpartition("-")[2]


def settled(shop: Shop, **inputs: str) -> str:
    """Dispatch resolve-conflicts.yml; the result of its write."""
    given = {"rules": "", "run-id": "", "discard": "", **inputs}
    payload = {**shop.app.payload(), "inputs": given}
    return shop.run("workflow_dispatch", workflow="resolve-conflicts.yml", payload=payload).result("write")


def test_an_export_is_written_back_once(act: Act, database: Callable[[], str]) -> None:
    """The job that ran the work could not write; the other one does, marks the export, and needs no second try."""
    shop = Shop.make(act, "example/export", "state.yml", files=work(TWO))
    outcome = shop.run()
    assert outcome.jobs == {"work": ["success"], "write": ["success"]}, outcome.explain()
    assert outcome.outputs("close")["changed"] == "true"
    assert shop.commits == 1
    names = [one.name for one in act.github.artifacts.all(shop.app.repository.name)]
    assert sorted(names)[0] == outcome.outputs("close")["export"]
    assert MARK.fullmatch(sorted(names)[1])
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", "(2,Grace)"]

    shop.app.write(work("SELECT 1;"))
    outcome = shop.run()
    assert outcome.jobs == {"work": ["success"]}, outcome.explain()
    assert outcome.outputs("close")["changed"] == "false"
    assert shop.commits == 1


def test_a_failed_jobs_work_is_written_back(act: Act, database: Callable[[], str]) -> None:
    """What was done before a step failed is exported and written; the run stays red."""
    shop = Shop.make(act, "example/export-fails", "state.yml", files=work(TWO, then="exit 7\n"))
    outcome = shop.run()
    assert outcome.jobs == {"work": ["failure"], "write": ["success"]}, outcome.explain()
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", "(2,Grace)"]


def test_a_conflict_waits_until_somebody_settles_it(act: Act, database: Callable[[], str], tmp_path: Path) -> None:
    """A conflict keeps its export: a dispatch names it again, a rule settles it for once, and it can be given up."""
    shop = Shop.make(act, "example/conflict", "state.yml", files={**RESOLVE, **work(TWO)})
    shop.run()
    laptop = shop.laptop(database())
    laptop.sync()
    conflict(shop, laptop, tmp_path / "first")
    assert settled(shop) == "failure"
    assert settled(shop, rules="customer=mine") == "success"
    laptop.sync()
    assert laptop.rows("customer") == ['(1,"Ada of the first job")', "(2,Grace)"]

    digest = conflict(shop, laptop, tmp_path / "second")
    commits = shop.commits
    assert settled(shop, discard=digest) == "success"
    assert settled(shop) == "success"
    laptop.sync()
    assert laptop.rows("customer") == ['(1,"Ada of the second laptop")', "(2,Grace)"]
    assert shop.commits == commits


def test_a_cancelled_runs_work_is_written_back(act: Act, database: Callable[[], str], tmp_path: Path) -> None:
    """A run that is cancelled in its work still exports and ends its database; the next write brings that in too."""
    halt = Halt(tmp_path / "halt")
    shop = Shop.make(act, "example/cancelled", "state.yml", files=work(TWO, then=halt.script))
    run = shop.start()
    halt.reached()
    run.cancel()
    outcome = run.wait()
    assert outcome.step("close") == "success", outcome.explain()
    assert outcome.outputs("close")["export"] in act.github.artifacts.names()
    shop.app.write(work("INSERT INTO customer VALUES (3, 'Edsger');"))
    assert shop.run().result("write") == "success"
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", "(2,Grace)", "(3,Edsger)"]


def test_an_export_that_was_left_is_taken_up_by_the_next_write(act: Act, database: Callable[[], str]) -> None:
    """A write that GitHub refused keeps its export and says what to do; the next run's write brings both in."""
    shop = Shop.make(act, "example/left", "state.yml", files=work(TWO))
    shop.app.repository.rules["vibey-state"] = "Repository rule violations found: Cannot create ref"
    outcome = shop.run()
    assert outcome.jobs == {"work": ["success"], "write": ["failure"]}, outcome.explain()
    assert "rule" in outcome.summary("write")
    assert shop.commits == 0
    del shop.app.repository.rules["vibey-state"]
    shop.app.write(work("INSERT INTO customer VALUES (3, 'Edsger');"))
    outcome = shop.run()
    assert outcome.result("write") == "success", outcome.explain()
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", "(2,Grace)", "(3,Edsger)"]
