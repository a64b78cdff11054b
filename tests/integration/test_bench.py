"""The benchmark measures what it says, and says when a target is missed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.commands import DUMP, PUSH
from bench.core import measure_core
from bench.documents import Walk, documents_table, measure_documents
from bench.measure import Failed, Run, measure
from bench.report import commands_table, core_table
from vibey_actions.postgres.server import Server

HERE = "x = bytearray(b'x') * 100_000_000; import time; time.sleep(1.5)"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {HERE!r}])"


def python(code: str, tmp_path: Path) -> Run:
    """Measure a piece of Python."""
    return measure([sys.executable, "-c", code], env={"PATH": "/usr/bin:/bin"}, cwd=tmp_path)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="without /proc only wait4's figure is to be had")
def test_memory_is_the_process_s_own(tmp_path: Path) -> None:
    """What a child takes does not count, what the process itself takes does."""
    assert python(CHILD, tmp_path).peak < 100
    assert python(HERE, tmp_path).peak > 100


def test_time_is_that_of_the_whole_command(tmp_path: Path) -> None:
    """A command that sleeps takes at least as long."""
    assert python("import time; time.sleep(.3)", tmp_path).seconds >= 0.3


def test_a_command_that_fails_is_no_figure(tmp_path: Path) -> None:
    """A failing command ends the benchmark with what it said."""
    with pytest.raises(Failed, match=r"exited with 3: broken"):
        python("import sys; print('broken', file=sys.stderr); sys.exit(3)", tmp_path)


def test_a_missed_target_is_said() -> None:
    """Twice pg_dump and a little more is marked, and so is too much memory; a command within both is not."""
    missed = commands_table({DUMP: [Run(1, 10)], PUSH: [Run(2.5, 300), Run(2.1, 100), Run(1.0, 100)]})
    assert "2.10 x pg_dump -Fc | 2.0 (MISSED) | 300 MiB (MISSED)" in missed
    assert "MISSED" not in commands_table({DUMP: [Run(1, 300)], PUSH: [Run(1.9, 100)]})


def test_the_core_s_run_merges_what_it_made(tmp_path: Path) -> None:
    """A small run of the core's benchmark ends with its own check passed, and a line of its table."""
    figures = measure_core(tmp_path, 3000)
    assert figures["rows"] == 3000
    assert "| 3,000 (1x) | 2 MB |" in core_table({"1x": figures})
    assert list(tmp_path.iterdir()) == []


def test_lanes_are_walked_to_their_end() -> None:
    """A small run of the lanes' benchmark works every waiting document, beside finished ones and without."""
    with Server(durable=False) as own:
        walks = measure_documents(own, 1, waiting=20, finished=50, workers=(2,))
    assert [(walk.finished, walk.workers, walk.transitions) for walk in walks] == [(0, 2, 40), (50, 2, 40)]


def test_lanes_that_are_too_slow_are_said() -> None:
    """Too few transitions, and fewer beside finished documents than without, are marked for as many workers as the aim
    has cores, by the medians, and beyond what single rounds differ by."""

    def walked(finished: int, *rates: int, workers: int = 2) -> list[Walk]:
        return [Walk(finished, workers, rate, 1.0) for rate in rates]

    missed = documents_table([*walked(0, 1900, 1950, 1850), *walked(9, 1700, 1690, 2000), *walked(0, 10, workers=1)])
    assert "| 2 | 0 | 1,900 | 1,850 - 1,950 | 2,000 (MISSED) |" in missed
    assert "| 2 | 9 | 1,700 | 1,690 - 2,000 | not slower (MISSED) |" in missed
    assert missed.count("MISSED") == 2
    near = [*walked(0, 2400, 2380, 2410), *walked(9, 2200, 2170, 1000)]
    spread = [*walked(0, 2400, 2000, 2500), *walked(9, 2050, 2060, 1000)]
    faster = [*walked(0, 2600, 2700, 2650, workers=8), *walked(9, 1000, 1100, 900, workers=8)]
    one = [*walked(0, 2400), *walked(9, 1000)]
    for walks in (near, spread, [*near, *faster], one):
        assert "MISSED" not in documents_table(walks)
