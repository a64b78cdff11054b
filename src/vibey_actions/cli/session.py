"""What a command starts from: the settings and the configuration of this environment, and the engine on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from vibey_actions.cli import console, progress
from vibey_actions.config import load_config
from vibey_actions.errors import SettingError
from vibey_actions.settings import Settings

if TYPE_CHECKING:
    from vibey_actions.operations import Operations
    from vibey_actions.state.progress import Progress


def working_folder() -> Path:
    """Where the command was started. Raises SettingError where that folder is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise SettingError("the current folder does not exist any more", "change to one that does") from None


def settings() -> Settings:
    """The settings of this process's environment. Raises SettingError."""
    return Settings.from_env(os.environ, working_folder())


def operations(shown: Progress) -> Operations:
    """The engine, which says what it does to ``shown``. Raises SettingError."""
    from vibey_actions.operations import Operations

    found = settings()
    config = load_config(found.root, found.config_file)
    return Operations(found, config, os.environ, progress=shown, notice=console.note)


@contextmanager
def working() -> Iterator[Operations]:
    """The engine for one command, its progress shown while the block runs."""
    with progress.shown() as shown:
        yield operations(shown)
