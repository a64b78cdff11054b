"""Whether a machine can work at all: found when it is loaded, not when a document is stuck in it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from vibey_actions.documents.guard import RESERVED
from vibey_actions.documents.machine import Act, Machine, Retry, Transition
from vibey_actions.errors import MachineInvalid
from vibey_actions.text import shown

_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,62}", re.ASCII)
_FIELD: Final = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}", re.ASCII)
_LANE_ACTS: Final = frozenset({Act.CLAIM, Act.FINISH, Act.RELEASE, Act.FAIL})
_SHORTEST_LEASE: Final = 1000
_MOST_ATTEMPTS: Final = 1000


def check_machine(machine: Machine, file: str) -> None:
    """Raises MachineInvalid, naming the machine and what is wrong, for one that could not work."""
    for problem, hint in _problems(machine):
        raise MachineInvalid(f"{file}: the machine {shown(machine.name, 80)}: {problem}", hint)


def _problems(machine: Machine) -> Iterator[tuple[str, str]]:
    yield from _names(machine)
    yield from _writers(machine)
    for edge in machine.transitions:
        yield from _edge(machine, edge)
    yield from _reach(machine)
    yield from _claims(machine)


def _names(machine: Machine) -> Iterator[tuple[str, str]]:
    named = (machine.name, *machine.statuses, *machine.writers, *machine.terminals, machine.failed, machine.lane)
    for name in named:
        if not _NAME.fullmatch(name) or name == "new":
            yield f"the name {shown(name, 80)} cannot be used", "use letters, digits, - and _; new means a new document"
    for name in (*machine.fixed, *machine.results, machine.kind_field):
        if not _FIELD.fullmatch(name) or name in RESERVED:
            yield f"the field {shown(name, 80)} cannot be owned or fixed", "it has a meaning of its own, or is no name"
    for name in sorted(machine.fixed & machine.results):
        yield f"the field {name} is fixed, and a transition owns it", "keep one of the two"
    for status in (*machine.terminals, machine.failed):
        if status not in machine.statuses:
            yield f"{status} is not among the statuses", "add it there"
    if machine.failed not in machine.terminals:
        yield f"the failed status {machine.failed} is not among the terminals", "add it there"
    if machine.lease_ms < _SHORTEST_LEASE:
        yield "the lease is shorter than 1s", "a lease has to outlive a write"
    if machine.attempts > _MOST_ATTEMPTS:
        yield f"it has more than {_MOST_ATTEMPTS} attempts", "attempts bound what a failure costs"


def _writers(machine: Machine) -> Iterator[tuple[str, str]]:
    used = {edge.writer for edge in machine.transitions}
    for name in sorted(used - machine.writers.keys()):
        yield f"the writer {shown(name, 80)} is not declared", "add it to writers"
    for name in sorted(machine.writers.keys() - used):
        yield f"the writer {name} writes nothing", "remove it, or give it a transition"
    if machine.lane not in machine.writers:
        yield f"the lane {machine.lane} is not among the writers", "add it to writers"


def _edge(machine: Machine, edge: Transition) -> Iterator[tuple[str, str]]:
    name = f"{edge.source or 'new'} -> {edge.target}"
    for status in (edge.source, edge.target):
        if status is not None and status not in machine.statuses:
            yield f"{name}: {shown(status, 80)} is not among the statuses", "add it there"
    if edge.act in _LANE_ACTS and edge.writer != machine.lane:
        yield f"{name} is a {edge.act.value} of {edge.writer}", f"only the lane, {machine.lane}, claims and ends claims"
    if edge.claim != (edge.step is not None):
        yield f"{name}: a claim names its step, and nothing else does", "give every claim a step"
    if edge.source in machine.terminals and edge.act is not Act.RETRY:
        yield f"{name} leaves a terminal status", "only a retry may"
    problem = _misplaced(machine, edge)
    if problem:
        yield f"{name}: {problem}", "see the built-in machines for how the acts go together"


def _misplaced(machine: Machine, edge: Transition) -> str:
    """Why the edge's act does not fit where it stands; empty where it does."""
    held = machine.working | machine.in_place
    wrong = {
        Act.FINISH: edge.source not in held or edge.stays,
        Act.RELEASE: edge.source not in machine.working or edge.target not in machine.waiting,
        Act.FAIL: edge.source not in held | machine.waiting or edge.target != machine.failed,
        Act.RETRY: edge.source not in machine.terminals
        or not machine.initial
        or edge.target != machine.initial[0]
        or machine.writers[edge.writer].kind != "handle",
        Act.CLAIM: edge.target in machine.terminals,
    }
    reasons = {
        Act.FINISH: "a finish leaves a claimed status",
        Act.RELEASE: "a release goes from a working status to a waiting one",
        Act.FAIL: "a fail goes from a waiting or claimed status to the failed one",
        Act.RETRY: "a retry goes from a terminal status to the first one, by a writer with a handle",
        Act.CLAIM: "a claim leads to a status that is not terminal",
    }
    return reasons[edge.act] if wrong.get(edge.act, False) else ""


def _reach(machine: Machine) -> Iterator[tuple[str, str]]:
    edges = [edge for edge in machine.transitions if edge.act is not Act.RETRY]
    reached = _closure(machine.initial, [(edge.source, edge.target) for edge in edges])
    ending = _closure(machine.terminals, [(edge.target, edge.source) for edge in edges])
    for status in machine.statuses:
        if status not in reached:
            yield f"the status {status} cannot be reached", "add a transition to it, or remove it"
        if status not in machine.terminals and not any(edge.source == status for edge in edges):
            yield f"the status {status} has no owner", "make it a terminal, or say who moves it on"
        if status not in ending:
            yield f"no transition leads from {status} to an end", "add one"


def _closure(start: Iterable[str], edges: list[tuple[str | None, str | None]]) -> set[str]:
    found, pending = set(start), list(start)
    while pending:
        here = pending.pop()
        following = {target for source, target in edges if source == here and target is not None} - found
        found |= following
        pending += following
    return found


def _claims(machine: Machine) -> Iterator[tuple[str, str]]:
    """Every claim can end well, can end badly, and is recovered when its holder dies."""
    if not machine.working and not machine.in_place:
        yield "it has no claim", "a lane needs one transition with act: claim"
    for status in sorted(machine.working | machine.in_place):
        if not machine.finish_edges(status):
            yield f"a claim in {status} has no finish", "add a transition from it with act: finish"
    for status in sorted(machine.working | machine.waiting):
        if machine.fail_edge(status) is None:
            yield f"{status} has no way to {machine.failed}", "add a transition to it with act: fail"
    for status in sorted(machine.working):
        again = machine.claimable.get(status)
        back = machine.release_edge(status) is not None or status in machine.claimable
        if machine.retry is Retry.RETRY and not back:
            yield (
                f"a claim in {status} that runs out has no way back",
                "add a release, a claim of its own, or retry: once",
            )
        if machine.retry is Retry.ONCE and again is not None:
            yield f"{status} can be claimed again, though retry is once", "remove that claim"
        only_release = machine.retry is Retry.ONCE or not back
        if machine.per_day is not None and only_release and machine.release_edge(status) is None:
            yield f"a cap per day needs a way back from {status}", "add a release, or remove per-day"
