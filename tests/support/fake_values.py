"""Random values of every built-in type and of some extensions, as PostgreSQL reads them: corners, and anything between.

A `Kind` is a type of one database. Compound kinds (arrays, composites, ranges, domains) are made of others.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

Text = str | None
"""Input text of a type; None is SQL NULL."""


@dataclass(frozen=True)
class Kind:
    """A type as SQL writes it, with its ``corners`` and a maker of random values.

    ``key``: whether a primary key can be of it; ``element``: whether there are arrays of it; ``delimiter``: what stands
    between the elements of those; ``link``: whether a foreign key can reference it; ``since``: the first major version
    of PostgreSQL that has it.
    """

    sql: str
    corners: tuple[str, ...]
    make: Callable[[Random], str] = field(repr=False, default=lambda chance: "")
    key: bool = True
    element: bool = True
    delimiter: str = ","
    link: bool = True
    since: int = 14

    def value(self, chance: Random, *, null: float = 0.1) -> Text:
        """A corner, a random value, or None."""
        if chance.random() < null:
            return None
        return self.not_null(chance)

    def not_null(self, chance: Random) -> str:
        if chance.random() < 0.4 and self.corners:
            return chance.choice(self.corners)
        return self.make(chance)


LETTERS = [
    *map(chr, range(1, 0x180)), *" \t\n\r\"'\\,;{}()[]=<>:$%", "\u2028", "\u200d", "\ufeff", "\uffff", "\U00010000",
    "\U0001f389", "\U0010ffff", "e\u0301", "NULL", "null", "\\N", "\\.", "\\u0000", "\\ud800",
]  # fmt: skip


def text(chance: Random, most: int = 12) -> str:
    """Any text a database can hold."""
    return "".join(chance.choices(LETTERS, k=chance.randrange(most)))


def word(chance: Random) -> str:
    """Letters, digits and underscores."""
    return "".join(chance.choices("abcXYZ_09", k=chance.randrange(1, 9)))


def digits(chance: Random, most: int = 20) -> str:
    """A decimal number with any number of zeros at its end."""
    whole = str(chance.randrange(10 ** chance.randrange(1, most)))
    fraction = "".join(chance.choices("0019", k=chance.randrange(most)))
    return f"{chance.choice(['', '-'])}{whole}{'.' if fraction else ''}{fraction}"


def double(chance: Random) -> str:
    return repr(chance.choice([chance.uniform(-1, 1), chance.gauss(0, 1e6)]) * 10.0 ** chance.randrange(-30, 30))


def day(chance: Random) -> str:
    year, month = chance.choice([chance.randrange(1, 10000), chance.randrange(1970, 2040)]), chance.randrange(1, 13)
    return f"{year:04}-{month:02}-{chance.randrange(1, 29):02}"


def clock(chance: Random) -> str:
    fraction = chance.choice(["", ".5", f".{chance.randrange(10**6):06}"])
    return f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}{fraction}"


def stamp(chance: Random) -> str:
    return f"{day(chance)} {clock(chance)}{chance.choice(['', '', ' BC'])}"


def zoned(chance: Random) -> str:
    return f"{day(chance)} {clock(chance)}{chance.choice(['+00', '-11:30', '+05:45', '+14'])}"


def span(chance: Random) -> str:
    parts = zip(
        ("years", "mons", "days", "hours", "secs"), [chance.randrange(-400, 400) for _ in range(5)], strict=True
    )
    return " ".join(f"{count} {unit}" for unit, count in parts if chance.random() < 0.6) or "0"


def point(chance: Random) -> str:
    return f"({double(chance)},{double(chance)})"


def points(chance: Random, least: int, most: int) -> str:
    return ",".join(point(chance) for _ in range(chance.randrange(least, most)))


def json_value(chance: Random, depth: int = 3) -> object:
    """Anything JSON that jsonb holds; numbers as raw text in `Raw`."""
    kind = chance.randrange(8 if depth else 5)
    if kind == 0:
        return chance.choice([None, True, False])
    if kind in (1, 2):
        return Raw(chance.choice(["0", "-0", "1.0", "1.00", "1e20", "1E-7", "0.00000015", "9007199254740993",
                                  "-1e-400", "1e400", digits(chance)]))  # fmt: skip
    if kind < 5:
        return text(chance).replace("\0", "")
    if kind == 5:
        return [json_value(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {text(chance, 5): json_value(chance, depth - 1) for _ in range(chance.randrange(4))}


class Raw(str):
    """A number as it is written."""

    __slots__ = ()


def json_text(value: object, chance: Random, *, loose: bool) -> str:
    """JSON as someone might have written it; ``loose`` with spaces, escapes and repeated members."""

    def space() -> str:
        return chance.choice(["", "", " ", "\n", "\t  "]) if loose else ""

    if isinstance(value, Raw):
        return value
    if isinstance(value, list):
        inner = ",".join(space() + json_text(item, chance, loose=loose) + space() for item in value)
        return f"[{inner}]"
    if isinstance(value, dict):
        members = [
            f"{space()}{json.dumps(name)}{space()}:{json_text(item, chance, loose=loose)}"
            for name, item in value.items()
        ]
        if loose and members and chance.random() < 0.3:
            members.append(members[0])
        return "{" + ",".join(members) + "}"
    return json.dumps(value, ensure_ascii=loose and chance.random() < 0.5)


def document(chance: Random) -> str:
    return json_text(json_value(chance), chance, loose=False)


def loose_document(chance: Random) -> str:
    return json_text(json_value(chance), chance, loose=True)


def lexemes(chance: Random) -> str:
    words = ("'" + word(chance) + chance.choice(["", " ", "''", "é"]) + "'" for _ in range(chance.randrange(4)))
    return " ".join(w + chance.choice(["", ":1", ":3A,16383B"]) for w in words)


def query(chance: Random) -> str:
    return chance.choice([" & ", " | ", " <-> ", " & !"]).join(
        f"'{word(chance)}'{chance.choice(['', ':*', ':AB'])}" for _ in range(chance.randrange(1, 4))
    )


def pairs(chance: Random) -> str:
    """An hstore."""
    found = (
        f"{quoted(text(chance, 5))}=>{'NULL' if chance.random() < 0.2 else quoted(text(chance, 5))}"
        for _ in range(chance.randrange(4))
    )
    return ", ".join(found)


def whole(low: int, high: int) -> Callable[[Random], str]:
    return lambda chance: str(chance.randrange(low, high + 1))


def address(chance: Random) -> str:
    if chance.random() < 0.5:
        return ".".join(str(chance.randrange(256)) for _ in range(4)) + chance.choice(["", "/8", "/24", "/32"])
    return ":".join(f"{chance.randrange(65536):x}" for _ in range(8)) + chance.choice(["", "/64"])


def octets(count: int) -> Callable[[Random], str]:
    return lambda chance: ":".join(f"{chance.randrange(256):02x}" for _ in range(count))


def bits(count: int) -> Callable[[Random], str]:
    return lambda chance: "".join(chance.choices("01", k=count))


def cut(length: int) -> Callable[[Random], str]:
    return lambda chance: text(chance)[:length]


BINARY = ("", "\\x00", "\\xdeadbeef", "\\x5c", "\\x0a09")
FLOATS = ("0", "-0", "NaN", "Infinity", "-Infinity", "0.1", "1e-7", "1e15", "1e16", "0.30000000000000004", "1e22")
TEXTS = ("", " ", "a", "null", "NULL", "\\N", "\\.", "\x7f", "\x01", "\t\n\r\b\f", '"', "\\", "'", "ä", "🎉", "a  ")
TIMES = ("infinity", "-infinity", "0044-03-15 BC", "4713-01-01 BC", "15000-12-31", "2000-02-29")
JSONS = ("null", "0", "-0", "-0.0", "1.00", "1e400", '""', '"null"', "[]", "{}", "[null]", '{"a":null}', '{"a":1.00}')
LOOSE = (*JSONS, " null ", '{"a":1,"a":2}', '{"b":1, "a":2}', '{"a":"\\u0000"}', '"\\ud83d"', '"\\u00e9"', "[1 ,2]")

BUILT_IN: tuple[Kind, ...] = (
    Kind("smallint", ("-32768", "32767", "0"), whole(-32768, 32767)),
    Kind("integer", ("-2147483648", "2147483647", "0", "10", "9"), whole(-(2**31), 2**31 - 1)),
    Kind("bigint", ("-9223372036854775808", "9223372036854775807", "9007199254740993"), whole(-(2**63), 2**63 - 1)),
    Kind("numeric", ("0", "0.0", "0.00000000", "1.0", "1.00", "-0.00000010", "NaN", "Infinity", "-Infinity", "1e130",
                     "1e-130", "0.000001", "0.0000010"), digits),
    Kind("numeric(12,3)", ("0", "1", "-1.5", "NaN"), lambda c: digits(c, 8)),
    Kind("numeric(5,-2)", ("0", "12345", "NaN"), whole(-99999, 99999), since=15),
    Kind("real", (*FLOATS, "1e-45", "3.4028235e38"), lambda c: f"{c.gauss(0, 1):.9g}e{c.randrange(-30, 30)}"),
    Kind("double precision", (*FLOATS, "5e-324", "1.7976931348623157e308", "2.2250738585072014e-308"), double),
    Kind("money", ("0", "-1234.50", "92233720368547758.07"), lambda c: f"{c.randrange(-(10**9), 10**9) / 100:.2f}"),
    Kind("boolean", ("t", "f"), lambda c: c.choice("tf")),
    Kind("text", TEXTS, text),
    Kind("varchar", TEXTS, text),
    Kind("varchar(5)", ("", "äöü"), cut(5)),
    Kind("character(5)", ("", "a", "ab ", "äöü"), cut(5)),
    Kind("bpchar", ("", "a", "a  ", "   "), text),
    Kind('"char"', ("a", '"', "\\", "\x01"), lambda c: chr(c.randrange(1, 127))),
    Kind("name", ("a", "Ä", '"', "🎉"), text),
    Kind("bytea", BINARY, lambda c: "\\x" + c.randbytes(c.randrange(20)).hex()),
    Kind("uuid", ("00000000-0000-0000-0000-000000000000",), lambda c: c.randbytes(16).hex()),
    Kind("oid", ("0", "4294967295"), whole(0, 2**32 - 1)),
    Kind("date", TIMES, day),
    Kind("time", ("00:00", "24:00", "23:59:59.999999"), clock),
    Kind("time(2)", ("00:00", "24:00"), clock),
    Kind("timetz", ("00:00+00", "24:00-15:59", "12:00+05:30"), lambda c: clock(c) + c.choice(["+00", "-03", "+12:45"])),
    Kind("timestamp", (*TIMES, "2020-01-01 12:34:56.000001"), stamp),
    Kind("timestamp(3)", TIMES, stamp),
    Kind("timestamptz", (*TIMES, "2020-01-01 12:34:56.789+05:45"), zoned),
    Kind("timestamptz(0)", TIMES, zoned),
    Kind("interval", ("0", "1 year", "-1 mon 3 days -04:05:06.7", "178000000 years", "1 day", "24:00"), span),
    Kind("interval day to second(2)", ("0", "1 day -00:00:00.01"), span),
    Kind("json", LOOSE, loose_document, key=False),
    Kind("jsonb", JSONS, document),
    Kind("jsonpath", ("$", "strict $.a[*] ? (@ > 1)"), lambda c: f'$."{word(c)}"[{c.randrange(9)}]', key=False),
    Kind("xml", ("", "<a/>", "a &amp; b", '<a b="&quot;">x</a>'), lambda c: f"<x>ü{word(c)}</x>", key=False),
    Kind("inet", ("10.0.0.1", "::1", "10.0.0.1/8"), address),
    Kind("cidr", ("10.0.0.0/8", "2001:db8::/32", "0.0.0.0/0"), lambda c: f"10.{c.randrange(256)}.0.0/16"),
    Kind("macaddr", ("08:00:2b:01:02:03",), octets(6)),
    Kind("macaddr8", ("08:00:2b:01:02:03:04:05",), octets(8)),
    Kind("bit(3)", ("101", "000"), bits(3)),
    Kind("bit varying", ("", "1", "0001"), lambda c: bits(c.randrange(70))(c)),
    Kind("bit varying(4)", ("",), lambda c: bits(c.randrange(5))(c)),
    Kind("point", ("(0,-0)", "(NaN,Infinity)"), point, key=False),
    Kind("line", ("{1,-1,0}",), lambda c: f"{{1,{double(c)},{double(c)}}}", key=False),
    Kind("lseg", ("[(0,0),(1,1)]",), lambda c: f"[{point(c)},{point(c)}]", key=False),
    Kind("box", ("(1,1),(0,0)",), lambda c: f"{point(c)},{point(c)}", key=False, delimiter=";"),
    Kind("path", ("[(0,0),(1,1)]", "((0,0))"), lambda c: f"[{points(c, 1, 4)}]", key=False),
    Kind("polygon", ("((0,0),(1,1),(1,0))",), lambda c: f"({points(c, 1, 5)})", key=False),
    Kind("circle", ("<(0,0),0>",), lambda c: f"<{point(c)},{abs(float(double(c)))}>", key=False),
    Kind("tsvector", ("", "a:1A,2 'b c'"), lexemes),
    Kind("tsquery", ("", "'a' & !'b'"), query),
    Kind("pg_lsn", ("0/0", "FFFFFFFF/FFFFFFFF"), lambda c: f"{c.randrange(2**32):X}/{c.randrange(2**32):X}"),
    Kind("xid", ("0", "4294967295"), whole(0, 2**32 - 1), key=False),
    Kind("cid", ("0",), whole(0, 2**32 - 1), key=False),
    Kind("xid8", ("0", "18446744073709551615"), whole(0, 2**64 - 1)),
    Kind("tid", ("(0,1)",), lambda c: f"({c.randrange(2**32)},{c.randrange(1, 65535)})"),
    Kind("pg_snapshot", ("10:20:10,14,15",), lambda c: f"{c.randrange(1, 99)}:100:", key=False),
    Kind("regclass", ("pg_class", "0", "pg_catalog.pg_type"), lambda c: c.choice(["pg_proc", "pg_index"]), key=False),
    Kind("regtype", ("int4", "0", "text[]"), lambda c: c.choice(["point", "uuid"]), key=False),
    Kind("int2vector", ("", "1 2 3"), lambda c: " ".join(str(c.randrange(9)) for _ in range(3)), key=False),
    Kind("oidvector", ("", "1 2"), lambda c: " ".join(str(c.randrange(9)) for _ in range(3))),
    Kind("refcursor", TEXTS, text, key=False),
)  # fmt: skip

EXTENSIONS: dict[str, tuple[Kind, ...]] = {
    "hstore": (Kind("hstore", ("", '"a"=>"1", "b"=>NULL', '""=>""'), pairs),),
    "citext": (Kind("citext", ("A", "ä", ""), text),),
    "ltree": (
        Kind("ltree", ("", "a", "a.b.c"), lambda c: ".".join(word(c) for _ in range(c.randrange(1, 5)))),
        Kind("lquery", ("a.*{1,2}", "*.b"), lambda c: f"{word(c)}.*", key=False),
        Kind("ltxtquery", ("a & b",), lambda c: f"{word(c)} | {word(c)}", key=False),
    ),
    "cube": (Kind("cube", ("(1,2),(3,4)", "(0)"), lambda c: f"({double(c)},{double(c)})"),),
}


def array_text(values: Sequence[Text], chance: Random, delimiter: str = ",", *, bounds: bool = True) -> str:
    """An array literal of one or two dimensions, at times with bounds of its own."""
    parts = ["NULL" if value is None else quoted(value) for value in values]
    if not parts:
        return "{}"
    wide = len(parts) % 2 == 0 and chance.random() < 0.3
    rows = [parts[: len(parts) // 2], parts[len(parts) // 2 :]] if wide else [parts]
    inner = ["{" + delimiter.join(row) + "}" for row in rows]
    literal = "{" + delimiter.join(inner) + "}" if wide else inner[0]
    if not bounds or chance.random() < 0.7:
        return literal
    low = chance.choice([0, -3, 2, 1])
    sizes = (2, len(parts) // 2) if wide else (len(parts),)
    return "".join(f"[{low}:{low + size - 1}]" for size in sizes) + "=" + literal


def quoted(value: str) -> str:
    """An element or a field in double quotes, which both array and composite literals take."""
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def row_text(values: Sequence[Text]) -> str:
    """A composite literal."""
    return "(" + ",".join("" if value is None else quoted(value) for value in values) + ")"


def range_kinds() -> tuple[Kind, ...]:
    """The built-in ranges and their multiranges."""
    made: list[Kind] = []
    for name, bounds in _BOUNDS.items():
        made.append(Kind(name, ("empty", "(,)"), partial(range_text, bounds=bounds)))
        made.append(Kind(name.replace("range", "multirange"), ("{}", "{(,)}"), partial(ranges_text, bounds=bounds)))
    return tuple(made)


_BOUNDS: dict[str, tuple[str, ...]] = {
    "int4range": ("-5", "0", "1", "7", "1000"),
    "int8range": ("-9223372036854775807", "0", "9007199254740993"),
    "numrange": ("-1.50", "0", "0.0000001", "1.0", "1.00", "7.000"),
    "tsrange": ("0044-03-15 BC", "2020-01-01", "2020-01-01 12:00:00.5", "infinity"),
    "tstzrange": ("2020-01-01 00:00+05:45", "2020-06-01 00:00+00", "infinity"),
    "daterange": ("0044-03-15 BC", "2020-01-01", "2024-02-29", "infinity"),
}


def range_text(chance: Random, bounds: Sequence[str]) -> str:
    """A range whose bounds ascend."""
    low = chance.randrange(len(bounds))
    high = chance.randrange(low, len(bounds))
    first = "" if chance.random() < 0.1 else f'"{bounds[low]}"'
    last = "" if chance.random() < 0.1 else f'"{bounds[high]}"'
    return f"{chance.choice('[(')}{first},{last}{chance.choice('])')}"


def ranges_text(chance: Random, bounds: Sequence[str]) -> str:
    """A multirange."""
    return "{" + ",".join(range_text(chance, bounds) for _ in range(chance.randrange(4))) + "}"
