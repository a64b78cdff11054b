"""The process around a program of a lane: nothing that the program started outlives it, nor the lane."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from vibey_actions.documents import program
from vibey_actions.documents.program import Ended, NotStarted

pytestmark = pytest.mark.skipif(not program.SUPERVISED, reason="only Linux has a parent for every orphan")
LEAVING = """
setsid sh -c 'echo $$ >> pids; sleep 300' &
setsid sh -c 'setsid sh -c "echo \\$\\$ >> pids; exec env -i sleep 300" & echo $$ >> pids; sleep 300 & wait' &
(setsid sh -c 'trap "" TERM INT HUP; echo $$ >> pids; while :; do sleep 300; done' &)
while [ "$(wc -l < pids)" -lt 4 ]; do sleep 0.01; done
"""
LANE = """
import sys, pathlib
from vibey_actions.documents import program
given = {"PATH": sys.argv[2]}
program.run(["sh", "-c", sys.argv[1]], environment=given, folder=pathlib.Path("."), deadline=300, what="it")
"""


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Ended]:
    (tmp_path / "pids").touch()

    def start(*command: str, deadline: float = 120, alive: Callable[[], bool] = lambda: True, **more: str) -> Ended:
        environment: Mapping[str, str] = {"PATH": os.environ["PATH"], **more}
        return program.run(
            command, environment=environment, folder=tmp_path, deadline=deadline, what="the command", alive=alive
        )

    return start


def running(folder: Path) -> list[int]:
    """Those of the noted processes that still run."""
    noted = [int(line) for line in (folder / "pids").read_text().split()]
    assert len(noted) == 4
    return [process for process in noted if Path(f"/proc/{process}").exists()]


def test_children_with_sessions_of_their_own_end_with_the_program(run: Callable[..., Ended], tmp_path: Path) -> None:
    """They are in no group of it, one cleared its variables, one hears no request to end: all are gone."""
    assert run("sh", "-c", LEAVING).code == 0
    assert running(tmp_path) == []


def test_children_with_sessions_of_their_own_end_at_the_deadline(run: Callable[..., Ended], tmp_path: Path) -> None:
    """So does the program itself, when nobody waits for it any more."""
    ready = tmp_path / "ready"
    ended = run("sh", "-c", f"{LEAVING} touch ready; sleep 300", alive=lambda: not ready.exists())
    assert ended.code is None
    assert running(tmp_path) == []


def test_a_lane_that_is_killed_takes_its_program_along(tmp_path: Path) -> None:
    """Its document comes back with its lease: by then nobody works on it any more."""
    (tmp_path / "pids").touch()
    script = f"{LEAVING} touch ready; sleep 300"
    lane = subprocess.Popen([sys.executable, "-c", LANE, script, os.environ["PATH"]], cwd=tmp_path)
    try:
        _until((tmp_path / "ready").exists)
    finally:
        lane.kill()
        lane.wait()
    _until(lambda: running(tmp_path) == [])


def _until(come: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not come():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("end", ["exit 0", "exit 1", "exit 75", "exit 255", *(f"kill -{n} $$" for n in (2, 9, 11, 15))])
def test_it_ends_as_the_program_does(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, end: str, *, supervised: bool
) -> None:
    """Exit codes and signals come through, with the process around it and without."""
    monkeypatch.setattr(program, "SUPERVISED", supervised)
    kind, number, *_ = end.split()
    code = int(number)
    assert kind in ("exit", "kill")
    assert run("sh", "-c", end).code == code


def test_a_program_starts_with_ordinary_signals(run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    """None is blocked or ignored that would not be without the process around it."""
    asked = ("grep", "^Sig[BI]", "/proc/self/status")
    around = run(*asked).out
    monkeypatch.setattr(program, "SUPERVISED", False)
    assert run(*asked).out == around != b""


def test_a_program_gets_its_variables_and_no_other(run: Callable[..., Ended]) -> None:
    """Exactly what is given, whatever it holds; no descriptor but the three."""
    given = {"ODD": "a\nb=ü'\"\\", "PYTHONPATH": "/nowhere", "LD_LIBRARY_PATH": "/nowhere"}
    seen = run("cat", "/proc/self/environ", **given).out.decode().rstrip("\x00").split("\x00")
    assert sorted(seen) == sorted(f"{name}={value}" for name, value in {"PATH": os.environ["PATH"], **given}.items())
    listed = run("sh", "-c", "ls /proc/$$/fd").out.split()
    assert listed == [b"0", b"1", b"2"]


@pytest.mark.parametrize("supervised", [True, False])
@pytest.mark.parametrize("broken", ["no-such-program", "./no-format", "./closed", "a\x00b"])
def test_what_cannot_be_started_is_said(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, broken: str, *, supervised: bool
) -> None:
    """It is told from a program that failed: nothing was done."""
    monkeypatch.setattr(program, "SUPERVISED", supervised)
    (tmp_path / "no-format").write_bytes(b"\x00\x01\x02")
    (tmp_path / "no-format").chmod(0o755)
    (tmp_path / "closed").mkdir()
    with pytest.raises(NotStarted, match=r"the command cannot be started: \w+"):
        run(broken)


def test_a_process_around_it_that_breaks_is_said(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without it nothing runs, and that is no end of the program."""
    monkeypatch.setattr(program, "SUPERVISOR", tmp_path / "gone.py")
    with pytest.raises(NotStarted, match="the process around it did not start"):
        run("touch", "ran")
    assert not (tmp_path / "ran").exists()


