"""A database's own functions, fired by what a sync writes, find their tables as they do in any other session."""

from __future__ import annotations

import pytest

from tests.support.ends import Ends
from vibey_actions.state import cycle

SCHEMA = (
    "CREATE TABLE seen (name text PRIMARY KEY)",
    "CREATE TABLE t (id int PRIMARY KEY, name text)",
    """CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN INSERT INTO seen VALUES (NEW.name) ON CONFLICT DO NOTHING; RETURN NEW; END $$""",
    "CREATE TRIGGER note AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note()",
)


@pytest.mark.parametrize("large", [0, 1 << 40], ids=["fill", "apply"])
def test_triggers_find_their_tables(ends: Ends, monkeypatch: pytest.MonkeyPatch, large: int) -> None:
    """Unqualified names in a trigger's function are found, in the fill and in the apply."""
    monkeypatch.setattr(cycle, "LARGE_FILL", large)
    one, other = (ends.make(*SCHEMA) for _ in range(2))
    one.run("INSERT INTO t SELECT i, 'name ' || i FROM generate_series(1, 50) i")
    one.sync()
    other.sync()
    assert other.everything() == one.everything()
    assert len(other.rows("seen")) == 50
