"""Machines from YAML: those that are built in, and the adopter's ``.github/vibey-docs.yml``.

Every key is known or refused by name, so that a misspelt rule is never a rule that silently does not hold.
"""

from __future__ import annotations

import difflib
import re
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from vibey_actions.documents.machine import Act, Machine, Retry, Transition, Writer
from vibey_actions.documents.wellformed import check_machine
from vibey_actions.errors import MachineInvalid
from vibey_actions.text import shown

if TYPE_CHECKING:
    import yaml

DEFAULT_FILE: Final = Path(".github/vibey-docs.yml")
BUILT_IN: Final = ("mention-build", "publish-request", "job", "daily")
NEW: Final = "new"
"""The source of a transition that makes a document."""
ADJUSTABLE: Final = ("db", "lease", "attempts", "per-tick", "per-day", "with")
"""What the adopter's file may say of a machine that is built in."""

_MACHINE: Final = (
    *("kind", "type", "db", "lane", "writers", "lease", "attempts", "retry", "once-steps", "fixed", "per-tick"),
    *("per-day", "statuses", "terminals", "failed", "transitions", "with"),
)
_EDGE: Final = ("writer", "act", "step", "owns")
_DURATION: Final = re.compile(r"([1-9][0-9]{0,5})(ms|s|m|h)", re.ASCII)
_UNITS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}
_MAX_FILE: Final = 1_000_000
_NOT_DECLARED: Final = frozenset({Act.RENEW, Act.HOLD})
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Declared:
    """What the adopter's file says: every machine by name, built-in ones included, and which it names itself."""

    machines: Mapping[str, Machine]
    named: tuple[str, ...] = ()
    store: Part = field(default_factory=lambda: Part("", "store", {}))
    """The section ``store``: where the documents are. Who opens the store checks it."""
    present: bool = False
    """Whether there is such a file."""


def built_in(name: str) -> Machine:
    """The built-in machine ``name``. Raises MachineInvalid where there is none."""
    if name not in BUILT_IN:
        raise _missing(name, BUILT_IN)
    text, file = (files("vibey_actions.documents.machines") / f"{name}.yml").read_text("utf-8"), f"machines/{name}.yml"
    return parse_machine(name, Part(file, "", _mapping(_load(text, file), file)))


def load(root: Path, file: Path | None = None) -> Declared:
    """The machines of ``file``, else of ``.github/vibey-docs.yml`` under ``root`` (missing: those built in).

    Raises MachineInvalid, naming the file and the key.
    """
    path = file if file is not None else root / DEFAULT_FILE
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            # A pipe would be waited on, and a device could be without end.
            raise MachineInvalid(f"{shown(str(path))} is no regular file", "name a file")
        if found.st_size > _MAX_FILE:
            raise MachineInvalid(f"{shown(str(path))} is larger than 1 MB", "declare machines only")
        text = path.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if file is None:
            return replace(parse("", str(path)), present=False)
        raise MachineInvalid(f"{shown(str(path))} does not exist", "name an existing file") from None
    except OSError as error:
        raise MachineInvalid(f"{shown(str(path))} cannot be read: {error.strerror}", "make it readable") from error
    except UnicodeDecodeError as error:
        raise MachineInvalid(
            f"{shown(str(path))} is not UTF-8 text (byte {error.start})", "save it as UTF-8"
        ) from error
    return parse(text, str(path))


def parse(text: str, file: str) -> Declared:
    """The machines that ``text`` declares, on top of those built in; ``file`` names it in errors."""
    top = Part(shown(file), "", _mapping(_load(text, shown(file)), shown(file), empty=True))
    top.known(("machines", "store"))
    machines = {name: built_in(name) for name in BUILT_IN}
    named = top.part("machines")
    for name in named.values:
        machines[name] = _named(name, named.part(name), machines)
    _distinct(machines, top.file)
    return Declared(machines, tuple(named.values), top.part("store"), present=True)


def parse_machine(name: str, part: Part) -> Machine:
    """One whole machine. Raises MachineInvalid for a key, a value, or a machine that cannot work."""
    part.known(_MACHINE)
    kind_field = "kind" if "kind" in part.values else "type"
    if "kind" in part.values and "type" in part.values:
        raise part.wrong("type", "stands beside kind", "keep one: the field of the document that names its kind")
    statuses = part.texts("statuses")
    transitions = part.part("transitions")
    machine = Machine(
        name=name,
        kind_field=kind_field,
        kind=part.text(kind_field),
        db=part.text("db"),
        statuses=statuses,
        terminals=frozenset(part.texts("terminals")),
        failed=part.text("failed"),
        lane=part.text("lane"),
        writers={each: _writer(part.part("writers"), each) for each in part.part("writers").values},
        transitions=_once(transitions, [_transition(transitions, each) for each in transitions.values]),
        lease_ms=part.duration("lease"),
        attempts=part.count("attempts"),
        retry=part.one_of("retry", Retry, Retry.RETRY),
        once_steps=frozenset(part.texts("once-steps", optional=True)),
        fixed=frozenset(part.texts("fixed", optional=True)),
        per_tick=part.optional("per-tick", part.count),
        per_day=part.optional("per-day", part.count),
        settings=part.part("with").values,
    )
    check_machine(machine, part.file)
    return machine