def test_a_process_around_it_that_hangs_is_ended_with_the_program(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A program may stop it: it is killed, and so is the program."""
    monkeypatch.setattr(program, "PATIENCE", 0.2)
    stopped = tmp_path / "stopped"
    script = "echo $$ > own; kill -STOP $PPID; touch stopped; sleep 300"
    assert run("sh", "-c", script, alive=lambda: not stopped.exists()).code is None
    own = int((tmp_path / "own").read_text())
    _until(lambda: _over(own))


def _over(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def test_a_program_that_ends_the_process_around_it_ends(run: Callable[..., Ended]) -> None:
    """A signal to the process around it, from whomever, ends the program; it is told as an end from outside."""
    assert run("sh", "-c", "kill -TERM $PPID; sleep 300").code == -signal.SIGKILL


def test_a_program_that_kills_the_process_around_it_has_run(run: Callable[..., Ended]) -> None:
    """However early it does: nobody may take it for a program that was never started, and so run it again."""
    assert run("sh", "-c", "kill -KILL $PPID; sleep 300").code == -signal.SIGKILL


def test_a_process_around_it_that_was_killed_proves_nothing(
    run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It may have started the program and not come to say so: that is an end from outside, not a start that failed."""
    broken = tmp_path / "killed.py"
    broken.write_text("import os\nos.kill(os.getpid(), 9)\n")
    monkeypatch.setattr(program, "SUPERVISOR", broken)
    assert run("true").code == -signal.SIGKILL


AROUND = """
import os, runpy, sys
order, answer = os.memfd_create("order"), int(sys.argv[1])
os.write(order, sys.argv[2].replace("PARENT", str(os.getppid())).encode())
os.lseek(order, 0, 0)
sys.argv = [sys.argv[3], str(order), str(answer)]
{before}
found = runpy.run_path(sys.argv[0])
{after}
found["_end_alike"](found["main"](order, answer))
"""


def around(command: str, *, before: str = "", after: str = "", deaf: bool = False) -> tuple[int, bytes, bytes]:
    """The process around ``command``, with something about it changed: how it ended, its answer, all output. ``deaf``:
    nobody is left to hear the answer."""
    heard, said = os.pipe()
    order = {"command": ["sh", "-c", command], "environment": {"PATH": os.environ["PATH"]}, "parent": "PARENT"}
    text = json.dumps(order).replace('"PARENT"', "PARENT")
    if deaf:
        os.close(heard)
    script = AROUND.format(before=before, after=after)
    arguments = [sys.executable, "-I", "-S", "-c", script, str(said), text, str(program.SUPERVISOR)]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, pass_fds=(said,))
    os.close(said)
    output = process.communicate(timeout=120)[0]
    answer = b"" if deaf else os.read(heard, 32)
    if not deaf:
        os.close(heard)
    return process.returncode, answer, output


def test_a_program_does_not_begin_once_the_process_around_it_was_killed() -> None:
    """Killed right after it made the program's process, before that is to be told of it: nothing runs without it."""
    late = """
begin = os.setsid
def kill_first():
    around = os.getppid()
    os.kill(around, 9)
    while os.getppid() == around:
        pass
    begin()
os.setsid = kill_first
"""
    assert around("echo ran", before=late) == (-signal.SIGKILL, b"", b"")
    assert around("echo ran")[2] == b"ran\n"


