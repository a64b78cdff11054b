"""A machine: the statuses of one kind of document, and who may move it from which to which.

Source: docs/documents.md, "Which machines". One declaration; the guard, the lane, ``access.js`` and the
diagrams all read it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

from vibey_actions.documents.model import Document, status_of, text_of


class Act(str, Enum):
    """What a transition does besides moving the document."""

    CLAIM = "claim"
    """A worker takes the document: fresh ``claimId``, ``leaseUntil``, ``attempts`` + 1."""
    FINISH = "finish"
    """The holder of the claim says what came of it."""
    RELEASE = "release"
    """A claim is given up: by its holder, or by the sweep once the lease has run out."""
    FAIL = "fail"
    """To a failed status, with a reason: by the holder, by the sweep, or before any claim."""
    MOVE = "move"
    """Another actor's step, outside of any lane of ours."""
    RETRY = "retry"
    """An operator sends a failed document back to the first status."""
    RENEW = "renew"
    """The holder of a claim moves its lease. Every claim may be renewed; it is not declared."""
    HOLD = "hold"
    """The lane writes why a document waits. Not declared either."""


class Retry(str, Enum):
    """What a claim that ran out means."""

    RETRY = "retry"
    """The work is repeated, within the attempts."""
    ONCE = "once"
    """The work may have been done: never repeated by itself."""


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes as this name: ``handle`` (a person's or runner's account), ``user`` (anybody signed in), ``backend``
    (the vibe's own handler ``handler``)."""

    name: str
    kind: str
    handler: str | None = None


@dataclass(frozen=True, slots=True)
class Transition:
    """One edge. ``source`` None is a new document; ``owns`` None means any field that nothing else protects."""

    source: str | None
    target: str
    writer: str
    act: Act = Act.MOVE
    step: str | None = None
    owns: frozenset[str] | None = frozenset()

    @property
    def claim(self) -> bool:
        return self.act is Act.CLAIM

    @property
    def stays(self) -> bool:
        return self.source == self.target


@dataclass(frozen=True)
class Machine:
    """A kind of document and its transitions, checked by ``check_machine`` when it is loaded."""

    name: str
    kind_field: str
    kind: str
    db: str
    statuses: tuple[str, ...]
    terminals: frozenset[str]
    failed: str
    lane: str
    writers: Mapping[str, Writer]
    transitions: tuple[Transition, ...]
    lease_ms: int
    attempts: int
    retry: Retry = Retry.RETRY
    once_steps: frozenset[str] = frozenset()
    fixed: frozenset[str] = frozenset()
    per_tick: int | None = None
    per_day: int | None = None
    settings: Mapping[str, object] = field(default_factory=dict)
    """What the machine's step is configured with; the step checks it."""

    @cached_property
    def _edges(self) -> dict[tuple[str | None, str], Transition]:
        return {(edge.source, edge.target): edge for edge in self.transitions}

    def edge(self, source: str | None, target: str) -> Transition | None:
        """The declared transition between two statuses."""
        return self._edges.get((source, target))

    def edges_from(self, source: str | None, act: Act | None = None) -> Iterator[Transition]:
        for edge in self.transitions:
            if edge.source == source and act in (None, edge.act):
                yield edge

    @cached_property
    def initial(self) -> tuple[str, ...]:
        """The statuses a document may begin in; the first is where a retry leads."""
        return tuple(edge.target for edge in self.edges_from(None))

    @cached_property
    def working(self) -> frozenset[str]:
        """Statuses that only a claim leads to: a document there is claimed."""
        return frozenset(edge.target for edge in self.transitions if edge.claim and not edge.stays)

    @cached_property
    def claimable(self) -> Mapping[str, Transition]:
        """The claim that leads on from each status a lane takes documents from."""
        return {edge.source: edge for edge in self.transitions if edge.claim and edge.source is not None}

    @cached_property
    def in_place(self) -> frozenset[str]:
        """Statuses that a claim does not change: there ``claimId`` alone says that the document is claimed."""
        return frozenset(status for status, edge in self.claimable.items() if edge.stays) - self.working

    @cached_property
    def waiting(self) -> frozenset[str]:
        """Statuses in which a document waits for a claim."""
        return frozenset(self.claimable) - self.working

    @property
    def active(self) -> tuple[str, ...]:
        """The statuses that a lane reads: waiting and working ones."""
        return tuple(status for status in self.statuses if status in self.waiting or status in self.working)

    @cached_property
    def failures(self) -> frozenset[str]:
        """The terminal statuses that an operator's retry leads back from."""
        return frozenset(edge.source for edge in self.transitions if edge.act is Act.RETRY and edge.source is not None)

    def owns(self, document: Mapping[str, object]) -> bool:
        """Whether ``document`` is of this machine's kind."""
        return document.get(self.kind_field) == self.kind

    def claimed(self, document: Mapping[str, object]) -> bool:
        """Whether somebody holds a claim on ``document``, run out or not."""
        status = status_of(document)
        return status in self.working or (status in self.in_place and text_of(document, "claimId") is not None)

    def once(self, document: Mapping[str, object]) -> bool:
        """Whether the claim on ``document`` must never be taken over: its outcome is unknown once it has run out."""
        return self.retry is Retry.ONCE or text_of(document, "step") in self.once_steps

    def release_edge(self, status: str) -> Transition | None:
        """The way back to a waiting status from the working one."""
        return next(self.edges_from(status, Act.RELEASE), None)

    def fail_edge(self, status: str) -> Transition | None:
        return next(self.edges_from(status, Act.FAIL), None)

    def finish_edges(self, status: str) -> tuple[Transition, ...]:
        return tuple(self.edges_from(status, Act.FINISH))

    def creator(self, status: str) -> str | None:
        """Who may make a document in ``status``."""
        edge = self.edge(None, status)
        return edge.writer if edge is not None else None

    @cached_property
    def results(self) -> frozenset[str]:
        """The fields that any step or later actor writes: what an operator's retry drops."""
        later = (edge for edge in self.transitions if edge.source is not None and not edge.stays)
        return frozenset().union(*(edge.owns or () for edge in later))


def machine_of(machines: Iterable[Machine], db: str, document: Document) -> Machine | None:
    """The machine that ``document`` in database ``db`` belongs to."""
    return next((machine for machine in machines if machine.db == db and machine.owns(document)), None)
