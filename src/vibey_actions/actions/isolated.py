"""The process around a dispatched command: the user and the walls before it, the end of it all after it.

``python -I -m vibey_actions.actions.isolated`` reads an order, one line of JSON, from its standard input, gives the
command its standard output for all that it prints, and answers on standard error with one line of JSON. The input stays
open: where it ends the step is gone, and so is the command a moment later. However it ends, its processes are ended
before the workspace is given back, and that is done before the answer.

It runs as root and makes the command another user; or, for ``isolation: process``, as the job's own user, which is no
wall.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from vibey_actions.actions import walls
from vibey_actions.actions.handover import Handover
from vibey_actions.actions.users import NoUser, User, new_user, processes, reap

SHELL: Final = "/bin/sh"
GRACE: Final = 3.0
"""Seconds between the request to end and the end."""

_DROPPED: Final = frozenset(
    {"USER", "LOGNAME", "HOME", "MAIL", "TMP", "TEMP", "SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS"}
    | {"XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "OLDPWD"}
)
_CONTROL: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE)


class Refused(Exception):
    """Why the command was not started."""


class NotSeparate(Exception):
    """The kernel does not allow the further walls."""


@dataclass(frozen=True)
class Order:
    """What to run, and how; ``user`` False runs it as this process's own user.

    ``kept`` are entries of the workspace that are not handed over, ``hidden`` folders that only the job needs,
    ``trusted`` paths that the job's later steps start from. ``listed`` and ``separate`` ask for a user with a name
    and for the further walls, where the machine has them.
    """

    command: str
    env: Mapping[str, str]
    workspace: Path
    seconds: float
    user: bool = True
    listed: bool = False
    separate: bool = True
    kept: tuple[str, ...] = ()
    hidden: tuple[Path, ...] = ()
    trusted: tuple[Path, ...] = ()

    def to_line(self) -> bytes:
        """The order as its one line."""
        return json.dumps(vars(self), default=str).encode() + b"\n"

    @classmethod
    def from_line(cls, line: bytes) -> Order:
        """The order that ``to_line`` wrote."""
        data = json.loads(line)
        folders = {name: tuple(map(Path, data.pop(name))) for name in ("hidden", "trusted")}
        return cls(**{**data, **folders, "workspace": Path(data["workspace"]), "kept": tuple(data["kept"])})


def run(order: Order) -> dict[str, Any]:
    """Run the command and return the answer: ``code`` and how it ``ended``, or why it was ``refused``.

    It ended by ``exit``, at the ``deadline``, or because the step is ``gone``.
    """
    try:
        return _as_another(order) if order.user else _as_ourselves(order)
    except (Refused, NoUser) as error:
        return {"refused": str(error)}


def _as_another(order: Order) -> dict[str, Any]:
    user = new_user(listed=order.listed)
    try:
        user.furnish(f"[safe]\n\tdirectory = {json.dumps(str(order.workspace))}\n")
        return _behind_walls(order, user)
    finally:
        user.end()
        user.remove()


def _behind_walls(order: Order, user: User) -> dict[str, Any]:
    workspace = Handover(order.workspace, user.uid, user.gid, order.kept)
    answer: dict[str, Any] = {}
    try:
        workspace.give()
        answer = _run_as_far_apart(order, user)
    finally:
        ended = user.end()
        workspace.take_back()
    return {**answer, "left": not ended, "unreached": workspace.unreached, "uid": user.uid}


def _run_as_far_apart(order: Order, user: User) -> dict[str, Any]:
    missing = "not asked for"
    if order.separate:
        try:
            return _run_as(order, user, separate=True)
        except NotSeparate as error:
            missing = str(error)
    _check_alone(order, user)
    return {**_run_as(order, user, separate=False), "missing": missing}


def _check_alone(order: Order, user: User) -> None:
    """Where the user is the only wall: it has to reach the workspace, and must not reach what later steps start."""
    closed = walls.first_closed(order.workspace, user.uid, user.gid)
    if closed is not None:
        raise Refused(f"the command's user cannot enter {closed}, which the workspace is in")
    present = [path for path in order.trusted if path.exists()]
    writable = walls.first_writable(present, user.uid, user.gid)
    if writable is not None:
        raise Refused(f"every user may write to {writable}, and later steps of this job run programs from there")


def _run_as(order: Order, user: User, *, separate: bool) -> dict[str, Any]:
    temporary = Path("/tmp") if separate else user.temporary  # noqa: S108 - its own
    home = str(temporary / "home")
    env = {name: value for name, value in order.env.items() if name not in _DROPPED}
    env |= {"HOME": home, "TMPDIR": str(temporary), "RUNNER_TEMP": str(temporary)}
    env |= {"USER": user.name, "LOGNAME": user.name} if user.name else {}

    def enter() -> None:
        walls.become(user.uid, user.gid)

    def first() -> None:
        try:
            walls.separate()
        except OSError as error:
            raise NotSeparate(str(error.strerror)) from None

    def second() -> None:
        try:
            walls.cover(order.workspace, user.temporary, order.hidden, user.uid, user.gid)
        except OSError as error:
            raise NotSeparate(f"{error.strerror} (mounts)") from None

    stages = (first, second, enter) if separate else (enter,)
    return _supervised(order, env, stages, user.signal)


def _as_ourselves(order: Order) -> dict[str, Any]:
    def end(number: int) -> bool:
        found = _descendants()
        for pid in found:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, number)
        return bool(found)

    walls.adopt_orphans()
    try:
        return _supervised(order, order.env, (lambda: None,), end)
    finally:
        for _ in range(500):
            if not end(signal.SIGKILL):
                break
            reap()
            time.sleep(0.01)


def _descendants() -> list[int]:
    """The processes below this one."""
    listed = list(processes())
    found: list[int] = []
    parents = {os.getpid()}
    while parents:
        parents = {one.pid for one in listed if one.parent in parents}
        found += parents
    return found


def _supervised(
    order: Order, env: Mapping[str, str], stages: tuple[Callable[[], None], ...], send: Callable[[int], object]
) -> dict[str, Any]:
    """Start the command and wait for its end, the deadline, or the end of the step."""
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    pid = _started(order, env, stages)
    deadline = time.monotonic() + order.seconds
    while True:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            code = os.waitstatus_to_exitcode(status)
            return {"code": code if code >= 0 else 128 - code, "ended": "exit"}
        left = deadline - time.monotonic()
        ready = select.select([0, woken], [], [], max(0.0, left))[0] if left > 0 else []
        if woken in ready:
            os.read(woken, 4096)
        if left <= 0 or (0 in ready and not os.read(0, 4096)):
            _end(pid, send)
            return {"code": 124, "ended": "deadline" if left <= 0 else "gone"}


def _end(pid: int, send: Callable[[int], object]) -> None:
    """Ask the command to end, and give it a moment to; whoever called this ends what is left."""
    send(signal.SIGTERM)
    until = time.monotonic() + GRACE
    while time.monotonic() < until and not os.waitpid(pid, os.WNOHANG)[0]:
        time.sleep(0.02)


def _started(order: Order, env: Mapping[str, str], stages: tuple[Callable[[], None], ...]) -> int:
    """A process that goes through ``stages``, a further process for each, and becomes the command in the last one.

    Raises NotSeparate or Refused for what a stage raised.
    """
    heard, said = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(heard)
        _staged(order, env, stages, said)
    os.close(said)
    with os.fdopen(heard, "rb") as file:
        told = file.read().decode("utf-8", "replace")
    if told:
        os.waitpid(pid, 0)
        kind, _, why = told.partition(":")
        raise NotSeparate(why) if kind == NotSeparate.__name__ else Refused(why)
    return pid


def _staged(order: Order, env: Mapping[str, str], stages: tuple[Callable[[], None], ...], said: int) -> None:
    """In a process of its own: never returns."""
    try:
        walls.die_with_parent()
        if len(stages) == 1:
            os.setsid()
            stages[0]()
            walls.die_with_parent()
            _become(order, env)
        stages[0]()
        pid = os.fork()
        if pid == 0:
            _staged(order, env, stages[1:], said)
        os.close(said)
        os._exit(_relayed(pid))
    except BaseException as error:  # noqa: BLE001 - a copy of the process: nothing of it may go on
        why = error.strerror if isinstance(error, OSError) else str(error)
        os.write(said, f"{type(error).__name__}:{why}".encode())
        os._exit(127)


def _relayed(pid: int) -> int:
    """Wait for ``pid``, and for whatever else ends here, and return its code as a shell gives it."""
    while True:
        done, status = os.waitpid(-1, 0)
        if done == pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def _become(order: Order, env: Mapping[str, str]) -> None:
    os.chdir(order.workspace)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(1, 2)
    for number in (*_CONTROL, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    os.execve(SHELL, ["sh", "-c", order.command], dict(env))  # noqa: S606 - this is what it is for


def main() -> None:
    """Do what standard input orders, and say on standard error how it ended."""
    line = bytearray()
    while not line.endswith(b"\n"):
        piece = os.read(0, 1 << 16)
        if not piece:
            return
        line += piece
    for number in _CONTROL:
        # The step says when to end, by its input: these may be meant for the step alone.
        signal.signal(number, signal.SIG_IGN)
    walls.adopt_orphans()
    answer = run(Order.from_line(bytes(line)))
    sys.stderr.write("\n" + json.dumps(answer) + "\n")
    sys.stderr.flush()


if __name__ == "__main__":
    main()
