"""The configuration file: what each key means, and that nothing misspelt or contradictory is ever taken."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vibey_actions.config import Config, Migrations, TableConfig, base_of, load_config, parse_config
from vibey_actions.errors import SettingError
from vibey_actions.state.declaration import Rule

BASE = Path("/checkout")
EVERYTHING = """
[state]
public = true
profile = "vibey"
exclude = ["cache", "Größe"]

[migrations]
command = ["vibey", "migrate"]
env = ["DJANGO_SETTINGS_MODULE"]
versions = "SELECT version FROM schema_migration ORDER BY version"

[tables.customer]
conflict = "newest"
newest-by = "updated_at"

[tables."a.b"]
conflict = "mine"

[tables.audit]
append-only = true
triggers = "off"
"""


def parse(text: str) -> Config:
    return parse_config(text, "vibey-state.toml", BASE)


def refusal(text: str) -> str:
    with pytest.raises(SettingError) as caught:
        parse(text)
    assert caught.value.hint
    return caught.value.message


def test_every_key_is_read() -> None:
    """Each key of the specification reaches the value that the engine reads."""
    assert parse(EVERYTHING) == Config(
        public=True,
        profile="vibey",
        exclude=("cache", "Größe"),
        tables={
            "customer": TableConfig(Rule.NEWEST, "updated_at"),
            "a.b": TableConfig(Rule.MINE),
            "audit": TableConfig(append_only=True, triggers="off"),
        },
        migrations=Migrations(
            None,
            ("vibey", "migrate"),
            ("DJANGO_SETTINGS_MODULE",),
            "SELECT version FROM schema_migration ORDER BY version",
        ),
    )


@pytest.mark.parametrize(("text", "documents"), [("", None), ("documents = true", True), ("documents = false", False)])
def test_documents_may_be_in_the_state_or_not(text: str, documents: bool | None) -> None:  # noqa: FBT001
    """The key says so either way; left out, their first use decides."""
    assert parse(f"[state]\n{text}").documents is documents


@pytest.mark.parametrize("text", ["", "[state]", "[migrations]", "[tables]", "[tables.customer]", "# nothing"])
def test_every_key_is_optional(text: str) -> None:
    """A file without keys means what no file means."""
    config = parse(text)
    assert (config.public, config.profile, config.exclude, config.migrations) == (False, None, (), None)
    assert set(config.tables.values()) <= {TableConfig()}


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("[stat]", "stat"),
        ("public = true", "public"),
        ("[state]\npubic = true", "state.pubic"),
        ('[state]\nschema = ["public"]', "state.schema"),
        ('[migrations]\ndir = "x"', "migrations.dir"),
        ('[tables.customer]\nnewest_by = "t"', "tables.customer.newest_by"),
        ('[tables."a.b"]\nrule = "mine"', 'tables."a.b".rule'),
        ("[tables.customer.more]", "tables.customer.more"),
    ],
)
def test_an_unknown_key_is_refused_by_name(text: str, key: str) -> None:
    """A misspelt key is an error that names it in full, and the file."""
    message = refusal(text)
    assert message == f"vibey-state.toml: unknown key {key}"


def test_a_near_miss_is_recognised() -> None:
    """An underscore for a dash gets the right spelling as its hint."""
    with pytest.raises(SettingError) as caught:
        parse('[tables.customer]\nnewest_by = "t"')
    assert caught.value.hint == "did you mean newest-by?"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[state]\npublic = "true"', ("state.public", "true or false", "a text")),
        ("[state]\npublic = 1", ("state.public", "true or false", "a number")),
        ("[state]\nprofile = true", ("state.profile", "a text", "true or false")),
        ('[state]\nexclude = "cache"', ("state.exclude", "a list of texts", "a text")),
        ("[state]\nexclude = [1]", ("state.exclude", "a list of texts", "a number")),
        ('[state]\nexclude = ["a\\u0000"]', ("state.exclude",)),
        ("state = 1", ("state", "a table", "a number")),
        ("state = []", ("state", "a table", "a list")),
        ("tables = 2020-01-01", ("tables", "a table", "a date")),
        ("[tables]\ncustomer = true", ("tables.customer", "a table")),
        ("[tables.customer]\nconflict = 1", ("tables.customer.conflict", "a text")),
        ('[tables.customer]\nappend-only = "yes"', ("tables.customer.append-only", "true or false")),
        ("[tables.customer]\ntriggers = false", ("tables.customer.triggers", "a text", "true or false")),
        ('[tables.customer]\ntriggers = "on"', ("tables.customer.triggers", "is on", "no setting here")),
        ('[tables.customer]\nconflict = ""', ("tables.customer.conflict", "an empty text")),
        ("[migrations]\ndirectory = []", ("migrations.directory", "a text", "a list")),
        ('[migrations]\ncommand = "vibey migrate"', ("migrations.command", "a list of texts")),
        ('[migrations]\nversions = " "', ("migrations.versions", "an empty text")),
    ],
)
def test_a_wrong_type_is_refused(text: str, words: tuple[str, ...]) -> None:
    """The error names the key, what it has to be and what kind of value was found."""
    message = refusal(text)
    assert [word for word in ("vibey-state.toml", *words) if word not in message] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('[state]\nprofile = "vibe"', ("state.profile", "vibe")),
        ('[state]\nexclude = ["a", "b", "a"]', ("state.exclude", "a twice")),
        ('[state]\nexclude = [""]', ("state.exclude", "empty name")),
        ('[state]\nexclude = ["a"]\n[tables.a]', ("a is excluded", "tables.a")),
        ('[state]\ndocuments = "yes"', ("state.documents", "true or false")),
        ('[state]\ndocuments = true\nprofile = "vibey"', ("state.documents", "state.profile", "public.document")),
        ('[state]\ndocuments = true\nexclude = ["document"]', ("state.documents", "state.exclude")),
        ('[state]\ndocuments = true\nschemas = ["app"]', ("state.documents", "state.schemas")),
        ('[tables.customer]\nconflict = "newset"', ("tables.customer.conflict", "newset")),
        ('[tables.customer]\nconflict = "newest"', ("tables.customer", "newest-by")),
        ('[tables.audit]\nappend-only = true\nconflict = "mine"', ("tables.audit", "append-only")),
        ('[tables.audit]\nappend-only = true\nconflict = "refuse"', ("tables.audit", "append-only")),
        ('[tables.audit]\nappend-only = true\nnewest-by = "t"', ("tables.audit", "append-only")),
        ('[migrations]\ndirectory = "m"\ncommand = ["x"]', ("migrations.directory", "migrations.command")),
        ('[migrations]\ndirectory = "m"\nversions = "SELECT 1"', ("migrations.directory", "migrations.versions")),
        ('[migrations]\nenv = ["A"]', ("migrations.env", "migrations.command")),
        ("[migrations]\ncommand = []", ("migrations.command", "no program")),
        ('[migrations]\ncommand = [" "]', ("migrations.command", "no program")),
        ('[migrations]\ncommand = ["x"]\nenv = ["A=1"]', ("migrations.env", "A=1")),
        ('[migrations]\ncommand = ["x"]\nenv = ["VIBEY_STATE_KEY"]', ("migrations.env", "VIBEY_STATE_KEY")),
    ],
)
def test_a_contradiction_is_refused(text: str, words: tuple[str, ...]) -> None:
    """Keys that cannot hold together, or values that mean nothing, are named."""
    message = refusal(text)
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("form", ['[state]\nexclude = ["{}"]', "[tables.{}]", '[tables.a]\nnewest-by = "{}"'])
def test_a_name_is_at_most_63_bytes(form: str) -> None:
    """PostgreSQL would cut a longer name, in the middle of a character even, and two tables could become one."""
    fits = form.replace("[tables.{}]", '[tables."{}"]')
    parse(fits.format("é" * 31 + "x"))
    assert "64 bytes" in refusal(fits.format("é" * 32))


@pytest.mark.parametrize("text", ["[state", "[state]\npublic = yes", "[state]\n[state]", "a = " + "[" * 5000])
def test_what_is_no_toml_is_refused(text: str) -> None:
    """A file that does not parse is an error, however deep it nests."""
    assert refusal(text).startswith("vibey-state.toml is not valid TOML")


def test_a_command_may_keep_its_versions_in_schema_migration() -> None:
    """Without ``versions`` a command is allowed: what schema_migration holds is compared."""
    assert parse('[migrations]\ncommand = ["x"]').migrations == Migrations(command=("x",))


def test_versions_alone_serve_a_database_that_something_else_migrates() -> None:
    """``versions`` without a command says what to compare, and nothing is run."""
    assert parse('[migrations]\nversions = "SELECT 1"').migrations == Migrations(versions="SELECT 1")


def test_the_directory_is_taken_from_the_checkout() -> None:
    """A relative directory starts at the folder that holds .github, else at the checkout's top."""
    parsed = parse('[migrations]\ndirectory = "db/migrations"').migrations
    assert parsed is not None
    assert parsed.directory == BASE / "db/migrations"
    assert base_of(Path("/a/.github/vibey-state.toml"), BASE) == Path("/a")
    assert base_of(Path("/a/other.toml"), BASE) == BASE


