"""The guard of a machine as JavaScript, for the ``access.js`` of a vibe, which asks it on every put.

What ``guard.refusal`` says in Python, the function says by throwing ``{forbidden: reason}``; a test runs both against
each other under Node. A change in one is a change in the other.
"""

from __future__ import annotations

import json
import re
from typing import Final

from vibey_actions.documents.guard import MAY_CHANGE
from vibey_actions.documents.machine import Machine, Retry, Transition, Writer
from vibey_actions.documents.model import BELIEVABLE_MS, STATUS, UPDATED
from vibey_actions.errors import SettingError

_HANDLE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)


def access_js(machine: Machine, handle: str, *, public: bool = False) -> str:
    """One function that the vibe's ``access.js`` calls for documents of the machine's kind.

    ``handle`` is the account that our own writers sign in as. The function returns a channel, named as the database,
    and with ``public`` a grant that lets anybody read it. Raises SettingError for a handle that is none.
    """
    if not _HANDLE.fullmatch(handle):
        raise SettingError("the handle is no name of an account", "write it without @: letters, digits, ., - and _")
    grant = ", grant: {public: [DB]}" if public else ""
    head = _HEAD.format(
        name=machine.name, function=function_name(machine), kind_field=machine.kind_field, kind=_js(machine.kind)
    )
    return head + "\n".join((_table(machine, handle), _CHECK.replace("__GRANT__", grant), _HELPERS, "})();", ""))


def function_name(machine: Machine) -> str:
    """The name the function has: the machine's in camel case."""
    first, *rest = re.split(r"[-_]", machine.name)
    return first + "".join(part[:1].upper() + part[1:] for part in rest) + "Access"


def _table(machine: Machine, handle: str) -> str:
    rows = {
        "DB": machine.db,
        "KIND_FIELD": machine.kind_field,
        "KIND": machine.kind,
        "HANDLE": handle,
        "LANE": machine.lane,
        "WRITERS": {name: _writer(writer) for name, writer in machine.writers.items()},
        "STATUSES": list(machine.statuses),
        "WORKING": sorted(machine.working),
        "IN_PLACE": sorted(machine.in_place),
        "WAITING": sorted(machine.waiting),
        "LEASE": machine.lease_ms,
        "BELIEVABLE": BELIEVABLE_MS,
        "ATTEMPTS": machine.attempts,
        "ONCE": machine.retry is Retry.ONCE,
        "ONCE_STEPS": sorted(machine.once_steps),
        "FIXED": sorted({*machine.fixed, machine.kind_field}),
        "RESULTS": sorted(machine.results),
        "MAY_CHANGE": {act.value: sorted(fields | {STATUS, UPDATED}) for act, fields in MAY_CHANGE.items()},
        "RESERVED": sorted(frozenset().union(*MAY_CHANGE.values(), {STATUS, UPDATED})),
    }
    lines = [f"  const {name} = {_js(value)};" for name, value in rows.items()]
    edges = ",\n".join(f"    {_js(_key(edge))}: {_js(_edge(edge))}" for edge in machine.transitions)
    return "\n".join([*lines, "  const EDGES = {\n" + edges + ",\n  };"])


def _key(edge: Transition) -> str:
    return f"{edge.source or 'new'} -> {edge.target}"


def _edge(edge: Transition) -> dict[str, object]:
    owns = None if edge.owns is None else sorted(edge.owns)
    return {"writer": edge.writer, "act": edge.act.value, "owns": owns}


def _writer(writer: Writer) -> str:
    return f"backend {writer.handler}" if writer.kind == "backend" else writer.kind


def _js(value: object) -> str:
    """A JavaScript literal, safe in a script element too."""
    text = json.dumps(value, ensure_ascii=True)
    return text.replace("<", "\\u003c")


_HEAD: Final = """\
// The transitions of {name}, made by `vibey-actions docs access-js {name}`: make it anew rather than changing it.
// In access.js:  if (doc.{kind_field} === {kind}) return {function}(doc, oldDoc, user, ctx);
// and, so that no document of it turns into another kind:  if (oldDoc && oldDoc.{kind_field} === {kind}) likewise.
const {function} = (() => {{
"""

