"""What a sync did or would do, in lines for a person and as an object for a program."""

from __future__ import annotations

from vibey_actions.cli import console, failure
from vibey_actions.state.report import Counts, Report, SyncState
from vibey_actions.text import counted

_WORDS = {
    SyncState.IN_SYNC: "in sync with",
    SyncState.BEHIND: "behind",
    SyncState.AHEAD: "ahead of",
    SyncState.BOTH_CHANGED: "both this database and the branch changed:",
    SyncState.CONFLICT: "in conflict with",
}


def notes(report: Report) -> None:
    """What is worth knowing besides, on stderr."""
    for text in report.notes:
        console.note(text)


def done(report: Report) -> None:
    """What a sync did: a line per table and direction, and where both ends stand now."""
    for table, counts in sorted(report.pull.items()):
        console.out(f"pulled {table}: {counts_text(counts)}")
    verb = "pushed" if report.pushed else "not pushed"
    for table, counts in sorted(report.push.items()):
        console.out(f"{verb} {table}: {counts_text(counts)}")
    console.out(standing(report))


def summary(report: Report) -> str:
    """What a sync did, in one line."""
    verb = "pushed" if report.pushed else "to push"
    return f"{standing(report)}, pulled {report.to_pull}, {verb} {report.to_push}"


def standing(report: Report) -> str:
    """How the two ends stand to each other, at which commit, with how many rows."""
    place = f"{report.remote} at {report.commit}" if report.commit else f"{report.remote}, which does not exist yet"
    rows = f" ({counted(report.rows, 'row')})" if report.rows is not None else ""
    return f"{_WORDS[report.state]} {place}{rows}"


def would(report: Report) -> None:
    """What a sync would do: a table of counts, and every conflict with what to do."""
    console.out(standing(report))
    names = sorted({*report.pull, *report.push})
    if names:
        console.out(f"a sync would pull {counted(report.to_pull, 'row')} and push {counted(report.to_push, 'row')}")
        console.out()
        headers = ["table", *(f"{way} {what}" for way in ("pull", "push") for what in ("insert", "update", "delete"))]
        console.table(headers, [[name, *_cells(report, name)] for name in names])
    if report.conflicts:
        console.out()
    for line in failure.conflict_lines(report.conflicts):
        console.out(line)


def as_object(report: Report) -> dict[str, object]:
    """The report as ``state status --json`` gives it."""
    return {
        **_common(report),
        "to_pull": report.to_pull,
        "to_push": report.to_push,
        "tables": tables_object(report),
        "conflicts": [failure.conflict_object(conflict) for conflict in report.conflicts],
        "notes": list(report.notes),
    }


def done_object(report: Report) -> dict[str, object]:
    """The report as ``state sync --json`` gives it; ``to_push`` is what ``--no-push`` left."""
    return {
        **_common(report),
        "pulled": report.to_pull,
        "pushed": report.to_push if report.pushed else 0,
        "to_push": 0 if report.pushed else report.to_push,
        "tables": tables_object(report),
        "attempts": report.attempts,
        "notes": list(report.notes),
    }


def tables_object(report: Report) -> dict[str, object]:
    """Per table that changes: the rows inserted, updated and deleted, each way."""
    return {
        name: {
            "pull": _counts_object(report.pull.get(name, Counts())),
            "push": _counts_object(report.push.get(name, Counts())),
        }
        for name in sorted({*report.pull, *report.push})
    }


def counts_text(counts: Counts) -> str:
    """The counts that are not zero, in words."""
    parts = ((counts.inserted, "inserted"), (counts.updated, "updated"), (counts.deleted, "deleted"))
    return ", ".join(f"{count} {word}" for count, word in parts if count) or "nothing"


def _common(report: Report) -> dict[str, object]:
    return {"state": report.state.value, "remote": report.remote, "commit": report.commit, "rows": report.rows}


def _counts_object(counts: Counts) -> dict[str, int]:
    return {"inserted": counts.inserted, "updated": counts.updated, "deleted": counts.deleted}


def _cells(report: Report, name: str) -> list[str]:
    both = (report.pull.get(name, Counts()), report.push.get(name, Counts()))
    return [str(number) for counts in both for number in (counts.inserted, counts.updated, counts.deleted)]