def test_columns_and_its_second_rule_are_read() -> None:
    """``conflict = "columns"`` stands alone, or with the rule for what it leaves open."""
    text = '[tables.t]\nconflict = "columns"\n'
    assert parse(text).tables["t"] == TableConfig(Rule.COLUMNS)
    assert parse(text + 'otherwise = "theirs"').tables["t"] == TableConfig(Rule.COLUMNS, otherwise=Rule.THEIRS)
    newest = parse(text + 'otherwise = "newest"\nnewest-by = "at"').tables["t"]
    assert newest == TableConfig(Rule.COLUMNS, "at", otherwise=Rule.NEWEST)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('conflict = "columns"\notherwise = "columns"', "tables.t.otherwise is columns"),
        ('conflict = "columns"\notherwise = "last"', "tables.t.otherwise is last"),
        ('conflict = "mine"\notherwise = "theirs"', "otherwise without conflict"),
        ('otherwise = "theirs"', "otherwise without conflict"),
        ('conflict = "columns"\notherwise = "newest"', "no newest-by"),
        ('conflict = "columns"\nappend-only = true', "append-only"),
    ],
)
def test_a_second_rule_that_cannot_be_is_refused(text: str, message: str) -> None:
    """The second rule needs the first, a rule of its own kind and its column; append-only excludes both."""
    assert message in refusal(f"[tables.t]\n{text}")


