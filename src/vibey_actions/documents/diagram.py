"""A machine drawn: as a Mermaid diagram for pages and summaries, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from vibey_actions.documents.declare import NEW
from vibey_actions.documents.machine import Act, Machine, Retry, Transition

_UNITS: Final = ((3_600_000, "h"), (60_000, "min"), (1000, "s"), (1, "ms"))


def mermaid(machine: Machine) -> str:
    """The machine as a state diagram; GitHub draws it in a ``mermaid`` block."""
    nodes = {status: f"s{place}" for place, status in enumerate(machine.statuses)}
    lines = ["stateDiagram-v2", *(f'    state "{status}" as {node}' for status, node in nodes.items())]
    for edge in machine.transitions:
        source = nodes[edge.source] if edge.source is not None else "[*]"
        lines.append(f"    {source} --> {nodes[edge.target]}: {label(edge)}")
    lines += [f"    {nodes[status]} --> [*]" for status in machine.statuses if status in machine.terminals]
    return "\n".join(lines)


def lines(machine: Machine) -> str:
    """The machine as text: what it is, and a line for every transition."""
    return "\n".join(_lines(machine))


def label(edge: Transition) -> str:
    """Who writes a transition, and what it does besides."""
    act = "" if edge.act is Act.MOVE else f" {edge.act.value}"
    return f"{edge.writer}{act}"


def duration(ms: int) -> str:
    """A length of time in the largest unit that holds it exactly."""
    size, unit = next((size, unit) for size, unit in _UNITS if ms % size == 0)
    return f"{ms // size} {unit}"


def _lines(machine: Machine) -> Iterator[str]:
    yield f"{machine.name}: documents with {machine.kind_field} {machine.kind} in the database {machine.db}"
    policy = "never repeated by itself" if machine.retry is Retry.ONCE else f"at most {machine.attempts} attempts"
    yield f"lease {duration(machine.lease_ms)}, {policy}"
    for step in sorted(machine.once_steps):
        yield f"the step {step} is never repeated by itself"
    for cap, name in ((machine.per_tick, "a tick"), (machine.per_day, "a day")):
        if cap is not None:
            yield f"at most {cap} {name}"
    width = max(len(edge.source or NEW) for edge in machine.transitions)
    across = max(len(edge.target) for edge in machine.transitions)
    for edge in machine.transitions:
        owns = "any field" if edge.owns is None else ", ".join(sorted(edge.owns))
        line = f"  {edge.source or NEW:<{width}} -> {edge.target:<{across}}  {label(edge)}"
        yield f"{line}  (writes {owns})" if owns else line
    for name in machine.statuses:
        if name in machine.terminals:
            yield f"  {name} is an end" + (", from which an operator may retry" if name in machine.failures else "")
