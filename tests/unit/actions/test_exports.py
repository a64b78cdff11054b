"""Which exports a write takes up: by their names and marks, whose they are, what was named, how old they are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from zlib import crc32

import pytest

from vibey_actions.actions.exports import (
    MOST,
    Choice,
    Found,
    Wanted,
    choose,
    discard,
    export_name,
    mark_name,
    sort_out,
)
from vibey_actions.errors import ArtifactGone, ArtifactUnusable, SettingError
from vibey_actions.remotes.artifacts import Artifact

NOW = datetime(2024, 5, 5, tzinfo=UTC)
PREFIX = "vibey-state"


def sha(letter: str) -> str:
    return letter * 64


def name(letter: str, run: str = "7", attempt: str = "1", job: str = "work") -> str:
    return export_name(PREFIX, run_id=run, attempt=attempt, job=job, sha256=sha(letter))


def artifact(title: str, run: str = "7", *, age: int = 0, **facts: Any) -> Artifact:
    number = facts.pop("number", crc32(f"{title} {run}".encode()))
    known: dict[str, Any] = {"size": 3, "expired": False, "own": True, "created": NOW - timedelta(minutes=age)}
    return Artifact(number=number, name=title, run_id=run, **known | facts)


def found(*artifacts: Artifact) -> Found:
    return sort_out(PREFIX, artifacts)


def letters(choice: Choice) -> str:
    return "".join(one.sha256[0] for one in choice.taken)


@pytest.mark.parametrize("job", ["work", "Build (3.11, ubuntu)", "", "ü" * 70, "a/../b", "x" * 300, "a-taken-b", "-"])
def test_names_are_read_as_they_were_made(job: str) -> None:
    """Whatever a job is called, its export's name is one that GitHub takes, and gives back run, attempt and digest."""
    made = export_name(PREFIX, run_id="123", attempt="2", job=job, sha256=sha("a"))
    assert len(made) <= 200
    assert set(made) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.")
    (one,) = found(artifact(made, "123")).exports
    assert (one.run_id, one.attempt, one.sha256) == ("123", "2", sha("a"))


def test_the_longest_name_fits() -> None:
    """With the longest prefix, run, attempt and job a name stays within GitHub's limit."""
    made = export_name("p" * 40, run_id="9" * 20, attempt="9" * 9, job="j" * 99, sha256=sha("a"))
    assert len(made) == 200


def test_a_second_upload_has_another_name_of_the_same_export() -> None:
    """It fits as well, says the same of run, attempt and content, and of the two one is taken up, the named first."""
    facts: dict[str, Any] = {"run_id": "7", "attempt": "1", "job": "j" * 99, "sha256": sha("a")}
    first, again = export_name(PREFIX, **facts), export_name(PREFIX, **facts, again=True)
    assert first != again
    assert len(again) == len(first)
    for named in (first, again):
        choice = choose(found(artifact(first, age=2), artifact(again, age=1)), Wanted("7", export=named))
        assert [one.name for one in choice.taken] == [named]
        assert (choice.left, choice.lost) == ([], [])
    choice = choose(found(artifact(first, expired=True), artifact(again)), Wanted("7"))
    assert [one.name for one in choice.taken] == [again]
    assert choice.lost == []


@pytest.mark.parametrize(
    "title",
    [
        "vibey-state",
        "vibey-state-export-7-1-work",
        f"vibey-state-export-7-1--{'A' * 64}",
        f"vibey-state-export-x-1-work-{'a' * 64}",
        f"other-export-7-1-work-{'a' * 64}",
        f"vibey-state-export-7-1-work-{'a' * 63}",
        f"vibey-state-export-7-1-work-{'a' * 64}.zip",
        f"vibey-state2-export-7-1-work-{'a' * 64}",
        f"vibey-state-export-8-1-work-{'a' * 64}",
    ],
)
def test_other_artifacts_are_passed_over(title: str) -> None:
    """What is not named as an export of the run that made it is none."""
    assert found(artifact(title)).exports == []


def test_a_forks_artifacts_count_for_nothing() -> None:
    """Neither its exports nor its marks: it could name both as it likes."""
    mine = artifact(name("a"))
    fork = found(mine, artifact(name("b"), own=False), artifact(mark_name(PREFIX, sha("a")), "9", own=False))
    assert letters(choose(fork, Wanted())) == "a"


def test_oldest_first_and_marked_ones_left_out() -> None:
    """What has a mark, made by whichever run, is passed over; the others come in the order they were made."""
    marks = artifact(mark_name(PREFIX, sha("b")), "99")
    listed = found(marks, *(artifact(name(letter), age=age) for letter, age in (("a", 1), ("b", 2), ("c", 3))))
    assert letters(choose(listed, Wanted())) == "ca"


def test_a_mark_under_another_prefix_is_none() -> None:
    """Two states in one repository do not mark each other's exports."""
    listed = found(artifact(name("a")), artifact(mark_name("other", sha("a")), "9"))
    assert letters(choose(listed, Wanted())) == "a"


