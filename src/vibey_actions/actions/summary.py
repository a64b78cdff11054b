"""What a step writes for the person who reads only the summary: what happened, to which tables, and what to do next.

Markdown, made here and nowhere else. Whatever comes from rows, servers and settings passes ``plain`` or ``code``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from vibey_actions.errors import Conflicts, KeyMissing, RemoteDenied, VibeyError
from vibey_actions.state.report import Conflict, Counts, Report
from vibey_actions.text import counted, visible

MOST_ROWS: Final = 200
"""Rows of one table in a summary; the log has them all."""

_MARKUP: Final = re.compile(r"[&<>\"'|`*\[\]\\~#!@$^=]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])|:(?=/)|^[-+]|(?<=^\d)[.)]")

_USE_KEY: Final = """\
      - uses: OWNER/vibey-actions@v1
        with:
          step: {step}
          key: ${{{{ secrets.VIBEY_STATE_KEY }}}}"""
_STORE: Final = (
    "To open it, store the key as a secret of the repository (`vibey-actions state key --show | gh secret set "
    "VIBEY_STATE_KEY`, on the machine that has it) and pass it:"
)
_PERMISSIONS: Final = {
    "contents: write": """\
    permissions:
      contents: write # on the job that runs this step""",
    "actions: read": """\
    permissions: # on the job that runs this step
      contents: write # to move the branch
      actions: read # to find and read the exports""",
}
_SERVICE: Final = """\
    services:
      postgres:
        image: postgres:17
        env:
          POSTGRES_PASSWORD: postgres
        ports: ["5432:5432"]
    # and under with: of the step
          pg-url: postgresql://postgres:postgres@localhost:5432/postgres"""
_DECLARE: Final = """\
# .github/vibey-state.toml: whatever a run prints of the state is then public
[state]
public = true"""
_CHECKOUT: Final = """\
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1
        with:
          persist-credentials: false"""
_EXPORTED: Final = ("close", "write-back")
"""The steps whose conflicts leave an export."""


def plain(text: str) -> str:
    """``text`` for a summary: one line in which nothing is markup, neither of Markdown nor of HTML."""
    return _MARKUP.sub(lambda match: f"&#{ord(match[0])};", visible(text))


def code(text: str) -> str:
    """``text`` in the typeface of code. Entities, not backticks: those do not hold everything inside a table."""
    return f"<code>{plain(text)}</code>"


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already: numbers to the right, everything else to the left."""
    found = list(rows)
    marks = ("--:" if _numeric(row[column] for row in found) else "---" for column in range(len(headers)))
    lines = [f"| {' | '.join(headers)} |", f"|{'|'.join(marks)}|"]
    lines += [f"| {' | '.join(row)} |" for row in found[:MOST_ROWS]]
    more = len(found) - MOST_ROWS
    return "\n".join(lines) + (f"\n\nand {more} more, in the log" if more > 0 else "")


def _numeric(cells: Iterable[str]) -> bool:
    said = [cell for cell in cells if cell]
    return bool(said) and all(cell.isdecimal() for cell in said)


def gate(step: str, *, opened: bool, reason: str, text: str) -> str:
    """The gate's decision, and for a closed one what would open it."""
    lines = [f"### vibey-actions {step}", f"Gate: **{'open' if opened else 'closed'}** ({reason}). {plain(text)}"]
    paste = {"no-key": _fenced(_USE_KEY.format(step=step)), "public": _fenced(_DECLARE, "toml")}
    paste["unknown"] = paste["public"]
    if not opened:
        lines += [_STORE if reason == "no-key" else "To open it nevertheless:", paste[reason]]
    return "\n\n".join(lines)


def rows_of(tables: Mapping[str, int]) -> str:
    """How many rows each table holds."""
    return table(("table", "rows"), ((code(name), str(rows)) for name, rows in sorted(tables.items())))


def changes(pull: Mapping[str, Counts], push: Mapping[str, Counts]) -> str:
    """Per table the rows that came from the branch and those that go there; nothing where there are none."""
    ways = {way: counts for way, counts in (("here", pull), ("on the branch", push)) if counts}
    rows = [
        (code(name), *(str(number) for counts in ways.values() for number in _numbers(counts.get(name))))
        for name in sorted({*pull, *push})
    ]
    names = [f"{what} {way}" for way in ways for what in ("new", "changed", "deleted")]
    return table(("table", *names), rows) if rows else ""


