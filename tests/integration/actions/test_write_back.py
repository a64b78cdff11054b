"""The step write-back against a real branch and real artifacts: each export arrives, and exactly once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.documents import document
from tests.support.github_server import GitHubServer, faults
from tests.support.github_server.replies import as_json
from tests.support.writes import BRANCH, DIRECTORY, TABLES, Writes, customers
from vibey_actions.keys import format_key
from vibey_actions.postgres import lift
from vibey_actions.remotes import artifacts

ANN = customers(c1="ann")
CITY = "ALTER TABLE customer ADD COLUMN city text NOT NULL DEFAULT 'x'"


@pytest.fixture
def github(tmp_path: Path) -> Iterator[GitHubServer]:
    with GitHubServer(tmp_path / "github") as server:
        yield server


@pytest.fixture
def writes(github: GitHubServer, tmp_path: Path) -> Writes:
    """A repository whose databases are made by SQL files, with one row on its branch."""
    made = Writes(github, tmp_path, ["1"])
    made.commit(DIRECTORY, {"1": TABLES})
    made.put(ANN)
    return made


@pytest.fixture
def bare(github: GitHubServer, tmp_path: Path) -> Writes:
    """A repository that declares no migrations, so that its exports are merged without a database."""
    made = Writes(github, tmp_path)
    made.commit("")
    made.put(ANN)
    return made


@pytest.fixture(params=["with a database", "without"])
def either(request: pytest.FixtureRequest) -> Writes:
    """Both ways that an export goes."""
    found: Writes = request.getfixturevalue("writes" if request.param == "with a database" else "bare")
    return found


def test_an_export_arrives(either: Writes) -> None:
    """What a job changed is on the branch, the export has its mark, and everybody is told."""
    name = either.export(customers(c1="anna", c2="bob")).name
    written = either.write(export=name)
    assert written.code == 0, written.log
    assert either.names() == ["anna", "bob"]
    assert written.outputs["pushed"] == "true"
    assert written.outputs["commit"] == either.head
    assert written.outputs["left"] == "0"
    assert written.marks == [f"vibey-state-taken-{name[-64:]}"]
    assert name in written.summary
    assert "pushed 2 row" in written.summary
    assert ("starting a PostgreSQL" in written.log) == bool(either.schema)


def test_a_migrator_of_its_own_is_not_run(bare: Writes, tmp_path: Path) -> None:
    """A command is never run in the job that may write: its export is merged without a database."""
    stored = bare.export(customers(c1="ann", c2="bob"))
    bare.commit(f'[migrations]\ncommand = ["touch", "{tmp_path / "ran"}"]\n')
    assert bare.write(export=stored.name).code == 0
    assert bare.names() == ["ann", "bob"]
    assert not (tmp_path / "ran").exists()


def test_nothing_is_waiting(bare: Writes) -> None:
    """A write without any export is green and says so."""
    written = bare.write()
    assert written.code == 0
    assert written.marks == []
    assert "No export is waiting" in written.log
    assert "No export is waiting" in written.summary


def test_the_first_export_makes_the_branch(bare: Writes) -> None:
    """Before there is a branch an export becomes its first commit."""
    bare.repository.set_ref(BRANCH, None)
    bare.export(customers(c1="ann"))
    assert bare.write().code == 0
    assert bare.names() == ["ann"]


def test_three_exports_of_a_matrix(writes: Writes) -> None:
    """Every job of a matrix opened the same commit and changed something else; one write brings all of it."""
    for name in ("bob", "cid", "dan"):
        writes.export(customers(c1="ann", **{f"c{ord(name[0]) - 96}": name}))
    written = writes.write()
    assert written.code == 0
    assert writes.names() == ["ann", "bob", "cid", "dan"]
    assert len(written.marks) == 3
    assert writes.write().marks == []


def test_exports_of_earlier_attempts_and_runs(bare: Writes) -> None:
    """What writers that never ran left behind comes along, oldest first."""
    first = bare.export(customers(c1="ann", c2="bob"), run=5, age=timedelta(hours=3))
    again = bare.export(customers(c1="ann", c3="cid"), attempt=1, age=timedelta(hours=2))
    own = bare.export(customers(c1="ann", c4="dan"), attempt=2, age=timedelta(hours=1))
    written = bare.write(7, export=own.name)
    assert bare.names() == ["ann", "bob", "cid", "dan"]
    assert [mark[-64:] for mark in written.marks] == [one.name[-64:] for one in (first, again, own)]


def test_more_than_one_step_takes_up(bare: Writes) -> None:
    """The rest is named, and the next write takes it up."""
    for number in range(2, 9):
        bare.export(customers(c1="ann", **{f"c{number}": f"name{number}"}))
    first, second = bare.write(), bare.write(8)
    assert (len(first.marks), first.outputs["left"]) == (5, "2")
    assert "2 more exports wait" in first.log
    assert (len(second.marks), second.outputs["left"]) == (2, "0")
    assert len(bare.names()) == 8


def test_an_export_older_than_what_is_looked_through(bare: Writes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind very many artifacts an export is found by its run, and so is its mark."""
    monkeypatch.setattr(artifacts, "_MOST_PAGES", 1)
    old = bare.export(customers(c1="ann", c2="bob"), age=timedelta(days=5))
    for number in range(100):
        bare.github.artifacts.put(9, f"other{number}", {}, age=timedelta(days=1))
    passed_over = bare.write(10)
    assert passed_over.marks == []
    assert "run-id" in passed_over.log
    first = bare.write(11, run_id="7", marking=False)
    assert len(first.marks) == 1
    bare.github.artifacts.put(11, first.marks[0], {"taken.txt": b""}, age=timedelta(days=4))
    bare.github.forget()
    again = bare.write(12, run_id="7")
    assert (again.code, again.marks) == (0, [])
    assert bare.github.count("GET", "/zip") == 0
    assert bare.write(13, export=old.name).marks == []


