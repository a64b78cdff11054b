"""The docs commands over a real database: documents, ticks and their record, changes that wake a watch."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import pytest

from vibey_actions.documents.model import Document, iso
from vibey_actions.documents.status import LastTick, Sort, look
from vibey_actions.documents.stores.postgres import PostgresStore
from vibey_actions.lanes.setup import read_setup
from vibey_actions.lanes.survey import TableSurvey
from vibey_actions.postgres.documents import DocumentTable

PROGRAM = [sys.executable, "-m", "vibey_actions", "docs"]
WORK = """#!/bin/sh
cat > "$VIBEY_RESULT" <<'JSON'
{"output": "made"}
JSON
"""
DECLARED = """\
machines:
  job:
    with: {command: [./work.sh]}
"""


@dataclass
class Bench:
    """A checkout with a declaration, and a database of its own."""

    folder: Path
    dsn: str
    said: str = ""
    more: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        (self.folder / ".github").mkdir(parents=True)
        (self.folder / ".github" / "vibey-docs.yml").write_text(DECLARED)
        (self.folder / "work.sh").write_text(WORK)
        (self.folder / "work.sh").chmod(0o755)

    @property
    def environment(self) -> dict[str, str]:
        home = {"HOME": str(self.folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
        return {**home, "VIBEY_STATE_PG_URL": self.dsn, **self.more}

    def run(self, *arguments: str, expect: int = 0) -> str:
        """What ``docs ARGUMENTS`` prints on stdout; it has to end with ``expect``."""
        done = subprocess.run(
            [*PROGRAM, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == expect, done.stdout + done.stderr
        self.said = done.stderr
        return done.stdout

    def refused(self, *arguments: str) -> str:
        """What ``docs ARGUMENTS`` says of a setting that cannot be used."""
        self.run(*arguments, expect=2)
        return self.said


@pytest.fixture
def bench(tmp_path: Path, database: Callable[[], str]) -> Bench:
    return Bench(tmp_path / "checkout", database())


def test_a_job_walks_to_its_end(bench: Bench) -> None:
    """Taken in, worked on by the declared command, done; the tick is recorded, and the page of it is written."""
    bench.run("put", '{"input": "x"}', "--machine", "job", "--id", "j-1")
    assert json.loads(bench.run("status", "--json"))["last_tick"] == {"at": None, "text": "", "unknown": ""}
    ticked = bench.run("advance")
    assert "job: 1 ready" in ticked.splitlines()[0]
    assert json.loads(bench.run("get", "j-1"))["output"] == "made"
    told = json.loads(bench.run("status", "--json", "--html", str(bench.folder / "lanes.html")))
    assert (told["machines"][0]["counts"]["done"], told["last_tick"]["text"]) == (1, "job: 1 done")
    assert "The last tick ran" in (bench.folder / "lanes.html").read_text("utf-8")


def test_documents_of_a_synced_database_are_not_claimed_by_one_copy_alone(bench: Bench) -> None:
    """A database that agrees with a branch keeps documents in the state or out of it, but never half in."""
    with psycopg.connect(bench.dsn, autocommit=True) as connection:
        connection.execute("CREATE TABLE state_sync (remote text PRIMARY KEY, base_commit text, synced_at timestamptz)")
        connection.execute("INSERT INTO state_sync VALUES ('here', repeat('a', 40), now())")
    assert "kind: sealed" in bench.refused("advance")
    (bench.folder / ".github" / "vibey-state.toml").write_text("[state]\ndocuments = false\n")
    bench.run("put", '{"input": "x"}', "--machine", "job", "--id", "j-1")
    bench.run("advance")
    assert json.loads(bench.run("get", "j-1"))["status"] == "done"


@pytest.mark.parametrize("state", ["", "[state]\ndocuments = false\n"], ids=["not said", "kept out"])
def test_sealed_documents_need_their_table_in_the_state(bench: Bench, state: str) -> None:
    """A declaration that contradicts the configuration is said, with both ways out."""
    (bench.folder / ".github" / "vibey-docs.yml").write_text("store: {kind: sealed}\n" + DECLARED)
    (bench.folder / ".github" / "vibey-state.toml").write_text(state)
    said = bench.refused("status")
    assert "does not make them a part of it" in said
    assert "documents = true" in said


ORDINARY = """\
import os, sys
from vibey_actions.cli.main import main
if os.getuid() == 0:
    # What root may look into everything with, given up: as in a container, or as another user.
    import ctypes
    for capability in range(64):
        ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-m", "vibey_actions", "docs", "advance"])
