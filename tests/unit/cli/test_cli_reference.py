"""The documentation of commands, settings and errors says what the program does, no more and no less."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from vibey_actions.cli import reference
from vibey_actions.cli.failure import OWN_CODES
from vibey_actions.cli.main import PROGRAM
from vibey_actions.config import parse_config
from vibey_actions.errors import SettingError, VibeyError
from vibey_actions.settings import PREFIX, VARIABLES

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
SOURCE = "\n".join(path.read_text("utf-8") for path in (ROOT / "src" / "vibey_actions").rglob("*.py"))
VARIABLE = re.compile(r"\bVIBEY_[A-Z]+(?:_[A-Z]+)*\b")


@pytest.mark.parametrize("page", sorted(reference.PAGES))
def test_the_generated_part_is_up_to_date(page: str) -> None:
    """`python -m vibey_actions.cli.reference docs` would change nothing."""
    text = (DOCS / page).read_text("utf-8")
    assert reference.rewrite(text, reference.PAGES[page]()) == text
    assert text.count("<!-- generated -->") == text.count("<!-- end -->") == 1


def test_every_command_of_the_specification_is_there() -> None:
    """The commands, by their whole names."""
    assert sorted(path.removeprefix("vibey-actions ") for path, _ in reference.leaves()) == [
        "action advance",
        "action close",
        "action open",
        "action run",
        "action write-back",
        "docs access-js",
        "docs advance",
        "docs del",
        "docs doctor",
        "docs get",
        "docs machine",
        "docs put",
        "docs query",
        "docs retry",
        "docs status",
        "docs sweep",
        "docs watch",
        "doctor",
        "init",
        "migrate",
        "remote run",
        "service install",
        "service run",
        "service status",
        "service uninstall",
        "state export",
        "state forget",
        "state forget-table",
        "state import",
        "state key",
        "state show",
        "state status",
        "state sync",
    ]


def test_every_command_argument_and_option_has_help() -> None:
    """Nothing that can be typed is unexplained."""
    for path, command in reference.leaves():
        assert command.help, path
        assert [one.name for one in command.params if not one.help] == [], path


def test_every_object_of_a_command_is_documented() -> None:
    """Each command that takes --json has its members in the table, and the table names no other."""
    page = (DOCS / "commands.md").read_text("utf-8").partition("## The JSON of a command")[2]
    cells = re.findall(r"^\| (`.*?) \| `", page, re.M)
    named = {words.partition(" --")[0] for cell in cells for words in re.findall(r"`([^`]+)`", cell)}
    there = {path for path, command in reference.leaves() if any("--json" in one.opts for one in command.params)}
    assert named == {path.removeprefix(f"{PROGRAM} ") for path in there}


def test_every_error_has_a_code_of_its_own_and_a_meaning() -> None:
    """Codes are unique, exit codes are 1 or 2, and each class says what it means."""
    kinds = list(reference.error_classes())
    codes = [kind.code for kind in kinds] + list(OWN_CODES)
    assert sorted(codes) == sorted(set(codes))
    assert VibeyError.code not in codes
    assert {kind.exit_code for kind in kinds} | {code for code, _ in OWN_CODES.values()} == {1, 2}
    assert [kind.__name__ for kind in kinds if not kind.__doc__] == []


def test_the_codes_in_the_table_are_the_codes_there_are() -> None:
    """Both ways: every class is in the table, and the table holds no other code."""
    rows = re.findall(r"^\| `([a-z-]+)` \| ([12]) \|", (DOCS / "errors.md").read_text("utf-8"), re.M)
    there = {(kind.code, str(kind.exit_code)) for kind in reference.error_classes()}
    assert set(rows) == there | {(code, str(exit_code)) for code, (exit_code, _) in OWN_CODES.items()}


def test_the_bare_base_is_never_raised() -> None:
    """Every error has a code of its own."""
    assert re.findall(r"raise VibeyError\(", SOURCE) == []


def documented() -> set[str]:
    """The variables with a row of their own."""
    return set(re.findall(r"^\| `(VIBEY_[A-Z_]+)` \|", (DOCS / "settings.md").read_text("utf-8"), re.M))


def test_every_variable_is_documented() -> None:
    """Each setting the source reads from the environment by name has its row, and each row is read by the source."""
    literal = set(re.findall(r"""["'](VIBEY_(?:STATE_[A-Z_]+|DOCS_[A-Z_]+|PG_URL|DEBUG))["']""", SOURCE))
    assert literal == documented()
    assert set(VARIABLES) == {name for name in documented() if name.startswith(PREFIX)}


def test_every_key_of_the_file_is_documented_and_taken() -> None:
    """The table of keys and the reader know the same keys: one more or less on either side fails."""
    rows = re.findall(r"^\| `([a-zA-Z.-]+)` \| ([a-z ]+) \|", (DOCS / "settings.md").read_text("utf-8"), re.M)
    assert rows
    for key, kind in rows:
        *path, last = key.split(".")
        values = {"true or false": "1", "text": "1", "list of texts": "1"}
        with pytest.raises(SettingError) as caught:
            parse_config(f"[{'.'.join(path)}]\n{last} = {values[kind]}", "file", ROOT)
        expected = kind.replace("list", "a list") if "list" in kind else kind
        assert f"file: {key} has to be " in caught.value.message
        assert expected in caught.value.message
    for section in ("state", "migrations", "tables.NAME"):
        with pytest.raises(SettingError) as caught:
            parse_config(f'[{section}]\n"?" = 1', "file", ROOT)
        known = set(caught.value.hint.removeprefix("known here: ").split(", "))
        assert known == {key.rsplit(".", 1)[1] for key, _ in rows if key.rsplit(".", 1)[0] == section}