def test_a_conflict(bare: Writes) -> None:
    """The export that conflicts stays, named by table and key with what to do; the others arrive; the step fails."""
    bad = bare.export(customers(c1="anna"))
    good = bare.export(customers(c1="ann", c2="bob"))
    bare.put(customers(c1="annie"))
    written = bare.write()
    assert written.code == 1
    assert bare.names() == ["annie", "bob"]
    assert written.marks == [f"vibey-state-taken-{good.name[-64:]}"]
    assert written.outputs["left"] == "1"
    assert "conflict: customer [1]" in written.log
    for told in ("<code>customer</code>", "run-id: 7", f"discard: {bad.name[-64:]}"):
        assert told in written.summary
    settled = bare.write(9, run_id="7", env={"VIBEY_STATE_CONFLICTS": "customer=mine"})
    assert settled.code == 0
    assert bare.names() == ["anna", "bob"]


def test_a_conflict_is_reported_until_it_is_given_up(bare: Writes) -> None:
    """Every write names it; with `discard`, which opens nothing and needs no key, it is never taken up again."""
    bad = bare.export(customers(c1="anna"))
    bare.put(customers(c1="annie"))
    assert [bare.write(run).code for run in (8, 9)] == [1, 1]
    given_up = bare.write(10, discard=bad.name[-64:], key="")
    assert given_up.code == 0
    assert given_up.marks == [f"vibey-state-taken-{bad.name[-64:]}"]
    assert "what only it holds is lost" in given_up.summary
    assert bare.write(11).code == 0
    assert bare.names() == ["annie"]
    assert "taken up or given up before" in bare.write(12, discard=bad.name[-64:]).log
    assert bare.write(13, discard="0" * 64).code == 1


def test_a_constraint_that_a_merge_would_break(writes: Writes) -> None:
    """With a database the merged rows are checked: two customers of one name are a conflict by name, not a push."""
    stored = writes.export(customers(c1="ann", c2="x"))
    head = writes.put(customers(c1="ann", c3="x"))
    written = writes.write(export=stored.name)
    assert written.code == 1
    assert writes.head == head
    assert "customer_name_key" in written.log


def test_a_row_deleted_since_stays_deleted(either: Writes) -> None:
    """An export that is offered again, because its writer left no mark, brings nothing back, and is marked then."""
    stored = either.export(customers(c1="ann", c2="bob", c3="cid"))
    either.write(export=stored.name, marking=False)
    assert either.names() == ["ann", "bob", "cid"]
    head = either.put(customers(c1="ann", c3="cid"))
    again = either.write(8, export=stored.name)
    assert again.code == 0
    assert either.head == head
    assert again.outputs["pushed"] == "false"
    assert len(again.marks) == 1
    assert "held all of it" in again.log


