"""The settings: defaults, what each variable takes, and that an error never repeats a password."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibey_actions.errors import SettingError
from vibey_actions.settings import Settings
from vibey_actions.state.declaration import Rule, Table
from vibey_actions.state.report import Conflict
from vibey_actions.state.rules import settle

CWD = Path("/no/such/folder")


def settings(**env: str) -> Settings:
    return Settings.from_env(env, CWD)


def refusal(**env: str) -> SettingError:
    with pytest.raises(SettingError) as caught:
        settings(**env)
    assert caught.value.hint
    assert caught.value.exit_code == 2
    return caught.value


def test_the_defaults() -> None:
    """Without variables the documented defaults hold."""
    found = settings(HOME="/home/me")
    assert (found.branch, found.path, found.attempts, dict(found.conflicts)) == ("vibey-state", "state.vibey", 5, {})
    assert (found.remote, found.repository, found.dsn, found.config_file) == (None, None, None, None)
    assert found.key_file == Path("/home/me/.config/vibey/state.key")
    assert found.root == CWD


NAMES = ("REMOTE", "REPOSITORY", "BRANCH", "PATH", "PG_URL", "KEY_FILE", "CONFLICTS", "ATTEMPTS", "CONFIG")


@pytest.mark.parametrize("empty", ["", " ", "\n"])
def test_empty_is_not_set(empty: str) -> None:
    """What an unset secret or input becomes is the default, for every variable."""
    env = {f"VIBEY_STATE_{name}": empty for name in NAMES}
    assert settings(**env, VIBEY_PG_URL=empty) == settings()


def test_every_variable_is_read() -> None:
    """Each variable reaches its field; relative paths start at the working folder."""
    found = settings(
        VIBEY_STATE_REMOTE="../state.git",
        VIBEY_STATE_REPOSITORY="example/app.data",
        VIBEY_STATE_BRANCH="data/état",
        VIBEY_STATE_PATH="sealed/state.bin",
        VIBEY_STATE_PG_URL="postgresql://a@b/c\n",
        VIBEY_STATE_KEY_FILE="my.key",
        VIBEY_STATE_CONFLICTS="customer=mine, Größe = theirs,a b=newest,d=refuse",
        VIBEY_STATE_ATTEMPTS="12",
        VIBEY_STATE_CONFIG="conf.toml",
    )
    assert (found.remote, found.repository, found.branch) == ("../state.git", "example/app.data", "data/état")
    assert (found.path, found.dsn, found.attempts) == ("sealed/state.bin", "postgresql://a@b/c", 12)
    assert (found.key_file, found.config_file) == (CWD / "my.key", CWD / "conf.toml")
    assert found.conflicts == {
        "customer": Rule.MINE,
        "Größe": Rule.THEIRS,
        "a b": Rule.NEWEST,
        "d": Rule.REFUSE,
    }


def test_the_database_falls_back() -> None:
    """VIBEY_STATE_PG_URL wins over VIBEY_PG_URL; neither is an error only where the database is needed."""
    assert settings(VIBEY_PG_URL="b").require_dsn() == "b"
    assert settings(VIBEY_STATE_PG_URL="a", VIBEY_PG_URL="b").require_dsn() == "a"
    with pytest.raises(SettingError, match="VIBEY_STATE_PG_URL"):
        settings().require_dsn()


def test_the_key_file_follows_xdg() -> None:
    """XDG_CONFIG_HOME holds the key file, unless it is relative, which the XDG rules say to ignore."""
    assert settings(XDG_CONFIG_HOME="/x", HOME="/h").key_file == Path("/x/vibey/state.key")
    assert settings(XDG_CONFIG_HOME="x", HOME="/h").key_file == Path("/h/.config/vibey/state.key")
    assert settings().key_file is None


@pytest.mark.parametrize("value", ["0", "-1", "+1", "1.5", "five", "1_0", "1001", "9" * 5000, "٣", "1 2"])
def test_attempts_are_a_positive_number(value: str) -> None:
    """Only decimal digits from 1 to 1000 count as attempts."""
    assert "VIBEY_STATE_ATTEMPTS" in refusal(VIBEY_STATE_ATTEMPTS=value).message


@pytest.mark.parametrize(("value", "number"), [("1", 1), ("1000", 1000), ("007", 7), ("00001", 1)])
def test_attempts_that_count(value: str, number: int) -> None:
    """The edges of the range, and leading zeros."""
    assert settings(VIBEY_STATE_ATTEMPTS=value).attempts == number


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("customer", "customer"),
        ("customer=", "customer"),
        ("=mine", "table=rule"),
        ("customer=mine,", "an empty entry"),
        ("customer=newset", "newset"),
        ("customer=MINE", "MINE"),
        ("a=mine,a=mine", "a twice"),
        ("a=b=mine", "a=b=mine"),
        ("x" * 64 + "=mine", "64 bytes"),
        ("a,b=mine", "table=rule"),
        ("{a=mine", "JSON object"),
        ('{"a":"mine"', "JSON object"),
        ('{"a":"mine"} {}', "JSON object"),
        ('{"a":"newset"}', "newset"),
        ('{"a":1}', "another type"),
        ('{"a":null}', "another type"),
        ('{"a":["mine"]}', "another type"),
        ('{"a":{"b":"mine"}}', "another type"),
        ('{"a":"mine","a":"theirs"}', "a twice"),
        ('{"":"mine"}', "empty name"),
        ('{"a\\u0000":"mine"}', "empty name"),
        ('{"a\\u001b":"min\\u001b"}', "a\\x1b the rule min\\x1b"),
        (f'{{"{"x" * 64}":"mine"}}', "64 bytes"),
        ("{" + '"a":{' * 100_000, "JSON object"),
    ],
)
def test_conflicts_are_tables_and_rules(value: str, word: str) -> None:
    """What is not table=rule, a rule there is not, a table twice or too long a name: refused and named."""
    message = refusal(VIBEY_STATE_CONFLICTS=value).message
    assert "VIBEY_STATE_CONFLICTS" in message
    assert word in message


def test_conflicts_as_an_object_name_every_table() -> None:
    """A JSON object takes names that the short form cannot, over several lines too; an empty one is no rule."""
    value = '{"weird,name": "mine",\n "a=b":"theirs", "{x":"refuse", " y ":"newest", "app.\\"Order\\"":"columns"}'
    assert settings(VIBEY_STATE_CONFLICTS=value).conflicts == {
        "weird,name": Rule.MINE,
        "a=b": Rule.THEIRS,
        "{x": Rule.REFUSE,
        " y ": Rule.NEWEST,
        'app."Order"': Rule.COLUMNS,
    }
    assert settings(VIBEY_STATE_CONFLICTS="{}").conflicts == {}


@pytest.mark.parametrize("name", ["weird,name", "a=b", "{x", " y", "y ", "a\nb", 'app."Order"', "Größe", "customer"])
def test_the_rule_that_a_conflict_advises_is_one_that_the_setting_takes(name: str) -> None:
    """Whatever the table is called, what the advice says can be set as it stands."""
    advice = settle(Table(name, ("id",), ("id", "v")), b"[1]", None, b'{"id":1}', b'{"id":1,"v":2}')
    assert isinstance(advice, Conflict)
    text = advice.advice.partition("VIBEY_STATE_CONFLICTS=")[2].partition(" or VIBEY_STATE_CONFLICTS=")[0]
    assert settings(VIBEY_STATE_CONFLICTS=text).conflicts == {name: Rule.MINE}


BAD_BRANCHES = [
    "a b", "a..b", ".a", "a/.b", "a.lock", "a.lock/b", "a~", "a^", "a:b", "a?", "a*", "a[", "a\\b", "/a", "a/", "a//b",
    "a.", "@", "a@{b", "-a", "HEAD", "a\x7fb", "refs/heads/a", "x" * 245, "a\udcffb",
]  # fmt: skip


@pytest.mark.parametrize("value", BAD_BRANCHES)
def test_a_branch_is_a_name_that_git_takes(value: str) -> None:
    """Each rule of git-check-ref-format, and a full ref, which would become refs/heads/refs/heads/..."""
    assert "VIBEY_STATE_BRANCH" in refusal(VIBEY_STATE_BRANCH=value).message


@pytest.mark.parametrize(
    "value", ["/a", "a/", "a//b", "..", "a/../b", ".", ".git/a", ".GIT", "a\\b", "x" * 256, "a\tb"]
)
def test_a_path_stays_in_the_tree(value: str) -> None:
    """A path that leaves the tree, or that git keeps for itself, is refused."""
    assert "VIBEY_STATE_PATH" in refusal(VIBEY_STATE_PATH=value).message


@pytest.mark.parametrize(
    "value", ["app", "a/b/c", "https://host.example/a/b", "a/..", "a/.", "/b", "a/", "-a/b", "a b/c"]
)
def test_a_repository_is_owner_and_name(value: str) -> None:
    """Only OWNER/NAME names a repository; a URL belongs into VIBEY_STATE_REMOTE."""
    assert "OWNER/NAME" in refusal(VIBEY_STATE_REPOSITORY=value).message


@pytest.mark.parametrize("name", ["VIBEY_STATE_PG_URL", "VIBEY_PG_URL", "VIBEY_STATE_REMOTE"])
def test_a_password_is_in_no_message(name: str) -> None:
    """A connection string or URL that cannot be used is not repeated, nor part of the settings' representation."""
    error = refusal(**{name: "postgresql://u:hunter2@h/d\x00x"})
    assert "hunter2" not in error.message + error.hint
    assert name in error.message
    assert "hunter2" not in repr(settings(**{name: "postgresql://u:hunter2@h/d"}))
