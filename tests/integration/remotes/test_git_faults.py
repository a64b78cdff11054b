"""Git repositories on a bad day: hooks, kills, broken connections, other users' settings, servers of other kinds."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.integration.remotes.conftest import BRANCH, PATH, Place
from tests.support.github_server import Repository
from vibey_actions.errors import NotAStateBranch, RemoteDenied, RemoteFailed, RemoteMoved
from vibey_actions.remotes.gitrun import private_repository
from vibey_actions.remotes.places import parse_place


@pytest.fixture
def first(on_git: Place) -> str:
    """The branch's head, pushed by another machine."""
    return on_git.open(cache="elsewhere").push({PATH: on_git.sealed()}, None)


def hook(place: Place, name: str, script: str) -> Path:
    """Install a hook in the repository; it gets the real git on PATH."""
    path = place.repository.path / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def shim(place: Place, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program named git before the real one, which the script calls as $GIT."""
    folder = place.folder / "shim"
    folder.mkdir(exist_ok=True)
    real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
    (folder / "git").write_text(f"#!/bin/sh\nGIT={real}\n{script}\n")
    (folder / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


# Refusals


def test_a_hook_that_declines(on_git: Place, first: str) -> None:
    """A hook of the server is a permanent refusal, said with its own words, and is not asked twice."""
    calls = on_git.folder / "calls"
    hook(on_git, "pre-receive", f'echo x >> "{calls}"; echo "the wall is closed" >&2; exit 1')
    with pytest.raises(RemoteDenied, match="the wall is closed"):
        on_git.open().push({PATH: on_git.sealed()}, first)
    assert on_git.repository.ref(BRANCH) == first
    assert calls.read_text() == "x\n"


def test_a_hook_that_declines_the_creation(on_git: Place) -> None:
    """The same for a first push; it is not taken for a race."""
    hook(on_git, "update", 'echo "no such branches here" >&2; exit 1')
    with pytest.raises(RemoteDenied, match="no such branches here"):
        on_git.open().push({PATH: on_git.sealed()}, None)


def test_the_words_of_a_hook_are_escaped(on_git: Place, first: str) -> None:
    """What a server says cannot act on a terminal."""
    hook(on_git, "pre-receive", "printf '\\033[2Jgone\\007' >&2; exit 1")
    with pytest.raises(RemoteDenied) as caught:
        on_git.open().push({PATH: on_git.sealed()}, first)
    assert caught.value.message.isprintable()
    assert "\\x1b[2Jgone" in caught.value.message


def test_a_checked_out_branch(tmp_path: Path) -> None:
    """The current branch of a work tree is its default branch, and no state branch."""
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "-b", BRANCH, str(work)], check=True)
    repository = Repository(work / ".git", "example/app", 1, private=True, default_branch=BRANCH)
    commit = repository.commit_files(BRANCH, {PATH: b"VBYSTAT1"})
    place = Place(repository, tmp_path, url=str(work))
    with pytest.raises(NotAStateBranch, match="default branch"):
        place.open().head()
    with pytest.raises(NotAStateBranch, match="default branch"):
        place.open().push({PATH: place.sealed()}, commit)


def test_the_default_branch_is_not_pushed_to_unread(on_git: Place) -> None:
    """A push onto the default branch is refused although nobody asked for the head before."""
    commit = on_git.repository.commit_files("main", {PATH: b"VBYSTAT1"})
    with pytest.raises(NotAStateBranch, match="default branch"):
        on_git.open(branch="main").push({PATH: on_git.sealed()}, commit)
    assert on_git.repository.ref("main") == commit


def test_a_branch_of_a_work_tree_that_is_not_checked_out(tmp_path: Path) -> None:
    """A checkout can hold the state on another branch; its files are not touched."""
    work = tmp_path / "work"
    subprocess.run(["git", "init", "-q", "-b", "main", str(work)], check=True)
    repository = Repository(work / ".git", "example/app", 1, private=True, default_branch="main")
    repository.commit_files("main", {"README.md": b"x"})
    place = Place(repository, tmp_path, url=str(work))
    commit = place.open().push({PATH: place.sealed()}, None)
    assert place.open(cache="other").fetch(commit).stat().st_size > 0
    assert [path.name for path in work.iterdir()] == [".git"]


@pytest.mark.parametrize("where", ["nowhere.git", "file"])
def test_a_place_without_a_repository(tmp_path: Path, where: str) -> None:
    """A folder that is not there, or no repository, is said with its path."""
    (tmp_path / "file").write_text("x")
    place = Place(Repository.create(tmp_path / "state.git"), tmp_path, url=str(tmp_path / where))
    with pytest.raises(RemoteFailed, match=where):
        place.open().head()


def test_a_repository_without_any_commit(tmp_path: Path) -> None:
    """A fresh bare repository takes the state branch as its first; both object formats do."""
    for object_format in ("sha1", "sha256"):
        place = Place(Repository.create(tmp_path / f"{object_format}.git", object_format=object_format), tmp_path)
        assert place.open().head() is None
        commit = place.open().push({PATH: place.sealed()}, None)
        assert len(commit) == (40 if object_format == "sha1" else 64)
        assert place.open().head() == commit


def test_a_damaged_object_is_no_empty_state(on_git: Place, first: str) -> None:
    """A file that the repository itself lost raises, and nothing of it is kept."""
    blob = on_git.repository.text("rev-parse", f"{first}:{PATH}")
    for pack in (on_git.repository.path / "objects" / "pack").glob("*"):
        pack.chmod(0o644)
        content = bytearray(pack.read_bytes())
        content[len(content) // 2] ^= 0xFF
        pack.write_bytes(content)
    loose = on_git.repository.path / "objects" / blob[:2] / blob[2:]
    if loose.exists():
        loose.chmod(0o644)
        loose.write_bytes(loose.read_bytes()[:100])
    with pytest.raises(RemoteFailed):
        on_git.open().fetch(first)
    assert [path for path in (on_git.folder / "cache").rglob("*") if path.is_file()] == []


# Lost answers and kills


def test_a_push_whose_answer_is_lost(on_git: Place, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """git fails after the branch was moved: the branch is read, it holds the commit, the push happened."""
    shim(on_git, monkeypatch, '"$GIT" "$@"; code=$?; test "$1" = push && exit 128; exit $code')
    source = on_git.sealed()
    commit = on_git.open().push({PATH: source}, first)
    assert on_git.repository.history(BRANCH) == [commit, first]
    assert on_git.repository.read(commit, PATH) == source.read_bytes()


def test_a_push_whose_connection_breaks_is_tried_again(
    on_git: Place, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Trouble of the moment before the branch moved is tried again."""
    once = on_git.folder / "once"
    trouble = f'touch "{once}"; echo "Connection reset" >&2; exit 128'
    shim(on_git, monkeypatch, f'test "$1" = push && ! test -e "{once}" && {{ {trouble}; }}; exec "$GIT" "$@"')
    commit = on_git.open().push({PATH: on_git.sealed()}, first)
    assert on_git.repository.history(BRANCH) == [commit, first]


def test_a_push_that_never_gets_through(on_git: Place, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Retries end and the words are said."""
    shim(
        on_git, monkeypatch, 'test "$1" = push && { echo "Connection reset by peer" >&2; exit 128; }; exec "$GIT" "$@"'
    )
    with pytest.raises(RemoteFailed, match="Connection reset by peer"):
        on_git.open().push({PATH: on_git.sealed()}, first)
    assert on_git.repository.ref(BRANCH) == first


def test_a_reference_that_another_writer_locks(on_git: Place, first: str) -> None:
    """A lock that goes away is waited for; one that stays is a failure, not a race and not a refusal of the caller."""
    lock = on_git.repository.path / "refs" / "heads" / f"{BRANCH}.lock"
    lock.touch()
    with pytest.raises(RemoteFailed, match="lock") as caught:
        on_git.open().push({PATH: on_git.sealed()}, first)
    assert not isinstance(caught.value, (RemoteMoved, RemoteDenied))
    remote = on_git.open()
    remote._sleep = lambda _: lock.unlink(missing_ok=True)  # type: ignore[attr-defined]
    commit = remote.push({PATH: on_git.sealed()}, first)
    assert on_git.repository.ref(BRANCH) == commit


def test_git_that_hangs_is_stopped(on_git: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """At the deadline git and all it started are killed, however far they came."""
    pids = tmp_path / "pids"
    shim(on_git, monkeypatch, f'sleep 600 & echo $! $$ > "{pids}.part"; mv "{pids}.part" "{pids}"; wait')
    with (
        private_repository(tmp_path / "private", parse_place(str(on_git.repository.path)), "sha1", os.environ) as git,
        pytest.raises(RemoteFailed, match="did not end within 1 seconds"),
    ):
        git.run("ls-remote", "state", deadline=1)
    for pid in pids.read_text().split() if pids.exists() else ():
        assert gone(int(pid))


def gone(pid: int) -> bool:
    """Whether the process ends within two minutes (one that nobody waited for counts as ended)."""
    for _ in range(2400):
        try:
            if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.05)
    return False


PUSHER = textwrap.dedent("""
    import sys
    from pathlib import Path
    from vibey_actions.remotes.git import GitRemote
    place, cache, source, parent = sys.argv[1:]
    remote = GitRemote(place, "vibey-state", "state.vibey", cache_folder=Path(cache))
    print(remote.push({"state.vibey": Path(source)}, parent), flush=True)
""")

MOMENTS = {
    "before git starts": 'test "$1" = mktree && kill_it; exec "$GIT" "$@"',
    "while the commit is made": 'test "$1" = commit-tree && kill_it; exec "$GIT" "$@"',
    "before the push": 'test "$1" = push && kill_it; exec "$GIT" "$@"',
    "while the server works": 'exec "$GIT" "$@"',
    "after the push": 'test "$1" = push || exec "$GIT" "$@"; "$GIT" "$@"; kill_it',
}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_killed_push_is_completed_by_the_next(
    on_git: Place, first: str, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """kill -9 of everything at any moment leaves the branch at a whole commit, and the next push works."""
    killer = on_git.folder / "killer"
    kill_it = f'kill_it() {{ kill -9 "$(cat "{killer}")"; exit 9; }}'
    shim(on_git, monkeypatch, f"{kill_it}\n{MOMENTS[moment]}")
    if moment == "while the server works":
        hook(on_git, "pre-receive", f'kill -9 "$(cat "{killer}")"; kill -9 $PPID')
    source = on_git.sealed(100_000)
    command = [
        sys.executable,
        "-c",
        PUSHER,
        str(on_git.repository.path),
        str(on_git.folder / "cache"),
        str(source),
        first,
    ]
    process = subprocess.Popen(["sh", "-c", f'echo $$ > "{killer}"; exec "$@"', "sh", *command], start_new_session=True)
    assert process.wait(120) == -signal.SIGKILL
    hooks = on_git.repository.path / "hooks" / "pre-receive"
    hooks.unlink(missing_ok=True)
    monkeypatch.undo()
    remote = on_git.open()
    head = remote.head() or ""
    assert remote.fetch(head).read_bytes() in {source.read_bytes(), on_git.repository.read(first, PATH)}
    commit = remote.push({PATH: on_git.sealed()}, head)
    assert on_git.repository.history(BRANCH)[0] == commit
    assert on_git.repository.text("fsck", "--connectivity-only") == ""
    left = [path.name for path in (on_git.folder / "cache" / "git").iterdir()]
    assert left == [], "what the killed process left is gone"


def test_processes_share_a_cache(on_git: Place, first: str) -> None:
    """Several processes that push and fetch through one cache folder do not break each other."""
    script = textwrap.dedent("""
        import os, sys
        from pathlib import Path
        from vibey_actions.errors import RemoteMoved
        from vibey_actions.remotes.git import GitRemote
        place, cache, source = sys.argv[1:]
        done = 0
        while done < 5:
            remote = GitRemote(place, "vibey-state", "state.vibey", cache_folder=Path(cache))
            head = remote.head()
            assert remote.fetch(head).read_bytes().startswith(b"VBYSTAT1")
            Path(source).write_bytes(b"VBYSTAT1" + os.urandom(100_000))
            try:
                remote.push({"state.vibey": Path(source)}, head)
                done += 1
            except RemoteMoved:
                pass
    """)
    arguments = [str(on_git.repository.path), str(on_git.folder / "cache")]
    running = [
        subprocess.Popen([sys.executable, "-c", script, *arguments, str(on_git.folder / f"source-{number}")])
        for number in range(3)
    ]
    assert [process.wait(300) for process in running] == [0, 0, 0]
    assert len(on_git.repository.history(BRANCH)) == 16


def test_many_fetches_of_one_commit_at_once(on_git: Place, first: str) -> None:
    """Threads that fetch the same commit all get the whole file."""
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(on_git.open().fetch(first).read_bytes())) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [on_git.repository.read(first, PATH)] * 6


@pytest.mark.parametrize("damage", ["a file in the way", "rubbish", "locks"])
def test_a_damaged_private_folder_repairs_itself(on_git: Place, first: str, damage: str) -> None:
    """Whatever lies in the folder of private repositories does not stop a sync, except a file in its place."""
    private = on_git.folder / "cache" / "git"
    private.parent.mkdir(exist_ok=True)
    if damage == "a file in the way":
        private.write_text("x")
        with pytest.raises(RemoteFailed, match="private repository"):
            on_git.open().head()
        return
    private.mkdir()
    (private / ("index.lock" if damage == "locks" else ".0123456789abcdef")).mkdir()
    (private / ".0123456789abcdef.owner").write_text("left behind")
    (private / ".fedcba9876543210.owner").mkdir()
    assert on_git.open().head() == first


# What is kept from the user's settings, and from git


def test_the_users_git_settings_do_not_matter(
    on_git: Place, first: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Filters, signing, hooks, aliases and rewritten URLs of the user have no effect."""
    home = tmp_path / "home"
    home.mkdir()
    (home / ".gitconfig").write_text(
        "[core]\n\tautocrlf = true\n\thooksPath = /nonexistent\n[commit]\n\tgpgSign = true\n"
        "[push]\n\tdefault = mirror\n"
        '[url "/nonexistent/"]\n\tinsteadOf = /\n[user]\n\tname = Someone\n\temail = someone@example.com\n'
        "[i18n]\n\tcommitEncoding = latin1\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Someone")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    monkeypatch.setenv("GIT_INDEX_FILE", "/nonexistent")
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", "'core.bare=nonsense'")
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    content = b"VBYSTAT1\r\n\n\r"
    commit = on_git.open().push({PATH: on_git.sealed(content)}, first)
    assert on_git.repository.read(commit, PATH) == content
    identity = on_git.repository.text("log", "-1", "--format=%an|%ae|%cn|%ce|%ad", "--date=format:%z", commit)
    who = "vibey-actions|noreply@vibey-actions.invalid"
    assert identity == f"{who}|{who}|+0000"


def test_git_gets_no_secret(on_git: Place, first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The key, the DSN and tokens are not in git's environment, nor in that of the server's hooks."""
    seen = on_git.folder / "seen"
    hook(on_git, "pre-receive", f'env >> "{seen}"')
    shim(on_git, monkeypatch, f'env >> "{seen}"; exec "$GIT" "$@"')
    for name in ("VIBEY_STATE_KEY", "VIBEY_STATE_PG_URL", "GH_TOKEN", "GITHUB_TOKEN", "PGPASSWORD", "DATABASE_URL"):
        monkeypatch.setenv(name, "do-not-pass-on")
    on_git.open().push({PATH: on_git.sealed()}, first)
    assert "do-not-pass-on" not in seen.read_text()
    assert {"GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=file:ssh:https", "TZ=UTC0"} <= set(
        seen.read_text().splitlines()
    )


def test_a_password_reaches_its_host_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The password of an https URL is given by the credential helper to that host, is on no command line or disk."""
    place = parse_place("https://someone:pass%27%22%24word@git.example:8443/state.git")
    with private_repository(tmp_path / "private", place, "sha1", os.environ) as git:
        asked = b"protocol=https\nhost=%s\n\n"
        assert git.run("credential", "fill", stdin=asked % b"git.example:8443").out.decode().splitlines() == [
            "protocol=https",
            "host=git.example:8443",
            "username=someone",
            "password=pass'\"$word",
        ]
        assert not git.run("credential", "fill", stdin=asked % b"other.example").ok
        kept = "".join(path.read_text() for path in (tmp_path / "private").rglob("*") if path.is_file())
        assert "someone" not in kept
        assert "$word" not in kept
        assert git.run("config", "remote.state.url").out == b"https://git.example:8443/state.git\n"


def test_git_is_missing(on_git: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without git the error says what to install."""
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(RemoteFailed, match="git is not installed"):
        on_git.open().head()


# Servers elsewhere, and histories


def test_ssh_is_asked_without_a_terminal_and_with_the_user(on_distant_git: Place) -> None:
    """The user of the URL is given to ssh as an option; nothing can be asked at a terminal."""
    log = on_distant_git.folder / "ssh-log"
    ssh = on_distant_git.folder / "programs" / "ssh"
    ssh.write_text(ssh.read_text().replace("#!/bin/sh\n", f'#!/bin/sh\necho "$*" >> "{log}"\n'))
    on_distant_git.open().head()
    assert "BatchMode=yes" in log.read_text()
    assert "-l git" in log.read_text()
    assert on_distant_git.open().name == f"ssh://host.example{on_distant_git.repository.path}:{BRANCH}"


def test_ssh_that_refuses_the_key(on_distant_git: Place) -> None:
    """A key that is not accepted is a refusal of the caller, not tried again, and no missing branch."""
    ssh = on_distant_git.folder / "programs" / "ssh"
    ssh.write_text("#!/bin/sh\necho 'git@host.example: Permission denied (publickey).' >&2\nexit 255\n")
    with pytest.raises(RemoteDenied, match="Permission denied"):
        on_distant_git.open().head()
    assert on_distant_git.slept == []


def test_the_history_is_asked_for_without_the_files(on_distant_git: Place) -> None:
    """Ancestry and replays of a long branch need no sealed file where the server filters."""
    repository = on_distant_git.repository
    repository.git("config", "uploadpack.allowFilter", "true")
    commits = [repository.commit_files(BRANCH, {PATH: b"VBYSTAT1" + os.urandom(50_000)}) for _ in range(6)]
    traffic = on_distant_git.folder / "traffic"
    ssh = on_distant_git.folder / "programs" / "ssh"
    ssh.write_text(ssh.read_text().replace('exec sh -c "$command"', f'sh -c "$command" | tee -a "{traffic}"'))
    remote = on_distant_git.open()
    assert remote.is_ancestor(commits[0], commits[-1])
    assert not remote.is_replay(commits[-1])
    assert traffic.stat().st_size < 20_000


def test_the_history_of_a_server_that_does_not_filter(on_distant_git: Place) -> None:
    """The answers are right there too."""
    repository = on_distant_git.repository
    commits = [repository.commit_files(BRANCH, {PATH: b"VBYSTAT1 %d" % number}) for number in (1, 2, 3, 1)]
    remote = on_distant_git.open()
    assert remote.is_ancestor(commits[0], commits[3])
    assert not remote.is_ancestor(repository.ref("main") or "", commits[3])
    assert remote.is_replay(commits[3])


def test_a_long_history(on_distant_git: Place, on_git: Place) -> None:
    """A base many commits back is found in steps, beyond the first that are asked for."""
    repository = on_git.repository
    stream = "".join(
        f"commit refs/heads/{BRANCH}\ncommitter example <example@example.com> {number} +0000\ndata 0\n"
        f"M 100644 inline {PATH}\ndata {len(str(number)) + 8}\nVBYSTAT1{number}\n"
        for number in range(1200)
    )
    repository.git("fast-import", "--quiet", stdin=stream.encode())
    history = repository.history(BRANCH)
    for remote in (on_git.open(), on_distant_git.open()):
        assert remote.is_ancestor(history[-1], history[0])
        assert remote.is_ancestor(history[600], history[0])
        assert not remote.is_ancestor(history[0], history[-1])
        assert not remote.is_replay(history[0])


def test_a_shallow_repository_is_asked_not_borrowed(tmp_path: Path, on_git: Place, first: str) -> None:
    """A repository on this machine that has only the newest commits is a remote like one far away."""
    remote = on_git.open()
    second = remote.push({PATH: on_git.sealed()}, first)
    shallow = tmp_path / "shallow.git"
    origin = f"file://{on_git.repository.path}"
    subprocess.run(
        ["git", "clone", "-q", "--bare", "--depth=1", "--no-single-branch", origin, str(shallow)], check=True
    )
    copy = Place(Repository(shallow, "example/app", 1, private=True, default_branch="main"), tmp_path, url=str(shallow))
    found = copy.open(cache="copy")
    assert found.head() == second
    assert found.fetch(second).stat().st_size > 0
    assert not found.is_replay(second)
    third = found.push({PATH: copy.sealed()}, second)
    assert copy.repository.ref(BRANCH) == third


@pytest.mark.parametrize("scheme", ["file://", ""])
def test_a_url_and_a_path_lead_to_the_same_place(on_git: Place, first: str, scheme: str) -> None:
    """file:// with blanks and signs encoded, and the plain path, both work."""
    odd = on_git.folder / "odd name # 100%.git"
    on_git.repository.path.rename(odd)
    on_git.url = (
        f"file://{str(odd).replace('%', '%25').replace(' ', '%20').replace('#', '%23')}" if scheme else str(odd)
    )
    remote = on_git.open()
    assert remote.head() == first
    assert remote.fetch(first).stat().st_size > 0
