"""What a tick did and how the lanes stand: as lines for a log and as objects for a program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Final

from vibey_actions.documents.model import iso
from vibey_actions.documents.report import Event, TickReport, What
from vibey_actions.documents.status import Listed, MachineStatus, Sort, Status, age
from vibey_actions.documents.status_html import last_tick
from vibey_actions.lanes.service import Walked

MOVED: Final = (What.DONE, What.MADE, What.AGAIN, What.FAILED, What.UNKNOWN, What.RELEASED, What.HELD)
"""What of a tick's events changed a document for good."""


def lines(walked: Walked) -> Iterator[str]:
    """What one machine's tick did, a line for each document. What was due is said before, by the tick itself."""
    if walked.report is None:
        error = walked.error
        yield f"  {walked.machine} was not walked: {error.message if error is not None else 'it failed'}"
        if error is not None and error.hint:
            yield f"  hint: {error.hint}"
        return
    report = walked.report
    yield from (f"  {event_line(event)}" for event in report.events)
    if report.left:
        yield f"  {report.left} left for the next tick: {report.cap}"
    if report.stopped:
        yield f"  ended early: {report.stopped}"
    yield from (f"  note: {note}" for note in report.notes)


def event_line(event: Event) -> str:
    """One document's part: where it came from, where it went, and why."""
    way = event.source or "new"
    if event.target is not None and event.target != event.source:
        way = f"{way} -> {event.target}"
    reason = f": {event.reason}" if event.reason else ""
    return f"{event.identifier}: {way} ({event.what.value}){reason}"


def moved(walked: Iterable[Walked]) -> int:
    """How many times a document was moved."""
    return sum(len(one.report.of(*MOVED)) for one in walked if one.report is not None)


def as_object(walked: Walked) -> dict[str, object]:
    """One machine's tick as ``--json`` gives it."""
    if walked.report is None:
        error = walked.error
        told = {"code": error.code, "message": error.message, "hint": error.hint} if error is not None else None
        return {"machine": walked.machine, "error": told}
    return {"machine": walked.machine, **_report(walked.report)}


def _report(report: TickReport) -> dict[str, object]:
    due = asdict(report.due)
    del due["machine"]
    return {
        "due": due,
        "events": [
            {
                "id": event.identifier,
                "what": event.what.value,
                "from": event.source,
                "to": event.target,
                "reason": event.reason,
            }
            for event in report.events
        ],
        "counts": report.counts(),
        "left": report.left,
        "cap": report.cap,
        "stopped": report.stopped,
        "notes": list(report.notes),
    }


def status_lines(status: Status) -> Iterator[str]:
    """What needs a look, a person's turn first: which document, why, and what to run."""
    for sort in Sort:
        listed = [one for machine in status.machines for one in machine.of(sort)]
        total = status.total(sort)
        if not total:
            continue
        yield f"{sort.value} ({total}):"
        for one in listed:
            yield from listed_lines(one, status.now_ms)
        if total > len(listed):
            yield f"  and {total - len(listed)} more"
    yield last_tick(status)
    yield from (f"note: {doubt}" for doubt in status.doubts)


def listed_lines(one: Listed, now: int) -> Iterator[str]:
    """One document and why it is listed; then what to run."""
    since = f" since {age(now - one.since_ms)}" if one.since_ms is not None else ""
    yield f"  {one.identifier} ({one.machine}, {one.status}{since}): {one.reason}"
    if one.command:
        yield f"      {one.command_line}"


def status_object(status: Status) -> dict[str, object]:
    """The lanes as ``docs status --json`` gives them; times are ISO 8601 in UTC."""
    tick = status.last_tick
    return {
        "at": iso(status.now_ms),
        "last_tick": {
            "at": iso(tick.at_ms) if tick.at_ms is not None else None,
            "text": tick.text,
            "unknown": tick.unknown,
        },
        "machines": [_machine(machine) for machine in status.machines],
        "doubts": list(status.doubts),
    }


def _machine(machine: MachineStatus) -> dict[str, object]:
    return {
        "machine": machine.machine,
        "counts": dict(machine.counts),
        "oldest": {name: {"id": oldest[0], "since": iso(oldest[1])} for name, oldest in machine.oldest.items()},
        "totals": {sort.value: machine.totals.get(sort, 0) for sort in Sort},
        **{sort.value: [_listed(one) for one in machine.of(sort)] for sort in Sort},
    }


def _listed(one: Listed) -> dict[str, object]:
    return {
        "id": one.identifier,
        "status": one.status,
        "reason": one.reason,
        "since": iso(one.since_ms) if one.since_ms is not None else None,
        "attempts": one.attempts,
        "command": one.command_line,
    }
