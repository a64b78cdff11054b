"""Every command against a stand-in of the engine: what it asks, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vibey_actions import __version__
from vibey_actions.cli import console, session, signals
from vibey_actions.cli import sync as sync_module
from vibey_actions.cli.main import main
from vibey_actions.errors import BranchGone, Conflicts, DatabaseFailed, KeyMissing, RemoteFailed, SettingError
from vibey_actions.state.report import Conflict, ConflictKind, Counts, Report, SyncState

REMOTE = "example/app:vibey-state"
COMMIT = "c" * 40
CONFLICT = Conflict("customer", '["a\u202e"]', ConflictKind.BOTH_CHANGED, "both ends changed it", "set a rule")
BROKEN = Conflict("invoice", "[7]", ConflictKind.CONSTRAINT, "it breaks a constraint", "mend it", "invoice_total")
DONE = Report(
    SyncState.IN_SYNC,
    REMOTE,
    COMMIT,
    7,
    pull={"customer": Counts(1, 2, 3)},
    push={"invoice": Counts(4), "customer": Counts(deleted=1)},
    pushed=True,
    attempts=2,
)
LEVEL = Report(SyncState.IN_SYNC, REMOTE, COMMIT, None)
DIFFERS = Report(SyncState.CONFLICT, REMOTE, COMMIT, 9, pull=DONE.pull, push=DONE.push, conflicts=(CONFLICT, BROKEN))


@dataclass
class Engine:
    """Answers every operation with what the test put in (an error is raised), and records how it was asked."""

    answers: list[Any] = field(default_factory=list)
    asked: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    progress: Any = None
    before: Callable[[], None] = lambda: None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def operation(*arguments: Any, **options: Any) -> Any:
            self.asked.append((name, arguments, options))
            self.progress.step(f"working on {name}")
            self.progress.advance(1, 2)
            self.before()
            answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            if isinstance(answer, BaseException):
                raise answer
            return answer

        return operation


@dataclass
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """The engine that every command of the test gets."""
    made = Engine()

    def operations(progress: Any) -> Engine:
        made.progress = progress
        return made

    monkeypatch.setattr(session, "operations", operations)
    return made


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command line in this process."""

    def run(*arguments: str) -> Outcome:
        code = main(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return run


Run = Callable[..., Outcome]


def test_sync_says_what_it_did(engine: Engine, run: Run) -> None:
    """Per table what was pulled and pushed, and the commit both ends stand at."""
    engine.answers = [DONE]
    assert run("state", "sync") == Outcome(
        0,
        "pulled customer: 1 inserted, 2 updated, 3 deleted\n"
        "pushed customer: 1 deleted\n"
        "pushed invoice: 4 inserted\n"
        f"in sync with {REMOTE} at {COMMIT} (7 rows)\n",
        "working on sync ...\n",
    )
    assert engine.asked == [("sync", (), {"push": True, "max_deletes": None, "accept_rollback": False})]


def test_sync_hands_on_its_options(engine: Engine, run: Run) -> None:
    """Each option reaches the engine with its value; what was not pushed is not called pushed."""
    engine.answers = [Report(SyncState.AHEAD, REMOTE, None, 1, push={"a": Counts(1)})]
    outcome = run("state", "sync", "--no-push", "--max-deletes", "0", "--accept-rollback")
    assert engine.asked == [("sync", (), {"push": False, "max_deletes": 0, "accept_rollback": True})]
    assert outcome.out == f"not pushed a: 1 inserted\nahead of {REMOTE}, which does not exist yet (1 row)\n"


def test_sync_as_json(engine: Engine, run: Run) -> None:
    """One object, whose numbers tell what was pushed from what --no-push left."""
    engine.answers = [DONE]
    assert json.loads(run("state", "sync", "--json").out) == {
        "state": "in-sync",
        "remote": REMOTE,
        "commit": COMMIT,
        "rows": 7,
        "pulled": 6,
        "pushed": 5,
        "to_push": 0,
        "tables": {
            "customer": {
                "pull": {"inserted": 1, "updated": 2, "deleted": 3},
                "push": {"inserted": 0, "updated": 0, "deleted": 1},
            },
            "invoice": {
                "pull": {"inserted": 0, "updated": 0, "deleted": 0},
                "push": {"inserted": 4, "updated": 0, "deleted": 0},
            },
        },
        "attempts": 2,
        "notes": [],
    }


def test_what_was_not_pushed_does_not_count_as_pushed(engine: Engine, run: Run) -> None:
    """After --no-push the object says what is left to push, and that nothing was pushed."""
    engine.answers = [Report(SyncState.AHEAD, REMOTE, COMMIT, 1, push={"a": Counts(1)})]
    value = json.loads(run("state", "sync", "--no-push", "--json").out)
    assert (value["pushed"], value["to_push"]) == (0, 1)


def test_a_conflict_names_every_row(engine: Engine, run: Run) -> None:
    """A refused sync names table, key, why and what to do for each row on stderr, and ends with 1."""
    engine.answers = [Conflicts("2 rows are in conflict", "settle them", (CONFLICT, BROKEN))]
    assert run("state", "sync") == Outcome(
        1,
        "",
        "working on sync ...\n"
        'conflict: customer ["a\\u202e"]: both ends changed it\n'
        "    set a rule\n"
        "conflict: invoice [7]: it breaks a constraint (constraint invoice_total)\n"
        "    mend it\n"
        "error: 2 rows are in conflict [conflict]\n"
        "hint: settle them\n",
    )


def test_a_conflict_as_json(engine: Engine, run: Run) -> None:
    """The error object lists the conflicts, and the lines are on stderr all the same."""
    engine.answers = [Conflicts("2 rows are in conflict", "settle them", (BROKEN,))]
    outcome = run("state", "sync", "--json")
    assert json.loads(outcome.out) == {
        "error": {
            "code": "conflict",
            "message": "2 rows are in conflict",
            "hint": "settle them",
            "conflicts": [
                {
                    "table": "invoice",
                    "key": "[7]",
                    "kind": "constraint",
                    "why": "it breaks a constraint",
                    "advice": "mend it",
                    "constraint": "invoice_total",
                }
            ],
        }
    }
    assert "error: 2 rows are in conflict [conflict]\nhint: settle them\n" in outcome.err


def test_status_shows_a_table_and_every_conflict(engine: Engine, run: Run) -> None:
    """Counts per table in aligned columns, each conflict with what to do; exit code 1 for a conflict."""
    engine.answers = [DIFFERS]
    outcome = run("state", "status")
    assert outcome.code == 1
    assert outcome.out.splitlines() == [
        f"in conflict with {REMOTE} at {COMMIT} (9 rows)",
        "a sync would pull 6 rows and push 5 rows",
        "",
        "table     pull insert  pull update  pull delete  push insert  push update  push delete",
        "customer            1            2            3            0            0            1",
        "invoice             0            0            0            4            0            0",
        "",
        'conflict: customer ["a\\u202e"]: both ends changed it',
        "    set a rule",
        "conflict: invoice [7]: it breaks a constraint (constraint invoice_total)",
        "    mend it",
    ]


def test_status_in_sync(engine: Engine, run: Run) -> None:
    """Two level ends are one line and exit code 0; notes go to stderr."""
    engine.answers = [Report(SyncState.IN_SYNC, REMOTE, COMMIT, None, notes=("the server is new",))]
    assert run("state", "status") == Outcome(
        0, f"in sync with {REMOTE} at {COMMIT}\n", "working on status ...\nnote: the server is new\n"
    )


def test_status_as_json_has_the_members_of_the_specification(engine: Engine, run: Run) -> None:
    """state, remote, commit, rows, to_pull, to_push, tables, conflicts."""
    engine.answers = [DIFFERS]
    outcome = run("state", "status", "--json")
    value = json.loads(outcome.out)
    assert {"state", "remote", "commit", "rows", "to_pull", "to_push", "tables", "conflicts"} <= value.keys()
    assert (outcome.code, value["state"], value["to_pull"], value["to_push"]) == (1, "conflict", 6, 5)
    assert value["conflicts"][0]["key"] == '["a\u202e"]'


@pytest.mark.parametrize("word", list(SyncState))
def test_every_state_has_words(engine: Engine, run: Run, word: SyncState) -> None:
    """No state of the two ends is without words."""
    engine.answers = [Report(word, REMOTE, COMMIT, 1)]
    assert f" {REMOTE} at {COMMIT} (1 row)\n" in run("state", "status").out


def test_a_terminal_gets_a_drawn_table(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal rich draws the same numbers, and takes no text for markup or escape sequences."""
    tables = {"[bold]x\x1b[31m": Counts(41)}
    engine.answers = [Report(SyncState.BEHIND, REMOTE, COMMIT, 1, pull=tables)]
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    out = run("state", "status").out
    assert "[bold]x\\x1b[31m" in out
    assert "41" in out


def test_export(engine: Engine, run: Run, tmp_path: Path) -> None:
    """What was exported, from where and to which file, in lines and as an object."""
    summary = SimpleNamespace(path=Path("out\n.vibey"), rows=3, base=COMMIT, remote=REMOTE, tables={"b": 1, "a": 2})
    engine.answers = [summary]
    outcome = run("state", "export", "--out", "out.vibey")
    assert outcome.out == f"a: 2 rows\nb: 1 row\nexported 3 rows of {REMOTE}, based on {COMMIT}, to out\\x0a.vibey\n"
    assert engine.asked == [("export", (Path("out.vibey"),), {})]
    assert json.loads(run("state", "export", "--out", "x", "--json").out) == {
        "path": "out\n.vibey",
        "rows": 3,
        "base": COMMIT,
        "remote": REMOTE,
        "tables": {"a": 2, "b": 1},
    }


def test_import(engine: Engine, run: Run) -> None:
    """What was imported and the base that was taken over; --replace reaches the engine."""
    engine.answers = [SimpleNamespace(rows=1, base=None, tables={"a": 1})]
    assert run("state", "import", "x.vibey", "--replace").out == "a: 1 row\nimported 1 row; the export had no base\n"
    assert engine.asked == [("import_", (Path("x.vibey"),), {"replace": True})]
    assert json.loads(run("state", "import", "x", "--json").out) == {"rows": 1, "base": None, "tables": {"a": 1}}


def show_summary(rows: Any = None) -> SimpleNamespace:
    return SimpleNamespace(format="vibey-state/1", schema=["0001", "0002"], tables={"b": 10, "a": 2}, rows=rows)


def test_show_counts(engine: Engine, run: Run) -> None:
    """Rows per table, in lines and as an object."""
    engine.answers = [show_summary()]
    assert run("state", "show", "x.vibey").out.splitlines() == [
        "format vibey-state/1",
        "migrations: 0001, 0002",
        "table  rows",
        "a         2",
        "b        10",
    ]
    assert engine.asked == [("show", (Path("x.vibey"), None, None), {})]
    assert json.loads(run("state", "show", "--at", COMMIT, "--json").out) == {
        "format": "vibey-state/1",
        "schema": ["0001", "0002"],
        "tables": {"a": 2, "b": 10},
    }
    assert engine.asked[1] == ("show", (None, COMMIT, None), {})


def test_show_rows(engine: Engine, run: Run) -> None:
    """A table's rows as they are sealed, one a line, or inside one object; no rows is no line."""
    rows = [b'{"a":1.00,"b":"\\u001b"}', b'{"a":2,"b":null}']
    engine.answers = [
        show_summary(iter(rows)),
        show_summary(iter(rows)),
        show_summary(iter(())),
        show_summary(iter(())),
    ]
    assert run("state", "show", "--table", "a").out == '{"a":1.00,"b":"\\u001b"}\n{"a":2,"b":null}\n'
    assert json.loads(run("state", "show", "--table", "a", "--json").out)["rows"] == [
        {"a": 1.0, "b": "\x1b"},
        {"a": 2, "b": None},
    ]
    assert run("state", "show", "--table", "a").out == ""
    assert json.loads(run("state", "show", "--table", "a", "--json").out)["rows"] == []


def test_forget(engine: Engine, run: Run) -> None:
    """The commit that was forgotten, or that there was none."""
    engine.answers = [COMMIT, None]
    assert COMMIT in run("state", "forget").out
    assert run("state", "forget").out.startswith("nothing to forget")


def test_forget_table(engine: Engine, run: Run) -> None:
    """The name reaches the engine; what was pushed is said."""
    engine.answers = [Report(SyncState.IN_SYNC, REMOTE, COMMIT, 1, push={"old": Counts(deleted=5)}, pushed=True)]
    assert "pushed old: 5 deleted\n" in run("state", "forget-table", "old").out
    assert engine.asked == [("forget_table", ("old",), {})]


def test_migrate(engine: Engine, run: Run) -> None:
    """Each migration that was applied and how many there are, or that there was nothing to do."""
    engine.answers = [
        SimpleNamespace(applied=["0002"], versions=["0001", "0002"]),
        SimpleNamespace(applied=[], versions=["0001"]),
        SimpleNamespace(applied=[], versions=[]),
        SimpleNamespace(applied=["a"], versions=["a"]),
    ]
    assert run("migrate").out == "applied 0002\n2 migrations recorded\n"
    assert run("migrate").out == "nothing to apply; 1 migration recorded\n"
    assert run("migrate").out == "nothing to apply; no migrations recorded\n"
    assert json.loads(run("migrate", "--json").out) == {"applied": ["a"], "versions": ["a"]}


def test_a_list_of_commands_holds_whole_sentences(run: Run) -> None:
    """What a command does is not cut at the end of the line."""
    for group in ([], ["state"], ["docs"], ["service"], ["remote"]):
        listed = run(*group, "--help").out
        assert "Commands:" in listed
        assert "..." not in listed.partition("Commands:")[2]


def test_a_command_without_its_group_is_told_where_it_is(run: Run) -> None:
    """Who leaves out `state` or `docs` gets the whole command; any other word gets the help."""
    assert run("sync").err.splitlines()[-1] == "hint: did you mean `vibey-actions state sync`?"
    assert "`vibey-actions state status` or `vibey-actions docs status`" in run("status").err
    assert run("state", "nosuch").err.splitlines()[-1] == "hint: `vibey-actions state --help` lists what it takes"


def test_version(run: Run) -> None:
    """--version prints name and version."""
    assert run("--version") == Outcome(0, f"vibey-actions {__version__}\n", "")


@pytest.mark.parametrize(
    "line",
    [
        "",
        "state",
        "nosuch",
        "state nosuch",
        "state sync extra",
        "state sync --nosuch",
        "state sync --every 0",
        "state sync --every x",
        "state sync --max-deletes -1",
        "state sync --push",
        "state export",
        "state import",
        "state forget-table",
        "state show a --at b",
        "state key --new --show",
    ],
)
def test_a_command_line_that_makes_no_sense_ends_with_2(engine: Engine, run: Run, line: str) -> None:
    """One error line and one hint; with --json an object too; the engine is not asked."""
    outcome = run(*line.split())
    assert (outcome.code, outcome.out) == (2, "")
    assert [one.split(":")[0] for one in outcome.err.splitlines()] == ["error", "hint"]
    with_json = run(*line.split(), "--json")
    assert with_json.code == 2
    assert json.loads(with_json.out)["error"]["code"] in {"usage", "setting"}
    assert engine.asked == []


@pytest.mark.parametrize(
    ("error", "code"), [(RemoteFailed("it failed"), 1), (BranchGone("it is gone", "forget"), 1), (KeyMissing("no"), 2)]
)
def test_an_error_ends_with_its_code(engine: Engine, run: Run, error: Any, code: int) -> None:
    """Each error's exit code and stable code; an empty hint is no line."""
    engine.answers = [error]
    outcome = run("state", "status", "--json")
    assert outcome.code == code
    assert json.loads(outcome.out) == {
        "error": {"code": error.code, "message": error.message, "hint": error.hint},
    }
    assert f"error: {error.message} [{error.code}]\n" in outcome.err
    assert ("hint:" in outcome.err) == bool(error.hint)


def test_an_error_of_a_server_cannot_command_the_terminal(engine: Engine, run: Run) -> None:
    """A message with control characters stays one visible line."""
    engine.answers = [DatabaseFailed("it said \x1b[2J\nerror: all is well", "a\u202eb")]
    lines = run("state", "status").err.splitlines()
    assert lines[1:] == ["error: it said \\x1b[2J\\x0aerror: all is well [database]", "hint: a\\u202eb"]


def test_an_internal_error_is_one_line(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of ours says its type and never its text, which may hold anything; VIBEY_DEBUG=1 shows where."""
    engine.answers = [RuntimeError("hunter2")]
    monkeypatch.delenv("VIBEY_DEBUG", raising=False)
    outcome = run("state", "status", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out)["error"]["code"] == "internal"
    assert "error: internal: RuntimeError\n" in outcome.err
    assert "hunter2" not in outcome.out + outcome.err
    assert "Traceback" not in outcome.err
    monkeypatch.setenv("VIBEY_DEBUG", "1")
    assert "Traceback" in run("state", "status").err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_with_one_line(engine: Engine, run: Run, number: signal.Signals) -> None:
    """SIGINT and SIGTERM end a command with 1, one line and its hint; the handlers from before are back."""
    before = signal.getsignal(number)
    engine.before = lambda: os.kill(os.getpid(), number)
    engine.answers = [LEVEL]
    outcome = run("state", "sync", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out)["error"]["code"] == "interrupted"
    assert f"error: interrupted by {number.name}\n" in outcome.err
    assert "Traceback" not in outcome.err
    assert signal.getsignal(number) is before


class Rounds:
    """Lets ``--every`` run a number of rounds, and sends a signal in the last."""

    def __init__(self, engine: Engine, rounds: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = rounds
        self.waited: list[float] = []
        engine.before = self.round
        monkeypatch.setattr(sync_module, "now", lambda: "2026-01-02T03:04:05Z")
        monkeypatch.setattr(signals.Stop, "wait", lambda _, seconds: self.waited.append(seconds))

    def round(self) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGTERM)


def test_every_says_each_round(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One line a round with its time; a failed round is said and the next runs; the signal's round is finished."""
    rounds = Rounds(engine, 4, monkeypatch)
    engine.answers = [DONE, DatabaseFailed("it is down", "start it"), ValueError("x"), LEVEL]
    outcome = run("state", "sync", "--every", "60")
    time = "2026-01-02T03:04:05Z"
    assert outcome.code == 0
    assert outcome.out.splitlines() == [
        f"{time} in sync with {REMOTE} at {COMMIT} (7 rows), pulled 6, pushed 5",
        f"{time} in sync with {REMOTE} at {COMMIT}, pulled 0, to push 0",
    ]
    assert outcome.err.splitlines() == [
        f"{time} error: it is down [database]; hint: start it",
        f"{time} error: internal: ValueError",
    ]
    assert rounds.waited == [60, 60, 60]


def test_every_names_conflicts_once(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every round says that there is a conflict; the rows are named again only when they are others."""
    Rounds(engine, 4, monkeypatch)
    one, two = (Conflicts("conflict", "", rows) for rows in ((CONFLICT,), (CONFLICT, BROKEN)))
    engine.answers = [one, one, two, LEVEL]
    lines = run("state", "sync", "--every", "1").err.splitlines()
    assert [line.split(" ")[0] for line in lines if not line.startswith("    ")] == [
        "2026-01-02T03:04:05Z",
        "conflict:",
        "2026-01-02T03:04:05Z",
        "2026-01-02T03:04:05Z",
        "conflict:",
        "conflict:",
    ]


def test_every_as_json(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """One object a line: a round's result or its error, each with its time."""
    Rounds(engine, 2, monkeypatch)
    engine.answers = [BranchGone("it is gone", "forget"), DONE]
    first, second = (json.loads(line) for line in run("state", "sync", "--every", "1", "--json").out.splitlines())
    assert first == {
        "time": "2026-01-02T03:04:05Z",
        "error": {"code": "branch-gone", "message": "it is gone", "hint": "forget"},
    }
    assert (second["time"], second["pulled"], second["pushed"]) == ("2026-01-02T03:04:05Z", 6, 5)


def test_every_ends_at_once_for_a_setting(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that cannot be used from the start ends the loop with 2: no round would be better."""
    Rounds(engine, 3, monkeypatch)
    engine.answers = [SettingError("no database is set")]
    outcome = run("state", "sync", "--every", "1")
    assert (outcome.code, len(engine.asked)) == (2, 1)


def test_a_signal_ends_a_round_between_its_steps(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The step in which the signal comes is finished, the next is not begun; that is no failure and no line."""
    rounds = Rounds(engine, 1, monkeypatch)
    signalled = engine.before

    def two_steps() -> None:
        signalled()
        engine.progress.advance(2, 2)
        engine.progress.step("the next")
        rounds.waited.append(-1)

    engine.before = two_steps
    engine.answers = [LEVEL]
    outcome = run("state", "sync", "--every", "1")
    assert (outcome.code, outcome.out, outcome.err, rounds.waited) == (0, "", "", [])


def test_a_second_signal_ends_at_once(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first signal waits for the round's end, the second does not."""
    Rounds(engine, 1, monkeypatch)
    one_more = engine.before

    def twice() -> None:
        one_more()
        os.kill(os.getpid(), signal.SIGINT)

    engine.before = twice
    engine.answers = [LEVEL]
    outcome = run("state", "sync", "--every", "1")
    assert (outcome.code, outcome.out) == (1, "")
    assert "error: interrupted by SIGINT" in outcome.err


@pytest.mark.parametrize(
    ("error", "said"),
    [(BrokenPipeError(), ""), (OSError(28, "No space left"), "error: the output cannot be written: No space left\n")],
)
def test_output_that_cannot_be_written(
    engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch, error: OSError, said: str
) -> None:
    """A reader that went away is silent, a full disk is said; both end with 1 and without a traceback."""
    engine.answers = [LEVEL]

    def fails(_text: str) -> None:
        raise error

    monkeypatch.setattr(console, "abandon", lambda: None)
    monkeypatch.setattr(sys.stdout, "write", fails)
    outcome = run("state", "status")
    assert outcome.code == 1
    assert outcome.err.removeprefix("working on status ...\n") == said


def test_bars_on_a_terminal(engine: Engine, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal the steps are bars on stderr, which leave the result alone on stdout."""
    engine.answers = [LEVEL]
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    outcome = run("state", "status")
    assert outcome.out == f"in sync with {REMOTE} at {COMMIT}\n"
    assert "working on status" in outcome.err
    assert "..." not in outcome.err
