"""A PostgreSQL of our own: found, initialised, started on a free port, proven to be ours, and stopped again.

For the demonstration, the tests and jobs that bring no database. Nothing of the machine's own clusters, services or
PG* variables is used.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres.binaries import find_binaries
from vibey_actions.postgres.detached import Detached
from vibey_actions.postgres.unprivileged import Account, account, reach
from vibey_actions.text import visible

ROLE: Final = "vibey"
_HOST: Final = "127.0.0.1"
_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 20.0
_PORT_TRIES: Final = 5
_LOG_LINES: Final = 15
_SOCKET_LIMIT: Final = 80
_SHORT: Final = Path("/tmp")  # noqa: S108 - a socket's path is short, and every user may enter it
_VOLATILE: Final = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "shared_buffers": "32MB",
    "max_wal_size": "256MB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}
# Waits for the end of its input: a line means that the server was stopped in order, no line that we were killed.
_WATCHDOG: Final = """
read -r _ && exit 0
read -r pid < "$1/data/postmaster.pid" && [ "$pid" = "$2" ] && kill -INT "$2"
n=0
while [ $n -lt 100 ] && kill -0 "$2" 2>/dev/null; do sleep 0.1; n=$((n + 1)); done
shift 2
rm -rf "$@"
"""


class _PortTaken(Exception):
    """Another process took the port between our look and the server's start."""


