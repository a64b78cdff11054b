"""The configuration file, ``.github/vibey-state.toml``: what a repository declares about its state.

Source of the keys: docs/settings.md. Every key is optional; an unknown key or a wrong type is
refused by name, so that a misspelt rule is never a rule that silently does not hold.
"""

from __future__ import annotations

import difflib
import re
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from vibey_actions.errors import SettingError
from vibey_actions.state.declaration import Rule, Table
from vibey_actions.state.lanes import DOCUMENT_TABLE
from vibey_actions.state.profiles import ProfileTable, profile

DEFAULT_FILE: Final = Path(".github/vibey-state.toml")
MAX_NAME_BYTES: Final = 63
"""PostgreSQL cuts longer names with only a notice, so that two of them could become one."""

_VARIABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUALIFIED: Final = re.compile(r'(?P<schema>[^".]+|"(?:[^"]|"")+")\.(?P<table>[^".]+|"(?:[^"]|"")+")')
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class TableConfig:
    """What the file declares of one table; None and False where it says nothing."""

    conflict: Rule | None = None
    newest_by: str | None = None
    append_only: bool = False
    otherwise: Rule = Rule.REFUSE
    triggers: str | None = None
    """``off``: the database's own triggers do not fire while rows are applied."""

    def ruling(self, table: Table, declared: ProfileTable | None) -> Table:
        """``table`` with the rules of this section, else of the profile."""
        declared = declared or ProfileTable(table.key)
        return replace(
            table,
            rule=self.conflict or declared.rule,
            newest_by=self.newest_by or declared.newest_by,
            append_only=self.append_only or declared.append_only,
            otherwise=self.otherwise,
        )


