"""Document lanes on a schedule, run for real: the template over the state, the reusable workflow over a vibe."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Machine
from tests.support.act import Act, Adopter, Outcome
from tests.support.act.example import SCHEMA, template
from tests.support.webhook_server import SECRET, WebhookServer

FILE = ".github/workflows/advance-docs.yml"
STATE = '[state]\ndocuments = true\n[migrations]\ndirectory = "db/migrations"\n'
MACHINES = "machines:\n  job:\n    with: {command: [./work.sh]}\n"
WORK = """#!/bin/sh
case "$(cat "$VIBEY_DOCUMENT")" in *broken*) echo '<script>alert(1)</script>' >&2; exit 1 ;; esac
printf '{"output": "%s"}' "$VIBEY_WORK_KEY" > "$VIBEY_RESULT"
"""
SHOP_WORK = """#!/bin/sh
echo "it is $SHOP_TOKEN"
printf '{"output": "%s and %s"}' "${#SHOP_TOKEN}" "${OTHER-unset}" > "$VIBEY_RESULT"
"""
NEEDY = MACHINES.replace("[./work.sh]}", "[./work.sh], variables: [SHOP_TOKEN, OTHER]}")
CLIENT = f"""#!{sys.executable}
import json, os, pathlib, sys
place = pathlib.Path("@PLACE@")
assert os.environ["VIBES_DEVICE_ID"] == "the-credential-of-a-device"
options = dict(word.lstrip("-").split("=", 1) for word in sys.argv if word.startswith("--") and "=" in word)
documents = json.loads(place.read_text())
with (place.parent / "calls").open("a") as calls:
    calls.write(sys.argv[2] + "\\n")
if sys.argv[2] == "query":
    print(json.dumps([dict(document, _id=name) for name, document in documents.items()]))
elif sys.argv[2] == "get":
    print(json.dumps(dict(documents[options["id"]], _id=options["id"])))
else:
    documents[options["id"]] = json.load(sys.stdin)
    place.write_text(json.dumps(documents))
    print(json.dumps({{"id": options["id"], "ok": True}}))
"""


def adopter(act: Act, name: str, workflow: str, docs: str | None, *, private: bool = True) -> Adopter:
    """A repository with the workflow and, where ``docs`` says something, machines and their command."""
    files = {FILE: workflow, "work.sh": WORK, ".github/vibey-state.toml": STATE, "db/migrations/0001_shop.sql": SCHEMA}
    return act.adopter(name, {**files, **({".github/vibey-docs.yml": docs} if docs else {})}, private=private)


def tick(app: Adopter, event: str = "schedule", **options: Any) -> Outcome:
    """Run the workflow for a schedule, whose payload says nothing of the repository."""
    payload = options.pop("payload", {"schedule": "7,22,37,52 * * * *"})
    return app.run(event, workflow="advance-docs.yml", payload=payload, **options)


@dataclass
class Laptop:
    """A machine that shares the adopter's branch: takes work in, and looks at it."""

    machine: Machine
    app: Adopter

    def run(self, *arguments: str) -> str:
        """What `vibey-actions ARGUMENTS` prints."""
        done = self.machine.start([sys.executable, "-m", "vibey_actions", *arguments])
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def get(self, identifier: str) -> dict[str, Any]:
        """A document, once this machine is level with the branch."""
        self.run("state", "sync")
        document: dict[str, Any] = json.loads(self.run("docs", "get", identifier))
        return document


@pytest.fixture
def laptop(machine: Callable[..., Machine], database: Callable[[], str], key: str) -> Callable[[Adopter], Laptop]:
    """A factory of laptops, which hold the tests' key."""

    def make(app: Adopter) -> Laptop:
        github = app.act.github
        settings = {"pg_url": database(), "repository": app.repository.name}
        made = machine(app.repository.name.replace("/", "-"), **settings)
        made.env |= {"GITHUB_API_URL": github.url, "GH_TOKEN": github.token}
        made.env |= {"VIBEY_STATE_CONFIG": str(app.checkout / ".github" / "vibey-state.toml")}
        made.env |= {"VIBEY_DOCS_CONFIG": str(app.checkout / ".github" / "vibey-docs.yml")}
        found = Laptop(made, app)
        found.run("migrate")
        return found

    return make


def test_the_template_says_what_is_missing_until_it_is_configured(act: Act) -> None:
    """A copied workflow is green from the first run, walks nothing, and its summary says what to write."""
    app = adopter(act, "example/unconfigured", template("advance-docs.yml"), None)
    outcome = tick(app)
    assert outcome.result("advance") == "success", outcome.explain()
    assert "There is no .github/vibey-docs.yml" in outcome.summary()
    assert outcome.annotations("notice")


