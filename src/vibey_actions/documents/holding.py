"""A claim that was won: renewed while the step runs, and ended by what came of it, as long as it still stands."""

from __future__ import annotations

from dataclasses import dataclass

from vibey_actions.documents import moves
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import LEASE, Document, attempts_of, id_of, number, status_of, work_key
from vibey_actions.documents.report import Event, What
from vibey_actions.documents.steps.base import Outcome, StepResult
from vibey_actions.documents.stores.base import Store
from vibey_actions.errors import DocumentDenied, DocumentInvalid, OutcomeUnknown, StoreFailed


@dataclass(frozen=True, slots=True)
class _Ending:
    """What the document becomes, and what is said of it."""

    document: Document
    what: What
    reason: str = ""


class Holder:
    """The holder of the claim on ``document``; ``source`` is the status it was claimed from, None for a new one."""

    def __init__(self, machine: Machine, store: Store, document: Document, source: str | None) -> None:
        self._machine = machine
        self._store = store
        self._source = source
        self.document = document
        self.identifier = id_of(document)

    @property
    def key(self) -> str:
        """What the effects of this attempt are keyed by."""
        return work_key(self.document)

    @property
    def until_ms(self) -> int:
        """When the lease ends."""
        until = number(self.document.get(LEASE))
        return int(until) if until is not None else 0

    def renew(self) -> bool:
        """A whole lease from now; False where the claim is lost, or where nothing tells whether it was renewed."""
        try:
            standing = self._write(moves.renewed(self._machine, self.document, self._store.now_ms()))
        except (DocumentDenied, OutcomeUnknown, StoreFailed):
            return False
        if standing is not None:
            self.document = standing
        return standing is not None

    def conclude(self, result: StepResult) -> Event:
        """Write what came of the work, unless the claim is lost: then the result does not count."""
        try:
            return self._end(self._ending(result))
        except (DocumentDenied, DocumentInvalid) as error:
            reason = f"what its step answered was refused: {error.message}"
        try:
            return self._end(self._failure(reason, None))
        except (DocumentDenied, DocumentInvalid) as error:
            return self._event(What.REFUSED, None, error.message)

    def give_back(self, reason: str, what: What) -> Event:
        """End the claim before any work was done; ``what`` is said of it."""
        event = self.conclude(StepResult(Outcome.AGAIN, reason))
        return Event(event.identifier, what, event.source, event.target, reason) if event.what is What.AGAIN else event

    def _end(self, ending: _Ending) -> Event:
        try:
            standing = self._write(ending.document)
        except OutcomeUnknown as error:
            return self._event(What.REFUSED, None, error.message)
        if standing is None:
            return self._event(What.LOST, None, "its claim was taken back, so its result does not count")
        return self._event(ending.what, status_of(standing), ending.reason)

    def _write(self, document: Document) -> Document | None:
        return self._store.finish(self._machine.db, self.document, document, writer=self._machine.lane)

    def _event(self, what: What, target: str | None, reason: str) -> Event:
        return Event(self.identifier, what, self._source, target, reason)

    def _ending(self, result: StepResult) -> _Ending:
        once = self._machine.once(self.document)
        match result.outcome:
            case Outcome.DONE:
                return self._success(result)
            case Outcome.FAILED:
                return self._failure(result.reason, result)
            case Outcome.UNKNOWN if once:
                failed = moves.failed(self._machine, self.document, result.reason, self._now, holder=True, unknown=True)
                return _Ending(failed, What.UNKNOWN, result.reason)
            case _:
                return self._another(result.reason)

    def _success(self, result: StepResult) -> _Ending:
        edges = self._machine.finish_edges(status_of(self.document) or "")
        edge = next((edge for edge in edges if result.status in (None, edge.target)), None)
        if edge is None or (result.status is None and len(edges) > 1):
            return self._failure("its step did not say which status it leads to", result)
        document = moves.finished(self._machine, edge, self.document, result.fields, self._now)
        astray = sorted(result.fields.keys() - edge.owns) if edge.owns is not None else []
        note = f"not taken over, since the transition does not own them: {', '.join(astray)}" if astray else ""
        return _Ending(document, What.DONE, note)

    def _another(self, reason: str) -> _Ending:
        """Another attempt, where one is left and the machine has a way back."""
        attempts = attempts_of(self.document)
        if attempts is not None and attempts < self._machine.attempts:
            back = moves.given_back(self._machine, self.document, reason, self._now)
            if back is not None:
                return _Ending(back, What.AGAIN, reason)
        return self._failure(reason, None)

    def _failure(self, reason: str, result: StepResult | None) -> _Ending:
        fields = result.fields if result is not None else None
        failed = moves.failed(self._machine, self.document, reason, self._now, fields=fields, holder=True)
        return _Ending(failed, What.FAILED, reason)

    @property
    def _now(self) -> int:
        return self._store.now_ms()
