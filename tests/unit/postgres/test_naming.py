"""The name a table has in a document."""

from __future__ import annotations

import pytest

from vibey_actions.postgres.naming import document_name, quote_ident


@pytest.mark.parametrize(
    ("schema", "table", "name"),
    [
        ("public", "customer", "customer"),
        ("public", "Order", "Order"),
        ("public", "a.b", "a.b"),
        ("app", "customer", "app.customer"),
        ("app", "Order", 'app."Order"'),
        ("My App", "user", '"My App"."user"'),
        ("app", 'weird ""q.x', 'app."weird """"q.x"'),
        ("Public", "t", '"Public".t'),
    ],
)
def test_a_table_is_qualified_outside_public_alone(schema: str, table: str, name: str) -> None:
    """In public the name is the table's own, odd or not; elsewhere both parts are quoted where SQL needs it."""
    assert document_name(schema, table) == name


@pytest.mark.parametrize("name", ["1a", "ä", "a$", "a b", "", "A", "select", "json_table", "timestamp", "🎉"])
def test_what_sql_would_not_read_back_is_quoted(name: str) -> None:
    """Capitals, digits in front, every other character, and words that PostgreSQL 18 reserves."""
    assert quote_ident(name) == f'"{name}"'


@pytest.mark.parametrize("name", ["a", "_a1", "name", "version", "value", "text", "index"])
def test_plain_names_and_unreserved_words_stay(name: str) -> None:
    """What SQL reads back as itself has no quotes."""
    assert quote_ident(name) == name
