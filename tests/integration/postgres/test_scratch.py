"""A scratch database is like the real one, is gone afterwards, and leftovers of killed runs go too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from vibey_actions.errors import DatabaseFailed, ScratchRefused
from vibey_actions.postgres.scratch import STALE_SECONDS, scratch_database
from vibey_actions.postgres.server import Server

FACTS = "SELECT to_jsonb(d) - '{oid,datname,datfrozenxid,datminmxid,dattablespace,datacl}'::text[] FROM pg_database d"


def names(dsn: str) -> set[str]:
    """The scratch databases that are there."""
    with psycopg.connect(dsn) as session:
        return {
            name for (name,) in session.execute("SELECT datname FROM pg_database WHERE datname ~ '^vibey_scratch_'")
        }


def fetch(dsn: str, query: str) -> object:
    """The first value of a query."""
    with psycopg.connect(dsn) as session:
        row = session.execute(query).fetchone()
    return row and row[0]


@pytest.fixture(autouse=True)
def _none_left_by_other_tests(dsn: str) -> None:
    """Tests that kill a sync on the way leave scratch databases to the next sync."""
    with psycopg.connect(dsn, autocommit=True) as session:
        for name in names(dsn):
            session.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


def test_it_is_empty_alike_and_gone_afterwards(dsn: str) -> None:
    """Encoding, locale and search_path are the real database's; the DSN is its own; nothing stays."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        database = conninfo_to_dict(dsn)["dbname"]
        setup.execute(f'''CREATE TABLE t (); ALTER DATABASE "{database}" SET search_path TO "odd ""\\ name", public''')
    with scratch_database(dsn) as scratch:
        assert names(dsn) == {conninfo_to_dict(scratch)["dbname"]}
        where = " WHERE datname = current_database()"
        assert fetch(scratch, FACTS + where) == fetch(dsn, FACTS + where)
        assert fetch(scratch, "SELECT to_regclass('public.t')") is None
        assert fetch(scratch, "SHOW search_path") == fetch(dsn, "SHOW search_path") == '"odd ""\\ name", public'
    assert names(dsn) == set()


@pytest.mark.parametrize(
    ("since", "options"),
    [
        (150000, "LOCALE_PROVIDER icu ICU_LOCALE 'de-DE' LOCALE 'C'"),
        (160000, "LOCALE_PROVIDER icu ICU_LOCALE 'en' ICU_RULES '&a < g' LOCALE 'C'"),
        (170000, "LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C'"),
    ],
)
def test_every_kind_of_locale_is_taken_over(server: Server, since: int, options: str) -> None:
    """ICU with and without rules, and the built-in provider, where the server knows them."""
    with psycopg.connect(server.dsn(), autocommit=True) as setup:
        if setup.info.server_version < since:
            pytest.skip(f"this server is older than {since // 10000}")
        try:
            setup.execute(f"CREATE DATABASE vibey_test_locale TEMPLATE template0 ENCODING 'UTF8' {options}")
        except psycopg.errors.FeatureNotSupported:
            pytest.skip("this server was built without ICU")
        try:
            real = server.dsn("vibey_test_locale")
            with scratch_database(real) as scratch:
                where = " WHERE datname = current_database()"
                assert fetch(scratch, FACTS + where) == fetch(real, FACTS + where)
        finally:
            setup.execute("DROP DATABASE vibey_test_locale WITH (FORCE)")


def test_an_error_inside_is_the_one_that_is_seen_and_the_database_goes(dsn: str) -> None:
    """Also with a connection still open to it."""
    left_open: list[psycopg.Connection] = []

    def fail(scratch: str) -> None:
        left_open.append(psycopg.connect(scratch))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), scratch_database(dsn) as scratch:
        fail(scratch)
    assert names(dsn) == set()
    left_open[0].close()


def test_a_database_that_cannot_be_dropped_is_a_notice(dsn: str) -> None:
    """The work inside was done; what stays behind is said, and is already gone here."""
    said: list[str] = []
    with scratch_database(dsn, notice=said.append) as scratch, psycopg.connect(dsn, autocommit=True) as other:
        name = conninfo_to_dict(scratch)["dbname"]
        other.execute(f'ALTER DATABASE "{name}" IS_TEMPLATE true')
    assert len(said) == 1
    assert "left behind" in said[0]
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute(f'ALTER DATABASE "{name}" IS_TEMPLATE false')
        other.execute(f'DROP DATABASE "{name}"')


@pytest.fixture
def leftovers(server: Server) -> Iterator[Callable[[str], str]]:
    """A factory of databases under given names, dropped afterwards."""
    made: list[str] = []
    with psycopg.connect(server.dsn(), autocommit=True) as setup:

        def make(name: str) -> str:
            setup.execute(f'CREATE DATABASE "{name}" TEMPLATE template0')
            made.append(name)
            return name

        yield make
        for name in made:
            setup.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


def test_leftovers_go_by_name_age_and_idleness(server: Server, dsn: str, leftovers: Callable[[str], str]) -> None:
    """An old one that nobody uses is dropped; a young one, one in use and one that only looks alike stay."""
    now = int(time.time())
    old = leftovers(f"vibey_scratch_{now - STALE_SECONDS - 60}_{'a' * 12}")
    used = leftovers(f"vibey_scratch_{now - STALE_SECONDS - 60}_{'b' * 12}")
    young = leftovers(f"vibey_scratch_{now - STALE_SECONDS + 600}_{'c' * 12}")
    alike = leftovers("vibey_scratch_of_mine")
    with psycopg.connect(server.dsn(used)), scratch_database(dsn):
        pass
    assert names(dsn) == {used, young, alike}
    assert old not in names(dsn)


def test_a_role_that_may_not_is_told_which_right_it_lacks(dsn: str) -> None:
    """The error has a type of its own, so that it can become advice."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("CREATE ROLE vibey_test_plain LOGIN PASSWORD 'x'")
        try:
            limited = make_conninfo(dsn, user="vibey_test_plain", password="x")
            with (
                pytest.raises(ScratchRefused, match="vibey_test_plain may not create") as caught,
                scratch_database(limited),
            ):
                pass
            assert isinstance(caught.value, DatabaseFailed)
            assert 'ALTER ROLE "vibey_test_plain" CREATEDB' in caught.value.hint
        finally:
            setup.execute("DROP ROLE vibey_test_plain")
