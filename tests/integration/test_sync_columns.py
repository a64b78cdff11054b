"""Two databases whose table declares that columns are merged by themselves."""

from __future__ import annotations

from tests.support.ends import Ends
from vibey_actions.config import Config, TableConfig
from vibey_actions.errors import Conflicts
from vibey_actions.state.declaration import Rule
from vibey_actions.state.report import Counts, SyncState

TABLE = """
CREATE TABLE customer (id int PRIMARY KEY, name text, email text, tags jsonb, twice text GENERATED ALWAYS AS
    (name || name) STORED, updated_at timestamptz);
INSERT INTO customer VALUES (1, 'a', 'a@example.com', '{"x": 1}', DEFAULT, '2024-01-01'),
    (2, 'b', 'b@example.com', 'null', DEFAULT, NULL), (3, 'c', 'c@example.com', NULL, DEFAULT, NULL)
"""


def config(otherwise: Rule) -> Config:
    return Config(tables={"customer": TableConfig(Rule.COLUMNS, "updated_at", otherwise=otherwise)})


def test_the_composed_row_reaches_both_ends(ends: Ends) -> None:
    """Each end's change of its own column is in the one row that both hold afterwards, and they are at rest."""
    one, other = ends.pair(TABLE, config=config(Rule.NEWEST))
    one.sync()
    other.sync()
    one.run(
        "UPDATE customer SET name = 'A', updated_at = '2024-02-02' WHERE id = 1", "DELETE FROM customer WHERE id = 3"
    )
    other.run("UPDATE customer SET email = 'A@example.com', updated_at = '2024-02-01' WHERE id = 1")
    other.run("UPDATE customer SET tags = '{\"y\": 1.50}' WHERE id = 2")
    one.sync()
    report = other.sync()
    assert (report.pull, report.push) == (
        {"customer": Counts(updated=1, deleted=1)},
        {"customer": Counts(updated=2)},
    )
    one.sync()
    assert one.rows("customer") == other.rows("customer")
    assert one.value("SELECT (name, email, twice, updated_at AT TIME ZONE 'UTC')::text FROM customer WHERE id = 1") == (
        '(A,A@example.com,AA,"2024-02-02 00:00:00")'
    )
    for end in (one, other):
        end.forget_agreements()
        assert (end.sync().state, ends.commits()) == (SyncState.IN_SYNC, 3)


def test_a_disputed_column_stops_the_sync_and_is_named(ends: Ends) -> None:
    """Nothing is written at either end while one column of one row is disputed; an override settles it."""
    one, other = ends.pair(TABLE, config=config(Rule.REFUSE))
    one.sync()
    other.sync()
    one.run("UPDATE customer SET name = 'A', email = 'one@example.com' WHERE id = 1")
    other.run("UPDATE customer SET name = 'A', email = 'other@example.com', tags = '2' WHERE id = 1")
    one.sync()
    error = other.refused(Conflicts)
    assert isinstance(error, Conflicts)
    assert [(c.table, c.key) for c in error.conflicts] == [("customer", "[1]")]
    assert "the column email " in error.conflicts[0].why
    assert "example.com" not in str(error.conflicts)
    other.env["VIBEY_STATE_CONFLICTS"] = "customer=mine"
    other.sync()
    one.sync()
    assert one.rows("customer") == other.rows("customer")
