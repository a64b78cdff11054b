"""A command as another user of this machine: what it can do there, with every wall and with the user alone."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vibey_actions.actions import users
from vibey_actions.actions.isolated import Order
from vibey_actions.actions.isolation import Ended, elevation, run_apart
from vibey_actions.errors import StepRefused

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="makes users of the machine, as root, and looks at /proc"
)
NO_NAMESPACES = ("setpriv", "--bounding-set=-sys_admin", "--")
"""A root that may not make mounts of its own, as in a container."""
BOTH = pytest.mark.parametrize("separate", [True, False], ids=["all walls", "the user alone"])


@pytest.fixture
def order() -> Iterator[Order]:
    """An order for a workspace that every user can come to, beside a folder that is the job's alone."""
    with ordered(None) as made:
        yield made


@contextmanager
def ordered(place: str | None) -> Iterator[Order]:
    root = Path(tempfile.mkdtemp(prefix="vibey-isolation-", dir=place))
    root.chmod(0o755)
    workspace, temp, tool = root / "workspace", root / "temp", root / "workspace" / "tool"
    for folder in (workspace / ".git", tool, temp, workspace / "src"):
        folder.mkdir(parents=True)
    (workspace / ".git" / "config").write_text("[core]\n")
    (workspace / "src" / "file").write_text("old\n")
    (tool / "step.sh").write_text("ours\n")
    (temp / "record").write_text("a secret\n")
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "TEMP_OF_JOB": str(temp), "HOME": "/root"}
    yield Order("", env, workspace, 60, kept=(".git", "tool"), hidden=(temp, tool), trusted=(temp,))
    shutil.rmtree(root)


def run(order: Order, command: str, elevated: Sequence[str] = (), **changes: Any) -> tuple[Ended, list[str]]:
    """Run ``command`` as ``order`` says; how it ended and the lines it printed."""
    said = bytearray()
    ended = run_apart(replace(order, command=command, **changes), said.extend, elevated)
    return ended, said.decode().splitlines()


def place_of(uid: int | str) -> Path:
    """The folder that a user's own files are in."""
    return Path(tempfile.gettempdir()) / f"vibey-run-{uid}"


def running(uid: int) -> bool:
    return any(process.uid == uid for process in users.processes())


@BOTH
def test_the_command_is_nobody_else(order: Order, *, separate: bool) -> None:
    """It has a user and group that own nothing, no other group, no terminal, and no way to gain a right."""
    ended, lines = run(
        order,
        "id -u; id -G; grep -E 'NoNewPrivs|CapEff|CapBnd:' /proc/self/status | tr -d '\\t'; tty; ps -o tty= -p $$;"
        ' [ "$(ps -o sid= -p $$)" -eq $$ ] && echo own session; ls "$HOME"; echo "$HOME"; exit 7',
        separate=separate,
    )
    uid, groups, *rest = lines
    assert int(uid) in users.UNUSED
    assert groups == uid
    assert "NoNewPrivs:1" in rest
    assert "CapEff:0000000000000000" in rest
    assert "not a tty" in rest
    assert "own session" in rest
    assert not rest[-1].startswith("/root")
    assert (ended.code, ended.how, ended.left, ended.unreached) == (7, "exit", False, 0)
    assert not running(int(uid))
    assert not place_of(uid).exists()


@BOTH
def test_it_changes_nothing_but_its_workspace(order: Order, *, separate: bool) -> None:
    """The workspace's files are its own, the owner's afterwards; git's settings and this action stay as they were."""
    (order.workspace / "src" / "link").symlink_to("/etc/passwd")
    before = Path("/etc/passwd").stat()
    ended, lines = run(
        order,
        "echo new >src/file && echo made >made && mkdir sub && cp /bin/true sub/program && chmod u+s sub/program;"
        "for command in 'echo x >.git/config' 'mv .git other' 'rm -rf .git' 'mv tool other' 'echo x >tool/step.sh'"
        " 'rm tool/step.sh' 'echo x >>/etc/hosts' 'echo x >/usr/local/bin/x' 'echo x >$TEMP_OF_JOB/x'"
        " 'chmod 777 .' 'echo x >../x'; do sh -c \"$command\" 2>/dev/null && echo \"could: $command\"; done; true",
        separate=separate,
    )
    assert ended.code == 0
    assert lines == []
    found = {str(path.relative_to(order.workspace)): path for path in order.workspace.rglob("*")}
    assert {path.lstat().st_uid for path in found.values()} == {0}
    assert {path.lstat().st_gid for path in found.values()} == {0}
    assert found["src/file"].read_text() == "new\n"
    assert found["made"].read_text() == "made\n"
    assert not found["sub/program"].stat().st_mode & 0o6000
    assert found[".git/config"].read_text() == "[core]\n"
    assert found["tool/step.sh"].read_text() == "ours\n"
    assert order.workspace.stat().st_mode & 0o7777 == 0o755
    assert Path("/etc/passwd").stat().st_ctime_ns == before.st_ctime_ns


