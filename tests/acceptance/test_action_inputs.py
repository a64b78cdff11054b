"""The inputs of open that change what a job gets: a database of its own service, and a gate that stays closed."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from tests.support.act import Act
from tests.support.act.example import Shop, work
from vibey_actions.postgres.connection import as_uri

WORKFLOW = """\
name: inputs
on: push
permissions: {}
jobs:
  work:
    runs-on: ubuntu-24.04
    permissions:
      contents: write
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1
        with:
          persist-credentials: false
      - id: state
        uses: OWNER/vibey-actions@v1
        with:
          step: open
          key: ${{ secrets.VIBEY_STATE_KEY }}
          pg-url: ${{ secrets.PG_URL }}
          when-closed: ${{ vars.WHEN_CLOSED }}
      - id: work
        run: ./scripts/work.sh
      - id: close
        if: always()
        uses: OWNER/vibey-actions@v1
        with:
          step: close
          push: ${{ vars.PUSH || 'true' }}
          key: ${{ secrets.VIBEY_STATE_KEY }}
"""
TWO = "INSERT INTO customer VALUES (1, 'Ada'), (2, 'Grace');"


def test_a_declared_database_is_used_and_stays(act: Act, database: Callable[[], str]) -> None:
    """With pg-url the job works in that database, under a role with fewer rights, and it is there afterwards."""
    dsn = database()
    who = "INSERT INTO customer SELECT 3, current_user;"
    shop = Shop.make(act, "example/declared", WORKFLOW, files=work(TWO + who))
    outcome = shop.run(secrets={"VIBEY_STATE_KEY": shop.key, "PG_URL": dsn})
    assert outcome.result("work") == "success", outcome.explain()
    with psycopg.connect(dsn) as connection:
        owner = connection.info.user
        names = [name for (name,) in connection.execute("SELECT name FROM customer ORDER BY id")]
    assert names[:2] == ["Ada", "Grace"]
    assert names[2] != owner
    assert shop.commits == 1


def test_an_unusable_database_stops_the_job_before_its_work(act: Act, dsn: str) -> None:
    """A database that lets nobody in fails the step, and the password given for it is shown nowhere."""
    shop = Shop.make(act, "example/unusable", WORKFLOW, files=work(TWO))
    wrong = as_uri(make_conninfo(dsn, dbname="vibey_there_is_none", password="a-password-of-the-tests"))
    outcome = shop.run(secrets={"VIBEY_STATE_KEY": shop.key, "PG_URL": wrong, "PASSWORD": "a-password-of-the-tests"})
    assert outcome.result("work") == "failure"
    assert outcome.step("work") == "skipped"
    assert outcome.step("close") == "success", outcome.explain()
    assert outcome.annotations("error")


@pytest.mark.parametrize("push", ["true", "false"])
def test_a_closed_gate_can_give_an_empty_database(act: Act, push: str) -> None:
    """when-closed: empty gives a migrated database, whose rows never leave the job."""
    shop = Shop.make(act, f"example/empty-{push}", WORKFLOW, private=False, files=work(TWO))
    outcome = shop.run(variables={"WHEN_CLOSED": "empty", "PUSH": push})
    assert outcome.result("work") == "success", outcome.explain()
    assert outcome.outputs("state")["opened"] == "false"
    assert outcome.outputs("close")["export"] == ""
    assert act.github.artifacts.all(shop.app.repository.name) == []
    assert shop.commits == 0


def test_a_closed_gate_can_fail_the_job(act: Act) -> None:
    """when-closed: fail stops the job and says what would open the gate."""
    shop = Shop.make(act, "example/closed", WORKFLOW, private=False, files=work(TWO))
    outcome = shop.run(variables={"WHEN_CLOSED": "fail"})
    assert outcome.result("work") == "failure"
    assert outcome.step("work") == "skipped"
    assert "public = true" in outcome.summary()