def test_the_template_walks_documents_in_the_state(act: Act, key: str, laptop: Callable[[Adopter], Laptop]) -> None:
    """Work that a laptop took in is done on a schedule; what failed is in the summary with why and what to run."""
    app = adopter(act, "example/lanes", template("advance-docs.yml"), "store: {kind: sealed}\n" + MACHINES)
    mine = laptop(app)
    mine.run("docs", "put", '{"input": "x"}', "--machine", "job", "--id", "j-1")
    mine.run("docs", "put", '{"input": "broken"}', "--machine", "job", "--id", "j-2")
    outcome = tick(app, secrets={"VIBEY_STATE_KEY": key})
    assert outcome.result("advance") == "success", outcome.explain()
    assert "job: 2 ready" in outcome.log()
    summary = outcome.summary()
    assert "vibey-actions docs retry --machine job j-2" in summary
    assert "<script>" not in summary
    assert mine.get("j-1")["output"] == "j-1:1"
    assert mine.get("j-2")["status"] == "failed"
    mine.run("docs", "retry", "j-2")
    commits = app.repository.text("rev-list", "--count", "vibey-state")
    closed = tick(app)
    assert closed.result("advance") == "success", closed.explain()
    assert app.repository.text("rev-list", "--count", "vibey-state") == commits
    assert mine.get("j-2")["status"] == "pending"


def test_the_template_posts_with_a_secret_of_its_own(act: Act, key: str, laptop: Callable[[Adopter], Laptop]) -> None:
    """The line that the template shows, with a publisher that names its variable, is all that a post needs."""
    shown = "          # MY_WEBHOOK_SECRET: "
    workflow = template("advance-docs.yml")
    assert shown in workflow
    with WebhookServer() as site:
        there = f'site: {{publisher: webhook, url: "{site.url}", secret: MY_WEBHOOK_SECRET}}'
        docs = f"store: {{kind: sealed}}\nmachines:\n  publish-request:\n    with: {{platforms: {{{there}}}}}\n"
        app = adopter(act, "example/posts", workflow.replace(shown, shown.replace("# ", "")), docs)
        mine = laptop(app)
        post = {"platform": "site", "slug": "first", "caption": "Hello", "images": []}
        mine.run("docs", "put", json.dumps(post), "--machine", "publish-request", "--id", "p-1")
        outcome = tick(app, secrets={"VIBEY_STATE_KEY": key, "MY_WEBHOOK_SECRET": SECRET})
        assert outcome.result("advance") == "success", outcome.explain()
        assert len(site.posts) == 1
    assert mine.get("p-1")["status"] == "done"


def test_the_reusable_workflow_walks_documents_in_a_vibe(act: Act, tmp_path: Path) -> None:
    """Called with a device's credential it drives the client, and its outputs say what was done; no gate is asked. It
    has no right to write, and hands the secrets on that a machine's command names."""
    caller = """\
name: advance documents
on: workflow_dispatch
permissions: {}
jobs:
  lanes:
    permissions:
      contents: read
      actions: read
    uses: OWNER/vibey-actions/.github/workflows/advance-docs-read.yml@v1
    with:
      vibe: maker/hub
      limit: "1"
    secrets:
      device-id: ${{ secrets.VIBES_DEVICE_ID }}
      variables: |
        SHOP_TOKEN=${{ secrets.SHOP_TOKEN }}
        OTHER=${{ secrets.OTHER }}
"""
    app = adopter(act, "example/vibe", caller, "store: {vibe: maker/other, settle: 5s}\n" + NEEDY, private=False)
    app.write({"work.sh": SHOP_WORK})
    programs = tmp_path / "programs"
    programs.mkdir()
    place = programs / "documents.json"
    waiting = {"type": "job", "status": "pending", "attempts": 0, "input": "x"}
    place.write_text(json.dumps({"j-1": waiting, "j-2": waiting}))
    client = programs / "vibes-diy"
    client.write_text(CLIENT.replace("@PLACE@", str(place)))
    client.chmod(0o755)
    given = {"VIBES_DEVICE_ID": "the-credential-of-a-device", "SHOP_TOKEN": "the-token-of-the-shop"}
    payload = {**app.payload(), "inputs": {}}
    outcome = tick(app, "workflow_dispatch", secrets=given, payload=payload, programs=programs)
    assert outcome.result("advance") == "success", outcome.explain()
    documents = json.loads(place.read_text())
    assert [documents[name]["status"] for name in ("j-1", "j-2")] == ["done", "pending"]
    assert documents["j-1"]["output"] == "21 and unset"
    assert "the-token-of-the-shop" in outcome.masks()
    assert "1 left for the next tick" in outcome.summary()
    assert outcome.outputs("advance")["moved"] == "1"
    calls = (programs / "calls").read_text().split()
    assert calls.count("put") == 2
    # Two for a tick and four for the document; the look at what is stuck takes none.
    assert len(calls) <= 6, calls
