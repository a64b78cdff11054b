"""Random databases: types, tables with odd names and keys of any type, rows, and edits of them. The same for one seed.

What the server itself does not take (a value out of range, a key twice) is left out, so that nothing here has to know
every rule of every type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from random import Random

import psycopg

from tests.support.fake_values import (
    BUILT_IN,
    EXTENSIONS,
    Kind,
    Text,
    array_text,
    quoted,
    range_kinds,
    row_text,
    text,
)
from vibey_actions.postgres.sql import identifier

_REFUSALS = (
    psycopg.errors.ProgramLimitExceeded, psycopg.errors.SyntaxError, psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedObject,
)  # fmt: skip

NAMES = (
    "a", "id", "r", "s", "n", "k", "base", "select", "Order", "user", 'weird ""q', "ünïcødé", "🎉", "a.b", "with space",
    "%s", "%(x)s", "$1", "\\", "'", "x'; --", "back`tick", "tab\tnew\nline", "vibey key", "json", "v", "UPPER",
    "x" * 63, "é" * 31, "c0", "op", "key", "row", "[", '{"a":1}', "é\u200d",
)  # fmt: skip


@dataclass(frozen=True)
class FakeColumn:
    name: str
    kind: Kind
    ddl: str
    given: bool = True
    """Whether rows give a value for it; a generated column's comes from the server."""
    not_null: bool = False


@dataclass
class FakeTable:
    """``parent``: a table that ``links`` (columns) reference by its key; None where nothing is referenced."""

    sql: str
    columns: list[FakeColumn]
    key: list[FakeColumn]
    parent: FakeTable | None = None
    links: list[FakeColumn] = field(default_factory=list)
    referenced: bool = False

    @property
    def ddl(self) -> str:
        columns = [f"{identifier(c.name)} {c.ddl}" for c in self.columns]
        columns.append(f"PRIMARY KEY ({self._names(self.key)})")
        if self.parent is not None:
            columns.append(f"FOREIGN KEY ({self._names(self.links)}) REFERENCES {self.parent.sql}")
        return f"CREATE TABLE {self.sql} ({', '.join(columns)})"

    @staticmethod
    def _names(columns: Sequence[FakeColumn]) -> str:
        return ", ".join(identifier(c.name) for c in columns)

    @property
    def given(self) -> list[FakeColumn]:
        return [column for column in self.columns if column.given]

    @property
    def insert(self) -> str:
        values = ", ".join(f"%s::text::{_escaped(c.kind.sql)}" for c in self.given)
        names = _escaped(self._names(self.given))
        return f"INSERT INTO {_escaped(self.sql)} ({names}) OVERRIDING SYSTEM VALUE VALUES ({values})"

    @property
    def in_order(self) -> str:
        """The query for the rows' places, in the order of their keys: the same in every database with these rows."""
        order = ", ".join(f'{identifier(c.name)}::text COLLATE "C"' for c in self.key)
        return f"SELECT ctid::text FROM {self.sql} ORDER BY {order}"