def test_with_all_walls_the_jobs_folders_are_empty_and_other_processes_unseen() -> None:
    """What is the job's alone is not there, what every user may write is read-only, and /tmp and /proc are its own."""
    with ordered("/run") as order:
        writable = order.workspace.parent / "everybodys"
        writable.mkdir()
        writable.chmod(0o777)
        _, lines = run(
            order,
            'ls -A "$TEMP_OF_JOB" tool | grep -v -e : -e "^$"; ls -d /proc/[0-9]* | wc -l; ls -A /tmp /var/tmp;'
            f"(echo x >{writable}/x) 2>&1; echo x >/tmp/x; cat /var/tmp/x; cat src/file",
        )
        assert int(lines[0]) <= 4
        assert lines[1:6] == ["/tmp:", "home", "", "/var/tmp:", "home"]  # noqa: S108
        assert "Read-only file system" in lines[6]
        assert lines[7:] == ["x", "old"]
        assert list(writable.iterdir()) == []


@BOTH
def test_no_process_is_left(order: Order, *, separate: bool) -> None:
    """Processes in sessions of their own, orphans, and one that goes on forking have ended when the answer comes."""
    _, lines = run(
        order,
        "id -u; for n in 1 2 3; do (setsid sh -c 'sleep 300 & sleep 300' >/dev/null 2>&1 &) ; done;"
        "(setsid sh -c 'trap \"\" TERM HUP INT; while :; do sleep 300 & sleep 0.01; done' >/dev/null 2>&1 &);"
        "sleep 0.3",
        separate=separate,
    )
    assert not running(int(lines[0]))


@BOTH
def test_the_deadline_ends_it(order: Order, *, separate: bool) -> None:
    """At the deadline the command is asked to end, and ended where it does not."""
    ended, lines = run(order, "trap 'echo asked' TERM; sleep 300 & wait; echo tidied", seconds=3, separate=separate)
    assert (ended.code, ended.how) == (124, "deadline")
    assert lines == ["asked", "tidied"]


@BOTH
def test_a_step_that_is_killed_takes_the_command_with_it(order: Order, *, separate: bool) -> None:
    """Where the step is gone without a word, the command ends and the workspace is the owner's again."""
    order = replace(order, command="id -u >made; sleep 300", separate=separate)
    program = (
        "import sys; from vibey_actions.actions.isolated import Order; from vibey_actions.actions.isolation import "
        "run_apart; run_apart(Order.from_line(sys.stdin.buffer.readline()), lambda _: None)"
    )
    step = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    assert step.stdin is not None
    step.stdin.write(order.to_line())
    step.stdin.close()
    made = order.workspace / "made"
    _until(lambda: made.exists() and made.read_text() != "")
    uid = int(made.read_text())
    step.send_signal(signal.SIGKILL)
    step.wait()
    _until(lambda: not running(uid) and not place_of(uid).exists())
    assert made.stat().st_uid == 0


def test_without_further_walls_what_later_steps_start_must_not_be_everybodys(order: Order) -> None:
    """Where the user is the only wall, a program folder that every user may change refuses the run by name."""
    tools = order.workspace.parent / "tools"
    tools.mkdir()
    tools.chmod(0o777)
    with pytest.raises(StepRefused, match=r"every user may write to .*/tools"):
        run(order, "true", trusted=(tools,), elevated=NO_NAMESPACES)
    tools.chmod(0o755)
    ended, lines = run(order, "echo ran", trusted=(tools,), elevated=NO_NAMESPACES)
    assert lines == ["ran"]
    assert ended.missing


