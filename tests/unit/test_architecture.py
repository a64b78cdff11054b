"""Which room may import what: docs/architecture.md, "The rooms", enforced."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src" / "vibey_actions"
DOCUMENT = Path(__file__).parents[2] / "docs" / "architecture.md"

CORE = {"errors", "text", "names", "rows", "state"}
OURS = {
    "errors": set(),
    "text": set(),
    "names": {"errors", "text"},
    "rows": {"errors", "rows"},
    "state": CORE,
    "config": CORE,
    "settings": CORE | {"config"},
    "keys": CORE | {"settings"},
    "postgres": CORE | {"config", "postgres"},
    "remotes": CORE | {"remotes"},
    "documents": {"errors", "text", "names", "rows", "documents"},
    "operations": CORE | {"config", "settings", "keys", "postgres", "remotes", "documents"},
    "lanes": CORE | {"config", "settings", "keys", "postgres", "remotes", "operations", "documents", "lanes"},
    "actions": CORE
    | {"config", "settings", "keys", "postgres", "remotes", "operations", "actions"}
    | {"documents", "lanes"},
    "checks": CORE | {"config", "settings", "keys", "postgres", "remotes", "documents", "lanes", "checks"},
    "service": {"errors", "text", "service"},
    "cli": CORE
    | {"service", "config", "settings", "keys", "postgres", "remotes", "operations", "actions", "checks", "cli"}
    | {"documents", "lanes"},
    "__main__": {"cli"},
    "__init__": set(),
}
"""Each room (a package, or a module beside them) and the rooms it may import."""

ONLY_IN = {
    "psycopg": {"postgres"},
    "requests": {"remotes", "documents"},
    "urllib3": {"remotes"},
    "subprocess": {"postgres", "remotes", "keys", "documents", "actions", "service"},
    "socket": {"postgres", "documents"},
    "http": {"documents"},
    "typer": {"cli"},
    "rich": {"cli"},
    "click": {"cli"},
    "cryptography": {"state"},
    "isal": {"state"},
    "tomllib": {"config"},
    "yaml": {"documents", "cli"},
}
"""Libraries that belong to an edge (or to the seal), and the rooms that may import them."""

INTERFACE = "vibey_actions.remotes.base"
"""What a remote has to offer: a Protocol without code or imports of ours, which the core may name."""

MODULES = sorted(PACKAGE.rglob("*.py"))


def room_of(module: Path) -> str:
    """The room a file stands in."""
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node but those under ``if TYPE_CHECKING:``."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"):
            yield node
            yield from nodes_that_run(node)


def imports_of(text: str, package: str) -> set[str]:
    """Every module a file imports anywhere in it, as dotted names; relative ones resolved against ``package``.

    What only a type checker imports does not count.
    """
    found: set[str] = set()
    for node in nodes_that_run(ast.parse(text)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
            base = ".".join([*parents, *([node.module] if node.module else [])])
            found.update({base} if base != "vibey_actions" else {f"{base}.{alias.name}" for alias in node.names})
    return found


def rooms_imported(module: Path) -> set[str]:
    """Our own rooms that a file imports."""
    package = ".".join(["vibey_actions", *module.relative_to(PACKAGE).parts[:-1]])
    names = imports_of(module.read_text("utf-8"), package)
    return {name.split(".")[1] for name in names - {INTERFACE} if name.startswith("vibey_actions.")} - {"__version__"}


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_below_it(module: Path) -> None:
    """No file imports one of our rooms that the table does not allow its own room; a new room must be declared."""
    room = room_of(module)
    assert room in OURS, f"declare the room {room} here and in docs/architecture.md"
    assert rooms_imported(module) <= OURS[room]


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_library_stays_in_its_room(module: Path) -> None:
    """The driver, the network, processes, the terminal and the cipher are imported only where they belong."""
    libraries = {name.split(".")[0] for name in imports_of(module.read_text("utf-8"), "vibey_actions")}
    astray = {name for name in libraries & ONLY_IN.keys() if room_of(module) not in ONLY_IN[name]}
    assert not astray


def test_the_interface_the_core_may_name_is_nothing_but_one() -> None:
    """remotes/base.py, and the package around it, import nothing of ours and no library."""
    for file in ("base.py", "__init__.py"):
        names = imports_of((PACKAGE / "remotes" / file).read_text("utf-8"), "vibey_actions.remotes")
        assert names <= {"__future__", "collections.abc", "pathlib", "typing"}


def test_the_rooms_have_no_circle() -> None:
    """Going down the allowed imports never comes back to the room one left."""
    order: list[str] = []
    below = {room: allowed - {room} for room, allowed in OURS.items()}
    while below:
        free = sorted(room for room, allowed in below.items() if allowed <= set(order))
        assert free, f"a circle among {sorted(below)}"
        order += free
        below = {room: allowed for room, allowed in below.items() if room not in free}


def test_the_document_names_every_room() -> None:
    """docs/architecture.md has a line for each room and library of the tables here."""
    text = DOCUMENT.read_text("utf-8")
    assert [name for name in {**OURS, **ONLY_IN} if f"`{name}`" not in text and not name.startswith("__")] == []


def test_the_document_names_files_that_are_there() -> None:
    """Every module and test folder that docs/architecture.md and docs/format.md name exists."""
    for document in (DOCUMENT, DOCUMENT.with_name("format.md")):
        named = re.findall(r"`((?:tests/)?[a-z_/0-9]+(?:\.py)?)`", document.read_text("utf-8"))
        files = {name for name in named if name.endswith(".py") or name.startswith("tests/")}
        roots = (PACKAGE, PACKAGE.parents[1])
        assert {name for name in files if not any((root / name).exists() for root in roots)} == set()


def test_imports_are_found_wherever_they_stand() -> None:
    """The reader of imports sees plain, relative, aliased and deferred ones."""
    text = "import a.b as c\nfrom vibey_actions import state\ndef f():\n    from ..rows import x\n    from . import y\n"
    text += "if TYPE_CHECKING:\n    from vibey_actions.cli import main\n"
    expected = {"a.b", "vibey_actions.state", "vibey_actions.rows", "vibey_actions.postgres"}
    assert imports_of(text, "vibey_actions.postgres") == expected
