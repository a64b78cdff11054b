"""What a document becomes in each transition of a lane. Pure: the store decides whether it may be written."""

from __future__ import annotations

from collections.abc import Mapping

from vibey_actions.documents.guard import CLAIM_FIELDS
from vibey_actions.documents.machine import Act, Machine, Retry, Transition
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
    id_of,
    iso,
    number,
    reason_text,
    status_of,
    text_of,
    without,
)
from vibey_actions.errors import DocumentDenied
from vibey_actions.text import shown


def new_document(machine: Machine, fields: Mapping[str, object], status: str | None, now: int) -> Document:
    """A new document of the machine in ``status`` (None: the first one), with 0 attempts."""
    kind = {machine.kind_field: machine.kind}
    started = {STATUS: status or machine.initial[0], ATTEMPTS: 0, UPDATED: iso(now)}
    return {"createdAt": iso(now), **fields, **kind, **started}


def claimed(
    machine: Machine, edge: Transition, document: Document, now: int, *, claim: str, step: str | None = None
) -> Document:
    """``document`` under a fresh claim; ``attempts`` is counted here, before anything is spent."""
    claimed_document: Document = {
        **without(document, (HELD, STEP)),
        STATUS: edge.target,
        ATTEMPTS: (attempts_of(document) or 0) + 1,
        CLAIM: claim,
        LEASE: now + machine.lease_ms,
        UPDATED: iso(now),
    }
    if step is not None:
        claimed_document[STEP] = step
    if machine.per_day is not None:
        today = day_of(now)
        before = claims_on(document, today)
        claimed_document |= {CLAIM_DAY: today, DAY_CLAIMS: before + 1}
    return claimed_document


def renewed(machine: Machine, document: Document, now: int) -> Document:
    """``document`` with a whole lease from now."""
    return {**document, LEASE: now + machine.lease_ms, UPDATED: iso(now)}


def finished(
    machine: Machine, edge: Transition, document: Document, fields: Mapping[str, object], now: int
) -> Document:
    """``document`` after the step, with those of ``fields`` that the transition owns; None drops a field."""
    return {**_with(_ended(machine, document), edge, fields), STATUS: edge.target, UPDATED: iso(now)}


def failed(
    machine: Machine,
    document: Document,
    reason: str,
    now: int,
    *,
    fields: Mapping[str, object] | None = None,
    holder: bool = False,
    unknown: bool = False,
) -> Document:
    """``document`` in the failed status, saying why. ``holder``: written by who holds the claim; else by the sweep."""
    edge = machine.fail_edge(status_of(document) or "")
    rest = _ended(machine, document) if holder else without(document, (*CLAIM_FIELDS, HELD))
    if edge is not None and fields:
        rest = _with(rest, edge, fields)
    error = f"outcome unknown: {reason}" if unknown else reason
    result: Document = {**rest, STATUS: machine.failed, ERROR: reason_text(error), UPDATED: iso(now)}
    return {**result, UNKNOWN: True} if unknown else result


def given_back(machine: Machine, document: Document, reason: str, now: int) -> Document | None:
    """``document`` as its holder gives it up for another attempt; None where the machine has no way back."""
    status = status_of(document) or ""
    release = machine.release_edge(status)
    said = {ERROR: reason_text(reason), UPDATED: iso(now)}
    if status in machine.in_place or release is not None:
        target = release.target if release is not None else status
        return {**_cleared(document), STATUS: target, **said}
    if status in machine.claimable and machine.retry is Retry.RETRY:
        return {**document, LEASE: 0, **said}
    return None


def swept(machine: Machine, document: Document, now: int) -> Document | None:
    """A document whose lease ran out, taken back or failed; None where the next claim takes it over as it is."""
    attempts = attempts_of(document)
    if machine.once(document):
        return failed(machine, document, "its worker did not finish within the lease", now, unknown=True)
    if attempts is None:
        return failed(machine, document, "its attempts are no count", now)
    if attempts >= machine.attempts:
        return failed(machine, document, f"its worker did not finish, in attempt {attempts} of {machine.attempts}", now)
    release = machine.release_edge(status_of(document) or "")
    if release is None:
        return None
    rest = without(document, (*CLAIM_FIELDS, HELD))
    reason = f"the worker of attempt {attempts} did not finish within the lease"
    return {**rest, STATUS: release.target, ERROR: reason, UPDATED: iso(now)}


def held(document: Document, reason: str, now: int) -> Document | None:
    """``document`` with the reason it waits; None where it says so already."""
    text = reason_text(reason)
    return None if document.get(HELD) == text else {**document, HELD: text, UPDATED: iso(now)}


def retried(machine: Machine, document: Document, now: int, *, again: bool = False) -> tuple[Document, str]:
    """``document`` back in the first status, and the writer of that transition.

    What its steps wrote is dropped, ``lastError`` kept as ``previousError``, and the attempts are counted on, because
    the next ones are others. Raises DocumentDenied where the machine has no way back, and without ``again`` where the
    outcome is unknown.
    """
    name, status = shown(id_of(document), 120), status_of(document)
    edge = next(machine.edges_from(status, Act.RETRY), None) if status is not None else None
    if edge is None:
        ways = ", ".join(sorted(machine.failures)) or "none"
        raise DocumentDenied(
            f"{name} is {shown(status or 'without a status', 60)}, which the machine {machine.name} does not retry",
            f"it retries from: {ways}",
        )
    if document.get(UNKNOWN) is True and not again:
        raise DocumentDenied(
            f"what {name} did last is unknown: doing it again may do it twice",
            "look at the other end first; then add --again to do it all the same",
        )
    dropped = {*CLAIM_FIELDS, LAST_CLAIM, HELD, ERROR, PREVIOUS_ERROR, UNKNOWN, *machine.results}
    result: Document = {**without(document, dropped), STATUS: edge.target, ATTEMPTS: 0, UPDATED: iso(now)}
    if ERROR in document:
        result[PREVIOUS_ERROR] = document[ERROR]
    if attempts_ever(document) > 0:
        result[EARLIER] = attempts_ever(document)
    return result, edge.writer


def day_of(now: int) -> str:
    """The day, in UTC, that a cap per day counts by."""
    return iso(now)[:10]


def claims_on(document: Document, day: str) -> int:
    """How many claims of that day stand on the document."""
    count = number(document.get(DAY_CLAIMS))
    return count if document.get(CLAIM_DAY) == day and isinstance(count, int) and count > 0 else 0


def _ended(machine: Machine, document: Document) -> Document:
    """``document`` at the end of its claim, which it still proves: by ``claimId``, or where that is cleared by
    ``lastClaimId``."""
    if status_of(document) in machine.in_place:
        return without(_cleared(document), (ERROR,))
    return without(document, (LEASE, STEP, HELD, ERROR))


def _cleared(document: Document) -> Document:
    """``document`` without its claim, but for the proof whose it was."""
    rest = without(document, (*CLAIM_FIELDS, HELD))
    claim = text_of(document, CLAIM)
    return {**rest, LAST_CLAIM: claim} if claim is not None else rest


def _with(document: Document, edge: Transition, fields: Mapping[str, object]) -> Document:
    owned = {name: value for name, value in fields.items() if edge.owns is None or name in edge.owns}
    kept = without(document, (name for name, value in owned.items() if value is None))
    return {**kept, **{name: value for name, value in owned.items() if value is not None}}
