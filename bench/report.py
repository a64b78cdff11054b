"""The figures as a table for people and a file for programs."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.commands import DUMP, FILL, IDLE, PUSH, RESTORE
from bench.measure import Run

OUT = Path(__file__).parent / "out"
TARGETS = {PUSH: (DUMP, 2.0), IDLE: (DUMP, 1.0), FILL: (RESTORE, 1.5)}
"""What each command is compared with, and how many times as long it may take."""
MAX_PEAK = 256.0
"""Mebibytes of resident memory that the Python process of any command may take."""


def about(server: str) -> dict[str, str]:
    """What the figures were measured on."""
    return {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "postgresql": server,
    }


def commands_table(runs: Mapping[str, Sequence[Run]]) -> str:
    """Medians, spread, ratio and peak memory per command, as markdown."""
    lines = ["| command | median | fastest - slowest | ratio | at most | peak memory |", "|---|---|---|---|---|---|"]
    for name, measured in runs.items():
        seconds = sorted(run.seconds for run in measured)
        peak = max(run.peak for run in measured)
        spread = f"{seconds[0]:.2f} - {seconds[-1]:.2f} s" if len(seconds) > 1 else "one run"
        lines.append(
            f"| {name} | {statistics.median(seconds):.2f} s | {spread} | {_ratio(name, runs)} | "
            f"{peak:.0f} MiB{_memory(name, peak)} |"
        )
    return "\n".join(lines)


def _ratio(name: str, runs: Mapping[str, Sequence[Run]]) -> str:
    other, limit = TARGETS.get(name, ("", 0.0))
    if other not in runs:
        return "- | -"
    ratio = statistics.median(run.seconds for run in runs[name]) / statistics.median(run.seconds for run in runs[other])
    return f"{ratio:.2f} x {other.split(',')[0]} | {limit:.1f}{'' if ratio <= limit else ' (MISSED)'}"


def _memory(name: str, peak: float) -> str:
    return " (MISSED)" if name.startswith("state") and peak > MAX_PEAK else ""


def core_table(figures: Mapping[str, Mapping[str, float]]) -> str:
    """The pure core's cost per size, as markdown."""
    lines = ["| rows | text of one document | seconds | microseconds a row | peak memory |", "|---|---|---|---|---|"]
    lines += [
        f"| {one['rows']:,.0f} ({size}) | {one['text_mb']:.0f} MB | {one['seconds']:.2f} | "
        f"{one['seconds'] / one['rows'] * 1e6:.1f} | {one['peak_mib']:.0f} MiB |"
        for size, one in figures.items()
    ]
    return "\n".join(lines)


def save(name: str, values: Mapping[str, object]) -> Path:
    """Write ``bench/out/NAME.json``."""
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.json"
    path.write_text(json.dumps(values, indent=2) + "\n", "utf-8")
    return path
