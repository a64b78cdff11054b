"""A connection prints the same whatever the server is set to, and its errors hold no values and no passwords."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tests.support.pooler import Pooler
from vibey_actions.errors import DatabaseFailed, SettingError, StateMoved
from vibey_actions.postgres import connection as module
from vibey_actions.postgres.connection import connect, saying, server_version
from vibey_actions.postgres.server import Server

HOSTILE = {
    "timezone": "'Asia/Kolkata'",
    "extra_float_digits": "0",
    "intervalstyle": "'iso_8601'",
    "datestyle": "'SQL, DMY'",
    "bytea_output": "'escape'",
    "search_path": "public",
    "row_security": "on",
    "xmlbinary": "'hex'",
    "quote_all_identifiers": "on",
    "standard_conforming_strings": "off",
    "default_transaction_isolation": "'serializable'",
    "statement_timeout": "'60s'",
    "lock_timeout": "'60s'",
    "idle_in_transaction_session_timeout": "'60s'",
    "idle_session_timeout": "'60s'",
    "jit": "on",
    "client_min_messages": "'debug1'",
}
EVERYTHING = """
SELECT to_jsonb(row(timestamptz '2020-01-01 00:00+00', 0.1::float8 + 0.2::float8, interval '1 day 2 hours',
    tstzrange('2020-01-01 00:00+00', null), '\\xdeadbeef'::bytea, 'pg_catalog.pg_class'::regclass, '1.5'::money))::text
"""


@pytest.fixture
def hostile(dsn: str) -> str:
    """A database whose own settings change everything that is printed."""
    name = conninfo_to_dict(dsn)["dbname"]
    with psycopg.connect(dsn, autocommit=True) as setup:
        for setting, value in HOSTILE.items():
            setup.execute(f'ALTER DATABASE "{name}" SET {setting} TO {value}')
    return dsn


def test_no_setting_of_the_database_changes_what_is_read(dsn: str, database: Callable[[], str], hostile: str) -> None:
    """The same values give the same text in a stock database and in one set up against us; no timeout of its is on."""
    with connect(database(), purpose="test") as stock, connect(hostile, purpose="test") as set_up:
        expected = stock.execute(EVERYTHING).fetchone()
        timeouts = [set_up.execute(f"SHOW {name}").fetchone() for name in HOSTILE if name.endswith("_timeout")]
        assert timeouts == [("0",)] * 4
        assert set_up.execute(EVERYTHING).fetchone() == expected
        assert expected is not None
        for part in ('"2020-01-01T00:00:00+00:00"', "0.30000000000000004", '"1 day 02:00:00"', '"$1.50"', '"pg_class"'):
            assert part in expected[0]
        assert '"[\\"2020-01-01 00:00:00+00\\",)"' in expected[0]
        assert '"\\\\xdeadbeef"' in expected[0]


def test_settings_of_the_environment_do_not_win(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """PGTZ, PGDATESTYLE and PGOPTIONS of the caller's shell change nothing."""
    monkeypatch.setenv("PGTZ", "Asia/Kolkata")
    monkeypatch.setenv("PGDATESTYLE", "German")
    monkeypatch.setenv("PGOPTIONS", "-c intervalstyle=iso_8601")
    monkeypatch.setenv("PGCLIENTENCODING", "LATIN1")
    with connect(dsn, purpose="test") as session:
        shown = [session.execute(f"SHOW {name}").fetchone() for name in ("timezone", "datestyle", "intervalstyle")]
        assert shown == [("UTC",), ("ISO, MDY",), ("postgres",)]
        assert session.execute("SELECT '😀'").fetchone() == ("😀",)


def test_the_server_sees_who_we_are(dsn: str) -> None:
    """The purpose stands in application_name, and statements commit by themselves."""
    with connect(dsn, purpose="snapshot") as session:
        assert session.execute("SHOW application_name").fetchone() == ("vibey-actions snapshot",)
        assert session.autocommit
        assert server_version(session) >= 140000


