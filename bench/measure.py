"""Run a whole command and measure it: wall time, and the peak resident memory of that process alone."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.M)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command: seconds and mebibytes."""

    seconds: float
    peak: float


class Failed(Exception):
    """A measured command did not exit with 0."""


def measure(command: Sequence[str], *, env: Mapping[str, str], cwd: Path) -> Run:
    """Run ``command`` to its end. Raises Failed with what it printed where it fails."""
    started = time.perf_counter()
    process = subprocess.Popen(
        command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    watch = _PeakWatch(process.pid)
    watch.start()
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    process.stderr.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    watch.stop()
    if process.returncode != 0:
        name = " ".join([Path(command[0]).name, *command[1:3]])
        raise Failed(f"{name} exited with {process.returncode}: {said.decode('utf-8', 'replace').strip()}")
    return Run(seconds, watch.peak or usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10))


class _PeakWatch(threading.Thread):
    """Reads a process's own peak from /proc until it ends.

    wait4 gives the largest of the process, the children it waited for and the process it was forked from, so it
    only stands in where there is no /proc.
    """

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._status = Path(f"/proc/{pid}/status")
        self._ended = threading.Event()
        self.peak = 0.0

    def run(self) -> None:
        while not self._ended.wait(0.02):
            try:
                found = _PEAK.search(self._status.read_text("ascii", "replace"))
            except OSError:
                return
            if found is not None:
                self.peak = int(found[1]) / 1024

    def stop(self) -> None:
        self._ended.set()
        self.join()
