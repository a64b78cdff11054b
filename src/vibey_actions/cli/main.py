"""The command ``vibey-actions``: its commands, and the one place where a command ends.

Exit codes, exactly: 0 done or in sync; 1 a conflict, a refusal or a failure; 2 a setting that cannot be used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Final, cast

import typer

from vibey_actions import __version__
from vibey_actions.cli import action, console, failure, remote, service, signals
from vibey_actions.cli.docs import COMMANDS as DOCS
from vibey_actions.cli.doctor import doctor
from vibey_actions.cli.export import export
from vibey_actions.cli.forget import forget, forget_table
from vibey_actions.cli.import_ import import_
from vibey_actions.cli.init import init
from vibey_actions.cli.key import key
from vibey_actions.cli.migrate import migrate
from vibey_actions.cli.show import show
from vibey_actions.cli.status import status
from vibey_actions.cli.sync import sync
from vibey_actions.errors import VibeyError

PROGRAM: Final = "vibey-actions"
# BadParameter's base that all faults of a command line share; typer exports it under no name of its own.
_USAGE: Final = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[2])

app = typer.Typer(rich_markup_mode=None, add_completion=False, pretty_exceptions_enable=False)
state = typer.Typer(rich_markup_mode=None, add_completion=False)
app.add_typer(state, name="state", help="The database and its sealed branch.")

_COMMANDS: Final[dict[str, Callable[..., None]]] = {
    "sync": sync,
    "status": status,
    "export": export,
    "import": import_,
    "show": show,
    "forget": forget,
    "forget-table": forget_table,
    "key": key,
}


def _add(group: typer.Typer, name: str, command: Callable[..., None], **settings: object) -> None:
    """A command of ``group``. Its first sentence stands in the list whole, which typer would cut at the line's end."""
    sentence = " ".join((command.__doc__ or "").split()).partition(". ")[0].rstrip(".") + "."
    group.command(name, short_help=sentence, context_settings=settings or None)(command)


for _name, _command in _COMMANDS.items():
    _add(state, _name, _command)
docs = typer.Typer(rich_markup_mode=None, add_completion=False)
app.add_typer(docs, name="docs", help="Work documents, and the lanes that walk them.")
for _name, _command in DOCS.items():
    _add(docs, _name, _command)
steps = typer.Typer(rich_markup_mode=None, add_completion=False)
app.add_typer(steps, name="action", help="The steps of the GitHub action.", hidden=True)
for _name, _step in {
    "open": action.open_,
    "close": action.close,
    "write-back": action.write_back,
    "run": action.run,
    "advance": action.advance,
}.items():
    _add(steps, _name, _step)
_add(app, "init", init)
_add(app, "doctor", doctor)
_add(app, "migrate", migrate)
remotes = typer.Typer(rich_markup_mode=None, add_completion=False)
app.add_typer(remotes, name="remote", help="Commands on a GitHub runner, with the state open.")
_add(remotes, "run", remote.run, allow_interspersed_args=False)
services = typer.Typer(rich_markup_mode=None, add_completion=False)
app.add_typer(services, name="service", help="The sync as a service of this machine.")
_add(services, "install", service.install)
_add(services, "status", service.status)
_add(services, "uninstall", service.uninstall)
_add(services, "run", service.run)


def _version(asked: bool) -> None:  # noqa: FBT001
    if asked:
        console.out(f"{PROGRAM} {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    *,
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Durable, encrypted PostgreSQL state on a git branch, merged three ways."""


def run() -> None:
    """Run the command line of this process and end it."""
    sys.exit(main(sys.argv[1:]))


def main(arguments: Sequence[str]) -> int:
    """Run ``arguments`` as a command and return its exit code; nothing but the exit code comes out."""
    console.prepare()
    as_json = "--json" in arguments
    try:
        try:
            with signals.raising():
                code = _command_line(arguments, as_json=as_json)
        except signals.Interrupted as error:
            code = failure.interrupted(error.name, as_json=as_json)
        console.flush()
    except console.OutputFailed as error:
        return _output_failed(error)
    return code


def _command_line(arguments: Sequence[str], *, as_json: bool) -> int:
    try:
        command = typer.main.get_command(app)
        with command.make_context(PROGRAM, list(arguments)) as context:
            command.invoke(context)
    except typer.Exit as ending:
        return ending.exit_code
    except VibeyError as error:
        return failure.say(error, as_json=as_json)
    except console.OutputFailed:
        raise
    except _USAGE as error:
        context_of_error = error.ctx
        path = context_of_error.command_path if context_of_error is not None else PROGRAM
        return failure.usage(error.format_message(), path, _meant(path, arguments), as_json=as_json)
    except Exception as error:
        if isinstance(error, OSError) and "--help" in arguments:
            raise console.OutputFailed(error) from error
        return failure.internal(error, as_json=as_json)
    return 0


def _meant(path: str, arguments: Sequence[str]) -> str:
    """The commands that a word behind the program's name may stand for, where their group was left out."""
    word = next(iter(arguments), "")
    groups = {"state": _COMMANDS, "docs": DOCS} if path == PROGRAM else {}
    return " or ".join(f"`{PROGRAM} {group} {word}`" for group, names in groups.items() if word in names)


def _output_failed(error: console.OutputFailed) -> int:
    """A reader that went away is no news to anyone; a full disk is."""
    console.abandon()
    if not error.closed:
        console.err(f"error: the output cannot be written: {error.reason}")
    return 1
