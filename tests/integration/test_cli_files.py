"""The command line as a process and with real files: the configuration file's place, `init`, streams that fail."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.github_server import GitHubServer
from vibey_actions.cli.init import ANY_OWNER, FIRST_WORK, THEIR_WORK, action_source
from vibey_actions.config import Config, load_config
from vibey_actions.errors import SettingError
from vibey_actions.settings import Settings, repository_root

ROOT = Path(__file__).parents[2]
CONFIG = ".github/vibey-state.toml"
WORKFLOW = ".github/workflows/vibey-state.yml"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "vibey_actions", *arguments]


def run(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), **env}
    return subprocess.run(command(*arguments), capture_output=True, text=True, env=given, cwd=folder, check=False)


def written_to(descriptor: int, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose stdout is ``descriptor``, buffered as it is by default."""
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.run(
        command(*arguments), stdout=descriptor, stderr=subprocess.PIPE, text=True, cwd=folder, env=env, check=False
    )


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def loaded(cwd: Path, **env: str) -> Config:
    settings = Settings.from_env(env, cwd)
    return load_config(settings.root, settings.config_file)


def test_no_file_means_the_defaults(tmp_path: Path) -> None:
    """A repository without a configuration file works."""
    assert loaded(tmp_path) == Config()


def test_the_file_is_found_from_any_folder_of_the_checkout(tmp_path: Path) -> None:
    """It is looked for at the checkout's top, and its directory starts there."""
    write(tmp_path / CONFIG, '[migrations]\ndirectory = "db"')
    (tmp_path / ".git").mkdir()
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    for cwd in (below, tmp_path):
        migrations = loaded(cwd).migrations
        assert migrations is not None
        assert migrations.directory == tmp_path / "db"


def test_outside_a_checkout_no_folder_above_counts(tmp_path: Path) -> None:
    """A file that somebody put above, in /tmp for example, may not name a program to run."""
    write(tmp_path / CONFIG, "[state]\npublic = true")
    (tmp_path / "mine").mkdir()
    assert loaded(tmp_path / "mine") == Config()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user")
def test_a_folder_of_another_owner_ends_the_search(tmp_path: Path) -> None:
    """A .git that another user put above is not this user's checkout."""
    (tmp_path / ".git").mkdir()
    mine = tmp_path / "mine"
    mine.mkdir()
    assert repository_root(mine) == tmp_path
    os.chown(tmp_path / ".git", 12345, -1)
    assert repository_root(mine) == mine
    os.chown(tmp_path / ".git", 0, -1)
    os.chown(tmp_path, 12345, -1)
    assert repository_root(mine) == mine


def test_a_named_file_has_to_exist(tmp_path: Path) -> None:
    """VIBEY_STATE_CONFIG wins over the default file, and a wrong name is no silent default."""
    write(tmp_path / CONFIG, "[state]\npublic = true")
    write(tmp_path / "other.toml", '[state]\nexclude = ["a"]')
    assert loaded(tmp_path, VIBEY_STATE_CONFIG="other.toml") == Config(exclude=("a",))
    with pytest.raises(SettingError, match=r"VIBEY_STATE_CONFIG names .*none\.toml, which does not exist"):
        loaded(tmp_path, VIBEY_STATE_CONFIG="none.toml")


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    """A folder in the file's place and bytes that are no UTF-8 are errors that name the file."""
    (tmp_path / CONFIG).mkdir(parents=True)
    with pytest.raises(SettingError, match="cannot be read"):
        loaded(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'[state]\nexclude = ["\xe9"]')
    with pytest.raises(SettingError, match="not UTF-8"):
        loaded(tmp_path, VIBEY_STATE_CONFIG="latin.toml")


def test_init_writes_two_files_once(tmp_path: Path) -> None:
    """Configuration and workflow are made; a second run changes neither, says so and ends with 1."""
    first = run(tmp_path, "init")
    assert first.returncode == 0
    assert "vibey-actions state key --show | gh secret set VIBEY_STATE_KEY" in first.stdout
    written = {name: (tmp_path / name).read_bytes() for name in (CONFIG, WORKFLOW)}
    (tmp_path / CONFIG).write_text("[state]\npublic = true\n")
    second = run(tmp_path, "init")
    assert second.returncode == 1
    assert second.stderr.count("exists already and was left as it is") == 2
    assert (tmp_path / CONFIG).read_text() == "[state]\npublic = true\n"
    assert (tmp_path / WORKFLOW).read_bytes() == written[WORKFLOW]