def test_a_lane_that_ended_while_a_program_began_is_no_trouble() -> None:
    """Its answer reaches nobody: it goes on to its end as it is told to, without a traceback."""
    assert around("exit 3", deaf=True) == (3, b"", b"")


NO_CTYPES = "sys.modules['ctypes'] = None"
IGNORED = "import signal\nsignal.signal(signal.SIGCHLD, signal.SIG_IGN)"
REFUSED = "import ctypes\nctypes.CDLL = lambda _: type('Refused', (), {'prctl': lambda *_: -1})"
NO_PROC = """
def gone(*_):
    raise FileNotFoundError
found["_end"].__globals__.update(open=gone, PATIENCE=0.2)
os.listdir = gone
order_file = os.fdopen(order, "rb")
found["main"].__globals__["open"] = lambda *_: order_file if not order_file.closed else gone()
"""


@pytest.mark.parametrize(
    ("before", "after"),
    [(NO_CTYPES, ""), (REFUSED, ""), ("", NO_PROC), (IGNORED, "")],
    ids=["no ctypes", "prctl refused", "no /proc", "children ignored"],
)
def test_a_system_that_lacks_something_runs_programs_all_the_same(before: str, after: str) -> None:
    """What is in the program's own group ends with it, and how that ended comes through."""
    code, answer, output = around("sleep 300 & echo $$; exit 7", before=before, after=after)
    assert (code, answer) == (7, b"s" + output.strip() + b".")


def test_what_ended_long_before_the_program_is_reaped(run: Callable[..., Ended]) -> None:
    """Daemons that come and go would otherwise use up the processes that there may be."""
    script = """
for each in 1 2 3 4 5 6 7 8; do (setsid true &); done
while [ "$(wc -w < /proc/$PPID/task/$PPID/children)" -gt 1 ]; do sleep 0.01; done
"""
    assert run("sh", "-c", script).code == 0


def test_a_flood_of_ending_children_does_not_hide_the_deadline(run: Callable[..., Ended], tmp_path: Path) -> None:
    """The request to end is heard between any two of them."""
    ready = tmp_path / "ready"
    flood = "touch ready; while :; do (true &); done"
    ended = run("sh", "-c", f"for each in 1 2 3; do ({flood}) & done; {flood}", alive=lambda: not ready.exists())
    assert ended.code is None


def test_a_program_that_kills_the_process_around_it_takes_its_group_along(
    run: Callable[..., Ended], tmp_path: Path
) -> None:
    """The program ends with it by itself; what the program began is ended by the lane."""
    script = "sleep 300 & echo $! > own; kill -KILL $PPID; sleep 300"
    assert run("sh", "-c", script).code == -signal.SIGKILL
    own = int((tmp_path / "own").read_text())
    _until(lambda: _over(own))


def test_a_lane_whose_starter_ignores_its_children_hears_programs_end(tmp_path: Path) -> None:
    """Ignored, SIGCHLD is inherited: how a program ends is heard all the same, and the program ignores none."""
    script = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.executable, [sys.executable, "-c", sys.argv[1]])
"""
    inner = """
import os, pathlib
from vibey_actions.cli import signals
from vibey_actions.documents import program
given = {"PATH": os.environ["PATH"]}
with signals.raising():
    command = ["sh", "-c", "grep SigIgn /proc/self/status; exit 3"]
    ended = program.run(command, environment=given, folder=pathlib.Path("."), deadline=300, what="it")
print(ended.code, int(ended.out.split()[1], 16) >> 16 & 1)
"""
    asked = [sys.executable, "-c", script, inner]
    assert subprocess.run(asked, cwd=tmp_path, capture_output=True, check=True, timeout=120).stdout == b"3 0\n"


def test_bytes_of_another_locale_arrive_as_they_are(run: Callable[..., Ended], monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the lane's locale is not UTF-8, a variable is still the same bytes; what it has no bytes for is UTF-8."""
    encode = os.fsencode
    monkeypatch.setattr(os, "fsencode", lambda text: text.encode("latin-1") if "é" in text else encode(text))
    assert run("sh", "-c", "printf %s $GIVEN", GIVEN="é").out == b"\xe9"
    assert run("sh", "-c", "printf %s $GIVEN", GIVEN="é☃").out == "é☃".encode()
