"""What a migration file may not hold is found before it runs, and nothing else is taken for it."""

from __future__ import annotations

import pytest

from vibey_actions.postgres.script import line_of, problem


@pytest.mark.parametrize(
    ("sql", "part"),
    [
        ("BEGIN; SELECT 1; COMMIT;", "line 1: BEGIN controls"),
        ("SELECT 1;\ncommit work;", "line 2: COMMIT controls"),
        ("SELECT 1;\n-- x\n  START TRANSACTION READ ONLY;", "line 3: START TRANSACTION"),
        ("END", "END controls"),
        ("abort;", "ABORT controls"),
        ("ROLLBACK;", "ROLLBACK controls"),
        ("PREPARE TRANSACTION 'x';", "PREPARE TRANSACTION"),
        ("/* a /* nested */ still */ COMMIT", "COMMIT controls"),
        ("SELECT $$x$$; COMMIT", "COMMIT controls"),
        ("SELECT E'it\\'s'; COMMIT;", "COMMIT controls"),
        (
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE 1 WHEN 1 THEN 2 END; END; COMMIT;",
            "COMMIT controls",
        ),
        ("\\connect other\nSELECT 1;", "line 1: \\connect is a command of psql"),
        ("SELECT 1 \\gexec", "\\gexec is a command of psql"),
        ("COPY t (a, b) FROM stdin;\n1\t2\n\\.\n", "line 1: COPY from stdin"),
        ("copy t to STDOUT", "COPY from stdin or to stdout"),
    ],
)
def test_a_problem_is_found_with_its_line(sql: str, part: str) -> None:
    """Transaction control, psql's commands and COPY through the client are named with their line."""
    found = problem(sql)
    assert found is not None
    assert part in found


@pytest.mark.parametrize(
    "sql",
    [
        "",
        "-- COMMIT;\nSELECT 'COMMIT; \\x';",
        "CREATE TABLE \"begin\" (a text DEFAULT 'x;');COMMENT ON TABLE \"begin\" IS '; COMMIT;';",
        "DO $body$ BEGIN PERFORM 1; END $body$;",
        "CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN COMMIT; END; $$;",
        "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2 END; END;",
        "CREATE PROCEDURE p()\nBEGIN ATOMIC\n  INSERT INTO t VALUES (1);\nEND;\nSELECT 1;",
        "CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM u; COMMIT);",
        "SAVEPOINT a; ROLLBACK TO a; RELEASE a;",
        "SELECT E'a\\';COMMIT;--';",
        "SELECT 'x' AS a$1$;",
        "SELECT 'unfinished; COMMIT",
        "/* unfinished COMMIT;",
        "COPY t TO '/tmp/x'; SELECT a$b$c FROM stdin;",
        "SELECT U&'d\\0061t\\+000061';",
    ],
)
def test_what_only_looks_like_one_passes(sql: str) -> None:
    """Strings, names, comments, bodies and rules may say what a statement may not."""
    assert problem(sql) is None


def test_lines_are_counted_as_the_server_counts_characters() -> None:
    """Character 1 is in line 1, the one after a line break in the next, whatever alphabet comes before."""
    assert [line_of("ä\n😀\nx", place) for place in (1, 2, 3, 4, 5)] == [1, 1, 2, 2, 3]
