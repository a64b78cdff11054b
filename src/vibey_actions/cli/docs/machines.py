"""``docs machine`` and ``docs access-js``: a machine drawn, and its guard for a vibe."""

from __future__ import annotations

from typing import Annotated

import typer

from vibey_actions.cli import console
from vibey_actions.cli.docs import session
from vibey_actions.cli.options import Json

Name = Annotated[str, typer.Argument(metavar="MACHINE", help="A machine that is built in or declared.")]


def machine(
    name: Name,
    *,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="As a Mermaid diagram, for a page.")] = False,
    as_json: Json = False,
) -> None:
    """Draw a machine: its statuses, who moves a document from which to which, its lease, attempts and caps."""
    from vibey_actions.documents import diagram

    found = session.setup().machine(name)
    if as_json:
        console.json_line({"machine": name, "text": diagram.lines(found), "mermaid": diagram.mermaid(found)})
        return
    for line in (diagram.mermaid(found) if mermaid else diagram.lines(found)).splitlines():
        console.out(line)


def access_js(
    name: Name,
    *,
    handle: Annotated[str, typer.Option("--handle", metavar="H", help="The account that the lane signs in as.")],
    public: Annotated[bool, typer.Option("--public", help="Let anybody read the documents.")] = False,
) -> None:
    """Print the function that a vibe's access.js calls for documents of a machine: the same guard, in JavaScript."""
    from vibey_actions.documents.access_js import access_js as generated

    for line in generated(session.setup().machine(name), handle, public=public).splitlines():
        console.out(line)