_CHECK: Final = """
  function access(doc, oldDoc, user, ctx) {
    const old = oldDoc && !oldDoc._deleted ? oldDoc : null;
    const reason = refusal(old, doc, user, ctx, Date.now());
    if (reason) throw {forbidden: reason};
    return {channels: [DB]__GRANT__};
  }

  function refusal(old, doc, user, ctx, now) {
    if (doc[KIND_FIELD] !== KIND) return `${KIND_FIELD} has to stay ${KIND}`;
    if (!STATUSES.includes(doc.status)) return "its status is none of the machine's";
    if (!old) return creation(doc, user, ctx);
    if (old[KIND_FIELD] !== KIND) return `${KIND_FIELD} cannot become ${KIND}`;
    if (changed(old, doc).length === 0) return null;
    const before = STATUSES.includes(old.status) ? old.status : "an unknown status";
    const edge = edgeOf(old, doc);
    if (!edge) return `there is no transition ${before} -> ${doc.status}`;
    return (
      writes(edge.writer, user, ctx, `${before} -> ${doc.status} is written by ${edge.writer}`) ||
      fields(edge, old, doc) ||
      claims(edge, old, doc, now)
    );
  }

  function creation(doc, user, ctx) {
    const edge = own(EDGES, `new -> ${doc.status}`);
    if (!edge) return `a new document cannot start as ${doc.status}`;
    const refused = writes(edge.writer, user, ctx, `a new document in ${doc.status} is written by ${edge.writer}`);
    if (refused) return refused;
    if (edge.act === "claim") return claim({}, doc);
    if (doc.attempts !== 0) return "a new document has 0 attempts";
    return has(doc, "claimId") || has(doc, "leaseUntil") ? "a new document holds no claim" : null;
  }

  function writes(writer, user, ctx, refused) {
    const kind = WRITERS[writer];
    if (kind.startsWith("backend ")) {
      ctx.requireBackend(kind.slice("backend ".length));
      return null;
    }
    if (!user) return refused;
    return kind === "user" || (!user.backend && user.userHandle === HANDLE) ? null : refused;
  }

  function edgeOf(old, doc) {
    if (!text(old.status)) return null;
    const declared = own(EDGES, `${old.status} -> ${doc.status}`);
    if (old.status !== doc.status) return declared;
    const act = within(old, doc);
    if (act === "claim") return declared && declared.act === "claim" ? declared : null;
    if (act) return {writer: LANE, act, owns: []};
    return declared && declared.act === "move" ? declared : null;
  }

  function within(old, doc) {
    const claim = text(doc.claimId);
    if (claimed(old)) {
      if (claim !== null && claim === text(old.claimId)) return "renew";
      if (claim === null && IN_PLACE.includes(doc.status)) return "release";
    }
    if (claim !== null && !same(old.claimId, doc.claimId)) return "claim";
    const held = changed(old, doc).every((name) => name === "heldReason" || name === "updatedAt");
    return held && WAITING.includes(doc.status) && !claimed(old) ? "hold" : null;
  }

  function fields(edge, old, doc) {
    for (const name of changed(old, doc)) {
      if (MAY_CHANGE[edge.act].includes(name)) continue;
      if (FIXED.includes(name)) return `the field ${name} is fixed`;
      const owned = edge.owns === null ? !RESERVED.includes(name) : edge.owns.includes(name);
      const dropped = edge.act === "retry" && RESULTS.includes(name) && !has(doc, name);
      if (!owned && !dropped) return `the transition does not own the field ${name}`;
    }
    return null;
  }

  function claims(edge, old, doc, now) {
    const holder = holds(old, doc);
    switch (edge.act) {
      case "claim":
        return free(old, now, "taken over") || claim(old, doc) || budget(doc);
      case "finish":
        return holder ? null : "the claim on the document is another one";
      case "renew":
        return holder ? lease(doc) : "the claim on the document is another one";
      case "release":
        return holder ? null : free(old, now, "released");
      case "fail":
        return holder ? null : runOut(old, now);
      case "retry":
        return retried(old, doc);
      default:
        return null;
    }
  }
"""