def test_schemas_are_read_and_public_is_the_default() -> None:
    """Left out they are public alone; named ones stand in the order of the file."""
    assert parse("").schemas == ("public",)
    assert parse('[state]\nschemas = ["app", "Größe", "public"]').schemas == ("app", "Größe", "public")


@pytest.mark.parametrize(
    ("schemas", "message"),
    [
        ("[]", "names no schema"),
        ('["vibey_actions"]', "vibey_actions"),
        ('["pg_catalog"]', "pg_catalog, which is PostgreSQL's own"),
        ('["public", "information_schema"]', "information_schema, which is PostgreSQL's own"),
        ('["app", "app"]', "app twice"),
        ('["public"]\nprofile = "vibey"', "exclude each other"),
        (f'["{"x" * 64}"]', "64 bytes"),
        ('[""]', "empty name"),
        ('"app"', "a list of texts"),
    ],
)
def test_schemas_that_cannot_be_are_refused(schemas: str, message: str) -> None:
    """Neither our own schema nor PostgreSQL's, none twice, and none beside a profile."""
    assert message in refusal(f"[state]\nschemas = {schemas}")


def test_a_table_of_another_schema_may_have_two_long_names() -> None:
    """Each part of a qualified name has its own 63 bytes; a name that is not qualified has them once."""
    long = "x" * 63
    name = f'{long}."{"y" * 61}""z"'
    assert parse(f"[tables.'{name}']\nappend-only = true").tables.keys() == {name}
    assert parse(f"[state]\nexclude = ['{name}']").exclude == (name,)
    for wrong in (f"{long}x.t", f"t.{long}x", f'"{long}x"."t"', f"{long}.{long}.t"):
        assert "bytes long" in refusal(f"[tables.'{wrong}']\nappend-only = true")


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    """A pipe, a folder or a device in the file's place would never end, or fill the memory."""
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(SettingError, match="no regular file"):
            load_config(tmp_path, name)
