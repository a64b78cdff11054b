"""Faults to arm: what a server does to the next requests of one kind instead of answering them properly."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum


class Fault(Enum):
    """What happens to a request."""

    SILENT = "nothing is done and no reply is sent"
    CLOSES = "nothing is done and the connection is closed"
    APPLIES_THEN_SILENT = "it is done, and no reply is sent"
    APPLIES_THEN_CLOSES = "it is done, and the connection is closed instead of a reply"
    LATE = "a put is answered at once and lands only when the test says so"
    DENIED = "the reply is an error: access denied"
    CONFLICT = "the reply is the error that tells of a write conflict"
    LOGGED_OUT = "the reply is an error: the certificate is not accepted"
    BROKEN = "the reply is an error that nobody has heard of"


ERRORS = {
    Fault.DENIED: "Access denied",
    Fault.CONFLICT: "write conflict: head is at seq 7, retry the write",
    Fault.LOGGED_OUT: "Authentication required",
    Fault.BROKEN: "something nobody has heard of",
}
"""The message of the faults that are error replies."""


@dataclass
class Armed:
    fault: Fault
    kind: str
    times: int
    skip: int


@dataclass
class Faults:
    """The armed faults; each meets ``times`` requests of its kind (``put``, ``get``, ``query``, ``delete``)."""

    armed: list[Armed] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def arm(self, fault: Fault, kind: str, *, times: int = 1, skip: int = 0) -> None:
        with self.lock:
            self.armed.append(Armed(fault, kind, times, skip))

    def take(self, kind: str) -> Fault | None:
        with self.lock:
            for one in self.armed:
                if one.times and one.kind == kind:
                    if one.skip:
                        one.skip -= 1
                        continue
                    one.times -= 1
                    return one.fault
        return None
