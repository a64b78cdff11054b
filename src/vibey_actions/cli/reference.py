"""The generated parts of the documentation: every command from the command line itself, every error from its class,
every input and output of the action from action.yml beside the pages' folder, and those of the workflows to call.

``python -m vibey_actions.cli.reference docs`` rewrites the parts between the marks; a test compares them.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any, Final

import typer

from vibey_actions.cli.failure import OWN_CODES
from vibey_actions.cli.main import PROGRAM, app
from vibey_actions.documents import diagram
from vibey_actions.documents.declare import BUILT_IN, built_in
from vibey_actions.errors import VibeyError

_MARKED: Final = re.compile(r"(?<=<!-- generated -->\n).*?(?=<!-- end -->)", re.S)


def commands() -> str:
    """A section for every command: what it does, its arguments and options."""
    return "\n\n".join(_section(path, command) for path, command in leaves())


def errors() -> str:
    """A table of every error code: its exit code and what it means."""
    rows = [(kind.code, kind.exit_code, _meaning(kind)) for kind in error_classes()]
    rows += [(code, exit_code, meaning) for code, (exit_code, meaning) in OWN_CODES.items()]
    lines = [f"| `{code}` | {exit_code} | {meaning} |" for code, exit_code, meaning in sorted(rows)]
    return "\n".join(["| code | exit | meaning |", "|---|---|---|", *lines])


def machines() -> str:
    """Every built-in machine: what its own file says of it, its drawing and its lines."""
    return "\n\n".join(_machine(name) for name in BUILT_IN)


def _machine(name: str) -> str:
    found, folder = built_in(name), files("vibey_actions.documents.machines")
    text = (folder / f"{name}.yml").read_text("utf-8")
    said = " ".join(line.removeprefix("#").strip() for line in takewhile(lambda one: one[:1] == "#", text.splitlines()))
    indented = "\n".join(f"    {line}" for line in diagram.lines(found).splitlines())
    return f"### {name}\n\n{said}\n\n```mermaid\n{diagram.mermaid(found)}\n```\n\n{indented}"


def error_classes(base: type[VibeyError] = VibeyError) -> Iterator[type[VibeyError]]:
    """Every class of error that has a code of its own; what a module derives for itself is said under its base's."""
    for kind in base.__subclasses__():
        if "code" in vars(kind):
            yield kind
        yield from error_classes(kind)


def leaves() -> Iterator[tuple[str, Any]]:
    """Every command that does something, with its whole name."""
    pending = [(PROGRAM, typer.main.get_command(app))]
    while pending:
        path, command = pending.pop(0)
        children = getattr(command, "commands", None)
        if children is None:
            yield path, command
        else:
            pending[:0] = [(f"{path} {name}", child) for name, child in children.items()]


def rewrite(page: str, generated: str) -> str:
    """``page`` with its marked part replaced by ``generated``."""
    return _MARKED.sub(lambda _: f"\n{generated}\n\n", page, count=1)


def action() -> str:
    """A table of every input of the action with its default, and one of every output; the same of each workflow."""
    import yaml

    parts = [_tables(yaml.safe_load(MANIFEST.read_text("utf-8")))]
    for file in sorted(WORKFLOWS.glob("*.yml")):
        # The key `on` is a truth value to YAML 1.1.
        triggers = yaml.safe_load(file.read_text("utf-8"))[True]
        if isinstance(triggers, dict) and (called := triggers.get("workflow_call")):
            parts.append(f"### The workflow {file.name}\n\n{_tables(called)}")
    return "\n\n".join(parts)


def _tables(declared: dict[str, Any]) -> str:
    """A table of the inputs with their defaults, one of the secrets, one of the outputs; none that would be empty."""
    inputs, secrets, outputs = (declared.get(kind, {}).items() for kind in ("inputs", "secrets", "outputs"))
    tables = (
        (
            "| input | default | meaning |",
            [f"| `{name}` | {_default(one)} | {one['description']} |" for name, one in inputs],
        ),
        ("| secret | meaning |", [f"| `{name}` | {one['description']} |" for name, one in secrets]),
        ("| output | meaning |", [f"| `{name}` | {one['description']} |" for name, one in outputs]),
    )
    return "\n\n".join("\n".join([head, "|---" * (head.count("|") - 1) + "|", *rows]) for head, rows in tables if rows)


MANIFEST: Final = Path(__file__).parents[3] / "action.yml"
WORKFLOWS: Final = MANIFEST.parent / ".github" / "workflows"
PAGES: Final = {"commands.md": commands, "errors.md": errors, "action.md": action, "documents.md": machines}


def _default(given: dict[str, Any]) -> str:
    if given.get("required"):
        return "required"
    return f"`{given['default']}`" if given["default"] else ""


def _section(path: str, command: Any) -> str:
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = [one for one in command.params if one.param_type_name == "option"]
    usage = " ".join([path, *(_argument(one) for one in arguments), *(_usage(one) for one in options)])
    rows = [f"| `{_argument(one)}` | {one.help} |" for one in arguments]
    rows += [f"| `{_spelled(one)}` | {one.help} |" for one in options]
    table = "\n".join(["| option | meaning |", "|---|---|", *rows]) if rows else "It takes no options."
    return f"## {path.removeprefix(PROGRAM + ' ')}\n\n    {usage}\n\n{command.help}\n\n{table}"


def _argument(argument: Any) -> str:
    return str(argument.metavar if argument.required else f"[{argument.metavar}]")


def _spelled(option: Any) -> str:
    name = option.opts[0]
    return str(name if option.is_flag else f"{name} {option.metavar}")


def _usage(option: Any) -> str:
    return _spelled(option) if option.required else f"[{_spelled(option)}]"


def _meaning(kind: type[VibeyError]) -> str:
    """The first paragraph of the class's documentation."""
    return " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())


def main(folder: Path) -> None:
    """Rewrite the generated part of every page in ``folder``."""
    for name, generate in PAGES.items():
        page = folder / name
        page.write_text(rewrite(page.read_text("utf-8"), generate()), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