def _named(name: str, part: Part, machines: Mapping[str, Machine]) -> Machine:
    """A machine of the adopter's file: whole; a change to one built in; or ``based-on`` one, with a kind of its own."""
    if "transitions" in part.values:
        return parse_machine(name, part)
    base = part.text("based-on") if "based-on" in part.values else name
    if base not in machines:
        raise (
            part.wrong("based-on", f"is {shown(base, 80)}, which is no machine above it", _listed((*machines,)))
            if base != name
            else part.wrong("transitions", "is missing", "declare the whole machine, or say which it is based-on")
        )
    part.known((*ADJUSTABLE, *(("based-on", "kind", "type") if base != name else ())))
    return _adjusted(name, machines[base], part)


def _adjusted(name: str, base: Machine, part: Part) -> Machine:
    kind_field = next((each for each in ("kind", "type") if each in part.values), base.kind_field)
    machine = replace(
        base,
        name=name,
        kind_field=kind_field,
        kind=part.text(kind_field) if kind_field in part.values else base.kind,
        db=part.text("db") if "db" in part.values else base.db,
        lease_ms=part.duration("lease") if "lease" in part.values else base.lease_ms,
        attempts=part.count("attempts") if "attempts" in part.values else base.attempts,
        per_tick=part.optional("per-tick", part.count) or base.per_tick,
        per_day=part.optional("per-day", part.count) or base.per_day,
        settings={**base.settings, **part.part("with").values},
    )
    check_machine(machine, part.file)
    return machine


def _distinct(machines: Mapping[str, Machine], file: str) -> None:
    """No document belongs to two machines."""
    seen: dict[tuple[str, str, str], str] = {}
    for name, machine in machines.items():
        other = seen.setdefault((machine.db, machine.kind_field, machine.kind), name)
        if other != name:
            raise MachineInvalid(
                f"{file}: the machines {other} and {name} are both of {machine.kind_field} {machine.kind}"
                f" in the database {machine.db}",
                "give one of them another kind or database",
            )


def _writer(part: Part, name: str) -> Writer:
    value = part.text(name)
    kind, _, handler = value.partition(" ")
    if kind in ("handle", "user") and not handler:
        return Writer(name, kind)
    if kind == "backend" and handler in ("scheduled", "onChange", "fetch"):
        return Writer(name, kind, handler)
    raise part.wrong(
        name,
        f"is {shown(value, 60)}, which there is not",
        "write handle, user, backend scheduled, backend onChange or backend fetch",
    )


def _transition(part: Part, name: str) -> Transition:
    source, arrow, target = (piece.strip() for piece in name.partition("->"))
    if not arrow or not source or not target:
        raise part.wrong(name, "is no transition", "write it as FROM -> TO, with new as FROM of a new document")
    edge = part.part(name)
    edge.known(_EDGE)
    act = edge.one_of("act", Act, Act.MOVE)
    if act in _NOT_DECLARED:
        raise edge.wrong("act", f"is {act.value}, which every claim allows by itself", "leave this transition out")
    everything = edge.values.get("owns") == "*"
    return Transition(
        None if source == NEW else source,
        target,
        edge.text("writer"),
        act,
        edge.text("step") if "step" in edge.values else None,
        None if everything else frozenset(edge.texts("owns", optional=True)),
    )


def _once(part: Part, transitions: list[Transition]) -> tuple[Transition, ...]:
    """The transitions, each between two statuses once, however its arrow is spaced."""
    seen: set[tuple[str | None, str]] = set()
    for edge, name in zip(transitions, part.values, strict=True):
        if (edge.source, edge.target) in seen:
            raise part.wrong(name, "stands twice", "keep one of the two")
        seen.add((edge.source, edge.target))
    return tuple(transitions)


