"""Who may write what: a case per rule, each with the write that is just allowed beside the one that is not."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.support.lanes import DAILY, JOB, MENTION, NOON, PUBLISH
from vibey_actions.documents.guard import check, check_put, edge_of, refusal
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document
from vibey_actions.errors import DocumentDenied

KIND: Mapping[str, Document] = {
    "job": {"type": "job", "input": "x"},
    "mention-build": {"kind": "mention", "prompt": "x"},
    "publish-request": {"kind": "publish-request", "platform": "ig"},
    "daily": {"kind": "daily", "name": "d"},
}
PENDING: Document = {"status": "pending", "attempts": 1}
HELD: Document = {"attempts": 1, "claimId": "a", "leaseUntil": NOON + 1}
OUT: Document = {"attempts": 1, "claimId": "a", "leaseUntil": NOON - 1}
CLAIM: Document = {"attempts": 2, "claimId": "b", "leaseUntil": NOON + 30_000}

Case = tuple[Machine, Document | None, Document, str | None, str | None]
CASES: dict[str, Case] = {
    "a new job": (JOB, None, {"status": "pending", "attempts": 0}, "author", None),
    "a new job by our lane": (JOB, None, {"status": "pending", "attempts": 0}, "worker", "is written by author"),
    "a new job by nobody": (JOB, None, {"status": "pending", "attempts": 0}, None, "is written by author"),
    "a new job with attempts": (JOB, None, PENDING, "author", "0 attempts"),
    "a new job without attempts": (JOB, None, {"status": "pending"}, "author", "0 attempts"),
    "a new job that is claimed": (JOB, None, {"status": "pending", **HELD, "attempts": 0}, "author", "holds no claim"),
    "a new job that is done": (JOB, None, {"status": "done", "attempts": 0}, "author", "cannot start as done"),
    "a job without a status": (JOB, PENDING, {"attempts": 1}, "author", "none of the machine's"),
    "a job with a status of its own": (
        JOB,
        PENDING,
        {"status": "later", "attempts": 1},
        "author",
        "none of the machine's",
    ),
    "nothing changes": (JOB, PENDING, PENDING, None, None),
    "a claim": (JOB, PENDING, {"status": "running", **CLAIM}, "worker", None),
    "a claim by the author": (JOB, PENDING, {"status": "running", **CLAIM}, "author", "is written by worker"),
    "a claim without an attempt": (
        JOB,
        PENDING,
        {"status": "running", **CLAIM, "attempts": 1},
        "worker",
        "raises attempts",
    ),
    "a claim of two attempts": (
        JOB,
        PENDING,
        {"status": "running", **CLAIM, "attempts": 3},
        "worker",
        "raises attempts",
    ),
    "a claim beyond the attempts": (
        JOB,
        {"status": "pending", "attempts": 3},
        {"status": "running", **CLAIM, "attempts": 4},
        "worker",
        "used up",
    ),
    "a claim without an id": (JOB, PENDING, {"status": "running", **CLAIM, "claimId": ""}, "worker", "fresh claimId"),
    "a claim with the id before": (
        JOB,
        {**PENDING, "claimId": "b"},
        {"status": "running", **CLAIM},
        "worker",
        "fresh claimId",
    ),
    "a claim with the id that finished": (
        JOB,
        {**PENDING, "lastClaimId": "b"},
        {"status": "running", **CLAIM, "lastClaimId": "b"},
        "worker",
        "fresh claimId",
    ),
    "a claim without a lease": (
        JOB,
        PENDING,
        {"status": "running", **CLAIM, "leaseUntil": "soon"},
        "worker",
        "leaseUntil",
    ),
    "a claim that changes the input": (
        JOB,
        PENDING,
        {"status": "running", **CLAIM, "input": "y"},
        "worker",
        "input is fixed",
    ),
    "a claim that brings a result": (
        JOB,
        PENDING,
        {"status": "running", **CLAIM, "output": 1},
        "worker",
        "does not own the field output",
    ),
    "a job straight to done": (JOB, PENDING, {"status": "done", "attempts": 1}, "worker", "no transition"),
    "a finish": (JOB, {"status": "running", **HELD}, {"status": "done", **HELD, "output": 1}, "worker", None),
    "a finish after the lease": (JOB, {"status": "running", **OUT}, {"status": "done", **OUT}, "worker", None),
    "a finish of another claim": (
        JOB,
        {"status": "running", **OUT},
        {"status": "done", **OUT, "claimId": "b"},
        "worker",
        "another one",
    ),
    "a finish without a claim": (
        JOB,
        {"status": "running", **OUT},
        {"status": "done", "attempts": 1},
        "worker",
        "another one",
    ),
    "a finish that counts an attempt": (
        JOB,
        {"status": "running", **HELD},
        {"status": "done", **HELD, "attempts": 2},
        "worker",
        "does not own the field attempts",
    ),
    "a renewal": (
        JOB,
        {"status": "running", **OUT},
        {"status": "running", **OUT, "leaseUntil": NOON + 9},
        "worker",
        None,
    ),
    "a renewal by the author": (
        JOB,
        {"status": "running", **OUT},
        {"status": "running", **OUT, "leaseUntil": NOON + 9},
        "author",
        "written by worker",
    ),
    "a renewal that brings a result": (
        JOB,
        {"status": "running", **HELD},
        {"status": "running", **HELD, "output": 1},
        "worker",
        "does not own",
    ),
    "a release of a lease that ran out": (JOB, {"status": "running", **OUT}, PENDING, "worker", None),
    "a release of a lease that stands": (JOB, {"status": "running", **HELD}, PENDING, "worker", "has not run out"),
    "a release by the holder": (JOB, {"status": "running", **HELD}, {**PENDING, "lastClaimId": "a"}, "worker", None),
    "a release at the very millisecond": (
        JOB,
        {"status": "running", **HELD, "leaseUntil": NOON},
        PENDING,
        "worker",
        "has not run out",
    ),
    "a failure of a lease that stands": (
        JOB,
        {"status": "running", **HELD},
        {"status": "failed", "attempts": 1},
        "worker",
        "has not run out",
    ),
    "a failure of a lease that ran out": (
        JOB,
        {"status": "running", **OUT},
        {"status": "failed", "attempts": 1, "lastError": "x"},
        "worker",
        None,
    ),
    "a failure before any claim": (JOB, PENDING, {"status": "failed", "attempts": 1, "lastError": "x"}, "worker", None),
    "a hold": (JOB, PENDING, {**PENDING, "heldReason": "x"}, "worker", None),
    "a hold of a claimed one": (
        JOB,
        {"status": "running", **HELD},
        {"status": "running", **HELD, "heldReason": "x"},
        "worker",
        "does not own",
    ),
    "an edit": (JOB, PENDING, {**PENDING, "note": "x"}, "author", "no transition"),
    "another kind": (JOB, PENDING, {**PENDING, "type": "note"}, "author", "type has to stay job"),
    "a retry": (
        JOB,
        {"status": "failed", **OUT, "lastError": "x", "output": 1},
        {"status": "pending", "attempts": 0, "previousError": "x"},
        "operator",
        None,
    ),
    "a retry that loses the error": (
        JOB,
        {"status": "failed", **OUT, "lastError": "x"},
        {"status": "pending", "attempts": 0},
        "operator",
        "previousError",
    ),
    "a retry that keeps the attempts": (
        JOB,
        {"status": "failed", "attempts": 3},
        {"status": "pending", "attempts": 3},
        "operator",
        "0 attempts",
    ),
    "a retry that keeps the claim": (
        JOB,
        {"status": "failed", **OUT},
        {"status": "pending", **OUT, "attempts": 0},
        "operator",
        "drops the claim",
    ),
    "a retry by the lane": (
        JOB,
        {"status": "failed", "attempts": 3},
        {"status": "pending", "attempts": 0},
        "worker",
        "operator",
    ),
    "a retry of what is done": (
        JOB,
        {"status": "done", "attempts": 1},
        {"status": "pending", "attempts": 0},
        "operator",
        "no transition",
    ),
    "a vibe's reply": (
        MENTION,
        {"status": "built", "attempts": 1},
        {"status": "replied", "attempts": 1, "replyUrl": "u"},
        "vibe",
        None,
    ),
    "a vibe's error": (
        MENTION,
        {"status": "built", "attempts": 1},
        {"status": "error", "attempts": 1, "lastError": "x"},
        "vibe",
        None,
    ),
    "a vibe that counts attempts": (
        MENTION,
        {"status": "built", "attempts": 1},
        {"status": "replied", "attempts": 0},
        "vibe",
        "does not own the field attempts",
    ),
    "a reply by our lane": (
        MENTION,
        {"status": "built", "attempts": 1},
        {"status": "replied", "attempts": 1},
        "builder",
        "written by vibe",
    ),
    "a re-claim": (MENTION, {"status": "building", **OUT}, {"status": "building", **CLAIM}, "builder", None),
    "a re-claim of a lease that stands": (
        MENTION,
        {"status": "building", **HELD},
        {"status": "building", **CLAIM},
        "builder",
        "has not run out",
    ),
    "a claim in place": (PUBLISH, PENDING, {"status": "pending", **CLAIM, "step": "publish"}, "publisher", None),
    "a claim in place over one that stands": (
        PUBLISH,
        {"status": "pending", **HELD},
        {"status": "pending", **CLAIM},
        "publisher",
        "has not run out",
    ),
    "a claim in place over one that ran out": (
        PUBLISH,
        {"status": "pending", **OUT, "step": "items"},
        {"status": "pending", **CLAIM, "step": "items"},
        "publisher",
        None,
    ),
    "a claim over an unknown outcome": (
        PUBLISH,
        {"status": "pending", **OUT, "step": "publish"},
        {"status": "pending", **CLAIM, "step": "publish"},
        "publisher",
        "never taken over",
    ),
    "an unknown outcome that is released": (
        PUBLISH,
        {"status": "pending", **OUT, "step": "publish"},
        PENDING,
        "publisher",
        "never released",
    ),
    "an unknown outcome that its holder gives back": (
        PUBLISH,
        {"status": "pending", **OUT, "step": "publish"},
        {**PENDING, "lastClaimId": "a"},
        "publisher",
        None,
    ),
    "a finish that clears its claim": (
        PUBLISH,
        {"status": "pending", **OUT},
        {"status": "done", "attempts": 1, "lastClaimId": "a", "permalink": "u"},
        "publisher",
        None,
    ),
    "a finish that clears another's claim": (
        PUBLISH,
        {"status": "pending", **OUT},
        {"status": "done", "attempts": 1, "lastClaimId": "b"},
        "publisher",
        "another one",
    ),
    "a finish that proves nothing": (
        PUBLISH,
        {"status": "pending", **OUT},
        {"status": "done", "attempts": 1},
        "publisher",
        "another one",
    ),
    "a day that is claimed": (DAILY, None, {"status": "claimed", **HELD}, "daily", None),
    "a day that is claimed without an attempt": (
        DAILY,
        None,
        {"status": "claimed", **HELD, "attempts": 0},
        "daily",
        "raises attempts",
    ),
    "a day that is missed": (DAILY, None, {"status": "missed", "attempts": 0}, "daily", None),
    "a day that is claimed twice": (
        DAILY,
        {"status": "claimed", **OUT},
        {"status": "claimed", **CLAIM},
        "daily",
        "no transition",
    ),
}


@pytest.mark.parametrize(("machine", "old", "new", "writer", "reason"), CASES.values(), ids=CASES.keys())
def test_a_write(machine: Machine, old: Document | None, new: Document, writer: str | None, reason: str | None) -> None:
    """The guard lets it, or says why not."""
    before = {**KIND[machine.name], **old} if old is not None else None
    said = refusal(machine, before, {**KIND[machine.name], **new}, writer, NOON)
    assert (said is None) == (reason is None), said
    assert reason is None or reason in str(said)


def test_a_refusal_names_machine_document_and_what_helps() -> None:
    """The error of a store says all of it; what the document holds is not repeated."""
    new: Document = {"_id": "one\x1b[31m", "type": "job", "status": "done", "attempts": 0, "input": "secret"}
    with pytest.raises(DocumentDenied) as denied:
        check(JOB, None, new, "author", NOON)
    assert "machine job" in denied.value.message
    assert "\\x1b[31m" in denied.value.message
    assert "secret" not in denied.value.message
    assert "docs machine job" in denied.value.hint


def test_documents_of_no_machine_are_free() -> None:
    """Other kinds, and other databases, are nobody's business."""
    check_put([JOB], "jobs", None, {"type": "note"}, writer=None, now=NOON)
    check_put([JOB], "other", None, {"type": "job", "status": "done"}, writer=None, now=NOON)
    with pytest.raises(DocumentDenied):
        check_put([JOB], "jobs", None, {"type": "job", "status": "done"}, writer=None, now=NOON)


def test_a_document_of_no_machine_may_not_become_one_in_the_middle() -> None:
    """Turning a note into a job is no creation."""
    with pytest.raises(DocumentDenied, match="cannot become"):
        check_put([JOB], "jobs", {"type": "note"}, {"type": "job", "status": "pending"}, writer="author", now=NOON)


def test_an_edge_is_told_from_what_it_does() -> None:
    """Within one status: a fresh claimId is a claim, the same one a renewal, a cleared one a release."""
    old = {**KIND["publish-request"], "status": "pending", **OUT}
    news = [{**old, **CLAIM}, {**old, "leaseUntil": 1}, {**KIND["publish-request"], **PENDING}]
    edges = [edge_of(PUBLISH, old, new) for new in news]
    assert [edge.act.value if edge is not None else None for edge in edges] == ["claim", "renew", "release"]
