"""``service``: the sync as a service of this machine's user."""

from __future__ import annotations

import os
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vibey_actions.cli import console, session
from vibey_actions.cli.options import Json
from vibey_actions.cli.sync import YEAR, sync
from vibey_actions.errors import SettingError
from vibey_actions.settings import Settings, config_folder, repository_root

if TYPE_CHECKING:
    from vibey_actions.service.managers import Manager, Status

ENV_FILE = "state-sync.env"
_DEFAULT_SECONDS = 60
_DATABASES = ("VIBEY_STATE_PG_URL", "VIBEY_PG_URL")

Every = Annotated[
    int, typer.Option("--every", metavar="SECONDS", min=1, max=YEAR, help="How long after a round the next one begins.")
]


def install(*, every: Every = _DEFAULT_SECONDS) -> None:
    """Have `state sync --every` run now and at every login, for the checkout of this folder."""
    from vibey_actions.service import environment
    from vibey_actions.service.managers import log_of
    from vibey_actions.service.unit import Unit

    manager, env_file, folder = _manager(), _env_file(), repository_root(session.working_folder())
    unit = Unit(Path(sys.executable), folder, env_file, every, log_of(Path(os.environ.get("HOME", "/"))))
    made = environment.create(env_file, os.environ.get("PATH", os.defpath))
    console.out(f"{'wrote' if made else 'kept'} {env_file}")
    values = environment.read(env_file)
    manager.write(unit)
    console.out(f"wrote {manager.file}")
    if not any(values.get(name) for name in _DATABASES):
        console.out(f"not started yet: write VIBEY_STATE_PG_URL into {env_file}, then run this again")
        return
    Settings.from_env({**_basics(), **values}, folder)
    manager.start()
    console.out(f"started; it works in {folder}, a round every {every} seconds")
    if sys.platform == "linux":
        console.out("to have it go on after you log out: loginctl enable-linger")


def status(*, as_json: Json = False) -> None:
    """Say whether the service runs, and its last lines; ends with 1 where it does not run."""
    manager = _manager()
    found = manager.status()
    if as_json:
        console.json_line({**asdict(found), "file": str(manager.file), "env_file": str(_env_file())})
    else:
        _say(found, manager)
    if not found.running:
        raise typer.Exit(1)


def _say(found: Status, manager: Manager) -> None:
    process = f", process {found.process}" if found.process else ""
    console.out(f"{'running' if found.running else 'not running'}: {found.state}{process}")
    if not found.installed:
        console.out("`vibey-actions service install` makes it")
        return
    console.out(f"unit: {manager.file}")
    console.out(f"environment: {_env_file()}")
    for line in found.lines:
        console.out(f"    {line}")


def uninstall() -> None:
    """Stop the service and take its unit away; its environment file stays."""
    manager, env_file = _manager(), _env_file()
    if manager.remove():
        console.out(f"stopped, and removed {manager.file}")
    else:
        console.out(f"there is no {manager.file}")
    if env_file.exists():
        console.out(f"left in place, as it holds what you wrote: {env_file}")
        console.out(f"    rm {shlex.quote(str(env_file))}")


def run(
    *,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The service's environment file.")],
    every: Every = _DEFAULT_SECONDS,
) -> None:
    """What the service itself runs: `state sync --every` with the variables of its environment file."""
    from vibey_actions.service import environment

    os.environ.update(environment.read(file))
    sync(every=every)


def _manager() -> Manager:
    from vibey_actions.service.managers import manager_for

    return manager_for(sys.platform, os.environ, _config_folder())


def _env_file() -> Path:
    """Beside the key file's usual place."""
    return _config_folder() / "vibey" / ENV_FILE


def _config_folder() -> Path:
    folder = config_folder(os.environ)
    if folder is None or not folder.is_absolute():
        raise SettingError("there is no place for the service's files: HOME is not set", "set HOME")
    return folder


def _basics() -> dict[str, str]:
    return {name: os.environ[name] for name in ("HOME", "XDG_CONFIG_HOME") if name in os.environ}
