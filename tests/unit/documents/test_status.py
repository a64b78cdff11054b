"""How lanes stand: every document told apart by what it needs, and the page that shows it."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from tests.support.lanes import DAILY, JOB, MACHINES, MENTION, NOON, PUBLISH, SetClock, add, claim, read
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import Document, iso
from vibey_actions.documents.status import (
    MOST_LISTED,
    NO_STATUS,
    RECENT_MS,
    LastTick,
    Listed,
    Sort,
    Status,
    age,
    look,
    timeline,
)
from vibey_actions.documents.status_html import page
from vibey_actions.documents.stores.memory import MemoryStore

HOUR = 3_600_000
HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>\u202e\x1b[31m' style='x"


class Case:
    """A store, its clock, and what a look at it gives."""

    def __init__(self) -> None:
        self.clock = SetClock(NOON)
        self.store = MemoryStore(MACHINES, self.clock)
        # What other writers leave behind: no guard is asked.
        self.free = MemoryStore((), self.clock)

    def look(self, tick: LastTick | None = None, *, free: bool = False) -> Status:
        return look(MACHINES, self.free if free else self.store, tick or LastTick())

    def listed(self, *, free: bool = False) -> dict[str, Listed]:
        status = self.look(free=free)
        return {one.identifier: one for machine in status.machines for sort in Sort for one in machine.of(sort)}


@pytest.fixture
def case() -> Case:
    return Case()


def test_every_status_is_counted_those_without_documents_too(case: Case) -> None:
    """Each machine counts its own documents, also where two share a database."""
    add(case.store, MENTION, "m-1", prompt="x")
    add(case.store, MENTION, "m-2", "skipped", prompt="x")
    add(case.store, PUBLISH, "p-1")
    found = {machine.machine: machine.counts for machine in case.look().machines}
    assert found["mention-build"] | {"pending-build": 1, "skipped": 1, "built": 0} == found["mention-build"]
    assert found["publish-request"]["pending"] == 1
    assert set(found["job"].values()) == {0}


def test_the_oldest_of_each_status(case: Case) -> None:
    """The document that has been in its status longest, by when it was last written."""
    add(case.store, JOB, "j-2", input="x")
    case.clock.pass_ms(HOUR)
    add(case.store, JOB, "j-1", input="x")
    job = next(machine for machine in case.look().machines if machine.machine == "job")
    assert job.oldest == {"pending": ("j-2", NOON)}


def test_what_needs_nobody_is_not_listed(case: Case) -> None:
    """A fresh document, and one that ended well or was skipped, need no look."""
    add(case.store, JOB, "j-1", input="x")
    add(case.store, MENTION, "m-1", "skipped", prompt="x")
    assert case.listed() == {}


def test_a_claim_that_stands_is_work_and_one_that_ran_out_is_stuck(case: Case) -> None:
    """The same document, before and after its lease; the sweep is what helps."""
    claim(case.store, JOB, add(case.store, JOB, "j-1", input="x"), "claim-1")
    assert case.listed()["j-1"].sort is Sort.WORKING
    assert case.listed()["j-1"].reason == "its lease ends in 30 s"
    case.clock.pass_ms(JOB.lease_ms + 1)
    stuck = case.listed()["j-1"]
    assert (stuck.sort, stuck.command_line) == (Sort.STUCK, "vibey-actions docs sweep --machine job")
    assert stuck.attempts == 1


def test_a_lease_in_a_store_of_many_clocks_is_left_alone_a_while_longer(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the sweep does not take back yet is no reason to call a person."""
    monkeypatch.setattr(MemoryStore, "grace_ms", HOUR)
    claim(case.store, JOB, add(case.store, JOB, "j-1", input="x"), "claim-1")
    case.clock.pass_ms(JOB.lease_ms + HOUR)
    assert case.listed()["j-1"].sort is Sort.WORKING
    case.clock.pass_ms(1)
    assert case.listed()["j-1"].sort is Sort.STUCK


