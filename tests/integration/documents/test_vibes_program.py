"""Starting a client: real processes in the place of ``vibes-diy``, each with one of its bad habits."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.machines import until
from vibey_actions.documents import program
from vibey_actions.documents.client import VibesClient
from vibey_actions.errors import OutcomeUnknown, StoreFailed

Make = Callable[..., VibesClient]


@pytest.fixture
def client(tmp_path: Path) -> Make:
    """A client whose program is a Python script; it finds ``place``, a folder to leave notes in."""

    def make(body: str, *, name: str = "client", deadline: float = 30, **environment: str) -> VibesClient:
        script = tmp_path / name
        start = f"#!{sys.executable}\nimport json, os, pathlib, subprocess, sys, time\n"
        script.write_text(f"{start}place = pathlib.Path({str(tmp_path)!r})\n{body}\n")
        script.chmod(0o755)
        return VibesClient((str(script),), "maker/hub", {"PATH": os.environ["PATH"], **environment}, deadline=deadline)

    return make


def test_long_input_and_output_go_whole(client: Make) -> None:
    """Both are regular files: a megabyte each way arrives, where a pipe would be cut at 64 KiB or refuse."""
    echo = client(
        "import stat\n"
        "assert all(stat.S_ISREG(os.fstat(number).st_mode) for number in (0, 1, 2))\n"
        "text = sys.stdin.buffer.read()\n"
        "os.write(1, json.dumps({'id': 'm-1', 'ok': True, 'size': len(text), 'more': 'x' * 1_000_000}).encode())\n"
        "(place / 'size').write_text(str(len(text)))\n"
        "os._exit(0)"
    )
    echo.put("requests", "m-1", {"text": "y" * 1_000_000})
    assert int(Path(echo.command[0]).with_name("size").read_text()) > 1_000_000


def test_the_client_sees_an_empty_folder_and_little_else(client: Make) -> None:
    """Its folder and home are empty, its credential stays in memory, and no other variable reaches it."""
    seen = client(
        "notes = {'files': os.listdir('.'), 'home': os.listdir(os.environ['HOME']), 'variables': dict(os.environ)}\n"
        "print(json.dumps({'_id': 'm-1', **notes}))",
        VIBES_DEVICE_ID="credential",
        HOME="/home/someone",
        VIBEY_STATE_KEY="a secret",
        NODE_OPTIONS="--require=/tmp/x.js",
        RUNNER_TRACKING_ID="github_1",
    ).get("requests", "m-1")
    assert seen is not None
    variables = seen["variables"]
    assert isinstance(variables, dict)
    assert (seen["files"], seen["home"]) == ([], [])
    assert variables["VIBES_DEVICE_ID"] == "credential"
    assert str(variables["FP_KEYBAG_URL"]).startswith("memory://")
    assert variables["RUNNER_TRACKING_ID"] == "github_1"
    assert variables["HOME"] != "/home/someone"
    assert not {"VIBEY_STATE_KEY", "NODE_OPTIONS"} & variables.keys()


def test_without_a_credential_the_login_of_this_machine_counts(client: Make) -> None:
    """Somebody who is logged in needs no variable: the client finds its own files in the home."""
    seen = client("print(json.dumps({'_id': 'm-1', 'variables': dict(os.environ)}))", HOME="/home/someone").get(
        "r", "m-1"
    )
    assert seen is not None
    variables = seen["variables"]
    assert isinstance(variables, dict)
    assert variables["HOME"] == "/home/someone"
    assert "FP_KEYBAG_URL" not in variables


def alive(process: int) -> bool:
    """Whether a process runs; a zombie does not."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in {"Z", "X"}
    return False


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
def test_a_hanging_client_and_its_children_are_killed_at_the_deadline(client: Make) -> None:
    """After the deadline the outcome is unknown, and no process of the group is left, however far it came."""
    hangs = client(
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "(place / 'part').write_text(str(child.pid))\n"
        "(place / 'part').replace(place / 'child')\n"
        "time.sleep(600)",
        deadline=3,
    )
    with pytest.raises(OutcomeUnknown, match="did not end in time"):
        hangs.put("requests", "m-1", {})
    child = Path(hangs.command[0]).with_name("child")
    until(lambda: not child.exists() or not alive(int(child.read_text())))


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")
def test_a_child_that_keeps_the_output_open_holds_nobody(client: Make) -> None:
    """The client has ended: what it started is not waited for, and is ended too."""
    leaves = client(
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        "print(json.dumps({'_id': 'm-1', 'child': child.pid}))"
    )
    document = leaves.get("requests", "m-1")
    assert document is not None
    child = document["child"]
    assert isinstance(child, int)
    until(lambda: not alive(child))


def test_an_interrupted_lane_takes_its_client_along(client: Make) -> None:
    """Ctrl-C during a call: the client is killed and the interrupt goes on up."""
    hangs = client("(place / 'begun').write_text(str(os.getpid()))\ntime.sleep(600)")
    begun = Path(hangs.command[0]).with_name("begun")

    def interrupt() -> None:
        while not (begun.exists() and begun.read_text()):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        hangs.get("requests", "m-1")
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)


def test_a_client_that_cannot_be_started_is_named() -> None:
    """No such program, or an argument that no program can get: an error in plain words."""
    with pytest.raises(StoreFailed, match="cannot be started: No such file"):
        VibesClient(("/nowhere/vibes-diy",), "maker/hub", {}).get("requests", "m-1")
    with pytest.raises(StoreFailed, match="cannot be started"):
        VibesClient((sys.executable,), "maker/hub", {}).get("requests", "x\x00y")
    with pytest.raises(StoreFailed, match="cannot be started: Argument list too long"):
        VibesClient((sys.executable,), "maker/hub", {}).get("requests", "x" * 200_000)


def test_endless_output_is_not_read(client: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer beyond the bound is refused instead of filling the memory."""
    monkeypatch.setattr(program, "MOST_OUTPUT", 1024 * 1024)
    with pytest.raises(StoreFailed, match="more than 1 MiB"):
        client("sys.stdout.write('x' * 2_000_000)").get("requests", "m-1")


@pytest.mark.parametrize(("version", "expected"), [("v20.20.2", "--experimental-websocket"), ("v22.1.0", "none")])
def test_an_older_node_is_told_to_open_websockets(client: Make, version: str, expected: str) -> None:
    """Node.js before 22 needs a switch for what the client does; a newer one is started as it is."""
    node = client(
        f"if sys.argv[1:] == ['--version']:\n    print({version!r})\nelse:\n"
        "    print(json.dumps({'_id': 'm-1', 'options': os.environ.get('NODE_OPTIONS', 'none')}))",
        name="node",
    )
    document = node.get("requests", "m-1")
    assert document is not None
    assert document["options"] == expected
