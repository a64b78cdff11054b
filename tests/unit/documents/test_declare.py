"""Machines from YAML: what is built in, what an adopter declares, and what is refused by name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vibey_actions.documents.declare import BUILT_IN, Declared, built_in, load, parse
from vibey_actions.documents.diagram import lines, mermaid
from vibey_actions.documents.machine import Act, Retry
from vibey_actions.errors import MachineInvalid

REVIEW = """
machines:
  review:
    kind: review
    db: reviews
    lane: lane
    writers: {lane: handle, editor: user, operator: handle}
    lease: 5s
    attempts: 2
    fixed: [text]
    statuses: [draft, busy, good, bad]
    terminals: [good, bad]
    failed: bad
    transitions:
      new -> draft: {writer: editor}
      draft -> busy: {writer: lane, act: claim, step: command}
      busy -> draft: {writer: lane, act: release}
      busy -> good: {writer: lane, act: finish, owns: [note]}
      draft -> bad: {writer: lane, act: fail}
      busy -> bad: {writer: lane, act: fail, owns: [note]}
      bad -> draft: {writer: operator, act: retry}
    with: {command: [./review]}
"""


def declared(text: str) -> Declared:
    return parse(text, "vibey-docs.yml")


@pytest.mark.parametrize("name", BUILT_IN)
def test_what_is_built_in_is_well_formed(name: str) -> None:
    """Every built-in machine passes the checks that an adopter's has to pass."""
    assert built_in(name).name == name


def test_the_built_in_machines_are_those_of_the_specification() -> None:
    """Leases, attempts, caps and policies as they are written down."""
    mention, publish, job, daily = map(built_in, BUILT_IN)
    assert (mention.lease_ms, mention.attempts, set(mention.working)) == (45 * 60_000, 2, {"building"})
    assert (publish.lease_ms, publish.attempts, publish.per_tick, set(publish.once_steps)) == (
        600_000,
        15,
        3,
        {"publish"},
    )
    assert publish.in_place == {"pending", "items-created", "carousel-created"}
    assert (job.lease_ms, job.attempts, set(job.fixed)) == (30_000, 3, {"input"})
    assert (daily.retry, daily.initial) == (Retry.ONCE, ("claimed", "missed"))


def test_a_machine_of_ones_own() -> None:
    """A whole declaration, beside those that are built in."""
    review = declared(REVIEW).machines["review"]
    assert (review.kind_field, review.kind, review.lease_ms, review.retry) == ("kind", "review", 5000, Retry.RETRY)
    assert review.settings == {"command": ["./review"]}
    assert {edge.act for edge in review.transitions} == set(Act) - {Act.RENEW, Act.HOLD}
    assert set(declared(REVIEW).machines) == {*BUILT_IN, "review"}


def test_a_built_in_machine_is_adjusted() -> None:
    """Caps, lease, database and what its step is configured with; its table stays."""
    text = "machines: {job: {lease: 2m, per-day: 50, db: work, with: {command: [./run]}}}"
    job = declared(text).machines["job"]
    assert (job.lease_ms, job.per_day, job.db, job.settings) == (120_000, 50, "work", {"command": ["./run"]})
    assert job.transitions == built_in("job").transitions


def test_a_machine_based_on_another() -> None:
    """A second queue with a kind of its own and the same table."""
    machines = declared("machines: {resize: {based-on: job, type: resize, with: {command: [./resize]}}}").machines
    assert (machines["resize"].kind, machines["resize"].transitions) == ("resize", machines["job"].transitions)


def test_no_file_means_what_is_built_in(tmp_path: Path) -> None:
    """A repository without a file has the four machines; one that was named has to be there."""
    assert set(load(tmp_path).machines) == set(BUILT_IN)
    with pytest.raises(MachineInvalid, match="does not exist"):
        load(tmp_path, tmp_path / "other.yml")


