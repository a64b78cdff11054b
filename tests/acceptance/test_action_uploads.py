"""Uploads that fail, run for real: an export has a second try under another name, and a mark may be missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.act import Act
from tests.support.act.example import Shop, work

TWO = "INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace');"


@pytest.fixture
def failing(act: Act) -> Iterator[Callable[[str], None]]:
    """Says what becomes of the next uploads, one word each (see the stand-in for upload-artifact)."""
    plan: Path = act.store.with_name("FAILING")

    def plan_for(words: str) -> None:
        plan.write_text(words)

    yield plan_for
    plan.unlink(missing_ok=True)


def test_an_export_is_uploaded_once_more(act: Act, database: Callable[[], str], failing: Callable[[str], None]) -> None:
    """A first upload that arrives unheard, so that there are two of one export: the work reaches the branch, once."""
    shop = Shop.make(act, "example/upload-unheard", "state.yml", files=work(TWO))
    failing("unheard")
    outcome = shop.run()
    assert outcome.jobs == {"work": ["success"], "write": ["success"]}, outcome.explain()
    assert "-work-again-" in outcome.outputs("close")["export"]
    assert "the second one came through" in outcome.summary("work")
    assert shop.commits == 1
    assert outcome.outputs("write", "write").get("left", "0") == "0"
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", "(2,Grace)"]


def test_an_export_that_cannot_be_uploaded_is_an_error(act: Act, failing: Callable[[str], None]) -> None:
    """Both uploads fail: the job is red, names what is lost and what to do, and no export is handed on."""
    shop = Shop.make(act, "example/upload-twice", "state.yml", files=work(TWO))
    failing("lost lost")
    outcome = shop.run()
    assert outcome.jobs == {"work": ["failure"]}, outcome.explain()
    assert outcome.outputs("close").get("export", "") == ""
    assert "could not be uploaded, twice" in outcome.summary("work")
    assert any("run this job again" in one.text for one in outcome.annotations("error"))


def test_a_mark_that_cannot_be_left_changes_nothing(act: Act, failing: Callable[[str], None]) -> None:
    """Without its mark an export is looked at once more, found on the branch, and marked then."""
    shop = Shop.make(act, "example/upload-mark", "state.yml", files=work(TWO))
    failing("well lost")
    outcome = shop.run()
    assert outcome.jobs == {"work": ["success"], "write": ["success"]}, outcome.explain()
    assert "Nothing is lost" in outcome.summary("write")
    shop.app.write(work("DELETE FROM customer WHERE id = 1;"))
    outcome = shop.run()
    assert outcome.jobs == {"work": ["success"], "write": ["success"]}, outcome.explain()
    assert shop.commits == 2
    assert len([name for name in act.github.artifacts.names() if "-taken-" in name]) >= 2
