"""What the step ``advance`` says: lines of the log, and a summary of what moved and what needs a person, why, and the
command to run. Whatever comes from documents is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from vibey_actions.actions.summary import code, plain, table
from vibey_actions.documents.report import Event
from vibey_actions.documents.status import Listed, Sort, Status, age
from vibey_actions.lanes import telling
from vibey_actions.lanes.service import Walked
from vibey_actions.text import shown

moved = telling.moved
_HEAD: Final = "### vibey-actions advance"
_NEEDING: Final = (Sort.STUCK, Sort.FAILED)
_LONGEST: Final = 300
_NEXT: Final = """\
To configure them: declare machines in <code>.github/vibey-docs.yml</code> and say where the documents are; \
docs/documents.md of vibey-actions goes through it step by step. Until then this workflow does nothing."""


def not_configured(missing: str) -> str:
    """Why nothing was walked, and what to do."""
    return f"{_HEAD}\n\nNot configured yet, so no document was walked. {plain(missing)}\n\n{_NEXT}"


def log_lines(walked: Iterable[Walked]) -> Iterator[str]:
    """What was done, machine by machine. What was due has been said before."""
    for one in walked:
        told = list(telling.lines(one))
        if told:
            yield f"{one.machine}:"
            yield from told


def failure(walked: Walked) -> tuple[str, str]:
    """Why a machine's tick did not come to its end: the text and the title of an annotation."""
    title = f"vibey-actions advance: {walked.machine}"
    if walked.error is not None:
        hint = f"\nWhat to do: {walked.error.hint}" if walked.error.hint else ""
        return f"{walked.error.message}{hint}", f"{title}: {walked.error.code}"
    reason = walked.report.stopped if walked.report is not None else ""
    return f"{reason}\nWhat to do: what was claimed comes back with its lease; look at the store, then run again", title


def needing_a_person(status: Status) -> int:
    """How many documents do not go on by themselves."""
    return sum(status.total(sort) for sort in _NEEDING)


def summary_of(place: str, walked: Sequence[Walked], status: Status | None) -> str:
    """The step's summary. ``status`` is None where it could not be read."""
    parts = [_HEAD, f"One tick over {plain(place)}.", _due(walked), _moved(walked)]
    if status is not None:
        parts += [_listed(status, _NEEDING, "What needs a person"), _listed(status, (Sort.HELD,), "What is held")]
        parts += [plain(doubt) for doubt in status.doubts]
    return "\n\n".join(part for part in parts if part)


def _due(walked: Iterable[Walked]) -> str:
    rows: list[tuple[str, ...]] = []
    for one in walked:
        if one.report is None:
            told = one.error.message if one.error is not None else "it failed"
            rows.append((code(one.machine), "", "", "", "", "", f"**not walked**: {_cell(told)}"))
            continue
        due, report = one.report.due, one.report
        ends = f"{report.left} left for the next tick ({plain(report.cap)})" if report.left else ""
        ends = f"**ended early**: {_cell(report.stopped)}" if report.stopped else ends
        numbers = (due.ready, due.expired, due.unusable, due.held, due.working)
        rows.append((code(one.machine), *map(str, numbers), ends))
    return table(("machine", "ready", "lease ran out", "unusable", "held", "being worked on", ""), rows)


def _moved(walked: Iterable[Walked]) -> str:
    rows = [_event(event) for one in walked if one.report is not None for event in one.report.events]
    notes = [f"- {_cell(note)}" for one in walked if one.report is not None for note in one.report.notes]
    found = table(("document", "from", "to", "what", "why"), rows) if rows else "Nothing was due; nothing was written."
    return "\n\n".join(part for part in (found, "\n".join(notes)) if part)


def _event(event: Event) -> tuple[str, ...]:
    target = event.target if event.target is not None else ""
    return (code(event.identifier), plain(event.source or "new"), plain(target), event.what.value, _cell(event.reason))


def _listed(status: Status, sorts: Sequence[Sort], title: str) -> str:
    found = [one for sort in sorts for machine in status.machines for one in machine.of(sort)]
    if not found:
        return ""
    total = sum(status.total(sort) for sort in sorts)
    rows = [_row(one, status.now_ms) for one in found]
    more = f"\n\nand {total - len(found)} more: <code>vibey-actions docs status</code>" if total > len(found) else ""
    return f"#### {title} ({total})\n\n" + table(("document", "status", "since", "why", "what to run"), rows) + more


def _row(one: Listed, now: int) -> tuple[str, ...]:
    since = age(now - one.since_ms) if one.since_ms is not None else ""
    command = code(one.command_line) if one.command else ""
    return (code(one.identifier), f"{plain(one.machine)}: {plain(one.status)}", since, _cell(one.reason), command)


def _cell(text: str) -> str:
    return plain(shown(text, _LONGEST))