def test_no_more_than_can_be_marked() -> None:
    """Of many the oldest are taken, the rest is named as left."""
    listed = found(*(artifact(name(letter), age=index) for index, letter in enumerate("0123456789")))
    choice = choose(listed, Wanted())
    assert letters(choice) == "98765"
    assert len(choice.taken) == MOST
    assert {one.sha256[0] for one in choice.left} == set("01234")


def test_ones_own_are_always_among_them() -> None:
    """This run's exports come in front of older ones of others, and the named one in front of all."""
    others = [artifact(name(letter), age=index) for index, letter in enumerate("0123456789")]
    own = [artifact(name("a", "42"), "42", age=-1), artifact(name("b", "42"), "42", age=-2)]
    choice = choose(found(*others, *own), Wanted("42"))
    assert letters(choice) == "987ab"
    choice = choose(found(*others, *own), Wanted("42", export=name("0")))
    assert letters(choice) == "980ab"


def test_a_named_run_narrows() -> None:
    """With run-id only that run's exports are looked at, with an export's name besides only that one."""
    listed = found(artifact(name("a")), artifact(name("b", "8"), "8"), artifact(name("c", "8"), "8"))
    assert letters(choose(listed, Wanted("42", run_id="8"))) in {"bc", "cb"}
    assert letters(choose(listed, Wanted("42", run_id="8", export=name("c", "8")))) == "c"
    with pytest.raises(ArtifactGone, match="run 9 has no export"):
        choose(listed, Wanted("42", run_id="9"))


def test_attempts_of_a_run() -> None:
    """A second attempt's export stands beside the first's, which is taken up too, before it."""
    listed = found(artifact(name("b", attempt="2")), artifact(name("a", attempt="1"), age=5))
    assert letters(choose(listed, Wanted("7", export=name("b", attempt="2")))) == "ab"


def test_a_named_export_that_was_taken_up() -> None:
    """It is no error: there is nothing to do, whether it is still there or has expired since."""
    mark = artifact(mark_name(PREFIX, sha("a")), "9")
    for expired in (False, True):
        listed = found(artifact(name("a"), expired=expired), mark)
        for wanted in (Wanted("7", export=name("a")), Wanted("42", run_id="7")):
            choice = choose(listed, wanted)
            assert choice.done
            assert not choice.taken
            assert not choice.lost


def test_a_named_export_that_is_not_there() -> None:
    """A missing, expired or foreign export is an error, never a write of nothing."""
    with pytest.raises(ArtifactGone, match="no artifact"):
        choose(found(artifact(name("b"))), Wanted("7", export=name("a")))
    with pytest.raises(ArtifactGone, match="expired"):
        choose(found(artifact(name("a"), expired=True)), Wanted("7", export=name("a")))
    with pytest.raises(ArtifactGone, match="expired"):
        choose(found(artifact(name("a"), expired=True)), Wanted("42", run_id="7"))
    fork = artifact(name("a"), own=False)
    with pytest.raises(ArtifactUnusable, match="another repository's code"):
        choose(found(fork), Wanted("7", export=name("a")), [fork])


@pytest.mark.parametrize("title", ["work", "other-export-7-1-work-" + "a" * 64, mark_name(PREFIX, sha("a"))])
def test_a_name_that_is_no_exports(title: str) -> None:
    """A name that no step close gives out is a mistake in the workflow."""
    with pytest.raises(SettingError, match="input export"):
        choose(found(), Wanted("7", export=title))


def test_what_expired_unwritten_is_named() -> None:
    """An export of another run that nobody took up in time is no silent loss, and stops nothing."""
    choice = choose(found(artifact(name("a"), expired=True), artifact(name("b"))), Wanted("42"))
    assert letters(choice) == "b"
    assert [one.sha256 for one in choice.lost] == [sha("a")]


def test_nothing_is_waiting() -> None:
    """Without exports nothing is taken, and nothing is wrong."""
    assert choose(found(), Wanted("42")) == Choice([], [], [])


def test_giving_up() -> None:
    """Named by its digest an export gets a mark, also an expired one; one that has a mark is said."""
    mark = artifact(mark_name(PREFIX, sha("c")), "9")
    listed = found(artifact(name("a")), artifact(name("b"), expired=True), artifact(name("c")), mark)
    chosen = discard(listed, [sha("a"), sha("b"), sha("c")])
    assert [one.sha256[0] for one in chosen.given_up] == ["a", "b"]
    assert chosen.before == [sha("c")]


def test_giving_up_what_is_not_there() -> None:
    """An unknown digest is an error that names it, and so are more than one step can mark; nothing is given up."""
    with pytest.raises(ArtifactGone, match=sha("d")):
        discard(found(artifact(name("a"))), [sha("a"), sha("d")])
    with pytest.raises(SettingError, match="6 exports"):
        discard(found(), [sha(letter) for letter in "abcdef"])
