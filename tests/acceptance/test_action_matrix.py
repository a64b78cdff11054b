"""Three jobs of a matrix that export, and the reusable write workflow behind them, run for real."""

from __future__ import annotations

import pytest

from tests.support.act import Act
from tests.support.act.example import Shop

WORKFLOW = """\
name: state
on: push
permissions: {}
jobs:
  work:
    name: Work
    runs-on: ubuntu-24.04
    permissions:
      contents: read
    strategy:
      matrix:
        shard: [1, 2, 3]
    steps:
      - uses: actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1
      - uses: OWNER/vibey-actions@v1
        with:
          step: open
          key: ${{ secrets.VIBEY_STATE_KEY }}
      - env:
          SHARD: ${{ matrix.shard }}
        run: psql "$VIBEY_PG_URL" -c "INSERT INTO customer VALUES ($SHARD, 'shard $SHARD')"
      - if: always()
        uses: OWNER/vibey-actions@v1
        with:
          step: close
          key: ${{ secrets.VIBEY_STATE_KEY }}
  write-back:
    needs: work
    if: always()
    permissions:
      contents: write
      actions: read
    uses: OWNER/vibey-actions/.github/workflows/state-write.yml@v1
    secrets:
      key: ${{ secrets.VIBEY_STATE_KEY }}
"""


@pytest.fixture
def shop(act: Act) -> Shop:
    return Shop.make(act, "example/matrix", WORKFLOW)


def test_every_job_of_a_matrix_is_written_back(act: Act, shop: Shop) -> None:
    """One write takes up what all of them exported, leaves a mark for each, and a second one has nothing to do."""
    outcome = shop.run()
    assert outcome.result("write") == "success", outcome.explain()
    stored = act.github.artifacts.all("example/matrix")
    exports = [one.name for one in stored if "-export-" in one.name]
    assert len(exports) == 3
    assert {one.name for one in stored} - set(exports) == {f"vibey-state-taken-{name[-64:]}" for name in exports}
    assert shop.commits == 3
    assert outcome.summary().count("pushed 1 row") == 3
