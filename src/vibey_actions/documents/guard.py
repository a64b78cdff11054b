"""May this writer replace that version of a document by this one? The transition table's one implementation.

The stores ask it on every put, the lane's own writes included; ``access_js`` says the same in JavaScript. Source:
docs/documents.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from vibey_actions.documents.machine import Act, Machine, Transition, machine_of
from vibey_actions.documents.model import (
    ATTEMPTS,
    CLAIM,
    CLAIM_DAY,
    DAY_CLAIMS,
    EARLIER,
    ERROR,
    HELD,
    LAST_CLAIM,
    LEASE,
    PREVIOUS_ERROR,
    STATUS,
    STEP,
    UNKNOWN,
    UPDATED,
    Document,
    attempts_ever,
    attempts_of,
    changed,
    expired,
    number,
    same,
    status_of,
    text_of,
)
from vibey_actions.errors import DocumentDenied
from vibey_actions.text import shown

CLAIM_FIELDS: Final = frozenset({CLAIM, LEASE, STEP})
"""What a claim puts on a document and its end may take away."""
_ENDING: Final = CLAIM_FIELDS | {LAST_CLAIM, ERROR, HELD}
MAY_CHANGE: Final[Mapping[Act, frozenset[str]]] = {
    Act.CLAIM: CLAIM_FIELDS | {ATTEMPTS, CLAIM_DAY, DAY_CLAIMS, HELD},
    Act.FINISH: _ENDING,
    Act.RELEASE: _ENDING,
    Act.FAIL: _ENDING | {UNKNOWN},
    Act.RENEW: frozenset({LEASE, ERROR}),
    Act.HOLD: frozenset({HELD}),
    Act.MOVE: frozenset({ERROR}),
    Act.RETRY: _ENDING | {ATTEMPTS, EARLIER, UNKNOWN, PREVIOUS_ERROR},
}
"""The fields that each kind of transition may change besides ``status``, ``updatedAt`` and those that it owns."""
RESERVED: Final = frozenset().union(*MAY_CHANGE.values(), {STATUS, UPDATED})
"""Fields with a meaning of their own: no transition can own one."""


def check(machine: Machine, old: Mapping[str, object] | None, new: Document, writer: str | None, now: int) -> None:
    """Let ``writer`` replace ``old`` (None: absent or deleted) by ``new`` at ``now``. Raises DocumentDenied."""
    reason = refusal(machine, old, new, writer, now)
    if reason is not None:
        identifier = shown(str(new.get("_id", "")), 120)
        raise DocumentDenied(
            f"the machine {machine.name} refuses the write of {identifier or 'a document'}: {reason}",
            f"`vibey-actions docs machine {machine.name}` shows who may write which transition",
        )


def check_put(
    machines: Iterable[Machine], db: str, old: Document | None, new: Document, *, writer: str | None, now: int
) -> None:
    """``check`` with the machine that ``old`` or ``new`` belongs to; documents of no machine are free."""
    known = tuple(machines)
    machine = (machine_of(known, db, old) if old is not None else None) or machine_of(known, db, new)
    if machine is not None:
        check(machine, old, new, writer, now)


def refusal(
    machine: Machine, old: Mapping[str, object] | None, new: Mapping[str, object], writer: str | None, now: int
) -> str | None:
    """Why the write is refused; None where it is allowed."""
    status = status_of(new)
    if not machine.owns(new):
        return f"{machine.kind_field} has to stay {machine.kind}"
    if status is None or status not in machine.statuses:
        return "its status is none of the machine's"
    if old is None:
        return _creation(machine, new, status, writer)
    if not machine.owns(old):
        return f"{machine.kind_field} cannot become {machine.kind}"
    return _transition(machine, old, new, writer, now) if changed(old, new) else None


def _transition(
    machine: Machine, old: Mapping[str, object], new: Mapping[str, object], writer: str | None, now: int
) -> str | None:
    before, after = _name(machine, status_of(old)), _name(machine, status_of(new))
    edge = edge_of(machine, old, new)
    if edge is None:
        return f"there is no transition {before} -> {after}"
    if writer != edge.writer:
        return f"{before} -> {after} is written by {edge.writer}"
    return _fields(machine, edge, old, new) or _claims(machine, edge, old, new, now)


def edge_of(machine: Machine, old: Mapping[str, object], new: Mapping[str, object]) -> Transition | None:
    """The transition that a write would be; those within one status are told apart by what they do to the claim."""
    source, target = status_of(old), status_of(new)
    if source is None or target is None:
        return None
    if source != target:
        return machine.edge(source, target)
    declared = machine.edge(source, source)
    act = _within(machine, old, new, source)
    if act is Act.CLAIM:
        return declared if declared is not None and declared.claim else None
    if act is not None:
        return Transition(source, source, machine.lane, act)
    return declared if declared is not None and declared.act is Act.MOVE else None


def _within(machine: Machine, old: Mapping[str, object], new: Mapping[str, object], status: str) -> Act | None:
    """What a write does that leaves the status as it is; None for a move."""
    claim = text_of(new, CLAIM)
    if machine.claimed(old):
        if claim is not None and claim == text_of(old, CLAIM):
            return Act.RENEW
        if claim is None and status in machine.in_place:
            return Act.RELEASE
    if claim is not None and not same(old.get(CLAIM), new.get(CLAIM)):
        return Act.CLAIM
    only_held = changed(old, new) <= {HELD, UPDATED}
    return Act.HOLD if only_held and status in machine.waiting and not machine.claimed(old) else None


def holds(old: Mapping[str, object], new: Mapping[str, object]) -> bool:
    """Whether ``new`` carries the claim on ``old``: as ``claimId``, or as ``lastClaimId`` where it clears that."""
    claim = text_of(old, CLAIM)
    if claim is None:
        return False
    return claim == (new.get(CLAIM) if CLAIM in new else new.get(LAST_CLAIM))


def _creation(machine: Machine, new: Mapping[str, object], status: str, writer: str | None) -> str | None:
    edge = machine.edge(None, status)
    if edge is None:
        return f"a new document cannot start as {status}"
    if writer != edge.writer:
        return f"a new document in {status} is written by {edge.writer}"
    if edge.claim:
        return _claim({}, new)
    if not same(new.get(ATTEMPTS), 0):
        return "a new document has 0 attempts"
    return "a new document holds no claim" if CLAIM in new or LEASE in new else None


def _fields(machine: Machine, edge: Transition, old: Mapping[str, object], new: Mapping[str, object]) -> str | None:
    """No field changes that the transition does not own."""
    allowed = MAY_CHANGE[edge.act] | {STATUS, UPDATED}
    for name in sorted(changed(old, new) - allowed):
        if name in machine.fixed or name == machine.kind_field:
            return f"the field {shown(name, 80)} is fixed"
        owned = name not in RESERVED if edge.owns is None else name in edge.owns
        dropped = edge.act is Act.RETRY and name in machine.results and name not in new
        if not owned and not dropped:
            return f"the transition does not own the field {shown(name, 80)}"
    return None


def _claims(
    machine: Machine, edge: Transition, old: Mapping[str, object], new: Mapping[str, object], now: int
) -> str | None:
    """What the kind of the transition asks of the claim fields."""
    refused: str | None = None
    match edge.act:
        case Act.CLAIM:
            refused = _free(machine, old, now, "taken over") or _claim(old, new) or _budget(machine, new)
        case Act.FINISH | Act.RENEW if not holds(old, new):
            refused = "the claim on the document is another one"
        case Act.RENEW:
            refused = _lease(new)
        case Act.RELEASE if not holds(old, new):
            refused = _free(machine, old, now, "released")
        case Act.FAIL if not holds(old, new):
            refused = _run_out(machine, old, now)
        case Act.RETRY:
            refused = _retried(old, new)
        case _:
            pass
    return refused


def _run_out(machine: Machine, old: Mapping[str, object], now: int) -> str | None:
    held = machine.claimed(old) and not expired(old, machine.lease_ms, now)
    return "the lease on the document has not run out" if held else None


def _free(machine: Machine, old: Mapping[str, object], now: int, what: str) -> str | None:
    """Nobody works on it: no claim, or one that ran out and whose work may be repeated."""
    if not machine.claimed(old):
        return None
    if machine.once(old):
        return f"a claim whose outcome is unknown is never {what}"
    return _run_out(machine, old, now)


def _claim(old: Mapping[str, object], new: Mapping[str, object]) -> str | None:
    before = attempts_of(old)
    if before is None or not same(new.get(ATTEMPTS), before + 1):
        return "a claim raises attempts by one"
    claim = text_of(new, CLAIM)
    if claim is None or claim in (old.get(CLAIM), old.get(LAST_CLAIM)):
        return "a claim needs a fresh claimId"
    return _lease(new)


def _lease(new: Mapping[str, object]) -> str | None:
    return "leaseUntil has to be a number of milliseconds" if number(new.get(LEASE)) is None else None


def _budget(machine: Machine, new: Mapping[str, object]) -> str | None:
    used = attempts_of(new)
    return "its attempts are used up" if used is None or used > machine.attempts else None


def _retried(old: Mapping[str, object], new: Mapping[str, object]) -> str | None:
    if not same(new.get(ATTEMPTS), 0):
        return "a retry starts with 0 attempts"
    if any(name in new for name in (*CLAIM_FIELDS, LAST_CLAIM, HELD, ERROR, UNKNOWN)):
        return "a retry drops the claim and the error"
    if (ERROR in old) != (PREVIOUS_ERROR in new) or not same(old.get(ERROR), new.get(PREVIOUS_ERROR)):
        return "a retry keeps lastError as previousError"
    counted = EARLIER not in changed(old, new) or same(new.get(EARLIER), attempts_ever(old))
    return None if counted else "a retry counts the attempts before it in earlierAttempts"


def _name(machine: Machine, status: str | None) -> str:
    return status if status in machine.statuses else "an unknown status"
