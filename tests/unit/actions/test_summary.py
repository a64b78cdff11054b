"""Summaries: readable, and no markup but our own."""

from __future__ import annotations

import html
import re

import pytest

from vibey_actions.actions import summary
from vibey_actions.errors import Conflicts, KeyMissing, RemoteDenied, VibeyError
from vibey_actions.state.report import Conflict, ConflictKind, Counts, Report, SyncState

HOSTILE = ["<script>|", "a|b\n| c |", "`x`", "**bold** _it_", "[x](http://example.com)", "![i](x)", "<!-- -->",
           "@someone", "#1", "\x1b[0m", "~~x~~", "$x$", "&lt;", "\\|", "- item", "1. item", "```\nx\n```",
           "\u202eabc"]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_nothing_that_is_shown_is_markup(text: str) -> None:
    """Text from rows and servers holds no character that Markdown or HTML act upon, and is one line."""
    shown = summary.plain(text)
    assert not re.search(r"[<>|`*\[\]\\~@$]", shown)
    assert not re.search(r"&(?!#\d+;)|#(?!\d+;)|^[-+] |^\d[.)]|://", shown)
    assert "\n" not in shown
    assert html.unescape(shown).isprintable()


def test_names_stay_readable() -> None:
    """An ordinary name and sentence look in the summary's source as they are."""
    assert summary.plain("order_item of example/app, 3 rows.") == "order_item of example/app, 3 rows."
    assert html.unescape(summary.plain("_x <b>|")) == "_x <b>|"


def conflict(table: str, key: str) -> Conflict:
    return Conflict(table, key, ConflictKind.BOTH_CHANGED, "both ends changed it", "settle it")


def test_a_failure_names_every_conflict_and_what_to_do() -> None:
    """Table, key, reason and advice of each row, a table that a hostile name cannot break, and the cure."""
    error = Conflicts("2 rows conflict", "settle each", [conflict("customer", "[1]"), conflict("<script>|", '["|"]')])
    text = summary.failure("close", error, summary.cure("close", error))
    assert "customer" in text
    assert "both ends changed it" in text
    assert "settle each" in text
    assert "<script>" not in text
    assert {line.count("|") for line in text.splitlines() if line.startswith("|")} == {5}


@pytest.mark.parametrize("step", ["close", "write-back", "open"])
def test_a_conflict_says_what_settles_it_in_a_workflow(step: str) -> None:
    """Where an export waits, the advice is the dispatch that settles it; where none does, the setting of the step."""
    row = Conflict("t", "[1]", ConflictKind.BOTH_CHANGED, "why", "mend it", rules=("t=mine", "t=theirs"))
    text = html.unescape(summary.failure(step, Conflicts("a conflict", "sync again", [row]), ""))
    exported = step != "open"
    assert "mend it, or " in text
    assert ("resolve-conflicts.yml with rules: t=mine or rules: t=theirs" in text) is exported
    assert ("VIBEY_STATE_CONFLICTS=t=mine" in text) is not exported
    assert ("sync again" in text) is not exported


def test_many_conflicts_are_cut_with_a_word() -> None:
    """A summary stays small however many rows there are."""
    text = summary.conflicts("close", [conflict("t", f"[{number}]") for number in range(500)])
    assert "and 300 more" in text
    assert text.count("\n") < 210


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (KeyMissing("no key", ""), "key: ${{ secrets.VIBEY_STATE_KEY }}"),
        (RemoteDenied("refused", "give the job `permissions: contents: write`"), "contents: write"),
        (RemoteDenied("refused", "give the job `permissions: actions: read`"), "actions: read"),
    ],
)
def test_a_failure_comes_with_yaml_to_paste(error: VibeyError, words: str) -> None:
    """Where a few lines of YAML mend it, they are there, in a block."""
    paste = summary.cure("open", error)
    assert words in paste
    assert f"```yaml\n{paste}\n```" in summary.failure("open", error, paste)


def test_a_closed_gate_says_what_would_open_it() -> None:
    """Without a key the step's YAML, in a public repository the declaration; an open one has neither."""
    texts = {
        reason: summary.gate("open", opened=False, reason=reason, text="t")
        for reason in ("no-key", "public", "unknown")
    }
    assert "secrets.VIBEY_STATE_KEY" in texts["no-key"]
    assert "public = true" in texts["public"]
    assert "public = true" in texts["unknown"]
    assert "```" not in summary.gate("open", opened=True, reason="private", text="t")


def test_what_happened_is_told_per_table() -> None:
    """Rows per table after opening, changes per table after a push, and only in the directions that there were."""
    report = Report(SyncState.IN_SYNC, "example/app:vibey-state", "c" * 40, 3, {"a": Counts(1)}, {"b": Counts(0, 2, 1)})
    assert summary.opened(report, {"a": 2, "b": 1}, own=True).count("\n| ") == 4 + 1
    assert "3 rows in 2 tables." in summary.opened(report, {"a": 2, "b": 1}, own=True)
    assert "1 row in 1 table." in summary.opened(report, {"a": 1}, own=True)
    text = summary.pushed(report)
    assert "| <code>a</code> | 1 | 0 | 0 | 0 | 0 | 0 |" in text
    assert "| <code>b</code> | 0 | 0 | 0 | 0 | 2 | 1 |" in text
    assert "deleted here | new on the branch" in text
    assert " here |" not in summary.exported("r", 1, report, "name", 30)
    assert "changed nothing" in summary.unchanged(report)


def test_texts_stand_to_the_left_and_numbers_to_the_right() -> None:
    """By what a column holds, not by its place; a column without a number is text, an empty cell says nothing."""
    rows = [("a", "1", "x", ""), ("b", "", "2", ""), ("3", "12", "y", "")]
    assert summary.table(("name", "count", "why", "more"), rows).splitlines() == [
        "| name | count | why | more |",
        "|---|--:|---|---|",
        "| a | 1 | x |  |",
        "| b |  | 2 |  |",
        "| 3 | 12 | y |  |",
    ]
