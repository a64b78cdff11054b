"""The generated access.js and the guard are one table: Node and Python agree on every write."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from tests.support.lanes import DAILY, JOB, MACHINES, MENTION, NOON, PUBLISH
from vibey_actions.documents.access_js import access_js, function_name
from vibey_actions.documents.declare import parse
from vibey_actions.documents.guard import RESERVED, refusal
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document, iso
from vibey_actions.errors import SettingError

NODE = shutil.which("node")
HANDLE = "runner-1"
USERS: dict[str, dict[str, str] | None] = {
    "nobody": None,
    "us": {"userHandle": HANDLE},
    "visitor": {"userHandle": "someone"},
    "cron": {"userHandle": HANDLE, "backend": "scheduled"},
    "change": {"userHandle": "someone", "backend": "onChange"},
}
Case = tuple[Document, Document | None, str]

needs_node = pytest.mark.skipif(
    NODE is None, reason="NO NODE ON PATH: the generated access.js was not run against the guard"
)


def writers_of(machine: Machine, user: str) -> list[str]:
    """The machine's writers that a user can write as."""
    who = USERS[user]
    if who is None:
        return []
    ours = who["userHandle"] == HANDLE and "backend" not in who
    kinds = {"user", "handle"} if ours else {"user"}
    return [
        w.name
        for w in machine.writers.values()
        if w.kind in kinds or (w.kind == "backend" and w.handler == who.get("backend"))
    ]


def claims() -> list[Document]:
    """Claim fields as a document may carry them: none, standing, run out, finished, and unreadable in several ways."""
    past, future = NOON - 1, NOON + 10_000
    return [
        {},
        {"claimId": "a", "leaseUntil": future},
        {"claimId": "a", "leaseUntil": past},
        {"claimId": "a", "leaseUntil": past, "step": "publish"},
        {"claimId": "b", "leaseUntil": future},
        {"lastClaimId": "a"},
        {"lastClaimId": "a", "claimId": "b", "leaseUntil": future},
        {"claimId": "", "leaseUntil": "soon", "updatedAt": iso(NOON - 10**8)},
        {"claimId": 7, "leaseUntil": NOON * 1000, "updatedAt": iso(NOON)},
        {"claimId": "c", "leaseUntil": None, "updatedAt": "2026-02-30T00:00:00Z"},
        {"claimId": "c", "updatedAt": "2026-01-01T11:60:00Z"},
        {"claimId": "a", "leaseUntil": NOON},
        {"claimId": "a", "lastClaimId": "a", "leaseUntil": future},
    ]


def transitions(machine: Machine) -> Iterator[tuple[Document, Document | None]]:
    """Every pair of statuses, with and without an old document, under every pair of claims."""
    statuses: list[object] = [*machine.statuses, "no-such", None]
    kind: Document = {machine.kind_field: machine.kind}
    for status, claim, attempts in itertools.product(statuses, claims(), (0, 1)):
        yield {**kind, **claim, "status": status, "attempts": attempts}, None
    for before, after in itertools.product(statuses, statuses):
        known = before == after or (isinstance(before, str) and machine.edge(before, str(after)) is not None)
        some = claims() if known else claims()[1:3]
        for old_claim, new_claim, more in itertools.product(some, some, (0, 1)):
            old: Document = {**kind, "status": before, "attempts": 1, **old_claim}
            yield {**kind, "status": after, "attempts": 1 + more, **new_claim}, old


def fields(machine: Machine) -> Iterator[tuple[Document, Document | None]]:
    """Along every declared transition: each field added, changed and removed, with values of every type."""
    names = sorted({*RESERVED, *machine.fixed, *machine.results, "other", machine.kind_field, "toString", "__proto"})
    odd: list[object] = [None, 0, 1, 1.5, True, "1", {"a": [1]}, 2**53, ""]
    for edge in machine.transitions:
        base: Document = {machine.kind_field: machine.kind, "attempts": 1, "claimId": "a", "leaseUntil": NOON - 1}
        start: Document | None = {**base, "status": edge.source} if edge.source is not None else None
        end: Document = {**base, "status": edge.target}
        if edge.claim:
            end |= {"claimId": "b", "attempts": 2 if start else 1, "leaseUntil": NOON + 1}
        elif start is None:
            end = {machine.kind_field: machine.kind, "attempts": 0, "status": edge.target}
        if edge.act == "retry":
            end = {machine.kind_field: machine.kind, "attempts": 0, "status": edge.target}
        yield end, start
        for count in (-2, -1, 0.5, 2**53 - 2, 2**53 - 1):
            yield {**end, "attempts": count + 1}, start and {**start, "attempts": count}
        for name, value in itertools.product(names, odd):
            yield {**end, name: value}, start
            if start is not None:
                yield end, {**start, name: value}
                yield {**end, name: value}, {**start, name: value}
                yield {**end, name: value}, {**start, name: "before"}