def test_init_writes_what_is_missing(tmp_path: Path) -> None:
    """A repository with a configuration of its own still gets its workflow."""
    write(tmp_path / CONFIG, "[state]\n")
    outcome = run(tmp_path, "init")
    assert outcome.returncode == 1
    assert f"wrote {tmp_path / WORKFLOW}" in outcome.stdout
    assert (tmp_path / WORKFLOW).exists()


def test_init_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A file in the way of a folder ends in an error, not a traceback."""
    (tmp_path / ".github").write_text("")
    outcome = run(tmp_path, "init")
    assert outcome.returncode == 1
    assert [line.split(":")[0] for line in outcome.stderr.splitlines()] == ["error", "hint"]


def test_the_configuration_of_init_is_valid_with_every_key(tmp_path: Path) -> None:
    """As written it means the defaults; with its examples switched on, each is understood."""
    run(tmp_path, "init")
    assert loaded(tmp_path) == Config()
    text = (tmp_path / CONFIG).read_text()
    live = re.sub(r"^# (\[|[a-z-]+ = )", r"\1", text, flags=re.M)
    one, two = live.split("# ... or a migrator")
    rules = two[two.index("# What settles") :]
    write(tmp_path / CONFIG, re.sub(r"^profile = .*\n", "", one, flags=re.M) + rules)
    assert loaded(tmp_path).schemas == ("public", "app")
    assert loaded(tmp_path).documents is True
    write(tmp_path / CONFIG, re.sub(r"^(?:schemas|documents) = .*\n", "", one, flags=re.M) + rules)
    directory = loaded(tmp_path)
    assert directory.migrations is not None
    assert directory.migrations.directory == tmp_path / "db/migrations"
    assert (directory.profile, set(directory.tables)) == ("vibey", {"customer", "invoice", "page", "audit"})
    write(tmp_path / CONFIG, two[two.index("[migrations]") :])
    migrator = loaded(tmp_path).migrations
    assert migrator is not None
    assert migrator.command == ("python", "manage.py", "migrate")
    assert migrator.versions


def test_the_workflow_of_init_is_a_template_that_runs(tmp_path: Path) -> None:
    """It is workflows-templates/push-directly.yml, but for the action's place and the work that is not there yet."""
    template = ROOT / "workflows-templates" / "push-directly.yml"
    kept = ROOT / "src" / "vibey_actions" / "cli" / "templates" / "vibey-state.yml"
    assert kept.read_text() == template.read_text(), f"copy {template.name} to {kept}"
    run(tmp_path, "init")
    text = (tmp_path / WORKFLOW).read_text()
    assert text.replace(FIRST_WORK, THEIR_WORK) == template.read_text().replace(ANY_OWNER, action_source())
    assert text.count(FIRST_WORK) == 1
    assert THEIR_WORK not in text


def test_the_workflow_of_init_is_safe(tmp_path: Path) -> None:
    """No permission by default, no expression inside a script, actions of others pinned by commit, writers queue."""
    run(tmp_path, "init")
    text = (tmp_path / WORKFLOW).read_text()
    assert "\npermissions: {}\n" in text
    assert re.search(r"^      contents: write # \S", text, re.M)
    assert "persist-credentials: false" in text
    assert re.search(r"^concurrency:.*\n(?:  .*\n)*  cancel-in-progress: false$", text, re.M)
    assert [line for line in text.splitlines() if "run:" in line and "${{" in line] == []
    assert not re.search(r"run: [|>]", text)
    others = [action for action in re.findall(r"uses: (.+)", text) if "vibey-actions@" not in action]
    assert [action for action in others if not re.fullmatch(r"\S+@[0-9a-f]{40} # v\S+", action)] == []


def test_init_says_what_is_left_to_do(tmp_path: Path) -> None:
    """Migrations, the owner to fill in, a key to make or the one that is there, the secret, the push, and `doctor`."""
    first = run(tmp_path, "init").stdout
    assert "where your SQL migrations are" in first
    for words in ("in place of OWNER", "state key --new", "gh secret set VIBEY_STATE_KEY", "push them", "doctor"):
        assert words in first
    assert f"{tmp_path} is no git checkout" in first
    (tmp_path / "other" / ".git").mkdir(parents=True)
    second = run(tmp_path / "other", "init", VIBEY_STATE_KEY="A" * 43).stdout
    assert "the key is in the variable VIBEY_STATE_KEY" in second
    assert "--new" not in second
    assert "no git checkout" not in second