main(["docs", "advance"])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux shows processes under /proc")
def test_a_step_cannot_look_into_the_lane(bench: Bench) -> None:
    """A command that has no secrets finds none in the processes that started it either, the one around it and the
    lane: not their variables, not their memory."""
    (bench.folder / "work.sh").write_text(
        "#!/bin/sh\nlane=$(awk '{print $4}' /proc/$PPID/stat)\n"
        "tr '\\0' ' ' < /proc/$lane/cmdline > called; cat /proc/self/environ > own\n"
        "for each in $PPID $lane; do cat /proc/$each/environ; head -c 1 /proc/$each/mem; done > seen\n"
        'printf \'{"output": "made"}\' > "$VIBEY_RESULT"\n'
    )
    bench.run("put", '{"input": "x"}', "--machine", "job", "--id", "j-1")
    subprocess.run([sys.executable, "-c", ORDINARY], cwd=bench.folder, env=bench.environment, check=True)
    assert json.loads(bench.run("get", "j-1"))["status"] == "done"
    assert (bench.folder / "own").stat().st_size > 0
    assert "docs advance" in (bench.folder / "called").read_text()
    assert (bench.folder / "seen").read_bytes() == b""


def test_a_watch_wakes_up_for_new_work(bench: Bench) -> None:
    """Between two ticks that are far apart a document that is put is walked, and SIGTERM ends the watch in order."""
    watching = subprocess.Popen(
        [*PROGRAM, "watch", "--every", "3600"],
        cwd=bench.folder,
        env=bench.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert watching.stdout is not None
    killer = threading.Timer(240, watching.kill)
    killer.start()
    try:
        assert "0 ready" in watching.stdout.readline()
        bench.run("put", '{"input": "x"}', "--machine", "job", "--id", "j-1")
        while json.loads(bench.run("get", "j-1"))["status"] != "done":
            assert watching.poll() is None
            time.sleep(0.2)
        watching.send_signal(signal.SIGTERM)
        out, said = watching.communicate()
    finally:
        killer.cancel()
        watching.kill()
    assert (watching.returncode, said) == (0, "")
    assert "j-1: pending -> done (done)" in out


def test_a_survey_finds_what_reading_every_document_finds(bench: Bench) -> None:
    """PostgreSQL's counts and its selection show the same status as a look at each document would."""
    machines = read_setup(bench.environment, bench.folder).machines
    with closing(DocumentTable(bench.dsn)) as table:
        store = PostgresStore(table)
        statuses = ["pending", "running", "done", "failed", "lost", "", 7, None, ["done"]]
        for number, status in enumerate(statuses * 3):
            at = f"2026-01-0{number % 9 + 1}T00:00:00Z"
            store.put("jobs", f"j-{number}", {"type": "job", "status": status, "updatedAt": at, "attempts": 1})
        store.put("jobs", "other", {"type": "note", "status": "pending"})
        store.put("jobs", "typeless", {"type": 1, "status": "pending"})
        store.put("jobs", "none", {"type": "job"})
        store.put("jobs", "gone", {"type": "job", "status": "done"})
        store.delete("jobs", "gone")
        for number, status in enumerate(["failed", "missed", "done"]):
            unit: Document = {"kind": "daily", "status": status, "updatedAt": iso(store.now_ms())}
            store.put("daily", f"d-{number}", unit)
        read = look(machines, store, LastTick())
        surveyed = look(machines, store, LastTick(), survey=TableSurvey(bench.dsn, "public"))
    for one, other in zip(read.machines, surveyed.machines, strict=True):
        assert (one.machine, one.counts, one.totals) == (other.machine, other.counts, other.totals)
        quiet = one.terminals - {"failed", "error", "build-failed"}
        assert {name: of for name, of in one.oldest.items() if name not in quiet} == other.oldest
        listed = [[entry.identifier for sort in Sort for entry in each.of(sort)] for each in (one, other)]
        assert listed[0] == listed[1]
    assert (surveyed.total(Sort.STUCK), surveyed.total(Sort.FAILED)) == (3 * 7 + 1, 3 + 1)


def test_doctor_looks_at_everything_a_tick_needs(bench: Bench) -> None:
    """Each check says ok, what to mend, or that it could not be made; a step that cannot be made stops a tick."""
    told = json.loads(bench.run("doctor", "--json"))["findings"]
    levels = {finding["check"]: finding["level"] for finding in told}
    assert levels == {"machines": "ok", "store": "ok", "steps": "ok", "ticks": "note", "documents": "ok"}
    (bench.folder / "work.sh").unlink()
    assert "problem  steps: " in bench.run("doctor", expect=2)


def test_doctor_sees_what_is_forgotten_when_a_lane_is_copied(bench: Bench) -> None:
    """OWNER left in a workflow, one that is called, and variables of a step or of a platform that are not set."""
    print_ = "{publisher: command, command: [./work.sh], variables: [INK]}"
    (bench.folder / ".github" / "vibey-docs.yml").write_text(
        DECLARED.replace("[./work.sh]", "[./work.sh], variables: [TOKEN, SET]")
        + f"  publish-request:\n    with: {{platforms: {{print: {print_}}}}}\n"
    )
    (bench.folder / ".git").mkdir()
    workflow = bench.folder / ".github" / "workflows" / "lane.yml"
    workflow.parent.mkdir()
    uses = "{}/vibey-actions/.github/workflows/advance-docs-read.yml@v1"
    called = f"on:\n  schedule:\n    - cron: x\njobs:\n  a:\n    uses: {uses}\n"
    workflow.write_text(called.format("OWNER"))
    bench.more = {"SET": "x"}
    said = bench.run("doctor")
    assert "lane.yml uses OWNER/vibey-actions" in said
    assert "lane.yml ticks on a schedule" in said
    assert "job names the variable TOKEN, which is not set here" in said
    assert "publish-request names the variable INK" in said
    assert "variable SET" not in said
    workflow.write_text(called.format("acme"))
    assert "OWNER" not in bench.run("doctor")


def test_doctor_looks_for_the_client_of_a_vibe(bench: Bench, tmp_path: Path) -> None:
    """One that is missing is said with how to get it; one that is there is named, and a missing credential noted."""
    (bench.folder / ".github" / "vibey-docs.yml").write_text("store: {vibe: maker/hub}\n" + DECLARED)
    (bench.folder / "client").write_text("#!/bin/sh\necho '[]'\n")
    (bench.folder / "client").chmod(0o755)
    bench.more = {"VIBEY_DOCS_CLIENT": "gone"}
    assert "problem  client: the client vibes-diy was not found" in bench.run("doctor", expect=2)
    bench.more = {"VIBEY_DOCS_CLIENT": "client", "GITHUB_REPOSITORY": "a/b", "GITHUB_API_URL": "http://127.0.0.1:9"}
    told = json.loads(bench.run("doctor", "--json"))["findings"]
    levels = [(finding["check"], finding["level"]) for finding in told]
    assert levels[:4] == [("machines", "ok"), ("client", "ok"), ("client", "note"), ("store", "ok")]
    assert ("ticks", "unknown") in levels


def test_doctor_goes_on_after_a_database_that_is_away(bench: Bench) -> None:
    """The store is the problem; what rests on it is said to be unchecked, and the rest is looked at."""
    bench.dsn = "postgresql://nobody@127.0.0.1:1/x"
    (bench.folder / ".git").mkdir()
    told = bench.run("doctor", expect=1)
    assert "problem  store: cannot connect to PostgreSQL" in told
    assert "unknown  steps: not checked: the store cannot be used" in told
    assert "note     workflow: no workflow" in told