def test_the_file_is_found_and_named(tmp_path: Path) -> None:
    """The adopter's file stands at .github/vibey-docs.yml, and errors say so."""
    file = tmp_path / ".github" / "vibey-docs.yml"
    file.parent.mkdir()
    file.write_text(REVIEW, "utf-8")
    assert load(tmp_path).named == ("review",)
    file.write_bytes(b"\xff")
    with pytest.raises(MachineInvalid, match=r"vibey-docs\.yml is not UTF-8"):
        load(tmp_path)


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    """A pipe, a folder or a device in the file's place would never end, or fill the memory."""
    os.mkfifo(tmp_path / "pipe")
    for name in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(MachineInvalid, match="is no regular file"):
            load(tmp_path, name)


WRONG = {
    "an unknown key": ("    lease: 5s", "    leese: 5s", "machines.review.leese is no key here"),
    "a key of a transition": ("act: release}", "acct: release}", "acct is no key here"),
    "a missing key": ("    lease: 5s\n", "", "machines.review.lease is missing"),
    "a lease without a unit": ("lease: 5s", "lease: '5'", "no length of time"),
    "a lease as a number": ("lease: 5s", "lease: 5", "holds a number where a text belongs"),
    "a lease too short": ("lease: 5s", "lease: 5ms", "shorter than 1s"),
    "no attempts": ("attempts: 2", "attempts: 0", "no whole number"),
    "true attempts": ("attempts: 2", "attempts: yes", "no whole number"),
    "an unknown act": ("act: release", "act: relaese", "is relaese, which there is not"),
    "an act of its own": ("act: release", "act: renew", "every claim allows by itself"),
    "an unknown writer kind": ("editor: user", "editor: bot", "is bot, which there is not"),
    "an undeclared writer": ("new -> draft: {writer: editor}", "new -> draft: {writer: edit}", "edit is not declared"),
    "a writer of nothing": ("editor: user", "editor: user, other: user", "other writes nothing"),
    "an unknown status": ("busy -> good", "busy -> goood", "goood is not among the statuses"),
    "a status twice": ("[draft, busy, good, bad]", "[draft, busy, good, bad, bad]", "names bad twice"),
    "an unreachable status": ("[draft, busy, good, bad]", "[draft, busy, good, bad, odd]", "odd cannot be reached"),
    "a status without owner": ("terminals: [good, bad]", "terminals: [bad]", "good has no owner"),
    "a failed status that is no end": ("failed: bad", "failed: busy", "not among the terminals"),
    "an end that is left": (
        "      draft -> bad",
        "      good -> draft: {writer: editor}\n      draft -> bad",
        "leaves a terminal",
    ),
    "a claim without a step": (", step: command", "", "a claim names its step"),
    "a claim of somebody": (
        "draft -> busy: {writer: lane",
        "draft -> busy: {writer: editor",
        "is a claim of editor",
    ),
    "no finish": ("act: finish, owns: [note]", "owns: [note]", "has no finish"),
    "no way back": ("      busy -> draft: {writer: lane, act: release}\n", "", "has no way back"),
    "no way to fail before a claim": ("      draft -> bad: {writer: lane, act: fail}\n", "", "draft has no way to bad"),
    "no way to fail": ("      busy -> bad: {writer: lane, act: fail, owns: [note]}\n", "", "busy has no way to bad"),
    "a retry by anybody": ("operator: handle", "operator: user", "by a writer with a handle"),
    "a reserved field": ("owns: [note]}\n      draft", "owns: [claimId]}\n      draft", "claimId cannot be owned"),
    "a fixed field that is owned": ("fixed: [text]", "fixed: [note]", "note is fixed, and a transition owns it"),
    "kind and type": ("    kind: review", "    kind: review\n    type: review", "stands beside kind"),
    "no transition": ("busy -> good:", "busy:", "is no transition"),
    "a name that leaves a script": ("statuses: [draft", "statuses: ['a\"b', draft", "cannot be used"),
    "a key twice": ("    attempts: 2", "    attempts: 2\n    attempts: 3", "stands twice"),
    "a transition twice": (
        "      busy -> good",
        "      busy -> draft: {writer: lane, act: release}\n      busy -> good",
        "stands twice",
    ),
    "a transition twice, spaced otherwise": (
        "      busy -> good",
        "      busy->draft: {writer: lane, act: release}\n      busy -> good",
        "stands twice",
    ),
    "a blank text": ("    db: reviews", "    db: ' '", "holds an empty text where a text belongs"),
    "a base that is not there": (
        "machines:",
        "machines:\n  other: {based-on: nothing}",
        "machines.other.based-on is nothing, which is no machine above it",
    ),
    "no mapping at all": ("machines:\n  review:", "- machines:\n  - review:", "is no mapping of names"),
    "a key that is a list": ("fixed: [text]", "fixed: [text]\n    [a, b]: c", "a key is a list or a mapping"),
    "a key that is a mapping": ("fixed: [text]", "fixed: [text]\n    {a: b}: c", "a key is a list or a mapping"),
    **{
        f"a tag that does not fit, {tag}": ("fixed: [text]", f"fixed: {tag}", "not valid YAML")
        for tag in ("!!bool maybe", "!!int", "!!int ''", "!!timestamp soon", "!!float x", "!!binary é")
    },
    "an alias": ("fixed: [text]", "fixed: &a [text]\n    once-steps: *a", "aliases are not used"),
    "broken YAML": ("fixed: [text]", "fixed: [text", "not valid YAML at line"),
    "a tag": ("fixed: [text]", "fixed: !!python/object/apply:os.getcwd []", "not valid YAML"),
    "a list of machines": ("machines:\n  review:", "machines:\n - review:", "not a mapping"),
    "an unknown section": ("machines:", "machine:", "machine is no key here"),
    "another machine's kind": ("kind: review\n    db: reviews", "type: job\n    db: jobs", "are both of type job"),
}


