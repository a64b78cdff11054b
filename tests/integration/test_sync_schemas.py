"""Databases whose tables are in several schemas."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.support.ends import End, Ends
from vibey_actions.config import Config, Migrations, TableConfig
from vibey_actions.errors import SettingError, TableRefused
from vibey_actions.postgres.catalog import read_catalog, tables_read_by
from vibey_actions.postgres.connection import connect
from vibey_actions.postgres.naming import quote_ident
from vibey_actions.state.declaration import Rule

APP = """
CREATE SCHEMA app; CREATE SCHEMA "My App"; CREATE SCHEMA hidden;
CREATE TABLE customer (id serial PRIMARY KEY, name text);
CREATE TABLE app.customer (id int PRIMARY KEY, of int REFERENCES public.customer ON DELETE CASCADE);
CREATE TABLE "My App"."Order" (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, c int NOT NULL REFERENCES app.customer);
CREATE TABLE app.log (at date, n int, PRIMARY KEY (at, n)) PARTITION BY RANGE (at);
CREATE TABLE hidden.log_2024 PARTITION OF app.log FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE hidden.secret (id int PRIMARY KEY);
CREATE TABLE app.state_sync (id int PRIMARY KEY);
CREATE TABLE app.cache (id int)
"""
ROWS = """
INSERT INTO customer (name) VALUES ('a'), ('b');
INSERT INTO app.customer VALUES (10, 1), (20, 2);
INSERT INTO "My App"."Order" (c) VALUES (10), (20), (20);
INSERT INTO app.log VALUES ('2024-02-02', 1), ('2024-03-03', 2);
INSERT INTO app.state_sync VALUES (1);
INSERT INTO hidden.secret VALUES (1)
"""
CONFIG = Config(schemas=("public", "app", "My App"), exclude=("app.cache",))
TABLES = ["customer", "app.customer", '"My App"."Order"', "app.log", "app.state_sync"]


def held(end: End) -> dict[str, list[str]]:
    return {name: end.rows(name) for name in TABLES}


def test_tables_of_several_schemas_go_both_ways(ends: Ends) -> None:
    """Keys across schemas, a partition in a third one, identity and serial columns; other schemas stay at home."""
    one, other = ends.pair(APP, config=CONFIG)
    one.run(ROWS)
    assert set(one.sync().push) == set(TABLES)
    other.sync()
    assert held(one) == held(other)
    assert other.rows("hidden.secret") == []
    assert other.value("INSERT INTO customer (name) VALUES ('c') RETURNING id") == 3
    assert other.value('INSERT INTO "My App"."Order" (c) VALUES (10) RETURNING id') == 4
    other.run("DELETE FROM app.customer WHERE id = 99", 'DELETE FROM "My App"."Order" WHERE c = 20')
    other.run("DELETE FROM customer WHERE id = 2", "UPDATE app.log SET n = 3 WHERE n = 2")
    other.sync()
    one.sync()
    assert held(one) == held(other)
    for end in (one, other):
        end.forget_agreements()
        report = end.sync()
        assert (report.to_pull, report.to_push) == (0, 0)


def test_rules_are_declared_under_the_qualified_name(ends: Ends) -> None:
    """A rule of app.customer is not one of customer, in the file and in VIBEY_STATE_CONFLICTS."""
    config = Config(schemas=CONFIG.schemas, exclude=CONFIG.exclude, tables={"app.log": TableConfig(append_only=True)})
    end = ends.make(APP, config=config, settings={"VIBEY_STATE_CONFLICTS": "app.customer=mine"})
    end.run(ROWS)
    end.sync()
    with connect(end.dsn, purpose="test") as connection:
        declared = read_catalog(connection, config).declaration.with_overrides({"app.customer": Rule.MINE}).tables
    assert [declared[name].rule for name in ("app.customer", "customer")] == [Rule.MINE, Rule.REFUSE]
    assert declared["app.log"].append_only


@pytest.mark.parametrize(
    ("config", "error", "message"),
    [
        (Config(schemas=("public", "ap")), SettingError, "ap"),
        (Config(schemas=("app",)), TableRefused, "app.cache"),
        (
            Config(schemas=("app",), exclude=("app.cache",), tables={"customer": TableConfig()}),
            SettingError,
            "schemas app",
        ),
        (Config(schemas=("public", "app"), exclude=("app.cache",)), TableRefused, "app.customer in a state"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(dsn: str, config: Config, error: type[Exception], message: str) -> None:
    """A schema that is missing, a table without a key, a section of a table elsewhere, two tables of one name."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute(APP.encode())
        setup.execute('CREATE TABLE "app.customer" (id int PRIMARY KEY)')
    with connect(dsn, purpose="test") as connection, pytest.raises(error, match=message):
        read_catalog(connection, config)


def test_the_versions_query_may_read_any_schema(dsn: str) -> None:
    """What it reads is never synced, in whichever of the schemas it is."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute(APP.encode())
    with connect(dsn, purpose="test") as connection:
        query = "SELECT n::text FROM hidden.log_2024 JOIN app.customer ON true JOIN customer c ON true"
        assert tables_read_by(connection, query, ("public", "app", "hidden")) == {"app.log", "app.customer", "customer"}
        assert tables_read_by(connection, query) == {"customer"}


def test_a_schema_that_a_later_migration_makes(ends: Ends, tmp_path: Path) -> None:
    """The branch's older state is lifted although its migrations know no such schema yet."""
    folder = tmp_path / "migrations"
    folder.mkdir()
    (folder / "1.sql").write_text("CREATE TABLE a (id int PRIMARY KEY)")
    end = ends.make(migrations=folder)
    end.run("INSERT INTO a VALUES (1)")
    end.sync()
    (folder / "2.sql").write_text("CREATE SCHEMA app; CREATE TABLE app.b AS SELECT id FROM a; "
                                  "ALTER TABLE app.b ADD PRIMARY KEY (id)")  # fmt: skip
    end.config = Config(schemas=("public", "app"), migrations=Migrations(directory=folder))
    assert isinstance(end.refused(SettingError), SettingError)
    end.operations.migrate()
    end.sync()
    end.run("DELETE FROM app.b")
    assert end.sync().push["app.b"].deleted == 1


def test_reserved_words_are_those_of_the_server(dsn: str) -> None:
    """quote_ident of a server agrees for its own words, but for those that only PostgreSQL 18 reserves."""
    with psycopg.connect(dsn) as connection:
        words = connection.execute("SELECT word, quote_ident(word) FROM pg_get_keywords()").fetchall()
    assert len(words) > 400
    assert [word for word, quoted in words if quoted != word and quote_ident(word) == word] == []
    assert {word for word, quoted in words if quoted == word and quote_ident(word) != word} <= {"json"}
