"""A sync that died between its push and its record: the branch has the commit, the watermark does not."""

from __future__ import annotations

import pytest

from tests.support.ends import End, Ends
from vibey_actions.errors import DatabaseFailed
from vibey_actions.postgres.store import PgStore


class _KilledError(Exception):
    pass


def push_unheard(end: End, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sync ``end`` and stop it right behind the push."""

    def killed(*_: object, **__: object) -> None:
        raise _KilledError

    with monkeypatch.context() as patch:
        patch.setattr(PgStore, "record", killed)
        with pytest.raises(_KilledError):
            end.sync()


def test_nothing_is_pushed_where_no_watermark_can_be_kept(ends: Ends) -> None:
    """A database that nobody has migrated is told so before the branch is made, and once it is migrated it syncs."""
    one = ends.make("CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t VALUES (1)")
    one.run("DROP TABLE state_sync")
    assert "vibey-actions migrate" in one.refused(DatabaseFailed).hint
    assert ends.git("for-each-ref") == ""
    one.operations.migrate()
    assert one.sync().pushed


def test_rows_changed_after_an_unheard_push_are_changes_and_not_conflicts(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Updates and deletions of what had just been pushed go through; a row deleted after a first push stays deleted."""
    schema = "CREATE TABLE t (id int PRIMARY KEY, v text)"
    one, other = ends.make(schema), ends.make(schema)
    one.run("INSERT INTO t VALUES (1, 'a'), (2, 'a')")
    push_unheard(one, monkeypatch)
    one.run("DELETE FROM t WHERE id = 2")
    one.sync()
    other.sync()
    assert other.rows("t") == one.rows("t") == ["(1,a)"]
    one.run("UPDATE t SET v = 'b'", "INSERT INTO t VALUES (3, 'b')")
    push_unheard(one, monkeypatch)
    one.run("UPDATE t SET v = 'c'", "DELETE FROM t WHERE id = 3")
    other.run("INSERT INTO t VALUES (4, 'd')")
    other.sync()
    one.sync()
    other.sync()
    assert other.rows("t") == one.rows("t") == ["(1,c)", "(4,d)"]
    assert one.value("SELECT count(*) FROM vibey_actions.pending") == 0
