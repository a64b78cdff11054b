"""The remote run as an adopter has it: dispatched, run behind walls, its changes written back by another job."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.act import Act, Outcome
from tests.support.act.adopter import Run
from tests.support.act.example import Shop
from vibey_actions.actions.foreign import BEGIN, END

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason="makes users of the machine, as root"
)
TWO = "#!/bin/sh\npsql \"$VIBEY_PG_URL\" -qc \"INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace')\"\n"
# What each line prints is looked through: no secret may be there, and nothing outside of the workspace may change.
ATTACK = r"""#!/bin/sh
exec 2>&1
env | grep -v '^VIBEY_PG_URL='  # which is its own to know, and masked on GitHub
cat /proc/*/environ /proc/*/cmdline /proc/*/mountinfo | tr '\0' '\n' | grep -v '^VIBEY_PG_URL='
for folder in @RUNS@ "$RUNNER_TEMP" "$HOME" "$(dirname "$GITHUB_WORKSPACE")"; do
  find "$folder" -maxdepth 8 \( -name '*record*' -o -name '*.conf' -o -name '*.export' -o -name '*.py' \
    -o -name '*.txt' -o -name 'event.json' -o -name '.netrc' \) -type f -exec cat {} + -exec tee -a {} + </dev/null
done
git config --list --show-origin; git remote -v; git push origin HEAD:refs/heads/stolen; git fetch origin vibey-state
printf '[core]\n\tfsmonitor = touch @FLAG@\n' >>.git/config
printf '#!/bin/sh\ntouch @FLAG@\n' >.git/hooks/post-checkout
rm -rf .git; mv .git elsewhere
for name in GITHUB_ENV GITHUB_OUTPUT GITHUB_PATH GITHUB_STATE GITHUB_STEP_SUMMARY; do
  eval "file=\$$name"; [ -z "$file" ] || echo "given: $name"
done
echo '::set-output name=export::stolen'; echo '::add-mask::Ada'; echo '##[error]forged'; echo '::error::forged'
printf '\033]0;title\007\r::warning::forged\n'; echo '<script>|'
sudo -n id; su -c id root; nsenter -t 1 -m id
touch @FLAG@; unshare -Urm sh -c 'mount -o remount,rw /; mount -o remount,rw,bind /run; umount -R /tmp; touch @FLAG@'
mkdir -p "$HOME/.local/lib"; echo 'import os' >"$HOME/.local/lib/usercustomize.py"
python3 -c 'import fcntl, termios; [fcntl.ioctl(0, termios.TIOCSTI, c) for c in b"id\n"]'
psql "$(echo "$VIBEY_PG_URL" | sed 's#//[^@]*@#//vibey_owner@#')" -w -c 'SELECT 1'
psql "$VIBEY_PG_URL" -c 'TABLE state_sync' -c 'DROP TABLE customer' -c "COPY customer TO PROGRAM 'touch @FLAG@'"
(setsid sh -c 'trap "" TERM HUP; while :; do sleep 77777; done' >/dev/null 2>&1 &)
python3 -c 'import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execvp("sleep", ["sleep", "88888"])
    os._exit(0)'
psql "$VIBEY_PG_URL" -qc "INSERT INTO customer VALUES (3, '::add-mask::y'), (4, '<script>|')"
echo reached the end
exit 9
"""


def start(shop: Shop, command: str, **options: object) -> Run:
    """Dispatch a command."""
    payload = {**shop.app.payload(), "inputs": {"command": command, "request": "a-request"}}
    return shop.start("workflow_dispatch", payload=payload, **options)


def dispatch(shop: Shop, command: str, **options: object) -> Outcome:
    """Dispatch a command and wait for its run's end."""
    return start(shop, command, **options).wait()


def test_a_commands_changes_are_written_back(act: Act, database: Callable[[], str]) -> None:
    """The command's rows reach the branch by the other job, and the log has what it printed; another run finds them."""
    shop = Shop.make(act, "example/remote", "remote.yml", files={"scripts/work.sh": TWO})
    outcome = dispatch(shop, "./scripts/work.sh && echo done; pwd >made; git log --oneline | wc -l")
    assert outcome.jobs == {"run": ["success"], "write": ["success"]}, outcome.explain()
    printed = outcome.log("run").partition(BEGIN)[2].partition(END)[0]
    assert re.findall(r"^(done|1)\r?$", printed, re.M) == ["done", "1"]
    assert "exit code 0" in outcome.summary("run")
    assert shop.commits == 1
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", "(2,Grace)"]
    outcome = dispatch(shop, 'psql "$VIBEY_PG_URL" -Atc "SELECT count(*) FROM customer"')
    assert outcome.jobs == {"run": ["success"]}, outcome.explain()
    assert re.search(r"^2\r?$", outcome.log("run").partition(BEGIN)[2].partition(END)[0], re.M)


@pytest.fixture
def everybodys() -> Iterator[Path]:
    """A folder that every user may write to, outside of /tmp."""
    with tempfile.TemporaryDirectory(dir="/run") as name:
        Path(name).chmod(0o777)
        yield Path(name)


def test_a_hostile_command_gets_nothing(act: Act, database: Callable[[], str], everybodys: Path) -> None:
    """No secret is found, nothing but workspace and rows changes, nothing goes on; what it changed is still kept."""
    flag = everybodys / "flag"
    runs = act.folder / "runs"
    attack = ATTACK.replace("@RUNS@", str(runs)).replace("@FLAG@", str(flag))
    shop = Shop.make(act, "example/remote-hostile", "remote.yml", files={"attack.sh": attack})
    before = processes()
    # Every text of the run is searched for secrets by `wait`: the key, the token, and whatever was masked.
    outcome = dispatch(shop, "sh attack.sh")
    assert outcome.jobs == {"run": ["failure"], "write": ["success"]}, outcome.explain()
    log = outcome.log("run").partition(BEGIN)[2].rpartition(END)[0]
    assert "reached the end" in log
    never = ("uid=0", "given: ", "VIBEY_STATE_", "VIBEY_INPUT_", "INPUT_KEY", "ACTIONS_RUNTIME", '"dsn"', "pg_hba")
    assert [found for found in never if found in log] == []
    assert "permission denied for table state_sync" in log
    assert not flag.exists()
    assert {"Ada", "y"}.isdisjoint(outcome.masks())
    texts = [one.text + one.title for one in outcome.annotations()]
    assert not [text for text in texts if "forged" in text]
    assert "stolen" not in str(outcome.outputs("close"))
    assert shop.app.repository.ref("stolen") is None
    assert {
        command for command in processes() - before if "sleep 77777" in command or "sleep 88888" in command
    } == set()
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(3,::add-mask::y)", "(4,<script>|)"]


def test_a_reserved_command_is_refused(act: Act) -> None:
    """A command that touches the state ends the job before it starts, and nothing is exported or written."""
    shop = Shop.make(act, "example/reserved", "remote.yml")
    outcome = dispatch(shop, "echo hello; vibey-actions state key --show")
    assert outcome.jobs == {"run": ["failure"]}, outcome.explain()
    assert BEGIN not in outcome.log("run")
    assert "reserved" in outcome.summary("run")
    assert shop.commits == 0


def test_a_command_does_not_run_behind_a_closed_gate(act: Act) -> None:
    """Without a key, or in a public repository that declares nothing, who dispatched is told, and nothing runs."""
    shop = Shop.make(act, "example/remote-closed", "remote.yml", private=False)
    for secrets in ({"VIBEY_STATE_KEY": shop.key}, {}):
        outcome = dispatch(shop, "echo ran", secrets=secrets)
        assert outcome.jobs == {"run": ["failure"]}, outcome.explain()
        assert BEGIN not in outcome.log("run")
        assert outcome.annotations("error")
    assert shop.commits == 0


def test_a_cancelled_commands_changes_are_kept(act: Act) -> None:
    """Cancelled while the command runs: the command ends, and what it changed is exported for the next write."""
    files = {"scripts/work.sh": TWO + "echo now it waits\nsleep 99999\n"}
    shop = Shop.make(act, "example/cancelled-remote", "remote.yml", files=files)
    run = start(shop, "./scripts/work.sh")
    run.until(lambda lines: "now it waits" in lines)
    run.cancel()
    outcome = run.wait()
    assert outcome.step("close") == "success", outcome.explain()
    assert outcome.outputs("close")["changed"] == "true"
    assert not [command for command in processes() if "sleep 99999" in command]


def processes() -> set[str]:
    """The command lines of this machine's processes."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.add(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return found
