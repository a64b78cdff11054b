"""What two databases hold, compared by means that are not the product's own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from vibey_actions.postgres.binaries import find_binaries

_POSITION = re.compile(r"^SELECT pg_catalog\.setval\('(?:[^']|'')*', -?\d+, (?:true|false)\);$", re.M)
OWN = ("public.state_sync", "public.schema_migration", "vibey_actions.*")


def dump(dsn: str) -> list[str]:
    """The lines of ``pg_dump --data-only``, sorted; without the sync's own tables and the positions of sequences."""
    folder = os.environ.get("VIBEY_TEST_PG_BIN")
    program = (Path(folder) if folder else find_binaries(None)) / "pg_dump"
    parameters = conninfo_to_dict(dsn)
    command = [str(program), "--data-only", "--no-owner", *(f"--exclude-table={name}" for name in OWN)]
    env = {"PATH": os.environ["PATH"], "PGTZ": "UTC", "PGPASSWORD": str(parameters.pop("password", ""))}
    done = subprocess.run(
        [*command, "--dbname", make_conninfo("", **parameters)], capture_output=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    text = _POSITION.sub("", done.stdout.decode("utf-8", "surrogateescape"))
    # A dump of some versions starts with a random word (\restrict).
    return sorted(line for line in text.split("\n") if not line.startswith(("\\restrict", "\\unrestrict")))


def sequences_behind(dsn: str, schemas: tuple[str, ...]) -> list[str]:
    """Columns whose sequence would give a number that a row has."""
    behind: list[str] = []
    with psycopg.connect(dsn, autocommit=True) as connection:
        owned = connection.execute(
            "SELECT d.refobjid::regclass::text, quote_ident(a.attname), d.objid::regclass::text"
            " FROM pg_depend d JOIN pg_class s ON s.oid = d.objid AND s.relkind = 'S'"
            " JOIN pg_class c ON c.oid = d.refobjid"
            " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = d.refobjsubid"
            " WHERE d.deptype IN ('a', 'i') AND c.relnamespace::regnamespace::text = ANY (%s)",
            (list(schemas),),
        ).fetchall()
        for table, column, sequence in owned:
            query = (
                f"SELECT coalesce(max({column}), 0) > (SELECT CASE WHEN is_called THEN last_value ELSE 0 END"
                f" FROM {sequence}) FROM {table} WHERE {column} > 0"
            )
            if connection.execute(query.encode()).fetchone() == (True,):
                behind.append(f"{table}.{column}")
    return behind
