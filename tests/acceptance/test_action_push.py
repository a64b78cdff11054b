"""The action in an adopter's one job, run for real: open, work, close with a push; and what keeps the gate closed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.support.act import Act
from tests.support.act.example import CONFIG, Shop, work

PUBLIC = CONFIG + "[state]\npublic = true\n"
TWO = "INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace');"


def test_from_nothing_to_a_branch_and_back(act: Act, database: Callable[[], str]) -> None:
    """The first run makes the branch, the next one finds its rows, and one that changes nothing writes nothing."""
    shop = Shop.make(act, "example/first", "push-directly.yml", files=work(TWO))
    outcome = shop.run()
    assert outcome.result("work") == "success", outcome.explain()
    assert outcome.outputs("state") | {"reason": "private"} == outcome.outputs("state")
    assert (outcome.outputs("state")["opened"], outcome.outputs("state")["rows"]) == ("true", "0")
    assert shop.commits == 1
    handed = outcome.variables()
    passwords = {conninfo_to_dict(handed[name])["password"] for name in ("VIBEY_PG_URL", "VIBEY_STATE_PG_URL")}
    assert {shop.key, *passwords} <= set(outcome.masks())
    assert len(passwords) == 2

    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", "(2,Grace)"]

    shop.app.write(work("UPDATE customer SET name = 'Grace H.' WHERE id = 2;"))
    outcome = shop.run()
    assert outcome.outputs("state")["rows"] == "2", outcome.explain()
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", '(2,"Grace H.")']

    shop.app.write(work("SELECT 1;"))
    commits = shop.commits
    assert shop.run().result("work") == "success"
    assert shop.commits == commits


@pytest.mark.parametrize(
    ("name", "private", "config", "opened", "reason"),
    [
        ("private", True, CONFIG, "true", "private"),
        ("declared", False, PUBLIC, "true", "declared"),
        ("public", False, CONFIG, "false", "public"),
    ],
    ids=["private", "public, declared", "public, not declared"],
)
def test_a_schedule_asks_what_the_repository_is(
    act: Act, name: str, *, private: bool, config: str, opened: str, reason: str
) -> None:
    """A schedule's payload says nothing of the repository: GitHub is asked, and a public one has to declare itself."""
    shop = Shop.make(act, f"example/cron-{name}", "cron-lane.yml", private=private, config=config, files=work(TWO))
    outcome = shop.run("schedule", payload={"schedule": "23 * * * *"})
    assert outcome.result("lane") == "success", outcome.explain()
    assert (outcome.outputs("state")["opened"], outcome.outputs("state")["reason"]) == (opened, reason)
    assert shop.commits == (1 if opened == "true" else 0)
    if opened == "false":
        assert outcome.step("Your work") == "skipped"
        assert not {"VIBEY_PG_URL", "VIBEY_STATE_PG_URL"} & set(outcome.variables())
        assert outcome.annotations("notice")


def test_without_a_key_the_job_is_green(act: Act) -> None:
    """No key, or a blank one: nothing is opened, the job says why, and its other steps run."""
    shop = Shop.make(act, "example/no-key", "push-directly.yml", files=work(TWO))
    outcome = shop.run(secrets={"VIBEY_STATE_KEY": " \n "})
    assert outcome.result("work") == "success", outcome.explain()
    assert (outcome.outputs("state")["opened"], outcome.outputs("state")["reason"]) == ("false", "no-key")
    assert outcome.annotations("notice")
    assert "no key" in outcome.summary().lower()
    assert shop.commits == 0


@pytest.mark.parametrize("key", ["bm90IGEga2V5", "x\n::add-mask::y"], ids=["too short", "hostile"])
def test_a_key_that_is_none_fails_before_any_work(act: Act, key: str) -> None:
    """A key that cannot be one stops the job, is told by its length and never shown, and masks nothing else."""
    shop = Shop.make(act, f"example/bad-{len(key)}", "push-directly.yml", files=work(TWO))
    outcome = shop.run(secrets={"VIBEY_STATE_KEY": key})
    assert outcome.result("work") == "failure"
    assert outcome.step("Your work") == "skipped"
    assert outcome.annotations("error")
    assert "y" not in outcome.masks()
    assert shop.commits == 0


def test_a_forks_pull_request_stays_closed(act: Act) -> None:
    """A pull request from a fork has no secrets and a token that cannot write: green, and nothing is opened."""
    shop = Shop.make(act, "example/forked", "state.yml", private=False, config=PUBLIC, files=work(TWO))
    fork = {"head": {"repo": {"full_name": "someone/forked", "id": 999}}}
    payload = {**shop.app.payload(), "pull_request": fork, "action": "opened", "number": 1}
    outcome = shop.run("pull_request", secrets={}, payload=payload, read_only=True)
    assert outcome.result("work") == "success", outcome.explain()
    assert outcome.outputs("state")["opened"] == "false"
    assert outcome.result("write-back") == "skipped"
    assert shop.commits == 0


def test_two_jobs_race_and_both_stand(act: Act, database: Callable[[], str]) -> None:
    """Two runs at once change different rows: the later push merges the earlier, and nothing is lost."""
    shop = Shop.make(act, "example/race", "push-directly.yml", files=work(TWO))
    shop.run()
    started = []
    for customer, name in ((1, "Ada L."), (2, "Grace H.")):
        # Each waits for the other one to have opened the state, so both begin from the same commit.
        gate = act.folder / "race"
        gate.mkdir(exist_ok=True)
        other = gate / str(3 - customer)
        wait = f"touch {gate}/{customer}; until [ -e {other} ]; do sleep 0.1; done\n"
        script = work(f"UPDATE customer SET name = '{name}' WHERE id = {customer};")["scripts/work.sh"]
        shop.app.write({"scripts/work.sh": script.replace("set -eu\n", f"set -eu\n{wait}")})
        started.append(shop.app.start("push", secrets={"VIBEY_STATE_KEY": shop.key}))
    for one in started:
        outcome = one.wait()
        assert outcome.result("work") == "success", outcome.explain()
    assert shop.commits == 3
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ['(1,"Ada L.")', '(2,"Grace H.")']


def test_a_failing_job_pushes_what_it_did(act: Act, database: Callable[[], str]) -> None:
    """What was written before a step failed is pushed, the job stays red, and its database is gone."""
    files = {"scripts/work.sh": work(TWO)["scripts/work.sh"] + "exit 7\n"}
    shop = Shop.make(act, "example/fails", "push-directly.yml", files=files)
    outcome = shop.run()
    assert outcome.result("work") == "failure"
    assert outcome.step("Push what changed") == "success", outcome.explain()
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.rows("customer") == ["(1,Ada)", "(2,Grace)"]
