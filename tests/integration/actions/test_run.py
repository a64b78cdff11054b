"""The step run between open and close: what the command gets of the state, and what of it reaches the export."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.jobs import Done, Job
from tests.support.machines import until
from vibey_actions.actions.foreign import BEGIN, END

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="makes users of the machine, as root"
)
NO_NAMESPACES = ("setpriv", "--bounding-set=-sys_admin", "--")
INSERT = 'psql "$VIBEY_PG_URL" -qc "INSERT INTO customer (id, name) VALUES (1, \'Ada\')"'
LOCK = 'psql "$VIBEY_PG_URL" -qc "SELECT pg_advisory_lock(4), pg_sleep(300)"'
TOKEN = "ghs_a-token-of-this-run"
# Whatever a command can think of to find a secret; what it finds goes to its output, which the test looks through.
ATTACKS = r"""
env; echo own variables end
cat /proc/*/environ /proc/*/cmdline | tr '\0' '\n'
cat "$JOB_PLACE"/record.json "$JOB_PLACE"/cache/* "$JOB_TEMP"/vibey-pg-*/data/PG_VERSION
find /tmp /home /root /run /var/tmp -xdev \
  \( -name record.json -o -name 'vibey-pg-*' -o -name '.pgpass' -o -name postgresql.conf \) 2>/dev/null
for file in "$JOB_OUTPUT" "$JOB_ENV" "$JOB_STEP_SUMMARY"; do cat "$file"; echo "x=y" >>"$file"; done
git config --list; git log --oneline -1; echo "[core] fsmonitor = touch /x" >>.git/config; git commit -qam x
echo "print('owned')" >"$JOB_SITE/usercustomize.py"; echo x >>"$JOB_CODE"
sudo -n id; su -c id; unshare -Ur mount -o remount,rw / ; unshare -r umount "$JOB_TEMP"
printf '::add-mask::customer\n##[set-output name=opened]no\n::set-env name=PATH::/evil\n'
for user in vibey vibey_owner postgres; do
  psql -w "$(echo "$VIBEY_PG_URL" | sed "s#//[^:]*:[^@]*@#//$user@#")" -c 'SELECT 1'
  psql -w -h "$JOB_TEMP" -U $user vibey -c 'SELECT 1'
done
psql "$VIBEY_PG_URL" -c "SELECT * FROM state_sync" -c "COPY customer TO PROGRAM 'id'" -c "COPY customer TO '/tmp/x'" \
  -c "SELECT pg_read_file('/etc/passwd')" -c 'CREATE TABLE mine (id int)' -c 'SET ROLE vibey_owner' \
  -c 'DROP TABLE customer'