@pytest.mark.parametrize(("old", "new", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_named(old: str, new: str, said: str) -> None:
    """One change to a good file: refused with the file, the place, and what to do."""
    text = REVIEW.replace(old, new, 1)
    assert text != REVIEW
    with pytest.raises(MachineInvalid) as invalid:
        declared(text)
    assert said in invalid.value.message
    assert "vibey-docs.yml" in invalid.value.message
    assert invalid.value.hint


CONTRADICTIONS = {
    "a circle without an end": (
        "[draft, busy, good, bad]",
        "[draft, busy, good, bad, here, there]",
        "      draft -> bad",
        "\n".join(f"      {edge}: {{writer: editor}}" for edge in ("draft -> here", "here -> there", "there -> here"))
        + "\n      draft -> bad",
        "no transition leads from here to an end",
    ),
    "a once machine that is claimed over": (
        "attempts: 2",
        "attempts: 2\n    retry: once",
        "      busy -> draft: {writer: lane, act: release}",
        "      busy -> busy: {writer: lane, act: claim, step: command}",
        "can be claimed again",
    ),
    "a cap per day without a way back": (
        "attempts: 2",
        "attempts: 2\n    retry: once\n    per-day: 3",
        "      busy -> draft: {writer: lane, act: release}\n",
        "",
        "a cap per day needs a way back",
    ),
}


@pytest.mark.parametrize(("old", "new", "line", "other", "said"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_what_contradicts_itself_is_named(old: str, new: str, line: str, other: str, said: str) -> None:
    """Parts that are each good and cannot work together."""
    with pytest.raises(MachineInvalid, match=said):
        declared(REVIEW.replace(old, new, 1).replace(line, other, 1))


def test_a_table_of_a_built_in_machine_cannot_be_bent() -> None:
    """Only what is adjustable: a status or writer belongs to the whole declaration."""
    with pytest.raises(MachineInvalid, match=r"machines\.job\.fixed is no key here"):
        declared("machines: {job: {fixed: []}}")


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_drawings_show_every_status_and_transition(name: str) -> None:
    """As a state diagram and as lines."""
    machine = built_in(name)
    drawn, told = mermaid(machine), lines(machine)
    ends = sum(status in machine.terminals for status in machine.statuses)
    assert drawn.count("-->") == len(machine.transitions) + ends
    assert told.count("->") == len(machine.transitions)
    assert all(status in drawn and status in told for status in machine.statuses)
