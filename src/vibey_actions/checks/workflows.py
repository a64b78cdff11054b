"""The checkout's workflows that use this program: read as text, for what is known to be forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from vibey_actions.checks.facts import Facts
from vibey_actions.checks.finding import Finding, note, ok, unknown
from vibey_actions.errors import RemoteFailed
from vibey_actions.text import visible

FOLDER: Final = Path(".github/workflows")
SECRET: Final = "VIBEY_STATE_KEY"  # noqa: S105 - the name of one
_MOST: Final = 1 << 20
_WRITES: Final = re.compile(
    r"^[^#\n]*(?:step:\s*[\"']?write-back|push:\s*[\"']?true|state-write\.yml@|state sync(?!.*--no-push))", re.M
)
_MAY_WRITE: Final = re.compile(r"^[^#\n]*(?:contents:\s*[\"']?write|permissions:\s*[\"']?write-all)", re.M)
_OPENS: Final = re.compile(r"^[^#\n]*(?:step:\s*[\"']?(?:open|write-back|close)|state-write\.yml@|state sync)", re.M)
_NOBODYS: Final = re.compile(r"^[^#\n]*uses:\s*[\"']?OWNER/", re.M)
SCHEDULE: Final = re.compile(r"^\s*schedule:", re.M)


def workflows(facts: Facts) -> Iterator[Finding]:
    """Permissions, the key and the schedule of every workflow here that names vibey-actions."""
    root = facts.settings().root
    if not (root / ".git").exists():
        return
    found = {name: text for name, text in workflow_files(root / FOLDER) if "vibey-actions" in text}
    if not found:
        yield note(
            "workflows",
            f"no workflow in {root / FOLDER} uses vibey-actions",
            "`vibey-actions init` writes a first one",
        )
    for name, text in found.items():
        wanting = [*nobodys("workflows", name, text), *_wanting(name, text)]
        yield from wanting or [ok("workflows", f"{name} names the rights and the secret it needs")]
    if facts.on_github and found:
        yield from _on_github(facts, found)


def workflow_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Name and text of every workflow in ``folder``; none where it cannot be read."""
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in {".yml", ".yaml"} and path.is_file())
        for path in files:
            with path.open("rb") as file:
                text = file.read(_MOST).decode("utf-8", "replace")
            yield path.name, text
    except OSError:
        return


def nobodys(check: str, name: str, text: str) -> Iterator[Finding]:
    """Say where a template was copied and still names the action of nobody."""
    if _NOBODYS.search(text):
        yield note(
            check,
            f"{visible(name)} uses OWNER/vibey-actions, and OWNER stands for an account: GitHub finds no such action",
            "write the account that has the copy of vibey-actions you use, in place of OWNER",
        )


def _wanting(name: str, text: str) -> Iterator[Finding]:
    if _WRITES.search(text) and not _MAY_WRITE.search(text):
        yield note(
            "workflows",
            f"{name} pushes the state and nowhere has `contents: write`",
            "add `permissions: contents: write` to the job that pushes, and to that job alone",
        )
    if _OPENS.search(text) and SECRET not in text:
        yield note(
            "workflows",
            f"{name} opens the state and never names the secret {SECRET}",
            f"pass it to the step: key: ${{{{ secrets.{SECRET} }}}}",
        )


def _on_github(facts: Facts, found: dict[str, str]) -> Iterator[Finding]:
    yield from _secret(facts)
    scheduled = [name for name, text in found.items() if SCHEDULE.search(text)]
    if scheduled and not facts.repository().private:
        yield note(
            "workflows",
            f"the schedule of {', '.join(scheduled)} ends after 60 days without activity in a public repository",
            "enable the workflow again when GitHub says so, or push something to the default branch now and then",
        )
    try:
        states = facts.inspection().workflows()
    except RemoteFailed as error:
        yield unknown("workflows", f"whether they are enabled is not known: {error.message}")
        return
    for name in found:
        state = states.get(str(FOLDER / name))
        if state is not None and state != "active":
            yield note(
                "workflows",
                f"GitHub has {name} as {state}: it does not run",
                f"`gh workflow enable {name}`, or the button on its page",
            )


def _secret(facts: Facts) -> Iterator[Finding]:
    try:
        stored = facts.inspection().has_secret(SECRET)
    except RemoteFailed:
        yield unknown("secret", f"this token may not ask whether the secret {SECRET} is stored")
        return
    if stored:
        yield ok("secret", f"the repository has the secret {SECRET}")
    else:
        yield note(
            "secret",
            f"the repository has no secret {SECRET} of its own, or this token may not see it",
            f"vibey-actions state key --show | gh secret set {SECRET}",
        )