def test_a_publish_that_ran_out_is_said_to_be_unknown(case: Case) -> None:
    """A claim that nobody may take over says why."""
    claim(case.store, PUBLISH, add(case.store, PUBLISH, "p-1"), "claim-1", step="publish")
    case.clock.pass_ms(PUBLISH.lease_ms + 1)
    assert "what it did is unknown" in case.listed()["p-1"].reason


@pytest.mark.parametrize("machine", [JOB, MENTION, PUBLISH], ids=lambda machine: machine.name)
def test_a_failed_document_says_why_and_what_to_run(case: Case, machine: Machine) -> None:
    """For every machine with a way back: the reason, and the retry; an unknown outcome asks for --again."""
    kind: Document = {machine.kind_field: machine.kind, "status": machine.failed, "lastError": "it broke"}
    case.free.put(machine.db, "-x", kind)
    case.free.put(machine.db, "unknown", {**kind, "outcomeUnknown": True})
    found = case.listed(free=True)
    assert found["-x"].reason == "it broke"
    assert found["-x"].command_line == f"vibey-actions docs retry --machine {machine.name} -- -x"
    assert found["unknown"].command[-2:] == ("--again", "unknown")


def test_a_day_that_failed_has_no_way_back(case: Case) -> None:
    """No operator can send it back, so it says why for a week and is no work for anybody after that."""
    assert not DAILY.failures
    lately = iso(NOON - RECENT_MS + 1)
    for name, moment in (("digest:new", lately), ("digest:old", iso(NOON - RECENT_MS))):
        case.free.put(DAILY.db, name, {"kind": "daily", "status": "failed", "lastError": "no", "updatedAt": moment})
    case.free.put(DAILY.db, "digest:missed", {"kind": "daily", "status": "missed", "updatedAt": lately})
    found = case.listed(free=True)
    assert found.keys() == {"digest:new"}
    one = found["digest:new"]
    assert (one.sort, one.reason, one.command_line) == (
        Sort.FAILED,
        "no",
        "vibey-actions docs get --machine daily digest:new",
    )


def test_a_held_document_says_why_it_waits(case: Case) -> None:
    """However long it waits: being held is no being stuck."""
    document = add(case.store, PUBLISH, "p-1")
    case.store.put("requests", "p-1", {**document, "heldReason": "postAt is in 3 days"}, writer="publisher")
    case.clock.pass_ms(72 * HOUR)
    assert (case.listed()["p-1"].sort, case.listed()["p-1"].reason) == (Sort.HELD, "postAt is in 3 days")


def test_what_nobody_moves_is_stuck_whoevers_turn_it_is(case: Case) -> None:
    """Ready documents that no tick takes, and ones that another writer leaves, with that writer's name."""
    add(case.store, JOB, "j-1", input="x")
    built: Document = {"kind": "mention", "status": "built", "updatedAt": "2026-01-01T12:00:00Z"}
    case.free.put("requests", "m-1", built)
    case.clock.pass_ms(24 * HOUR - 1)
    assert case.listed() == {}
    assert case.listed(free=True) == {}
    case.clock.pass_ms(1)
    assert case.listed()["j-1"].reason == "nobody has moved it for 1 d, though it is ready"
    assert case.listed(free=True)["m-1"].reason == "nobody has moved it for 1 d; vibe moves it on"


def test_a_status_that_no_machine_knows_is_stuck(case: Case) -> None:
    """Also one that is no text at all, and counted under a name of its own."""
    for number, lost in enumerate(("lost", None, 7, {"a": 1})):
        case.free.put("jobs", f"j-{number}", {"type": "job", "status": lost})
    status = case.look(free=True)
    job = next(machine for machine in status.machines if machine.machine == "job")
    assert (job.counts[NO_STATUS], status.total(Sort.STUCK)) == (4, 4)