def test_init_sees_a_branch_and_a_public_repository(tmp_path: Path) -> None:
    """Where the branch exists no new key is advised; a public repository is told what the declaration means."""
    with GitHubServer(tmp_path / "github") as github:
        repository = github.add_repository("example/app", private=False)
        repository.commit_files("vibey-state", {"state.vibey": b"x"})
        env = {"GITHUB_API_URL": github.url, "GH_TOKEN": github.token, "VIBEY_STATE_REPOSITORY": "example/app"}
        told = run(tmp_path, "init", **env).stdout
        (tmp_path / CONFIG).unlink()
        declared = run(tmp_path, "init", "--public", **env).stdout
    assert "bring the key that sealed it" in told
    assert "--new" not in told
    assert "this repository is public" in told
    assert "this repository is public" not in declared
    assert loaded(tmp_path).public is True


def test_init_needs_no_network(tmp_path: Path) -> None:
    """What cannot be asked, or is refused, is no error of this command."""
    env = {"GITHUB_API_URL": "http://127.0.0.1:1", "GH_TOKEN": "none", "VIBEY_STATE_REPOSITORY": "example/app"}
    assert run(tmp_path, "init", **env).returncode == 0


@pytest.mark.parametrize(
    ("recorded", "source"),
    [
        (
            '{"url": "https://u:x@github.com/o/n.git", "vcs_info": {"commit_id": "%s", "requested_revision": "v1.2"}}',
            "o/n@%s # v1.2",
        ),
        ('{"url": "https://github.com/o/n.x", "vcs_info": {"commit_id": "%s"}}', "o/n.x@%s"),
        ('{"url": "https://github.com/o/$(id)", "vcs_info": {"vcs": "git", "commit_id": "%s"}}', None),
        ('{"url": "https://host.example/o/n", "vcs_info": {"vcs": "git", "commit_id": "%s"}}', None),
        ('{"url": "https://github.com/o/n", "vcs_info": {"vcs": "git", "commit_id": "main"}}', None),
        ('{"url": "file:///home/me/n", "dir_info": {}}', None),
        ("{}", None),
    ],
)
def test_the_action_comes_from_where_this_program_came(
    monkeypatch: pytest.MonkeyPatch, recorded: str, source: str | None
) -> None:
    """The workflow uses the very commit, without a password and from a plain place alone; else it asks for OWNER."""

    class Distribution:
        def read_text(self, _name: str) -> str:
            return recorded.replace("%s", "a" * 40)

    monkeypatch.setattr("importlib.metadata.distribution", lambda _name: Distribution())
    assert action_source() == (source.replace("%s", "a" * 40) if source else ANY_OWNER)


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["state", "sync", "--help"], ["init"]])
def test_a_full_disk_is_said(tmp_path: Path, arguments: list[str]) -> None:
    """Output that cannot be written ends with 1 and one line, whatever wrote it."""
    with Path("/dev/full").open("w") as full:
        outcome = written_to(full.fileno(), tmp_path, *arguments)
    assert outcome.returncode == 1
    assert outcome.stderr == "error: the output cannot be written: No space left on device\n"


@pytest.mark.parametrize("arguments", [["--help"], ["init"]])
def test_a_reader_that_left_is_silent(tmp_path: Path, arguments: list[str]) -> None:
    """A closed pipe ends the command with 1 and no noise."""
    read, written = os.pipe()
    os.close(read)
    outcome = written_to(written, tmp_path, *arguments)
    os.close(written)
    assert (outcome.returncode, outcome.stderr) == (1, "")


def test_a_narrow_encoding_ends_nothing(tmp_path: Path) -> None:
    """Where the terminal's encoding lacks a character, it is shown escaped."""
    folder = tmp_path / "Größe"
    folder.mkdir()
    outcome = run(folder, "init", PYTHONIOENCODING="ascii")
    assert outcome.returncode == 0
    assert "Gr\\xf6\\xdfe" in outcome.stdout


@pytest.mark.parametrize("arguments", [["state", "key"], ["init"]])
def test_a_folder_that_is_gone_is_said(tmp_path: Path, arguments: list[str]) -> None:
    """A working folder that was removed is an error with exit code 2."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = f"""
import os, sys
from vibey_actions.cli.main import main
os.chdir({str(gone)!r})
os.rmdir({str(gone)!r})
sys.exit(main({arguments!r}))
"""
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert outcome.returncode == 2
    assert outcome.stderr.startswith("error: the current folder does not exist any more [setting]\n")


def test_a_command_starts_without_heavy_libraries(tmp_path: Path) -> None:
    """Help and version load neither the driver nor the network nor rich: they answer at once."""
    script = (
        "import sys; from vibey_actions.cli.main import main; code = main(['--version']); "
        "print(sorted({'psycopg', 'requests', 'rich', 'cryptography', 'msgspec', 'isal'} & set(sys.modules)))"
    )
    outcome = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert outcome.stdout.splitlines()[-1] == "[]"