def test_a_database_that_is_not_utf8_is_refused_by_name(server: Server, dsn: str) -> None:
    """Text of another encoding could not be carried exactly."""
    with psycopg.connect(server.dsn(), autocommit=True) as setup:
        setup.execute("CREATE DATABASE vibey_latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
        try:
            with pytest.raises(DatabaseFailed, match="vibey_latin stores text as LATIN1"):
                connect(server.dsn("vibey_latin"), purpose="test")
        finally:
            setup.execute("DROP DATABASE vibey_latin WITH (FORCE)")


def test_an_old_server_is_refused_and_a_newer_one_used(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below 14 nothing is tried; above 18 it goes on and says so once."""
    said: list[str] = []
    monkeypatch.setattr(module, "server_version", lambda _: 130021)
    with pytest.raises(DatabaseFailed, match="PostgreSQL 13 is too old: 14 to 18"):
        connect(dsn, purpose="test", notice=said.append)
    assert said == []
    monkeypatch.undo()
    monkeypatch.setattr(module, "NEWEST_MAJOR", 13)
    connect(dsn, purpose="test", notice=said.append).close()
    assert len(said) == 1
    assert "is newer than 13" in said[0]


@pytest.fixture
def closed() -> Iterator[int]:
    """A port on which nobody listens, and nobody else can meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize(
    "shape", ["host={host} port={port} user=u password=s3cret", "postgresql://u:s3cret@{host}:{port}/d"]
)
def test_nobody_listening_gives_both_forms_of_the_address(
    shape: str, closed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container the host is the service's label, on the machine localhost and the mapped port."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    with pytest.raises(DatabaseFailed, match="cannot connect to PostgreSQL") as caught:
        connect(shape.format(host="127.0.0.1", port=closed), purpose="test")
    assert "by its label" in caught.value.hint
    assert "localhost" in caught.value.hint
    assert "s3cret" not in caught.value.message + caught.value.hint


def test_outside_of_a_job_the_advice_is_about_this_machine(closed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who syncs from a terminal is not told of service containers."""
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    with pytest.raises(DatabaseFailed) as caught:
        connect(f"host=127.0.0.1 port={closed}", purpose="test")
    assert "job" not in caught.value.hint
    assert "host and port" in caught.value.hint


@pytest.mark.parametrize(
    "option",
    [
        "sslmode=maybe",
        "target_session_attrs=any1",
        "channel_binding=x",
        "port=99999",
        "gssencmode=x",
        "connect_timeout=soon",
    ],
)
def test_an_option_that_no_server_was_asked_about_is_a_setting(option: str) -> None:
    """What libpq itself refuses stays refused however long one waits, so it is no database that cannot be reached."""
    with pytest.raises(SettingError, match=r"cannot be used: (?:invalid|bad value)"):
        connect(f"host=127.0.0.1 user=u password=s3cret {option}", purpose="test")


def test_a_wrong_password_is_not_a_wrong_host(server: Server, dsn: str) -> None:
    """A server that answers and refuses is told apart, and the password tried is not shown."""
    if not isinstance(server, Server):
        pytest.skip("the given server may accept any password")
    with pytest.raises(DatabaseFailed, match="password authentication failed") as caught:
        connect(make_conninfo(dsn, password="s3cret"), purpose="test")
    assert "check user, password and database" in caught.value.hint
    assert "s3cret" not in str(caught.value)


SECRET_VALUE = "row-value-4711"


@pytest.fixture
def table(dsn: str) -> str:
    """A database with a table whose every constraint can be broken."""
    with psycopg.connect(dsn, autocommit=True) as setup:
        setup.execute("""
            CREATE DOMAIN short AS text CONSTRAINT is_short CHECK (length(value) < 20);
            CREATE TABLE parent (id text PRIMARY KEY);
            CREATE TABLE child (id text PRIMARY KEY, parent text CONSTRAINT has_parent REFERENCES parent,
                n int CONSTRAINT positive CHECK (n > 0), must text NOT NULL DEFAULT '', short short, j jsonb);
            INSERT INTO parent VALUES ('row-value-4711');
            CREATE FUNCTION shout() RETURNS trigger LANGUAGE plpgsql AS
                $$ BEGIN RAISE EXCEPTION 'refused %', new.id; END $$;
            CREATE TABLE shouting (id text);
            CREATE TRIGGER t BEFORE INSERT ON shouting FOR EACH ROW EXECUTE FUNCTION shout();
        """)
    return dsn


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("INSERT INTO public.parent VALUES (%s)", ["constraint parent_pkey", "table parent", "23505"]),
        ("INSERT INTO public.child (id, parent) VALUES ('', %s || 'x')", ["constraint has_parent", "table child"]),
        ("INSERT INTO public.child (id, n) VALUES (%s, -1)", ["constraint positive", "table child"]),
        ("INSERT INTO public.child (id, must) VALUES (%s, NULL)", ["column must", "table child"]),
        ("INSERT INTO public.child (id, short) VALUES ('', %s || repeat('x', 20))", ["type short", "23514"]),
        ("SELECT %s::text::int", ["22P02"]),
        ("SELECT (%s || '\"')::jsonb", ["22P02"]),
        ("SELECT ('2020-99-99 ' || %s)::timestamptz", ["SQLSTATE 22"]),
        ("INSERT INTO public.shouting VALUES (%s)", ["P0001", "function public.shout"]),
    ],
)
def test_no_error_shows_a_value(table: str, statement: str, said: list[str]) -> None:
    """Constraint, table, column, type or function are named; what the server quotes of the row is not."""
    with connect(table, purpose="test") as session, pytest.raises(DatabaseFailed) as caught, saying("writing child"):
        session.execute(statement, [SECRET_VALUE])
    shown = caught.value.message + caught.value.hint
    assert SECRET_VALUE not in shown
    assert shown.startswith("writing child failed: ")
    assert all(part in shown for part in said)
    error = caught.value
    assert error.__suppress_context__
    assert error.__cause__ is None, "a traceback would print the original with its DETAIL"


def test_a_missing_right_is_named(table: str) -> None:
    """A role that may not do something learns what it may not, and what mends it."""
    with connect(table, purpose="test") as session:
        session.execute("CREATE ROLE vibey_test_reader; SET ROLE vibey_test_reader")
        try:
            for statement, part in [
                ("SELECT * FROM public.child", "SELECT, INSERT, UPDATE and DELETE"),
                ("ALTER TABLE public.child ADD x int", "the owner"),
                ("CREATE DATABASE vibey_never", "CREATEDB"),
                ("CREATE TABLE pg_catalog.x (a int)", "USAGE and CREATE on the schema"),
            ]:
                with pytest.raises(DatabaseFailed) as caught, saying("testing"):
                    session.execute(statement)
                assert part in caught.value.hint, statement
        finally:
            session.execute("RESET ROLE; DROP ROLE vibey_test_reader")


def test_a_policy_that_hides_rows_is_an_error_and_not_a_short_read(table: str) -> None:
    """With row_security off a read that a policy would cut fails: fewer rows would look like deletions."""
    with connect(table, purpose="test") as session:
        session.execute("CREATE ROLE vibey_test_cut; GRANT USAGE ON SCHEMA public TO vibey_test_cut")
        try:
            session.execute("GRANT SELECT ON public.parent TO vibey_test_cut")
            session.execute("ALTER TABLE public.parent ENABLE ROW LEVEL SECURITY")
            session.execute("SET ROLE vibey_test_cut")
            with pytest.raises(DatabaseFailed) as caught, saying("reading parent"):
                session.execute("SELECT * FROM public.parent")
            assert "BYPASSRLS" in caught.value.hint
        finally:
            session.execute("RESET ROLE; DROP OWNED BY vibey_test_cut; DROP ROLE vibey_test_cut")


def test_a_lock_and_a_deadlock_mean_that_the_state_moved(table: str) -> None:
    """Both end the attempt, not the sync: the cycle starts again."""
    with connect(table, purpose="one") as one, connect(table, purpose="two") as two:
        with one.transaction():
            one.execute("LOCK TABLE public.parent")
            two.execute("SET lock_timeout TO '10ms'")
            with pytest.raises(StateMoved, match="applying had to stop"), saying("applying"), two.transaction():
                two.execute("LOCK TABLE public.parent")
        _deadlock(one, two)


def _deadlock(one: psycopg.Connection, two: psycopg.Connection) -> None:
    caught: list[Exception] = []

    def lock(session: psycopg.Connection, first: str, second: str, ready: threading.Barrier) -> None:
        try:
            with saying("applying"), session.transaction():
                session.execute("SET LOCAL deadlock_timeout TO '10ms'; SET LOCAL lock_timeout TO '120s'")
                session.execute(f"LOCK TABLE public.{first}")
                ready.wait(120)
                session.execute(f"LOCK TABLE public.{second}")
        except StateMoved as error:
            caught.append(error)

    ready = threading.Barrier(2)
    other = threading.Thread(target=lock, args=(two, "child", "parent", ready))
    other.start()
    lock(one, "parent", "child", ready)
    other.join(120)
    assert [type(error) for error in caught] == [StateMoved]


def test_two_writers_of_one_row_mean_that_the_state_moved(table: str) -> None:
    """A serialization failure is a race as well."""
    with connect(table, purpose="one") as one, connect(table, purpose="two") as two:
        one.execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT * FROM public.parent")
        two.execute("UPDATE public.parent SET id = 'other'")
        with pytest.raises(StateMoved), saying("applying"):
            one.execute("UPDATE public.parent SET id = 'mine'")


def test_a_connection_that_was_cut_is_said(dsn: str) -> None:
    """A server that ends our session gives one line, not a traceback."""
    with connect(dsn, purpose="test") as session, connect(dsn, purpose="test") as killer:
        killer.execute("SELECT pg_terminate_backend(%s)", [session.info.backend_pid])
        for _ in range(2):
            with pytest.raises(DatabaseFailed, match="reading failed") as caught, saying("reading"):
                session.execute("SELECT 1")
            assert "\n" not in caught.value.message


def test_notices_never_fail_a_run(dsn: str, capfd: pytest.CaptureFixture[str]) -> None:
    """A server that warns at every statement is heard and not repeated."""
    with connect(dsn, purpose="test") as session:
        session.execute("DO $$ BEGIN RAISE WARNING 'collation version mismatch'; END $$")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
def test_a_pooler_that_shares_sessions_is_refused_before_anything_is_set(dsn: str, *, shared: bool) -> None:
    """A session that serves several clients in turn keeps its settings; a pool of whole sessions is used."""
    with Pooler(dsn, shared=shared) as pooler:
        through = make_conninfo(dsn, host="127.0.0.1", port=pooler.port, sslmode="disable")
        if shared:
            with pytest.raises(DatabaseFailed, match="pooler") as refused:
                connect(through, purpose="test")
            assert "session mode" in refused.value.hint
        else:
            connect(through, purpose="test").close()
        with psycopg.connect(through, autocommit=True, prepare_threshold=None) as other:
            assert other.execute("SHOW search_path").fetchone() == ('"$user", public',)