@dataclass
class Server:
    """A running server. ``folder`` holds its data and log; None means a temporary one, removed at the end.

    ``durable=False`` gives up safety against a power cut for speed (tests). ``binaries`` is the folder with initdb
    and postgres; left out, they are looked for. ``environment`` are variables of the server's process besides the few
    it has. Use as a context manager, or ``start`` and ``stop``. A server whose process was killed is stopped by a
    watchdog, unless ``detach`` let it outlive that.
    """

    folder: Path | None = None
    binaries: Path | None = None
    durable: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.port = 0
        self.data = Path()
        self._root = Path()
        self._socket = Path()
        self._nonce = secrets.token_hex(16)
        self._password = secrets.token_urlsafe(24)
        self._account: Account | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._watchdog: subprocess.Popen[bytes] | None = None
        self._temporary: list[Path] = []

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int | None:
        """The postmaster's process id while it runs."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    @property
    def log(self) -> Path:
        """The server's log file."""
        return self._root / "server.log"

    def dsn(self, database: str = "postgres", *, local: bool = False) -> str:
        """The superuser's DSN of ``database``, password included; over the private socket with ``local``."""
        host = str(self._socket) if local else _HOST
        return make_conninfo(host=host, port=self.port, user=ROLE, password=self._password, dbname=database)

    def start(self) -> None:
        """Initialise and start the server, and wait until a login works.

        Raises DatabaseFailed with the command and the end of the log where it does not.
        """
        self._account = account()
        try:
            self._make_folders()
            binaries = self.binaries or self._find_programs()
            self._initialise(binaries / "initdb")
            self._start(binaries / "postgres")
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server (fast, then at once) and remove what was temporary. Does nothing where none runs."""
        if self._process is not None:
            self._end(self._process)
        self._process = None
        self._dismiss_watchdog()
        for folder in self._temporary:
            shutil.rmtree(folder, ignore_errors=True)
        self._temporary.clear()

    def detach(self) -> Detached:
        """Let the server outlive this process; what comes back is all it takes to end it later."""
        process = self._process
        if process is None or process.poll() is not None:
            raise DatabaseFailed("the PostgreSQL that was to outlive this process has ended", "run it again")
        self._dismiss_watchdog()
        process.returncode = 0  # nobody here waits for it any more
        self._process = None
        folders, self._temporary = self._temporary, []
        return Detached(self._root, tuple(one for one in folders if self._root not in one.parents), process.pid)

    def _make_folders(self) -> None:
        if self.folder is None:
            self._root = self._temporary_folder("vibey-pg-", Path(tempfile.gettempdir()))
        else:
            self._root = self.folder.absolute()
            self._root.mkdir(parents=True, exist_ok=True)
            if any(self._root.iterdir()):
                raise DatabaseFailed(f"the folder {self._root} is not empty", "give a new one for the server")
        self._socket = self._root
        # A comma would end the path, both in the server's setting and in a host of libpq.
        if len(os.fsencode(self._root)) > _SOCKET_LIMIT or "," in str(self._root):
            self._socket = self._temporary_folder("vpg-", _SHORT)
        self.data = self._root / "data"
        for folder in {self._root, self._socket}:
            folder.chmod(0o700)
            if self._account is not None:
                os.chown(folder, self._account.uid, self._account.gid)
        if not reach(self._root, self._account):
            raise DatabaseFailed(
                f"the user {self._account and self._account.name}, under which PostgreSQL has to run, cannot reach "
                f"{self._root}",
                "give a folder below one that every user may enter, or none",
            )

    def _temporary_folder(self, prefix: str, place: Path) -> Path:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=place if reach(place, self._account) else _SHORT))
        self._temporary.append(folder)
        return folder

    def _find_programs(self) -> Path:
        programs = self._root / "programs"
        found = find_binaries(self._account, room=programs)
        if programs in found.parents and self._root not in self._temporary:
            self._temporary.append(programs)
        return found

    def _initialise(self, initdb: Path) -> None:
        password = self._root / "password"
        self._write_private(password, self._password + "\n")
        command = [str(initdb), "-D", str(self.data), "-U", ROLE, "--auth=scram-sha-256", f"--pwfile={password}"]
        command += ["--encoding=UTF8", "--locale=C", "--no-instructions", *([] if self.durable else ["--no-sync"])]
        try:
            self._run_initdb(command)
        finally:
            password.unlink(missing_ok=True)

    def _run_initdb(self, command: list[str]) -> None:
        with self.log.open("ab") as log:
            try:
                done = subprocess.run(command, stdout=log, stderr=log, check=False, **self._child())  # type: ignore[call-overload]
            except OSError as error:
                raise self._failed("initialising", command, f"{error.strerror}") from None
        if done.returncode != 0:
            raise self._failed("initialising", command, f"it ended with {done.returncode}")

    def _start(self, postgres: Path) -> None:
        for left in reversed(range(_PORT_TRIES)):
            self.port = free_port()
            try:
                self._launch(postgres)
            except _PortTaken:
                if not left:
                    raise DatabaseFailed(
                        f"no free port for PostgreSQL after {_PORT_TRIES} tries", "run it again"
                    ) from None
            else:
                return

    def _launch(self, postgres: Path) -> None:
        command = [str(postgres), "-D", str(self.data)]
        for name, value in self._configuration().items():
            command += ["-c", f"{name}={value}"]
        log_start = self.log.stat().st_size
        with self.log.open("ab") as log:
            try:
                self._process = subprocess.Popen(  # type: ignore[call-overload]
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, **self._child()
                )
            except OSError as error:
                raise self._failed("starting", command, f"{error.strerror}") from None
        self._start_watchdog(self._process.pid)
        self._wait(command, log_start)

    def _configuration(self) -> dict[str, str]:
        return {
            "listen_addresses": _HOST,
            "port": str(self.port),
            "unix_socket_directories": str(self._socket),
            "cluster_name": self._nonce,
            "logging_collector": "off",
            "log_destination": "stderr",
            "timezone": "UTC",
            **({} if self.durable else _VOLATILE),
            **self.settings,
        }

    def _wait(self, command: list[str], log_start: int) -> None:
        deadline = time.monotonic() + _START_SECONDS
        problem = "no login worked"
        while time.monotonic() < deadline:
            if self.pid is None:
                self._dismiss_watchdog()
                if b"could not create any TCP/IP sockets" in self.log.read_bytes()[log_start:]:
                    raise _PortTaken
                raise self._failed("starting", command, "the server ended")
            try:
                if self._is_ours():
                    return
                problem = "another PostgreSQL answered"
            except psycopg.OperationalError as error:
                problem = visible(" ".join(str(error).split()))
            time.sleep(0.05)
        raise self._failed("starting", command, f"{problem} within {_START_SECONDS:.0f} seconds")

    def _is_ours(self) -> bool:
        # pg_isready says yes for any server; a login with our password into a cluster of our name does not.
        with psycopg.connect(self.dsn(), connect_timeout=2) as connection:
            return connection.execute("SELECT current_setting('cluster_name')").fetchone() == (self._nonce,)

    def _child(self) -> dict[str, object]:
        environment = {**self.environment, "PATH": os.defpath, "LC_ALL": "C"}
        owner = self._account
        user = {} if owner is None else {"user": owner.uid, "group": owner.gid, "extra_groups": []}
        return {"env": environment, "cwd": str(self._root), "umask": 0o077, **user}

    def _write_private(self, path: Path, text: str) -> None:
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
            file.write(text)
        if self._account is not None:
            os.chown(path, self._account.uid, self._account.gid)

    def _start_watchdog(self, server: int) -> None:
        argv = ["/bin/sh", "-c", _WATCHDOG, "sh", str(self._root), str(server)]
        self._watchdog = subprocess.Popen(
            [*argv, *map(str, self._temporary)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            cwd="/",
        )

    def _dismiss_watchdog(self) -> None:
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is None or watchdog.stdin is None:
            return
        try:
            watchdog.stdin.write(b"\n")
            watchdog.stdin.close()
        except OSError:
            pass
        watchdog.wait()

    @staticmethod
    def _end(process: subprocess.Popen[bytes]) -> None:
        for kind in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            if process.poll() is not None:
                return
            process.send_signal(kind)
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                continue

    def _failed(self, doing: str, command: list[str], why: str) -> DatabaseFailed:
        try:
            lines = self.log.read_text("utf-8", "replace").splitlines()[-_LOG_LINES:]
        except OSError:
            lines = []
        tail = " | ".join(map(visible, lines)) or "nothing"
        return DatabaseFailed(
            f"{doing} PostgreSQL failed: {why}; the log ends with: {tail}", f"the command was: {' '.join(command)}"
        )


def free_port() -> int:
    """A TCP port of this machine that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((_HOST, 0))
        return int(probe.getsockname()[1])