def test_a_marked_export_is_not_even_looked_at(bare: Writes) -> None:
    """Offered again with its mark it is passed over, whatever the branch has become."""
    stored = bare.export(customers(c1="ann", c2="bob"))
    bare.write(export=stored.name)
    head = bare.put({})
    bare.github.forget()
    again = bare.write(8, export=stored.name)
    assert (again.code, again.marks, bare.head) == (0, [], head)
    assert "taken up before" in again.log
    assert bare.github.count("GET", "/zip") == 0


def test_an_expired_export(bare: Writes) -> None:
    """Named, it is an error that says it is lost; left by another run it is a warning; never an empty state."""
    stored = bare.export(customers(c1="ann", c2="bob"))
    stored.expire()
    head = bare.head
    for written in (bare.write(export=stored.name), bare.write(run_id="7")):
        assert written.code == 1
        assert "expired" in written.summary
        assert "artifact-gone" in written.log
    other = bare.write(8)
    assert other.code == 0
    assert "::warning" in other.log
    assert stored.name in other.summary
    assert bare.head == head
    assert bare.write(9, discard=stored.name[-64:]).code == 0
    assert "::warning" not in bare.write(10).log


def test_an_export_that_is_not_listed_yet(bare: Writes) -> None:
    """What was uploaded a moment ago and is missing in the first answers is waited for."""
    stored = bare.export(customers(c1="ann", c2="bob"))
    nothing = faults.answer(as_json({"total_count": 0, "artifacts": []}))
    bare.github.arm(nothing, "GET", "/actions/artifacts", times=2)
    written = bare.write(export=stored.name)
    assert written.code == 0, written.log
    assert bare.names() == ["ann", "bob"]


def test_an_export_that_is_not_there(bare: Writes) -> None:
    """A missing artifact, an unknown run and a name of another kind are errors."""
    stored = bare.export(customers(c1="ann", c2="bob"))
    bare.github.artifacts.delete(stored.name)
    head = bare.head
    assert bare.write(export=stored.name).code == 1
    assert bare.write(run_id="99").code == 1
    assert bare.write(export="work").code == 2
    assert bare.head == head


def test_foreign_artifacts(bare: Writes) -> None:
    """A fork's export is not looked at, and a fork's mark hides no export of ours."""
    mine = bare.export(customers(c1="ann", c2="bob"))
    bare.github.artifacts.put(6, f"vibey-state-taken-{mine.name[-64:]}", {"taken.txt": b""}, head_repository_id=999)
    fork = bare.export(customers(c1="ann", c3="cid"), run=6, head_repository_id=999)
    written = bare.write()
    assert written.code == 0
    assert bare.names() == ["ann", "bob"]
    assert len(written.marks) == 1
    refused = bare.write(export=fork.name)
    assert refused.code == 1
    assert "another repository's code" in refused.log
    assert not [one for one in bare.github.seen if f"/artifacts/{fork.facts['id']}/" in one.path]


def test_an_export_under_another_key(bare: Writes) -> None:
    """It is refused as such and left; what is sealed under the right one arrives."""
    foreign = bare.export(customers(c1="ann", c2="bob"), key=format_key(bytes(32)))
    bare.export(customers(c1="ann", c3="cid"))
    written = bare.write()
    assert written.code == 1
    assert bare.names() == ["ann", "cid"]
    assert "wrong-key" in written.log
    assert foreign.name in written.summary