class Part:
    """A mapping of the file, with the dotted name it stands under. Each reader raises MachineInvalid naming the key."""

    def __init__(self, file: str, name: str, values: Mapping[str, object]) -> None:
        self.file = file
        self.name = name
        self.values = values

    def known(self, keys: tuple[str, ...]) -> None:
        for key in self.values:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                raise self.wrong(key, "is no key here", f"did you mean {near[0]}?" if near else _listed(keys))

    def wrong(self, key: str, problem: str, hint: str) -> MachineInvalid:
        dotted = f"{self.name}.{key}" if self.name else key
        return MachineInvalid(f"{self.file}: {shown(dotted, 160)} {problem}", hint)

    def part(self, key: str) -> Part:
        value = self.values.get(key)
        if value is not None and not isinstance(value, dict):
            raise self.wrong(key, f"is {_kind(value)}, not a mapping", "write names with values below it")
        names = value or {}
        for name in names:
            if not isinstance(name, str):
                raise self.wrong(key, f"has the key {shown(str(name), 60)}, which is {_kind(name)}", "put it in quotes")
        return Part(self.file, f"{self.name}.{key}" if self.name else key, names)

    def text(self, key: str) -> str:
        return self._text(key, self._required(key))

    def texts(self, key: str, *, optional: bool = False) -> tuple[str, ...]:
        value = self.values.get(key, []) if optional else self._required(key)
        if not isinstance(value, list):
            raise self.wrong(key, f"is {_kind(value)}, not a list", "write it as [one, another]")
        found = tuple(self._text(key, each) for each in value)
        for each in found:
            if found.count(each) > 1:
                raise self.wrong(key, f"names {shown(each, 60)} twice", "name it once")
        return found

    def count(self, key: str) -> int:
        value = self._required(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1_000_000:  # noqa: PLR2004
            raise self.wrong(key, "is no whole number from 1 to 1000000", "write a number")
        return value

    def duration(self, key: str) -> int:
        match = _DURATION.fullmatch(self.text(key))
        if match is None:
            raise self.wrong(key, "is no length of time", "write a number and ms, s, m or h: 30s, 10m")
        return int(match[1]) * _UNITS[match[2]]

    def one_of(self, key: str, kind: Callable[[str], _T], default: _T) -> _T:
        if key not in self.values:
            return default
        value = self.text(key)
        try:
            return kind(value)
        except ValueError:
            words = [each.value for each in type(default)]  # type: ignore[attr-defined]
            raise self.wrong(key, f"is {shown(value, 60)}, which there is not", f"write {', '.join(words)}") from None

    def optional(self, key: str, read: Callable[[str], _T]) -> _T | None:
        return read(key) if key in self.values else None

    def _required(self, key: str) -> object:
        if self.values.get(key) is None:
            raise self.wrong(key, "is missing", "every machine says it")
        return self.values[key]

    def _text(self, key: str, value: object) -> str:
        if not isinstance(value, str) or not value.strip():
            hint = "put it in quotes" if isinstance(value, bool | int | float) else "write a text"
            raise self.wrong(key, f"holds {_kind(value)} where a text belongs", hint)
        return value.strip()


def _load(text: str, file: str) -> object:
    import yaml

    try:
        return yaml.load(text, _loader())  # noqa: S506 - a loader derived from the safe one
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}" if mark is not None else ""
        raise MachineInvalid(
            f"{file} is not valid YAML{where}: {shown(error.problem or 'it cannot be read', 200)}",
            "mend the file at the place that is named",
        ) from None
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, LookupError, AttributeError):
        # The last three come from the constructors of tags that a file writes out, such as !!bool.
        raise MachineInvalid(f"{file} is not valid YAML", "mend the file; it needs no tags, and plain names") from None


def _loader() -> type[yaml.SafeLoader]:
    import yaml

    class Loader(yaml.SafeLoader):
        """Safe, and besides without aliases (which can grow without bound) and without a key that stands twice."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                raise yaml.MarkedYAMLError(problem="aliases are not used here")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[object, object]:  # noqa: FBT001, FBT002
            seen: set[object] = set()
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    raise yaml.MarkedYAMLError(problem="a key is a list or a mapping", problem_mark=key.start_mark)
                if key.value in seen:
                    raise yaml.MarkedYAMLError(problem=f"the key {key.value} stands twice", problem_mark=key.start_mark)
                seen.add(key.value)
            return super().construct_mapping(node, deep)

    return Loader


def _mapping(value: object, file: str, *, empty: bool = False) -> dict[str, object]:
    if value is None and empty:
        return {}
    if not isinstance(value, dict) or not all(isinstance(name, str) for name in value):
        raise MachineInvalid(f"{file} is no mapping of names", "begin it with machines:")
    return value


def _missing(name: str, known: tuple[str, ...]) -> MachineInvalid:
    return MachineInvalid(f"there is no machine {shown(name, 80)}", _listed(known))


def _listed(names: tuple[str, ...]) -> str:
    return f"there are {', '.join(names)}"


_KINDS: Final[tuple[tuple[type, str], ...]] = (
    (bool, "true or false"),
    (str, "a text"),
    (int, "a number"),
    (float, "a number"),
    (list, "a list"),
    (dict, "a mapping"),
    (type(None), "nothing"),
)


def _kind(value: object) -> str:
    """What kind of YAML value was found, never the value."""
    if isinstance(value, str) and not value.strip():
        return "an empty text"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), "a date or time")