def test_without_further_walls_the_workspace_has_to_be_within_reach(order: Order) -> None:
    """A workspace below a folder that the command's user may not enter refuses the run by name."""
    order.workspace.parent.chmod(0o700)
    with pytest.raises(StepRefused, match="cannot enter"):
        run(order, "true", elevated=NO_NAMESPACES)
    ended, lines = run(order, "pwd; cat src/file")
    assert lines == [str(order.workspace), "old"]
    assert ended.code == 0


def test_nobody_to_become_root_by_refuses(tmp_path: Path) -> None:
    """A step that is not root and has no sudo says so, and how else a command can be run."""
    code = (
        "import os; os.setgid(65534); os.setuid(65534)\n"
        "from vibey_actions.actions.isolation import elevation\n"
        "from vibey_actions.errors import StepRefused\n"
        "try: elevation({path!r})\n"
        "except StepRefused as error: print(error.message, '/', error.hint)\n"
        "else: print(elevation({path!r}))\n"
    )

    def asked(path: Path) -> str:
        command = [sys.executable, "-c", "import vibey_actions.actions.isolation\n" + code.format(path=str(path))]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        assert "no sudo" in asked(folder)
        sudo = folder / "sudo"
        for answer, expected in ((1, "isolation: process"), (0, f"('{sudo}', '-n', '--')")):
            sudo.write_text(f"#!/bin/sh\nexit {answer}\n")
            sudo.chmod(0o755)
            assert expected in asked(folder)


def test_through_sudo_it_is_the_same(order: Order, tmp_path: Path) -> None:
    """What goes before the command line is the only difference: the order and the answer pass through it."""
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\n[ "$1 $2" = "-n --" ] || exit 1\nshift 2\nexec "$@"\n')
    sudo.chmod(0o755)
    said = bytearray()
    ended = run_apart(replace(order, command="echo through; exit 3"), said.extend, (str(sudo), "-n", "--"))
    assert (bytes(said), ended.code) == (b"through\n", 3)
    assert elevation() == ()


def test_a_user_with_a_name_is_gone_afterwards(order: Order, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where users are made by name, the one that was made is taken away again; where that fails, an id does."""
    calls = tmp_path / "calls"
    for name in ("useradd", "userdel"):
        (tmp_path / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{calls}\n[ {name} = userdel ]\n')
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    user = users.new_user(listed=True)
    try:
        assert user.uid in users.UNUSED
        assert calls.read_text().startswith("useradd --system")
        user.furnish("")
        replace(user, name="vibey-run-somebody").remove()
        assert calls.read_text().endswith("userdel vibey-run-somebody\n")
        assert not user.base.exists()
    finally:
        user.remove()


def test_two_at_once_are_two_users() -> None:
    """Users that are made at the same time are different, whatever the machine knows of either."""
    made = [users.new_user(listed=False) for _ in range(3)]
    try:
        assert len({user.uid for user in made}) == 3
    finally:
        for user in made:
            user.remove()


def test_process_isolation_ends_what_it_started(order: Order) -> None:
    """Without another user there is no wall, and still nothing that the command started is left."""
    ended, lines = run(order, "id -u; (setsid sleep 301 >/dev/null 2>&1 &); setsid sh -c 'exit 0'; exit 4", user=False)
    assert (ended.code, lines) == (4, ["0"])
    found = subprocess.run(["pgrep", "-f", "sleep 301"], capture_output=True, text=True, check=False).stdout
    assert found == ""


def test_an_answer_that_does_not_come_is_said(order: Order, tmp_path: Path) -> None:
    """Where the process around the command dies, the step fails with what it said, never as if all were well."""
    broken = tmp_path / "sudo"
    broken.write_text("#!/bin/sh\necho 'sudo: no' >&2\nexit 1\n")
    broken.chmod(0o755)
    with pytest.raises(StepRefused, match="ended without an answer: sudo: no"):
        run_apart(replace(order, command="true"), lambda _: None, (str(broken),))


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 120
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.05)