@dataclass(frozen=True, slots=True)
class Migrations:
    """How ``migrate`` brings a database to the current schema.

    ``directory`` (absolute) holds plain SQL files; or ``command`` is a migrator of the database's own, which is handed
    the variables named in ``env``. ``versions`` is the query for what has been applied; None reads schema_migration.
    """

    directory: Path | None = None
    command: tuple[str, ...] | None = None
    env: tuple[str, ...] = ()
    versions: str | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration file; the defaults are what a missing file means."""

    public: bool = False
    profile: str | None = None
    exclude: tuple[str, ...] = ()
    tables: Mapping[str, TableConfig] = field(default_factory=dict)
    migrations: Migrations | None = None
    schemas: tuple[str, ...] = ("public",)
    documents: bool | None = None
    """Whether documents of lanes are part of the state; None: where their table is made at first use, and no profile
    is named. True has `migrate` make it."""


def load_config(root: Path, file: Path | None = None) -> Config:
    """Read ``file``, or ``.github/vibey-state.toml`` under ``root`` where it is None (missing: the defaults).

    A relative migrations directory is taken from the folder that holds the file's ``.github``, else from ``root``.
    Raises SettingError, naming the file and the key, for anything that cannot be used.
    """
    path = file if file is not None else root / DEFAULT_FILE
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            # A pipe would be waited on, and a device could be without end.
            raise SettingError(
                f"{path} cannot be read: it is no regular file", "make it a file that this user can read"
            )
        text = path.read_bytes().decode("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        if file is None:
            return Config()
        raise SettingError(
            f"VIBEY_STATE_CONFIG names {path}, which does not exist",
            "name an existing file, or unset VIBEY_STATE_CONFIG to use .github/vibey-state.toml",
        ) from None
    except OSError as error:
        raise SettingError(
            f"{path} cannot be read: {error.strerror}", "make it a file that this user can read"
        ) from error
    except UnicodeDecodeError as error:
        raise SettingError(f"{path} is not UTF-8 text (byte {error.start})", "save it as UTF-8") from error
    return parse_config(text, str(path), base_of(path, root))


def base_of(path: Path, root: Path) -> Path:
    """The folder that relative paths in the configuration file ``path`` start from."""
    parent = path.absolute().parent
    return parent.parent if parent.name == ".github" else root


def parse_config(text: str, file: str, base: Path) -> Config:
    """The configuration that ``text`` holds; ``file`` names it in errors, ``base`` is where relative paths start.

    Raises SettingError naming the dotted key and what was expected there.
    """
    try:
        values = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it nests too deep"
        raise SettingError(f"{file} is not valid TOML: {reason}", "mend the file at the place that is named") from error
    top = _Section(file, (), values, ("state", "migrations", "tables"))
    state = top.section("state", ("public", "profile", "schemas", "exclude", "documents"))
    tables = {name: _table(top, name) for name in top.section("tables", None).values}
    config = Config(
        public=state.boolean("public"),
        profile=_profile(state),
        exclude=_names(state, "exclude", check_table_name),
        tables=tables,
        migrations=_migrations(top, base),
        schemas=_schemas(state),
        documents=state.boolean("documents") if "documents" in state.values else None,
    )
    _check_documents(state, config)
    for name in config.exclude:
        if name in tables:
            raise SettingError(
                f"{file}: the table {name} is excluded by state.exclude and declared in {_dotted(('tables', name))}",
                "keep one of the two",
            )
    return config


class _Section:
    """One table of the file, with the dotted key it stands under. ``known`` None: any key (table names)."""

    def __init__(
        self, file: str, path: tuple[str, ...], values: Mapping[str, object], known: tuple[str, ...] | None
    ) -> None:
        self.file = file
        self.path = path
        self.values = values
        for key in values:
            if known is not None and key not in known:
                raise self._unknown(key, known)

    def _unknown(self, key: str, known: tuple[str, ...]) -> SettingError:
        near = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
        return SettingError(f"{self.file}: unknown key {self.name(key)}", hint)

    def name(self, key: str) -> str:
        return _dotted((*self.path, key))

    def refuse(self, key: str, expected: str, found: object) -> SettingError:
        return SettingError(
            f"{self.file}: {self.name(key)} has to be {expected}, and is {_kind(found)}", "correct the file"
        )

    def section(self, key: str, known: tuple[str, ...] | None) -> _Section:
        value = self.values.get(key, {})
        if not isinstance(value, dict):
            raise self.refuse(key, f"a table, [{self.name(key)}]", value)
        return _Section(self.file, (*self.path, key), value, known)

    def boolean(self, key: str) -> bool:
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.refuse(key, "true or false", value)
        return value

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise self.refuse(key, "a text that is not empty", value)
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.values.get(key, [])
        if not isinstance(value, list):
            raise self.refuse(key, "a list of texts", value)
        for item in value:
            if not isinstance(item, str) or "\0" in item:
                raise self.refuse(key, "a list of texts only", item)
        return tuple(value)


def _profile(state: _Section) -> str | None:
    name = state.text("profile")
    if name is None:
        return None
    try:
        return profile(name).name
    except SettingError as error:
        raise SettingError(f"{state.file}: {state.name('profile')}: {error.message}", error.hint) from None


def _schemas(state: _Section) -> tuple[str, ...]:
    schemas = _names(state, "schemas", check_name)
    if "schemas" not in state.values:
        return ("public",)
    where = f"{state.file}: {state.name('schemas')}"
    if not schemas:
        raise SettingError(f"{where} names no schema", 'name at least one: schemas = ["public"]')
    if "profile" in state.values:
        raise SettingError(
            f"{where} and {state.name('profile')} exclude each other",
            "remove schemas: a profile declares tables of schema public",
        )
    for name in schemas:
        if name in ("vibey_actions", "information_schema") or name.startswith("pg_"):
            whose = "keeps the sync's own records" if name == "vibey_actions" else "is PostgreSQL's own"
            raise SettingError(
                f"{where} names {name}, which {whose}", "take it out: the rows of this schema are never synced"
            )
    return schemas


def _check_documents(state: _Section, config: Config) -> None:
    """Raise SettingError where documents are declared to be synced and their table is not."""
    reasons = {
        "profile": config.profile is not None,
        "exclude": DOCUMENT_TABLE in config.exclude,
        "schemas": "public" not in config.schemas,
    }
    for key in (key for key, stands in reasons.items() if config.documents and stands):
        raise SettingError(
            f"{state.file}: {state.name('documents')} is true, and {state.name(key)} keeps the table public.document "
            "out of the state",
            "remove one of the two; with documents = false they are kept in the schema vibey_actions, not synced",
        )


def _names(section: _Section, key: str, check: Callable[[str, str], None]) -> tuple[str, ...]:
    names = section.texts(key)
    for name in names:
        check(name, f"{section.file}: {section.name(key)}")
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SettingError(f"{section.file}: {section.name(key)} names {twice} twice", "name it once")
    return names


def check_name(name: str, where: str) -> None:
    """Raise SettingError, saying ``where``, for what cannot be a PostgreSQL name as it stands."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if not name or "\0" in name:
        raise SettingError(f"{where} holds an empty name", "write the name of a table or column")
    if size > MAX_NAME_BYTES:
        raise SettingError(
            f"{where} holds the name {name}, which is {size} bytes long",
            f"PostgreSQL keeps {MAX_NAME_BYTES} bytes of a name: write the name as the database has it",
        )


def check_table_name(name: str, where: str) -> None:
    """The same for a table's name in a document, which may be ``schema.table``, each quoted where SQL needs it."""
    qualified = _QUALIFIED.fullmatch(name)
    if qualified is None or len(name.encode("utf-8", "surrogatepass")) <= MAX_NAME_BYTES:
        check_name(name, where)
        return
    for part in qualified.groups():
        check_name(part[1:-1].replace('""', '"') if part.startswith('"') else part, where)