def verdicts(machine: Machine, cases: list[Case]) -> list[str | None]:
    """What Node says of every case."""
    given = {
        "source": access_js(machine, HANDLE),
        "name": function_name(machine),
        "now": NOON,
        "cases": [(new, old, USERS[user]) for new, old, user in cases],
    }
    assert NODE is not None
    script = Path(__file__).with_name("access.mjs")
    done = subprocess.run([NODE, script], input=json.dumps(given).encode(), capture_output=True, check=True)
    answer: list[str | None] = json.loads(done.stdout)
    assert len(answer) == len(cases)
    return answer


def expected(machine: Machine, new: Document, old: Document | None, user: str) -> bool:
    """Whether the guard lets any of the writers that the user can be do it."""
    return any(refusal(machine, old, new, writer, NOON) is None for writer in writers_of(machine, user))


def disagreements(
    machine: Machine, pairs: list[tuple[Document, Document | None]], users: Collection[str] = tuple(USERS)
) -> list[object]:
    """The cases in which Node and the guard differ, each with what Node said."""
    known = [(new, old, user) for new, old in pairs for user in users]
    # An unchanged document is absorbed before anybody is asked, and nobody at all may be signed in for that.
    cases = [(new, old, user) for new, old, user in known if old is None or new != old]
    said = verdicts(machine, cases)
    assert not [reason for reason in said if reason and reason.startswith(("broke", "no channel"))]
    return [
        (case, reason) for case, reason in zip(cases, said, strict=True) if (reason is None) != expected(machine, *case)
    ]


OWN = parse(
    """
machines:
  review:
    kind: review
    db: reviews
    lane: lane
    writers: {lane: handle, editor: user, hook: "backend onChange", operator: handle}
    lease: 5s
    attempts: 2
    retry: once
    fixed: [text]
    statuses: [draft, waiting, busy, good, bad]
    terminals: [good, bad]
    failed: bad
    transitions:
      new -> draft: {writer: editor}
      draft -> draft: {writer: editor, owns: "*"}
      draft -> waiting: {writer: hook, owns: [score]}
      waiting -> busy: {writer: lane, act: claim, step: command}
      busy -> waiting: {writer: lane, act: release}
      busy -> good: {writer: lane, act: finish, owns: [note]}
      waiting -> bad: {writer: lane, act: fail}
      busy -> bad: {writer: lane, act: fail, owns: [note]}
      bad -> draft: {writer: operator, act: retry}
""",
    "test",
).machines["review"]


@needs_node
@pytest.mark.parametrize("machine", [*MACHINES, OWN], ids=lambda machine: machine.name)
def test_node_and_the_guard_agree_on_every_transition(machine: Machine) -> None:
    """Every old status, new status, user and pair of claims: allowed by both or by neither."""
    assert disagreements(machine, list(transitions(machine)))[:3] == []


@needs_node
@pytest.mark.parametrize("machine", [*MACHINES, OWN], ids=lambda machine: machine.name)
def test_node_and_the_guard_agree_on_every_field(machine: Machine) -> None:
    """Along every transition, any field added, changed or removed, with values of every type."""
    writing = [user for user in USERS if writers_of(machine, user)]
    assert disagreements(machine, list(fields(machine)), writing)[:3] == []


@needs_node
def test_the_cases_reach_every_transition() -> None:
    """The cases are no empty agreement: each transition of each machine is allowed in one of them."""
    for machine in (*MACHINES, OWN):
        allowed = set()
        for new, old in [*transitions(machine), *fields(machine)]:
            source = old["status"] if old is not None else None
            edge = machine.edge(source, str(new["status"])) if source is None or isinstance(source, str) else None
            if edge is not None and refusal(machine, old, new, edge.writer, NOON) is None:
                allowed.add((edge.source, edge.target))
        assert allowed == {(edge.source, edge.target) for edge in machine.transitions}


@needs_node
def test_they_give_the_same_reasons() -> None:
    """Where both refuse our own writer, the vibe's message is the guard's."""
    for machine in (JOB, PUBLISH, DAILY):
        pairs = [(new, old) for new, old in transitions(machine) if old is None or new != old]
        for (new, old), reason in zip(pairs, verdicts(machine, [(*pair, "us") for pair in pairs]), strict=True):
            mine = {refusal(machine, old, new, writer, NOON) for writer in writers_of(machine, "us")}
            assert reason in mine


def test_no_public_grant_unless_it_is_asked_for() -> None:
    """Anybody may read only with public."""
    assert "grant" not in access_js(JOB, HANDLE)
    assert "grant: {public: [DB]}" in access_js(JOB, HANDLE, public=True)


@pytest.mark.parametrize("handle", ["", 'x"; alert(1); "', "a\nb", "@me"])
def test_a_handle_that_is_none_is_refused(handle: str) -> None:
    """Nothing that could leave its literal gets into the script."""
    with pytest.raises(SettingError):
        access_js(MENTION, handle)