class Faker:
    """A random database's schema for a server of one major ``version`` that has the ``extensions``."""

    def __init__(self, seed: int, extensions: Sequence[str], version: int) -> None:
        self.chance = Random(seed)  # noqa: S311 - the same database for one seed
        self.setup: list[str] = ["CREATE SCHEMA app", *(f"CREATE EXTENSION {name}" for name in extensions)]
        built_in = [kind for kind in BUILT_IN if kind.since <= version]
        self.simple = [*built_in, *range_kinds(), *(kind for name in extensions for kind in EXTENSIONS[name])]
        self.tables: list[FakeTable] = []
        self._types = 0

    @classmethod
    def every_type(cls, seed: int, extensions: Sequence[str], version: int) -> Faker:
        """A database with a table per simple type: as a column, in an array, in a domain and in a composite."""
        faker = cls(seed, extensions, version)
        ident = FakeColumn("id", BUILT_IN[1], "int", not_null=True)
        for first in range(0, len(faker.simple), 4):
            kinds = [one for kind in faker.simple[first : first + 4] for one in faker._in_every_place(kind)]
            columns = [FakeColumn(f"v{n}", one, one.sql) for n, one in enumerate(kinds)]
            faker.tables.append(FakeTable(f"public.t{first}", [ident, *columns], [ident]))
        for number, kind in enumerate(faker.simple):
            if kind.key:
                key = FakeColumn("k", kind, kind.sql, not_null=True)
                faker.tables.append(FakeTable(f"public.k{number}", [key, ident], [key]))
        return faker

    def _in_every_place(self, kind: Kind) -> list[Kind]:
        composite = self.composite([kind, kind])
        return [kind, self.array(kind), self.domain(kind), composite, self.array(composite)]

    @classmethod
    def random(cls, seed: int, extensions: Sequence[str], version: int, tables: int) -> Faker:
        """A database with that many tables of random columns."""
        faker = cls(seed, extensions, version)
        while len(faker.tables) < tables:
            faker.tables.append(faker._table())
        return faker

    @property
    def ddl(self) -> list[str]:
        """Every statement that makes the database."""
        return [*self.setup, *(table.ddl for table in self.tables)]

    def rows(self, connection: psycopg.Connection, table: FakeTable, count: int) -> int:
        """Insert up to ``count`` random rows; returns how many the server took."""
        if table.columns[0].name == "id" and table.key == [table.columns[0]] and table.parent is None:
            return sum(self._ask(connection, table.insert, row) for row in self._corners(table, count))
        return sum(self._ask(connection, table.insert, row) for row in self._random_rows(connection, table, count))

    def _corners(self, table: FakeTable, count: int) -> Iterator[list[Text]]:
        """Random rows; in the first ones every corner of each column's type stands once."""
        columns = table.given[1:]
        for number in range(max(count, *(len(c.kind.corners) for c in columns))):
            yield [
                str(number),
                *(
                    c.kind.corners[number] if number < len(c.kind.corners) else c.kind.value(self.chance)
                    for c in columns
                ),
            ]

    def _random_rows(self, connection: psycopg.Connection, table: FakeTable, count: int) -> Iterator[list[Text]]:
        parents = self._parents(connection, table)
        for _ in range(count):
            linked = self.chance.choice(parents) if parents and self.chance.random() < 0.8 else None
            values = {c.name: c.kind.value(self.chance, null=0.0 if c.not_null else 0.15) for c in table.given}
            for number, link in enumerate(table.links):
                values[link.name] = linked[number] if linked else None
            yield [values[c.name] for c in table.given]

    def _parents(self, connection: psycopg.Connection, table: FakeTable) -> list[tuple[str, ...]]:
        if table.parent is None:
            return []
        names = ", ".join(f"{identifier(c.name)}::text" for c in table.parent.key)
        return connection.execute(f"SELECT {names} FROM {table.parent.sql}".encode()).fetchall()

    def edit(self, connection: psycopg.Connection, table: FakeTable, half: int) -> int:
        """Change, delete or leave every second row, the odd or the even ones; returns how many changed."""
        places = [place for (place,) in connection.execute(table.in_order.encode())][half::2]
        columns = [c for c in table.given if c not in table.key and c not in table.links]
        done = 0
        for place in places:
            if not table.referenced and self.chance.random() < 0.1:
                done += self._ask(connection, f"DELETE FROM {_escaped(table.sql)} WHERE ctid = %s::tid", [place])
            elif columns and self.chance.random() < 0.5:
                column = self.chance.choice(columns)
                statement = (
                    f"UPDATE {_escaped(table.sql)} SET {_escaped(identifier(column.name))} ="
                    f" %s::text::{_escaped(column.kind.sql)} WHERE ctid = %s::tid"
                )
                done += self._ask(connection, statement, [column.kind.value(self.chance), place])
        return done

    @staticmethod
    def _ask(connection: psycopg.Connection, statement: str, parameters: Sequence[Text]) -> bool:
        """Whether the server took it."""
        try:
            with connection.transaction():
                return connection.execute(statement.encode(), parameters).rowcount == 1
        except psycopg.DataError:
            return False
        except (psycopg.IntegrityError, psycopg.NotSupportedError, *_REFUSALS):
            return False

    def _type(self, ddl: str) -> str:
        self._types += 1
        name = identifier(f"{self.chance.choice(NAMES)[:20]} {self._types}")
        schema = self.chance.choice(["public", "app"])
        self.setup.append(ddl.replace("@", f"{schema}.{name}", 1))
        return f"{schema}.{name}"

    def enum(self) -> Kind:
        labels = {text(self.chance, 8) or "x" for _ in range(4)} | {"a"}
        quoted_labels = ", ".join("'" + label.replace("'", "''") + "'" for label in sorted(labels))
        return Kind(self._type(f"CREATE TYPE @ AS ENUM ({quoted_labels})"), tuple(sorted(labels)), lambda c: "a")

    def domain(self, kind: Kind) -> Kind:
        check = self.chance.choice(["", " CHECK (VALUE IS NOT NULL OR true)"])
        sql = self._type(f"CREATE DOMAIN @ AS {kind.sql}{check}")
        # A foreign key finds no equality for a domain over a range or an enum.
        return replace(kind, sql=sql, link=kind.link and kind in self.simple and "range" not in kind.sql)

    def composite(self, kinds: Sequence[Kind]) -> Kind:
        fields = ", ".join(
            f"{identifier(name)} {kind.sql}"
            for name, kind in zip(self.chance.sample(NAMES, len(kinds)), kinds, strict=True)
        )
        empty = row_text([None] * len(kinds))
        return Kind(
            self._type(f"CREATE TYPE @ AS ({fields})"),
            (empty,),
            lambda c: row_text([kind.value(c) for kind in kinds]),
            key=all(kind.key for kind in kinds),
            link=False,
        )

    def array(self, kind: Kind) -> Kind:
        corners = ("{}", "{NULL}", *("{" + quoted(corner) + "}" for corner in kind.corners[:4]))
        return Kind(
            f"{kind.sql}[]",
            corners,
            lambda c: array_text([kind.value(c) for _ in range(c.randrange(5))], c, kind.delimiter),
            key=kind.key,
            element=False,
            link=False,
        )

    def kind(self, depth: int = 2) -> Kind:
        """Any type, at times made for the occasion out of others."""
        choice = self.chance.randrange(8) if depth else 0
        if choice == 7:
            return self.enum()
        if choice == 6:
            return self.domain(self.kind(depth - 1))
        if choice == 5:
            return self.composite([self.kind(depth - 1) for _ in range(self.chance.randrange(1, 4))])
        if choice == 4:
            element = self.kind(depth - 1)
            return self.array(element) if element.element else element
        return self.chance.choice(self.simple)

    def _table(self) -> FakeTable:
        names = self.chance.sample(NAMES, 12)
        keys = [self._key(names.pop()) for _ in range(self.chance.choice([1, 1, 2]))]
        rest = [self._column(names.pop()) for _ in range(self.chance.randrange(1, 6))]
        schema = self.chance.choice(["public", "public", "app"])
        sql = f"{schema}.{identifier(f'{self.chance.choice(NAMES)[:30]} t{len(self.tables)}')}"
        table = FakeTable(sql, [*keys, *rest], keys)
        if self.tables and self.chance.random() < 0.5:
            self._link(table, names)
        if keys[0].kind.sql == "integer":
            doubled = f"bigint GENERATED ALWAYS AS ({identifier(keys[0].name)}::bigint * 2) STORED"
            table.columns.insert(1, FakeColumn(names.pop(), BUILT_IN[2], doubled, given=False))
        return table

    def _link(self, table: FakeTable, names: list[str]) -> None:
        parent = self.chance.choice(self.tables)
        if not all(column.kind.link for column in parent.key):
            return
        parent.referenced = True
        table.parent = parent
        table.links = [FakeColumn(names.pop(), c.kind, c.kind.sql) for c in parent.key]
        table.columns += table.links

    def _key(self, name: str) -> FakeColumn:
        if self.chance.random() < 0.3:
            always = self.chance.choice(["ALWAYS", "BY DEFAULT"])
            return FakeColumn(name, BUILT_IN[1], f"integer GENERATED {always} AS IDENTITY", not_null=True)
        kind = self.kind()
        while not kind.key:
            kind = self.kind()
        return FakeColumn(name, kind, kind.sql, not_null=True)

    def _column(self, name: str) -> FakeColumn:
        kind = self.kind()
        collated = ' COLLATE "C"' if kind.sql in ("text", "varchar") and self.chance.random() < 0.3 else ""
        return FakeColumn(name, kind, kind.sql + collated)


def _escaped(sql: str) -> str:
    return sql.replace("%", "%%")
