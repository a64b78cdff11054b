"""Which commands are reserved, however they are written, and which are not."""

from __future__ import annotations

import pytest

from vibey_actions.actions.reserved import check_command, reserved
from vibey_actions.errors import CommandReserved, SettingError


@pytest.mark.parametrize(
    ("command", "word"),
    [
        ("vibey-actions state sync", "vibey-actions"),
        ("vibey-actions remote run -- ls", "vibey-actions"),
        ("/opt/tools/bin/vibey-actions docs list", "vibey-actions"),
        ("echo x; vibey-actions state key --show", "vibey-actions"),
        ("true&&vibey-actions action open", "vibey-actions"),
        ("x=$(vibey-actions doctor)", "vibey-actions"),
        ("env A=1 timeout 5 './bin/vibey-actions' service install", "vibey-actions"),
        ("vibey''-actions state sync", "vibey-actions"),
        ("vibey\\-actions state sync", "vibey-actions"),
        ("python -m vibey_actions state sync", "vibey_actions"),
        ("python3 -I -m vibey_actions.actions.isolated", "vibey_actions.actions.isolated"),
        ("line\nvibey-actions migrate", "vibey-actions"),
        ("vibey state sync", "vibey state"),
        ("nice /usr/bin/vibey \n state key", "vibey state"),
    ],
)
def test_a_command_that_touches_the_state_is_reserved(command: str, word: str) -> None:
    """The name is found by its last path component anywhere in the words, through quotes and shell operators."""
    assert reserved(command) == word
    with pytest.raises(CommandReserved, match=word) as refused:
        check_command(command)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    "command",
    [
        "make test",
        "vibey -w",
        "vibey status",
        "./vibey-actions-report.sh",
        "cat vibey-actions/README.md",
        "psql $VIBEY_PG_URL -c 'SELECT 1'",
        "vibey_actionsx state",
        "echo vibey; git state",
    ],
)
def test_other_commands_are_not(command: str) -> None:
    """Words that only look alike are no reason to refuse."""
    check_command(command)


@pytest.mark.parametrize("command", ["", " \n ", "a\0b", "x" * 65_537])
def test_what_no_shell_takes_is_refused(command: str) -> None:
    """No command, a NUL character, or more than GitHub hands on: exit 2 before anything starts."""
    with pytest.raises(SettingError) as refused:
        check_command(command)
    assert refused.value.code == "setting"