def opened(report: Report | None, counts: Mapping[str, int], *, own: bool) -> str:
    """What a job's database holds, and what of that is not on the branch yet."""
    whose = "a PostgreSQL of this job's own" if own else "the declared database"
    if report is None:
        return f"The job has {whose}, migrated and without the state. It is never exported."
    place = code(report.remote) + (f" at {code(report.commit)}" if report.commit else ", still empty,")
    lines = [f"Opened {place} in {whose}: {counted(sum(counts.values()), 'row')} in {counted(len(counts), 'table')}."]
    lines.append(rows_of(counts) if counts else "")
    if report.to_push:
        lines += ["What this database holds besides:", changes({}, report.push)]
    return "\n\n".join(line for line in lines if line)


def unchanged(report: Report) -> str:
    """A job that changed nothing."""
    place = code(report.remote) + (f" at {code(report.commit)}" if report.commit else "")
    return f"This job changed nothing of {place}. Nothing was exported or pushed."


def pushed(report: Report) -> str:
    """A branch that has what a job changed."""
    head = code(report.commit or "")
    moved = f"{counted(report.to_push, 'row')} pushed, {counted(report.to_pull, 'row')} pulled"
    lines = [f"{code(report.remote)} is at {head} now: {moved}.", changes(report.pull, report.push)]
    return "\n\n".join(line for line in lines if line)


def exported(remote: str, rows: int, report: Report | None, name: str, days: int) -> str:
    """An export that waits for the write workflow; without a ``report`` it is not known what the job changed."""
    changed = f"This job changed {counted(report.to_push, 'row')} of {code(remote)}. " if report is not None else ""
    what = (
        f"{changed}The whole of its database ({counted(rows, 'row')}) goes into the sealed artifact {code(name)}, "
        f"which is kept {days} days."
    )
    following = (
        "**What happens next:** the write workflow brings it to the branch. Where none runs after this job, start it "
        "by hand within those days; an export is taken up once, however often it is offered."
    )
    counts = changes({}, report.push) if report is not None else ""
    return "\n\n".join(line for line in (what, counts, following) if line)


def conflicts(step: str, found: Sequence[Conflict]) -> str:
    """Each conflicting row: table, key, why, and what to do next."""
    lines = ["| table | key | why | what to do |", "|---|---|---|---|"]
    lines += [
        f"| {code(one.table)} | {code(one.key)} | {plain(one.why)} | {plain(advice(step, one))} |"
        for one in found[:MOST_ROWS]
    ]
    more = len(found) - MOST_ROWS
    return "\n".join(lines) + (f"\n\nand {more} more, in the log" if more > 0 else "")


def advice(step: str, conflict: Conflict) -> str:
    """What to do about one row. Where the job's work waits as an export, a rule is given to who settles that."""
    if step not in _EXPORTED or not conflict.rules:
        return conflict.advice
    rules = " or ".join(f"rules: {rule}" for rule in conflict.rules)
    return f"{conflict.mend}, or dispatch resolve-conflicts.yml with {rules} (mine is the export's row)"


def hint(step: str, error: VibeyError) -> str:
    """What mends ``error``. A conflict with an export leaves the export."""
    if isinstance(error, Conflicts) and step in _EXPORTED:
        return (
            "settle each row as its line says. The export waits, and every write tries it again; "
            "resolve-conflicts.yml is one of the action's workflows-templates"
        )
    return error.hint


def cure(step: str, error: VibeyError) -> str:
    """The YAML to paste against ``error``, nothing where there is none."""
    if isinstance(error, KeyMissing) or error.code == "key-unusable":
        return _USE_KEY.format(step=step)
    if isinstance(error, RemoteDenied):
        return next((text for right, text in _PERMISSIONS.items() if right in error.hint), "")
    if error.code == "database" and "pg-url" in error.hint:
        return _SERVICE
    if "check the repository out" in error.hint or "check out the run's own commit" in error.hint:
        return _CHECKOUT
    return ""


def failure(step: str, error: VibeyError, paste: str) -> str:
    """Why a step failed, what mends it and, for a conflict, every row."""
    lines = [f"### vibey-actions {step}: failed ({code(error.code)})", plain(error.message)]
    if isinstance(error, Conflicts):
        lines.append(conflicts(step, error.conflicts))
    if mends := hint(step, error):
        lines.append(f"**What to do:** {plain(mends)}")
    if paste:
        lines.append(_fenced(paste))
    return "\n\n".join(lines)


def internal(step: str, told: str) -> str:
    """A fault of ours."""
    return f"### vibey-actions {step}: failed\n\n{plain(told)}. This is a fault of vibey-actions; please report it."


def _numbers(counts: Counts | None) -> tuple[int, int, int]:
    return (counts.inserted, counts.updated, counts.deleted) if counts is not None else (0, 0, 0)


def _fenced(text: str, language: str = "yaml") -> str:
    """A block of our own text, which holds no fence."""
    return f"```{language}\n{text}\n```"