def test_long_lists_are_cut_and_counted(case: Case) -> None:
    """The failed ones that are kept are the newest, the stuck ones those that wait longest; all are counted."""
    for number in range(3 * MOST_LISTED):
        at = f"2025-01-01T{number // 60:02d}:{number % 60:02d}:00Z"
        case.free.put("jobs", f"f-{number:03d}", {"type": "job", "status": "failed", "updatedAt": at})
        case.free.put("jobs", f"p-{number:03d}", {"type": "job", "status": "pending", "updatedAt": at})
    status = case.look(free=True)
    job = next(machine for machine in status.machines if machine.machine == "job")
    assert status.total(Sort.FAILED) == status.total(Sort.STUCK) == 3 * MOST_LISTED
    assert [one.identifier for one in job.of(Sort.FAILED)][:2] == ["f-149", "f-148"]
    assert [one.identifier for one in job.of(Sort.STUCK)][:2] == ["p-000", "p-001"]
    assert len(job.of(Sort.FAILED)) == len(job.of(Sort.STUCK)) == MOST_LISTED
    assert f"and {2 * MOST_LISTED} more" in page(status)


def test_a_timeline_is_what_the_document_says_in_order() -> None:
    """Every field that holds a moment, the lease too; nothing that cannot be read as one."""
    document = {
        "createdAt": "2026-01-01T10:00:00Z",
        "builtAt": "2026-01-01T11:00:00Z",
        "leaseUntil": NOON,
        "text": "2026",
        "updatedAt": "2026-01-01T11:30:00Z",
    }
    assert [what for _, what in timeline(document)] == ["made", "builtAt", "last written", "lease ends"]


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "0 s"), (59_999, "59 s"), (60_000, "1 min"), (-HOUR, "1 h"), (25 * HOUR, "1 d")]
)
def test_ages_are_rounded_down(ms: int, text: str) -> None:
    """The largest unit that fits."""
    assert age(ms) == text


class Elements(HTMLParser):
    """What a browser would make of a page: its elements, their attributes and its text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in {"meta", "br"}:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def hostile_page() -> str:
    """A page of documents that try everything."""
    case = Case()
    for place in ("status", "lastError", "heldReason"):
        case.free.put(
            "jobs", HOSTILE + place, {"type": "job", "status": "failed", "lastError": HOSTILE, place: HOSTILE}
        )
    case.free.put("jobs", "t", {"type": "job", "status": "failed", HOSTILE: "2026-01-01T10:00:00Z"})
    return page(case.look(LastTick(NOON, HOSTILE), free=True))


def test_no_text_of_a_document_becomes_markup() -> None:
    """Ids, reasons, names of fields and the record's text are text on the page, made visible."""
    text = hostile_page()
    found = Elements(text)
    assert found.open == []
    allowed = {"html", "head", "meta", "title", "style", "body", "header", "main", "h1", "h2", "h3", "p", "ul", "li"}
    allowed |= {
        "strong",
        "section",
        "div",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "span",
        "code",
        "article",
        "pre",
    }
    allowed |= {"details", "summary", "ol", "time"}
    assert {tag for tag, _ in found.elements} <= allowed
    names = {name for _, attributes in found.elements for name in attributes}
    assert names <= {"lang", "charset", "http-equiv", "content", "name", "class", "scope", "datetime"}
    assert "<script>alert(1)</script>" in found.text
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_the_policy_allows_the_pages_own_style_and_nothing_else() -> None:
    """The hash is that of the style sheet as it stands in the page; everything else falls under none."""
    text = hostile_page()
    found = Elements(text)
    policy = next(one["content"] for tag, one in found.elements if tag == "meta" and one.get("http-equiv"))
    style = re.search(r"<style>(.*?)</style>", text, re.S)
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert re.findall(r"(?:https?:)?//|url\(|@import", style[1]) == []


def test_the_page_says_when_nothing_is_known_of_ticks() -> None:
    """Never, not known and why, or how long ago."""
    case = Case()
    assert "No tick has run yet." in page(case.look())
    assert "is not known: the API is away." in page(case.look(LastTick(unknown="the API is away")))
    assert "The last tick ran 2 h ago: all well." in page(case.look(LastTick(NOON - 2 * HOUR, "all well")))


def test_doubts_of_the_store_are_on_the_page() -> None:
    """A store that may not have shown everything is not taken for one that has."""
    case = Case()
    add(case.store, JOB, "j-1", input="x")
    status = Status(NOON, case.look().machines, LastTick(), ("one page only",))
    assert '<p class="bad">one page only</p>' in page(status)
    assert read(case.store, JOB, "j-1")["status"] == "pending"