def _table(top: _Section, name: str) -> TableConfig:
    check_table_name(name, f"{top.file}: tables")
    section = top.section("tables", None).section(
        name, ("conflict", "otherwise", "newest-by", "append-only", "triggers")
    )
    rule = _rule(section, "conflict", tuple(Rule))
    otherwise = _rule(section, "otherwise", tuple(rule for rule in Rule if rule is not Rule.COLUMNS))
    newest_by = section.text("newest-by")
    append_only = section.boolean("append-only")
    where = f"{section.file}: {_dotted(section.path)}"
    if newest_by is not None:
        check_name(newest_by, f"{section.file}: {section.name('newest-by')}")
    if append_only and (rule is not None or newest_by is not None):
        raise SettingError(
            f"{where} is append-only and has a conflict rule",
            "remove conflict and newest-by: a row of an append-only table is never settled by a rule",
        )
    if otherwise is not None and rule is not Rule.COLUMNS:
        raise SettingError(
            f'{where} has otherwise without conflict = "columns"',
            'declare conflict = "columns", or remove otherwise: it settles what that rule leaves open',
        )
    if Rule.NEWEST in (rule, otherwise) and newest_by is None:
        raise SettingError(
            f"{where} has the conflict rule newest and no newest-by",
            'declare the timestamp column to compare: newest-by = "updated_at"',
        )
    return TableConfig(rule, newest_by, append_only, otherwise or Rule.REFUSE, _triggers(section))


def _triggers(section: _Section) -> str | None:
    value = section.text("triggers")
    if value not in (None, "off"):
        raise SettingError(
            f"{section.file}: {section.name('triggers')} is {value}, which is no setting here",
            'write triggers = "off", or remove it: triggers then fire as for any other session',
        )
    return value


def _rule(section: _Section, key: str, rules: tuple[Rule, ...]) -> Rule | None:
    text = section.text(key)
    if text is None:
        return None
    if text not in [rule.value for rule in rules]:
        raise SettingError(
            f"{section.file}: {section.name(key)} is {text}, which is no rule here",
            f"the rules are {', '.join(rule.value for rule in rules)}",
        )
    return Rule(text)


def _migrations(top: _Section, base: Path) -> Migrations | None:
    """The section, None where it says nothing.

    A command without ``versions`` records what it applied in schema_migration, or nothing is known to compare but
    tables and columns; ``versions`` alone serves a database that something else migrates. Beside ``directory`` the
    record is schema_migration, so that another query would contradict it.
    """
    section = top.section("migrations", ("directory", "command", "env", "versions"))
    directory, versions = section.text("directory"), section.text("versions")
    command = _command(section)
    env = _env(section)
    if directory is not None and command is not None:
        raise _contradiction(section, "command", "keep directory for plain SQL files, or command for a migrator")
    if directory is not None and versions is not None:
        raise _contradiction(section, "versions", "remove it: files of a directory are recorded in schema_migration")
    if env and command is None:
        raise SettingError(
            f"{section.file}: {section.name('env')} is set without {section.name('command')}",
            "remove it: only a command is handed variables",
        )
    if not section.values:
        return None
    return Migrations(base / directory if directory is not None else None, command, env, versions)


def _contradiction(section: _Section, key: str, hint: str) -> SettingError:
    return SettingError(f"{section.file}: {section.name('directory')} and {section.name(key)} exclude each other", hint)


def _command(section: _Section) -> tuple[str, ...] | None:
    command = section.texts("command")
    if "command" in section.values and (not command or not command[0].strip()):
        raise SettingError(
            f"{section.file}: {section.name('command')} names no program", 'write it as a list: ["vibey", "migrate"]'
        )
    return command or None


def _env(section: _Section) -> tuple[str, ...]:
    names = section.texts("env")
    for name in names:
        if not _VARIABLE.fullmatch(name):
            raise SettingError(
                f"{section.file}: {section.name('env')} holds {name}, which is no name of a variable",
                "name variables only; their values come from the environment",
            )
        if name == "VIBEY_STATE_KEY":
            raise SettingError(
                f"{section.file}: {section.name('env')} names VIBEY_STATE_KEY",
                "remove it: a migrator is never handed the key",
            )
    return names


def _dotted(path: tuple[str, ...]) -> str:
    """``path`` as TOML writes it, parts quoted where they have to be."""
    return ".".join(part if _BARE_KEY.fullmatch(part) else f'"{part}"' for part in path)


def _kind(value: object) -> str:
    """What kind of TOML value was found, never the value."""
    match value:
        case bool():
            return "true or false"
        case str():
            return "a text" if value.strip() else "an empty text"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case dict():
            return "a table"
        case _:
            return "a date or time"