_HELPERS: Final = r"""
  function holds(old, doc) {
    const claim = text(old.claimId);
    return claim !== null && claim === (has(doc, "claimId") ? doc.claimId : doc.lastClaimId);
  }

  function claimed(doc) {
    return WORKING.includes(doc.status) || (IN_PLACE.includes(doc.status) && text(doc.claimId) !== null);
  }

  function free(old, now, what) {
    if (!claimed(old)) return null;
    if (ONCE || ONCE_STEPS.includes(old.step)) return `a claim whose outcome is unknown is never ${what}`;
    return runOut(old, now);
  }

  function runOut(old, now) {
    return claimed(old) && !expired(old, now) ? "the lease on the document has not run out" : null;
  }

  function claim(old, doc) {
    const before = attempts(old);
    if (before === null || doc.attempts !== before + 1) return "a claim raises attempts by one";
    const fresh = text(doc.claimId);
    if (fresh === null || fresh === old.claimId || fresh === old.lastClaimId) return "a claim needs a fresh claimId";
    return lease(doc);
  }

  function lease(doc) {
    return Number.isFinite(doc.leaseUntil) ? null : "leaseUntil has to be a number of milliseconds";
  }

  function budget(doc) {
    const used = attempts(doc);
    return used === null || used > ATTEMPTS ? "its attempts are used up" : null;
  }

  function retried(old, doc) {
    if (doc.attempts !== 0) return "a retry starts with 0 attempts";
    const gone = ["claimId", "leaseUntil", "step", "lastClaimId", "heldReason", "lastError", "outcomeUnknown"];
    if (gone.some((name) => has(doc, name))) return "a retry drops the claim and the error";
    const kept = has(old, "lastError") === has(doc, "previousError") && same(old.lastError, doc.previousError);
    if (!kept) return "a retry keeps lastError as previousError";
    const counted = !changed(old, doc).includes("earlierAttempts") || doc.earlierAttempts === attemptsEver(old);
    return counted ? null : "a retry counts the attempts before it in earlierAttempts";
  }

  function expired(doc, now) {
    const until = doc.leaseUntil;
    if (Number.isFinite(until) && until <= now + LEASE + BELIEVABLE) return until < now;
    const updated = time(doc.updatedAt);
    return updated === null || updated > now + BELIEVABLE || updated < now - LEASE;
  }

  function attempts(doc) {
    const value = doc.attempts;
    if (value === undefined || value === null) return 0;
    return Number.isSafeInteger(value) && value >= 0 ? value : null;
  }

  function attemptsEver(doc) {
    const earlier = doc.earlierAttempts;
    const before = Number.isSafeInteger(earlier) && earlier >= 0 ? earlier : 0;
    return Math.min(before + (attempts(doc) || 0), Number.MAX_SAFE_INTEGER);
  }

  function time(value) {
    const form = /^(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:Z|([+-])(\d\d):?(\d\d))$/;
    const found = typeof value === "string" ? form.exec(value) : null;
    if (!found) return null;
    const [year, month, day, hour, minute, second] = found.slice(1, 7).map((part) => Number(part || 0));
    const moment = new Date(0);
    moment.setUTCFullYear(year, month - 1, day);
    moment.setUTCHours(hour, minute, second);
    const read = [moment.getUTCFullYear(), moment.getUTCMonth() + 1, moment.getUTCDate()];
    const real = year > 0 && hour < 24 && minute < 60 && second < 60;
    if (!real || read[0] !== year || read[1] !== month || read[2] !== day) return null;
    const offset = Number(found[9] || 0) * 60 + Number(found[10] || 0);
    const fraction = Number((found[7] || "").padEnd(3, "0").slice(0, 3));
    return moment.getTime() + fraction - (found[8] === "-" ? -offset : offset) * 60000;
  }

  function changed(old, doc) {
    const names = new Set([...Object.keys(old), ...Object.keys(doc)]);
    const differs = (name) => has(old, name) !== has(doc, name) || !same(old[name], doc[name]);
    return [...names].filter((name) => name !== "_id" && name !== "_rev" && differs(name)).sort();
  }

  function same(one, other) {
    if (one === other) return true;
    if (typeof one !== "object" || typeof other !== "object" || one === null || other === null) return false;
    if (Array.isArray(one) !== Array.isArray(other)) return false;
    const names = Object.keys(one);
    if (names.length !== Object.keys(other).length) return false;
    return names.every((name) => has(other, name) && same(one[name], other[name]));
  }

  function text(value) {
    return typeof value === "string" && value !== "" ? value : null;
  }

  function has(object, name) {
    return Object.prototype.hasOwnProperty.call(object, name) && object[name] !== undefined;
  }

  function own(object, name) {
    return Object.prototype.hasOwnProperty.call(object, name) ? object[name] : null;
  }

  return access;"""
