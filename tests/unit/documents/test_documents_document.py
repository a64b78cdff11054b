"""docs/documents.md says what lanes do: its examples load, its keys and commands are those that there are."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from textwrap import dedent

import pytest

from vibey_actions.cli import reference
from vibey_actions.documents.access_js import access_js, function_name
from vibey_actions.documents.declare import _EDGE, _MACHINE, ADJUSTABLE, Part, built_in, parse
from vibey_actions.errors import MachineInvalid
from vibey_actions.lanes.setup import _KEYS, Kind, read_setup

DOCS = Path(__file__).parents[3] / "docs"
TEXT = (DOCS / "documents.md").read_text("utf-8")
EXAMPLES = [dedent(one) for one in re.findall(r"```yaml\n(.*?) *```", TEXT, re.S)]
EXAMPLES.append("machines:" + TEXT.split("    machines:", 1)[1].split("\n\n", 1)[0].replace("\n    ", "\n"))


def rows(head: str) -> list[list[str]]:
    """The rows of the table under the line ``head``."""
    lines = TEXT.split(f"{head}\n", 1)[1].splitlines()[1:]
    table = lines[: next(place for place, line in enumerate(lines) if not line.startswith("|"))]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def named(head: str) -> set[str]:
    """The names in backticks in the first column of a table."""
    return {name for row in rows(head) for name in re.findall(r"`([^`]+)`", row[0])}


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_every_example_loads(number: int, tmp_path: Path) -> None:
    """As the adopter's file: its machines can be walked, its store can be opened."""
    (tmp_path / ".github").mkdir()
    (tmp_path / ".github" / "vibey-docs.yml").write_text(EXAMPLES[number], "utf-8")
    assert read_setup({}, tmp_path).chosen()


def test_every_key_is_described() -> None:
    """Those of the store, of a machine and of a transition, and no others."""
    assert named("| `store` | meaning | default |") == set(_KEYS)
    assert named("| key | meaning |") == set(_MACHINE)
    assert named("| of a transition | meaning |") == set(_EDGE)
    assert named("| kind | claims | for |") == {kind.value for kind in Kind}


def test_what_a_built_in_machine_takes_is_described() -> None:
    """The sentence names each key that may be adjusted, and each is taken."""
    sentence = TEXT.split("A built-in machine takes ", 1)[1].split("`based-on", 1)[0]
    assert set(re.findall(r"`([^`]+)`", sentence)) == set(ADJUSTABLE)
    with pytest.raises(MachineInvalid, match="statuses is no key here"):
        parse("machines: {job: {statuses: [a]}}", "file")


def test_every_command_that_is_shown_exists() -> None:
    """Each line of a terminal names a command, and options that it has."""
    commands = dict(reference.leaves())
    shown = re.findall(r"`?(vibey-actions docs [^\n`#]+)", TEXT)
    assert len(shown) > 10
    for line in shown:
        words = shlex.split(line.strip())
        command = commands[" ".join(words[:3])]
        known = {name for one in command.params for name in one.opts}
        assert {word for word in words[3:] if word.startswith("--")} <= known, line


def test_the_vibes_access_function_calls_what_is_printed() -> None:
    """The example names the function that `docs access-js` prints."""
    name = function_name(built_in("mention-build"))
    assert f"return {name}(doc, oldDoc, user, ctx)" in TEXT
    assert f"const {name} = " in access_js(built_in("mention-build"), "maker")


def test_a_section_of_the_file_is_read_by_name() -> None:
    """An unknown key of the store is refused with the name that it has in the file."""
    with pytest.raises(MachineInvalid, match=r"file: store\.kinds is no key here"):
        Part("file", "store", {"kinds": "x"}).known(_KEYS)