(setsid sh -c 'sleep 300 & sleep 300' >/dev/null 2>&1 &)
psql "$VIBEY_PG_URL" -c "INSERT INTO customer (id, name) VALUES (7, 'by the command')"
exit 5
"""


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job on a branch of its own."""
    return Job.make(tmp_path)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that every user may enter, as a runner's is."""
    folder = Path(tempfile.mkdtemp(prefix="vibey-run-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@contextmanager
def opened(job: Job) -> Iterator[Done]:
    """The job with its state open; closed at the end whatever happens."""
    done = job.step("open")
    assert done.code == 0, done.log
    try:
        yield done
    finally:
        job.step("close")


def printed(done: Done) -> list[str]:
    """The lines that the command printed, as the log has them."""
    _, _, rest = done.log.partition(f"{BEGIN}\n")
    inside = rest.rpartition(f"{END}\n")[0].splitlines()
    return [line for line in inside if line and not line.startswith("::")]


def step(job: Job, elevated: Sequence[str], **inputs: str) -> Done:
    """The step run, started through ``elevated``."""
    env = job.environment({"key": job.key, **inputs})
    command = [*elevated, sys.executable, "-I", "-X", "utf8", "-m", "vibey_actions", "action", "run"]
    ended = subprocess.run(
        command, env=env, cwd=job.workspace, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return job.read(env, ended.returncode, ended.stdout)


def git_files(job: Job) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in (job.workspace / ".git").rglob("*") if path.is_file()}


def rows(dsn: str) -> list[tuple[int, str]]:
    with psycopg.connect(dsn) as connection:
        return connection.execute("SELECT id, name FROM customer ORDER BY 1").fetchall()


def test_a_command_works_on_the_state_and_its_code_is_the_steps(job: Job) -> None:
    """It reads and writes rows through VIBEY_PG_URL; what it changed is exported, also where it failed."""
    job.commit({"work.sh": 'psql "$VIBEY_PG_URL" -qc "INSERT INTO customer (id, name) VALUES (1, \'Ada\')"\nexit 3\n'})
    with opened(job) as state:
        done = job.step("run", command="echo before; sh work.sh; code=$?; echo after >made; exit $code")
        assert done.code == 3, done.log
        assert printed(done) == ["before"]
        assert rows(state.variables["VIBEY_STATE_PG_URL"]) == [(1, "Ada")]
        assert (job.workspace / "made").stat().st_uid == os.getuid()
        closed = job.step("close")
    assert closed.outputs["changed"] == "true"
    assert "exit code 3" in done.summary
    assert "::error title=The command failed::" in done.log


@pytest.mark.parametrize("walls", ["all", "user"])
def test_a_command_gets_nothing_and_changes_nothing(reachable: Path, walls: str) -> None:
    """No key, DSN of the owner, token or file of the job, by any way that is tried; and its lines do nothing."""
    job = Job.make(reachable)
    site, code = reachable / "site", reachable / "code.py"
    site.mkdir()
    # With every wall even what all users may write is out of reach.
    site.chmod(0o777 if walls == "all" else 0o755)
    code.write_text("ours = 1\n")
    job.commit({"attack.sh": ATTACKS})
    files = {f"JOB_{name}": str(job.folder / f"{name}.txt") for name in ("OUTPUT", "ENV", "STEP_SUMMARY")}
    job.env |= files | {"JOB_PLACE": str(job.place), "JOB_TEMP": str(job.temp)}
    job.env |= {"JOB_SITE": str(site), "JOB_CODE": str(code), "ACTIONS_RUNTIME_TOKEN": "a-runtime-token"}
    job.env |= {"COPY_OF_TOKEN": TOKEN, "GITHUB_EVENT_PATH": str(job.folder / "event.json")}
    with opened(job) as state:
        owner = state.variables["VIBEY_STATE_PG_URL"]
        job.env |= {"VIBEY_STATE_PG_URL": owner, "VIBEY_PG_URL": state.variables["VIBEY_PG_URL"]}
        before = git_files(job)
        done = step(job, () if walls == "all" else NO_NAMESPACES, command="sh attack.sh 2>&1", token=TOKEN)
        assert done.code == 5, done.log
        text = "\n".join(printed(done))
        password = owner.partition("@")[0].rpartition(":")[2]
        for secret in (job.key, job.key.rstrip("="), owner, password, TOKEN, "a-runtime-token"):
            assert secret not in text
        variables = {line.partition("=")[0] for line in text.partition("own variables end")[0].splitlines()}
        assert {"VIBEY_PG_URL", "GITHUB_WORKSPACE", "HOME"} <= variables
        withheld = ("VIBEY_INPUT_", "VIBEY_STATE_", "ACTIONS_", "GITHUB_E", "GITHUB_OUT", "GITHUB_STEP", "COPY_")
        assert not [name for name in variables if name.startswith(withheld) and name != "GITHUB_EVENT_NAME"]
        assert "uid=0" not in text
        assert '"phase"' not in text
        for refused in ("permission denied for table state_sync", "must be owner of table customer", "pg_read_file"):
            assert refused in text
        assert text.count("no password supplied") >= 3
        assert not [line for line in done.log.splitlines() if line.lstrip().startswith(("::add-mask::cust", "::set-"))]
        assert "##[set-output" not in done.log
        assert set(done.outputs) == {"opened", "reason"}
        assert done.variables == {}
        assert list(site.iterdir()) == []
        assert code.read_text() == "ours = 1\n"
        assert git_files(job) == before
        assert rows(owner) == [(7, "by the command")]
        assert ("the only wall" in done.log) is (walls == "user")


def test_nothing_of_a_command_goes_on(job: Job) -> None:
    """What it left running in the database has ended with its processes; the job's own sessions have not."""
    with opened(job) as state, psycopg.connect(state.variables["VIBEY_PG_URL"], autocommit=True) as own:
        done = job.step(
            "run",
            command='(setsid psql "$VIBEY_PG_URL" -qc "SELECT pg_advisory_lock(4), pg_sleep(300)" >/dev/null 2>&1 &);'
            ' until psql "$VIBEY_PG_URL" -Atc "SELECT count(*) FROM pg_locks WHERE locktype = \'advisory\'"'
            " | grep -q 1; do sleep 0.1; done",
        )
        assert done.code == 0, done.log
        assert own.execute("SELECT count(*) FROM pg_stat_activity WHERE usename = current_user").fetchone() == (1,)
        assert own.execute("SELECT pg_try_advisory_lock(4)").fetchone() == (True,)


def test_a_cancelled_run_ends_the_command(job: Job) -> None:
    """A signal to the step ends the command, gives the workspace back and leaves the state to be exported."""
    with opened(job):
        env = job.environment({"key": job.key, "command": "id -u >made; sleep 300"})
        command = [sys.executable, "-I", "-m", "vibey_actions", "action", "run"]
        with (job.folder / "log").open("wb") as log:
            step = subprocess.Popen(command, env=env, cwd=job.workspace, stdout=log, stderr=log)
        made = job.workspace / "made"
        until(lambda: made.exists() and made.read_text() != "")
        uid = int(made.read_text())
        step.send_signal(signal.SIGINT)
        assert step.wait(120) == 1
        assert not [one for one in Path("/proc").glob("[0-9]*") if _uid(one) == uid]
        assert made.stat().st_uid == os.getuid()
        assert job.step("close").code == 0


def test_a_deadline_is_the_steps_failure(job: Job) -> None:
    """The input timeout-minutes bounds the command, and what it did until then is kept."""
    job.commit({"work.sh": 'psql "$VIBEY_PG_URL" -qc "INSERT INTO customer (id, name) VALUES (1, \'Ada\')"\nsleep 300'})
    with opened(job):
        program = (
            "import sys; from vibey_actions.actions import run; real = run.run_apart\n"
            "from dataclasses import replace\n"
            "run.run_apart = lambda order, *more: real(replace(order, seconds=order.seconds / 10), *more)\n"
            "from vibey_actions.cli.main import main; sys.exit(main(['action', 'run']))"
        )
        env = job.environment({"key": job.key, "command": "sh work.sh", "timeout-minutes": "1"})
        ended = subprocess.run(
            [sys.executable, "-c", program], env=env, cwd=job.workspace, capture_output=True, text=True, check=False
        )
        done = job.read(env, ended.returncode, ended.stdout)
        assert done.code == 124, ended.stdout + ended.stderr
        assert "ended after 1 minutes" in done.summary
        assert job.step("close").outputs["changed"] == "true"


@pytest.mark.parametrize(
    ("inputs", "code", "why"),
    [
        ({"command": "vibey-actions state key --show"}, 2, "is reserved"),
        ({"command": ""}, 2, "no command was given"),
        ({"command": "true", "isolation": "none"}, 2, "the input isolation"),
    ],
    ids=["reserved", "none", "bad isolation"],
)
def test_a_command_is_refused_before_anything_starts(job: Job, inputs: dict[str, str], code: int, why: str) -> None:
    """A reserved command and a bad input end with 2, whether a state is open or not."""
    done = job.step("run", **inputs)
    assert done.code == code
    assert why in done.log
    assert BEGIN not in done.log


def test_without_an_open_state_no_command_runs(job: Job) -> None:
    """Behind a closed gate the step is green and says that nothing ran; behind an open one open has to come before."""
    done = job.step("run", command="touch ran", key="")
    assert (done.code, done.outputs["opened"]) == (0, "false")
    assert "The command was not run" in done.log
    done = job.step("run", command="touch ran")
    assert done.code == 1
    assert "no state open" in done.log
    assert not (job.workspace / "ran").exists()


def test_a_declared_database_is_never_given(job: Job, tmp_path: Path) -> None:
    """A state that was opened in a database of somebody's own is none that a dispatched command gets."""
    with opened(job):
        record = job.place / "record.json"
        found = json.loads(record.read_text())
        record.write_text(json.dumps({**found, "cluster": ""}))
        done = job.step("run", command="touch ran")
        record.write_text(json.dumps(found))
    assert done.code == 1
    assert "declared database" in done.log
    assert not (job.workspace / "ran").exists()


def test_a_workspace_that_could_lie_afterwards_is_refused(job: Job) -> None:
    """No checkout, or one that holds a token, is refused by name before the command starts."""
    with opened(job):
        config = job.workspace / ".git" / "config"
        text = config.read_text()
        config.write_text(text + '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic eA==\n')
        done = job.step("run", command="touch ran")
        assert done.code == 1
        assert "persist-credentials: false" in done.log
        config.write_text(text)
        (job.workspace / ".git").rename(job.folder / "aside")
        done = job.step("run", command="touch ran")
        (job.folder / "aside").rename(job.workspace / ".git")
        assert done.code == 1
        assert not (job.workspace / "ran").exists()


def test_isolation_process_says_that_it_is_none(job: Job) -> None:
    """The command runs as the job's user, without the variables that are withheld, and with a warning."""
    with opened(job):
        job.env["VIBEY_STATE_PG_URL"] = "postgresql://owner"
        done = job.step("run", command='id -u; echo "[$VIBEY_STATE_PG_URL$GITHUB_ENV]"', isolation="process")
    assert done.code == 0, done.log
    assert printed(done) == [str(os.getuid()), "[]"]
    assert "no wall" in done.log


def _uid(process: Path) -> int:
    try:
        return process.stat().st_uid
    except OSError:
        return -1
