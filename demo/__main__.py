"""``make demo``: start a PostgreSQL of our own, tell the story, clean up."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from demo.lanes import equip, lose_a_worker, walk_documents
from demo.machine import Machine
from demo.stage import Untrue, say
from demo.story import Branch, tell
from vibey_actions.errors import VibeyError
from vibey_actions.postgres.server import Server


def perform() -> None:
    """Everything, in a temporary folder that is gone afterwards."""
    started = time.monotonic()
    say(
        "vibey-actions keeps a PostgreSQL database sealed on a git branch, and any number of databases level with it. "
        "It also walks work documents through their statuses. This shows both with real commands on a PostgreSQL "
        "server of our own and a bare git repository, both in a temporary folder."
    )
    with tempfile.TemporaryDirectory(prefix="vibey-demo-") as folder, Server(durable=False) as postgres:
        scratch = Path(folder)
        subprocess.run(["git", "init", "--quiet", "--bare", str(scratch / "state.git")], check=True)
        laptop, server, worker = (_machine(name, scratch, postgres) for name in ("laptop", "server", "worker"))
        tell(laptop, server, Branch(scratch / "state.git"))
        equip(worker)
        walk_documents(worker)
        lose_a_worker(worker)
    say(
        f"That was all of it, in {time.monotonic() - started:.0f} seconds; nothing is left behind. To do the same with "
        'your own database, see "On your own machine" in README.md.'
    )


def _machine(name: str, scratch: Path, postgres: Server) -> Machine:
    with psycopg.connect(postgres.dsn(), autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
    return Machine(name, scratch, postgres.dsn(name))


def _end(_signal: int, _frame: object) -> None:
    raise KeyboardInterrupt


def main() -> int:
    """The exit code: 0 only if everything was as told."""
    signal.signal(signal.SIGTERM, _end)
    try:
        perform()
    except Untrue as claim:
        print(f"\nerror: this is not as told: {claim}", file=sys.stderr)
    except VibeyError as error:
        print(f"\nerror: {error.message}\nhint: {error.hint}", file=sys.stderr)
    except KeyboardInterrupt:
        print("\nstopped; the server and the temporary folder are gone", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