@pytest.mark.parametrize(
    ("spoil", "told"),
    [
        (lambda packed: packed[: len(packed) // 2], "artifact-unusable"),
        (lambda packed: packed.replace(b"state.export", b"../../export"), "holds no state.export"),
        (lambda packed: b"", "artifact-unusable"),
    ],
    ids=["cut", "a path", "empty"],
)
def test_an_archive_that_is_not_what_close_made(bare: Writes, spoil: Callable[[bytes], bytes], told: str) -> None:
    """A damaged or hostile archive writes nothing, here or on the branch, and stops no other export."""
    bad = bare.export(customers(c1="ann", c2="bob"))
    (bad.folder / "artifact.zip").write_bytes(spoil(bad.archive))
    bare.export(customers(c1="ann", c3="cid"))
    written = bare.write()
    assert written.code == 1
    assert told in written.log
    assert bare.names() == ["ann", "cid"]


def test_another_file_under_the_exports_name(bare: Writes) -> None:
    """The content has to have the SHA-256 that the name says; an older export in its place is none."""
    older = bare.export(customers(c1="ann", c3="cid"))
    newer = bare.export(customers(c1="ann", c2="bob"))
    (newer.folder / "artifact.zip").write_bytes(older.archive)
    bare.github.artifacts.delete(older.name)
    written = bare.write()
    assert written.code == 1
    assert "holds another file" in written.log
    assert bare.names() == ["ann"]


def test_an_export_of_another_branch(bare: Writes) -> None:
    """What was exported from one branch is not written to another that the settings name by mistake."""
    bare.export(customers(c1="ann", c2="bob"))
    written = bare.write(env={"VIBEY_STATE_BRANCH": "other"})
    assert written.code == 1
    assert "import-refused" in written.log
    assert bare.repository.ref("other") is None


def test_an_export_without_its_shapes(bare: Writes) -> None:
    """Without them it cannot be merged where there is no database, and is left."""
    bare.export(customers(c1="ann", c2="bob"), without=["state.shapes"])
    written = bare.write()
    assert written.code == 1
    assert "state.shapes" in written.log


def test_a_branch_at_newer_migrations(writes: Writes, monkeypatch: pytest.MonkeyPatch) -> None:
    """An export of before a migration is brought to the branch's migrations and merged there, as a sync would.

    The base is lifted there as well, and no migration runs in the process that holds the key.
    """
    monkeypatch.setattr(lift, "migrate", None)
    older = writes.export(customers(c1="ann", c2="bob"))
    writes.commit(DIRECTORY, {"1": TABLES, "2": CITY})
    writes.put({"customer": [{"city": "y", "id": 1, "name": "ann"}]}, ["1", "2"])
    written = writes.write(export=older.name)
    assert written.code == 0, written.log
    assert writes.rows["customer"] == [
        {"city": "y", "id": 1, "name": "ann"},
        {"city": "x", "id": 2, "name": "bob"},
    ]


def test_without_a_database_migrations_have_to_be_equal(bare: Writes) -> None:
    """An export of before a migration is left, and what to do with it is said."""
    older = bare.export(customers(c1="ann", c2="bob"))
    head = bare.put({"customer": [{"city": "y", "id": 1, "name": "ann"}]}, ["2"])
    written = bare.write(export=older.name)
    assert written.code == 1
    assert "import it by hand" in written.log
    assert bare.head == head


def test_migrations_that_the_branch_lacks_are_left_to_others(writes: Writes) -> None:
    """A write carries an export at its own migrations; newer files in the repository do not change the branch's."""
    stored = writes.export(customers(c1="ann", c2="bob"))
    writes.commit(DIRECTORY, {"1": TABLES, "2": "ALTER TABLE customer ADD at timestamptz DEFAULT clock_timestamp()"})
    assert writes.write(export=stored.name).code == 0
    assert writes.rows["customer"][1] == {"id": 2, "name": "bob"}


def test_migrations_that_this_commit_does_not_have(writes: Writes) -> None:
    """An export of newer migrations is left for the write of a commit that has them."""
    stored = writes.export({"customer": [{"city": "y", "id": 1, "name": "ann"}]}, schema=["1", "2"])
    written = writes.write(export=stored.name)
    assert written.code == 1
    assert "no file for the migration 2" in written.log
    assert writes.names() == ["ann"]


def test_a_directory_that_is_not_there(writes: Writes) -> None:
    """A configuration without its files is refused before any export is looked at."""
    writes.commit('[migrations]\ndirectory = "elsewhere"\n')
    assert writes.write().code == 2


@pytest.mark.parametrize(
    ("sql", "told"),
    [
        ("SELECT 1 / (current_user <> 'vibey_owner')::int", "22012"),
        ("CREATE TABLE x (t text); COPY x FROM PROGRAM 'env'", "external program"),
    ],
    ids=["its role", "a program"],
)
def test_migrations_run_without_rights(writes: Writes, sql: str, told: str) -> None:
    """A migration runs as a role that is no superuser, and reaches no program of the machine."""
    writes.commit(DIRECTORY, {"1": TABLES, "2": sql})
    stored = writes.export(customers(c1="ann", c2="bob"), schema=["1", "2"])
    written = writes.write(export=stored.name)
    assert written.code == 1
    assert told in written.log


def test_a_closed_gate(bare: Writes) -> None:
    """Without a key, and in a public repository that declares nothing, no export is looked at and the step is green."""
    bare.export(customers(c1="ann", c2="bob"))
    head = bare.head
    bare.github.forget()
    written = bare.write(key=" ")
    assert (written.code, written.outputs["opened"], written.outputs["reason"]) == (0, "false", "no-key")
    bare.private = False
    written = bare.write()
    assert (written.code, written.outputs["opened"], written.outputs["reason"]) == (0, "false", "public")
    assert bare.github.count("GET", "/actions/artifacts") == 0
    assert bare.head == head
    bare.commit("[state]\npublic = true\n")
    assert bare.write().outputs["pushed"] == "true"


def test_a_key_that_is_none(bare: Writes) -> None:
    """It is refused as a setting, before anything is looked at."""
    assert bare.write(key="no key").code == 2


def test_a_token_that_may_not_read_artifacts(bare: Writes) -> None:
    """The missing permission is named."""
    bare.github.arm(faults.not_permitted(), "GET", "/actions/artifacts")
    written = bare.write()
    assert written.code == 1
    assert "actions: read" in written.log


def test_a_token_that_may_not_write(bare: Writes) -> None:
    """The missing permission is named, nothing is marked, and what comes behind is not tried in vain."""
    bare.export(customers(c1="ann", c2="bob"))
    bare.export(customers(c1="ann", c3="cid"))
    bare.github.arm(faults.not_permitted(), "POST", "/git/blobs", times=9)
    written = bare.write()
    assert written.code == 1
    assert "contents: write" in written.summary
    assert written.marks == []
    assert written.outputs["left"] == "2"
    assert bare.github.count("POST", "/git/blobs") == 1


def test_the_runs_own_token_reads_its_artifacts(bare: Writes) -> None:
    """Where the state's token is another repository's, artifacts are asked for with the run's own."""
    bare.export(customers(c1="ann", c2="bob"))
    written = bare.write(run_token="read-token-of-the-tests")
    assert written.code == 0
    asked = [one for one in bare.github.seen if "/actions/artifacts" in one.path]
    assert {one.headers["authorization"] for one in asked} == {"Bearer read-token-of-the-tests"}


def test_a_branch_that_moves_on_every_try(bare: Writes) -> None:
    """Who loses every race leaves the export for the next write."""
    bare.export(customers(c1="ann", c2="bob"))

    def move() -> None:
        bare.put(customers(c1="ann", c3="cid"))

    bare.github.arm(faults.Fault(before=move), "PATCH", "/git/refs/")
    written = bare.write(env={"VIBEY_STATE_ATTEMPTS": "1"})
    assert written.code == 1
    assert "gave-up" in written.log
    assert written.marks == []
    assert bare.names() == ["ann", "cid"]
    assert bare.write(8).outputs["pushed"] == "true"
    assert bare.names() == ["ann", "bob", "cid"]


def test_a_push_whose_answer_is_lost(bare: Writes) -> None:
    """The branch is looked at: the push happened, and is marked."""
    bare.export(customers(c1="ann", c2="bob"))
    bare.github.arm(faults.reset(after=True), "PATCH")
    written = bare.write()
    assert written.code == 0
    assert len(written.marks) == 1
    assert bare.names() == ["ann", "bob"]


def test_nothing_secret_and_no_markup_in_what_is_said(bare: Writes) -> None:
    """Neither the key nor rows are said, and a key from a row changes neither the log nor the summary."""
    hostile = "x\n::add-mask::y\n<script>|"
    rows = [{"customer": [{"id": hostile, "name": name}]} for name in ("secret-1", "secret-2", "secret-3")]
    base = bare.put(rows[0])
    bare.put(rows[1])
    bare.export(rows[2], base=base)
    written = bare.write()
    assert written.code == 1
    told = written.log + written.summary
    assert "add-mask::y" in told
    assert "secret-" not in told
    assert bare.key not in "".join(line for line in told.splitlines() if not line.startswith("::add-mask::"))
    assert "\n::add-mask::y" not in told
    assert "<script>" not in written.summary


def test_a_damaged_branch(bare: Writes) -> None:
    """A branch that does not open is an error; the export waits until it is mended."""
    bare.export(customers(c1="ann", c2="bob"))
    good = bare.head
    bare.repository.commit_files(BRANCH, {"state.vibey": document({})})
    assert bare.write().code == 1
    bare.repository.set_ref(BRANCH, good)
    assert bare.write(8).outputs["pushed"] == "true"
