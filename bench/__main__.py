"""``make bench``: measure whole commands, interleaved, against pg_dump and pg_restore; then lanes; then the core."""

from __future__ import annotations

import argparse
import compileall
import json
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import vibey_actions
from bench.commands import Commands, Measured
from bench.database import Differs, Ground
from bench.documents import documents_table, measure_documents
from bench.measure import Failed, Run
from bench.report import about, commands_table, core_table, save
from vibey_actions.errors import VibeyError
from vibey_actions.postgres.server import Server

ROUND = ("dump", "push", "idle", "restore", "fill")
CORE_ROWS = 200_000


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--scale", type=int, default=1, help="times 200,000 events, 20,000 jobs and 15,000 others")
    parser.add_argument("--runs", type=int, default=5, help="how often each command is run (default 5)")
    parser.add_argument("--core", type=int, nargs="*", default=[1, 3, 10], help="scales of the pure core (1 3 10)")
    parser.add_argument("--only", nargs="+", choices=[*ROUND, "others", "core", "documents"], help="measure only these")
    return parser.parse_args()


def measure_commands(scale: int, rounds: int, only: list[str] | None) -> None:
    """Print and save what every command takes."""
    runs: dict[str, list[Run]] = defaultdict(list)

    def take(scene: Callable[[], Measured]) -> None:
        for name, run in scene():
            runs[name].append(run)
            print(f"  {name}: {run.seconds:.2f} s, {run.peak:.0f} MiB", file=sys.stderr, flush=True)

    with tempfile.TemporaryDirectory(prefix="vibey-bench-") as folder, Server() as postgres:
        Path(folder).chmod(0o755)
        ground = Ground(Path(folder), postgres)
        print(f"making the event ledger, scale {scale}", file=sys.stderr, flush=True)
        commands = Commands(ground, scale)
        take(commands.first)
        chosen = [name for name in ROUND if only is None or name in only]
        if "restore" in chosen and "dump" not in chosen:
            chosen.insert(0, "dump")
        for number in range(rounds):
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
            for name in chosen:
                take(getattr(commands, name))
        if only is None or "others" in only:
            take(commands.others)
        facts = about(ground.version())
    print(f"\n## Commands at scale {scale}\n\n{facts}\n\n{commands_table(runs)}", flush=True)
    figures = {name: [asdict(run) for run in measured] for name, measured in runs.items()}
    save(f"commands-{scale}", {"about": facts, "scale": scale, "runs": figures})


def measure_core(scales: list[int]) -> None:
    """Print and save what the pure core takes at each scale, each in a process of its own."""
    figures = {}
    for scale in scales:
        print(f"the core at {scale}x", file=sys.stderr, flush=True)
        with tempfile.TemporaryDirectory(prefix="vibey-bench-") as folder:
            command = [sys.executable, "-m", "bench.core", folder, str(CORE_ROWS * scale)]
            figures[f"{scale}x"] = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"\n## The pure core\n\n{core_table(figures)}", flush=True)
    save("core", figures)


def measure_lanes(rounds: int) -> None:
    """Print and save how fast documents are claimed and finished."""
    print("document lanes, with none and with a million finished documents", file=sys.stderr, flush=True)
    with Server() as postgres:
        walks = measure_documents(postgres, rounds)
    print(f"\n## Document lanes\n\n{documents_table(walks)}", flush=True)
    save("documents", {"walks": [asdict(one) for one in walks]})


def main() -> int:
    """Measure what was asked for; 1 where a command failed."""
    options = _options()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    # As an installed package is: what compiling costs is no part of a command.
    compileall.compile_dir(str(Path(vibey_actions.__file__).parent), quiet=1)
    try:
        if options.only is None or set(options.only) - {"core", "documents"}:
            measure_commands(options.scale, options.runs, options.only)
        if options.only is None or "documents" in options.only:
            measure_lanes(options.runs)
        if options.core and (options.only is None or "core" in options.only):
            measure_core(options.core)
    except (Failed, Differs) as error:
        print(f"error: {error}", file=sys.stderr)
    except VibeyError as error:
        print(f"error: {error.message}\nhint: {error.hint}", file=sys.stderr)
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
