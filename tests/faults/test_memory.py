"""How much memory commands take: bounded, whatever the number of rows, and proportional to the largest row at most."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import forked
from tests.support.machines import Branch, Machine

Machines = Callable[..., Machine]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads the resident size from /proc")
MIB = 1 << 20
MOST = 160 * MIB
BARE = 48 * MIB
"""What a process takes that has loaded the package and done nothing yet."""
SCHEMA = "CREATE TABLE entry (id bigint PRIMARY KEY, body text NOT NULL, more jsonb NOT NULL);"
ROWS = """
INSERT INTO entry SELECT n, repeat(md5(n::text), 8), jsonb_build_object('n', n, 'text', repeat(md5((-n)::text), 3))
    FROM generate_series(1, {rows}) n;
"""
ROW_BYTES = 400


def resident() -> int:
    """The resident size of this process, which a child begins with, in bytes."""
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak(work: Callable[[], object]) -> int:
    """The largest resident size of a process that does ``work``, whatever the tests before it left in this one."""
    begun = resident()
    ended = forked.run(lambda: work() and None)
    assert ended.ok, ended.message
    return max(ended.peak - begun, 0) + BARE


def peaks(machines: Machines, branch: Branch, rows: int, monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """The peak of every command on a database of ``rows`` rows, and on others that take its state."""
    first = machines(branch, f"first-{rows}", config="", migrated=False)
    filled = machines(branch, f"filled-{rows}", config="", migrated=False)
    merged = machines(branch, f"merged-{rows}", config="", migrated=False)
    for machine in (first, filled, merged):
        machine.operations.migrate()
        machine.execute(SCHEMA)
    first.execute(ROWS.format(rows=rows))
    out = first.folder / "out.vibey-export"
    found = {"first push": peak(first.sync), "no-op": peak(first.sync)}
    first.execute(f"UPDATE entry SET body = 'x' WHERE id = {rows // 2}")
    found |= {"status": peak(first.operations.status), "one row": peak(first.sync)}
    found |= {"export": peak(lambda: first.operations.export(out)), "fill": peak(filled.sync)}
    monkeypatch.setattr("vibey_actions.state.cycle.LARGE_FILL", 1 << 40)
    monkeypatch.setattr("vibey_actions.operations.LARGE_FILL", 1 << 40)
    found["merge of everything"] = peak(merged.sync)
    merged.operations.forget()
    merged.execute("TRUNCATE entry")
    found["import"] = peak(lambda: merged.operations.import_(out))
    monkeypatch.undo()
    assert filled.execute("SELECT count(*) FROM entry") == merged.execute("SELECT count(*) FROM entry") == [(rows,)]
    return found


def test_memory_does_not_grow_with_the_rows(
    machines: Machines, git_branch: Branch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every command stays below 160 MiB with 60 MB of rows, and at most 1.3 times what a third of them takes."""
    rows = 60_000_000 // ROW_BYTES
    small = peaks(machines, git_branch, rows // 3, monkeypatch)
    git_branch.git("update-ref", "-d", "refs/heads/vibey-state")
    large = peaks(machines, git_branch, rows, monkeypatch)
    report = {name: (small[name] // MIB, large[name] // MIB) for name in large}
    assert max(large.values()) < MOST, report
    assert all(large[name] < small[name] * 1.3 for name in large), report


@pytest.mark.parametrize(("size", "most"), [(1, 160), (20, 700)])
def test_one_large_row(machines: Machines, branch: Branch, size: int, most: int) -> None:
    """A row of 1 MiB and one of 20 MiB go both ways, in memory of a bounded multiple of the row."""
    first, second = machines(branch, "a", config="", migrated=False), machines(branch, "b", config="", migrated=False)
    for machine in (first, second):
        machine.operations.migrate()
        machine.execute(SCHEMA)
    first.execute(
        f"INSERT INTO entry SELECT 1, string_agg(md5(n::text), ''), '{{}}' FROM generate_series(1, {size << 15}) n"
    )
    found = [peak(first.sync), peak(second.sync)]
    second.execute("UPDATE entry SET body = body || 'more'")
    found += [peak(second.sync), peak(first.sync)]
    assert first.rows() == second.rows()
    assert max(found) < most * MIB, [one // MIB for one in found]
