"""An adopter to test with: a shop with one folder of migrations, a script that works on the state, and a laptop."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.act.adopter import PATIENCE, Act, Adopter, Run
from tests.support.act.outcome import Outcome
from tests.support.act.render import ROOT
from tests.support.ends import End
from tests.support.machines import until
from vibey_actions.config import Config, Migrations
from vibey_actions.keys import format_key

CONFIG = '[migrations]\ndirectory = "db/migrations"\n'
SCHEMA = """\
CREATE TABLE customer (id integer PRIMARY KEY, name text NOT NULL);
CREATE TABLE note (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), customer integer REFERENCES customer, said text);
"""
WORK = "#!/bin/sh\nset -eu\npsql \"$VIBEY_PG_URL\" --quiet --set ON_ERROR_STOP=1 <<'SQL'\n{sql}\nSQL\n"


def template(name: str) -> str:
    """A workflow of workflows-templates/, as it is copied."""
    return (ROOT / "workflows-templates" / name).read_text("utf-8")


def work(sql: str, *, then: str = "") -> dict[str, str]:
    """The script that the templates call, doing ``sql``, ``then`` some shell."""
    return {"scripts/work.sh": WORK.format(sql=sql) + then}


@dataclass
class Halt:
    """A place where a script waits: ``script`` is put there, ``reached`` waits for that, ``release`` lets it go on."""

    folder: Path

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True)

    @property
    def script(self) -> str:
        return f'touch "{self.folder}/reached"\nuntil [ -e "{self.folder}/go" ]; do sleep 0.1; done\n'

    def reached(self) -> None:
        until((self.folder / "reached").exists, seconds=PATIENCE)

    def release(self) -> None:
        (self.folder / "go").touch()


@dataclass
class Shop:
    """An adopter with a key, and a laptop that syncs with the same branch."""

    app: Adopter
    folder: Path
    key: str = field(default_factory=lambda: format_key(secrets.token_bytes(32)), repr=False)

    @classmethod
    def make(
        cls,
        act: Act,
        name: str,
        workflow: str,
        *,
        private: bool = True,
        config: str = CONFIG,
        schema: str = SCHEMA,
        files: Mapping[str, str] | None = None,
    ) -> Shop:
        """A repository whose only workflow is ``workflow``, a template's name or a text."""
        text = template(workflow) if workflow.endswith(".yml") else workflow
        own = {
            ".github/workflows/state.yml": text,
            ".github/vibey-state.toml": config,
            "db/migrations/0001_shop.sql": schema,
            **work("SELECT 1"),
            **(files or {}),
        }
        app = act.adopter(name, own, private=private)
        return cls(app, act.folder / "laptops" / name)

    def run(self, event: str = "push", **options: Any) -> Outcome:
        """Run the workflow with the key as the repository's secret."""
        return self.start(event, **options).wait()

    def start(self, event: str = "push", **options: Any) -> Run:
        """Start the workflow with the key as the repository's secret."""
        options.setdefault("secrets", {"VIBEY_STATE_KEY": self.key})
        return self.app.start(event, **options)

    def laptop(self, dsn: str) -> End:
        """A machine whose database ``dsn`` is migrated, and synced with the branch on the local GitHub."""
        self.folder.mkdir(parents=True, exist_ok=True)
        github = self.app.act.github
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "GITHUB_API_URL": github.url,
            "GH_TOKEN": github.token,
            "VIBEY_STATE_REPOSITORY": self.app.repository.name,
            "VIBEY_STATE_KEY": self.key,
            "VIBEY_STATE_PG_URL": dsn,
        }
        migrations = Migrations(directory=self.app.checkout / "db" / "migrations")
        end = End(dsn, env, Config(migrations=migrations))
        end.operations.migrate()
        return end

    @property
    def commits(self) -> int:
        """How many commits the branch has."""
        return int(self.app.repository.text("rev-list", "--count", "vibey-state", check=False) or 0)
