"""The step ``build``: a program in the place of the vibe's client, and a server in the place of the apps' hosts."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.github_server.faults import refuse
from tests.support.github_server.replies import Refusal, Reply
from tests.support.lanes import MENTION, NOON
from tests.support.platform_server import Asked, PlatformServer
from tests.support.walking import Walk, with_settings
from vibey_actions.documents.client import VibesClient
from vibey_actions.documents.model import iso
from vibey_actions.documents.report import What
from vibey_actions.errors import MachineInvalid

KEY = "3kabcdefgh2y7"
ID = f"at://did:plc:abc/app.bsky.feed.post/{KEY}"
GENERATE = """\
args = sys.argv[1:]
with (place / 'calls').open('a') as calls: calls.write(json.dumps(args) + '\\n')
slug, handle = args[args.index('--app-slug') + 1], args[args.index('--handle') + 1]
assert os.listdir('.') == [] and '--json' in args and args[0] == 'generate'
answer = {'type': 'vibes-diy.cli.res-generate', 'appSlug': slug, 'ownerHandle': handle, 'directory': slug,
          'url': f'https://vibes.example/vibe/{handle}/{slug}'}
"""
SAYS = "print('thinking...'); os.mkdir(slug); print(json.dumps(answer))"


class Apps(PlatformServer):
    """The apps' own hosts: those in ``live`` answer, after ``late`` looks at each; ``pictures`` have a screenshot."""

    def __init__(self) -> None:
        super().__init__()
        self.live: set[str] = set()
        self.late = 0
        self.pictures: set[str] = set()

    def answer(self, asked: Asked) -> Reply:
        name = asked.path.strip("/").removesuffix("/screen.png")
        if asked.path.endswith(".png"):
            if name in self.pictures:
                return Reply(200, b"\x89PNG", {"Content-Type": "image/png"})
            return Reply(200, b"<html>", {"Content-Type": "text/html"})
        self.late -= 1
        if name not in self.live or self.late >= 0:
            raise Refusal(404, "no such app")
        return Reply(200, b"<html>", {"Content-Type": "text/html"})


@pytest.fixture
def apps() -> Iterator[Apps]:
    with Apps() as server:
        yield server


Make = Callable[..., Walk]


@pytest.fixture
def walk(tmp_path: Path, apps: Apps) -> Make:
    """The lane of builds, whose client is a Python script that notes its calls."""

    def make(body: str = SAYS, lease_ms: int | None = None) -> Walk:
        script = tmp_path / "client"
        start = f"#!{sys.executable}\nimport json, os, pathlib, signal, sys, time\n"
        script.write_text(f"{start}place = pathlib.Path({str(tmp_path)!r})\n{GENERATE}{body}\n")
        script.chmod(0o755)
        environment = {"PATH": os.environ["PATH"]}
        client = VibesClient((str(script),), "maker/hub", environment)
        app = f"{apps.url}/{{slug}}--{{handle}}"
        machine = with_settings(MENTION, handle="bot", app=f"{app}/", screenshot=f"{app}/screen.png")
        return Walk(replace(machine, lease_ms=lease_ms or machine.lease_ms), tmp_path, environment, client)

    return make


def calls(walk: Walk) -> list[str]:
    """The client's calls so far, as they were noted."""
    noted = walk.root / "calls"
    return noted.read_text().splitlines() if noted.exists() else []


def test_a_mention_is_built_and_live(walk: Make, apps: Apps) -> None:
    """Made under the publishing handle and the id's slug; built once its own host answers, with its picture."""
    walker = walk()
    apps.live, apps.late, apps.pictures = {f"m-{KEY}--bot"}, 3, {f"m-{KEY}--bot"}
    walker.add(ID, prompt="a clock")
    walker.tick()
    document = walker.read(ID)
    assert calls(walker) == [f'["generate", "a clock", "--handle", "bot", "--app-slug", "m-{KEY}", "--json"]']
    assert document["status"] == "built"
    assert document["vibeUrl"] == f"https://vibes.example/vibe/bot/m-{KEY}"
    assert document["appSlug"] == f"m-{KEY}"
    assert document["screenshotUrl"] == f"{apps.url}/m-{KEY}--bot/screen.png"
    assert (document["builtAt"], walker.pauses) == (iso(NOON + 15_000), [5.0] * 3)


def test_a_picture_that_is_not_there_is_done_without(walk: Make, apps: Apps) -> None:
    """Best effort: a page in the place of the picture is no picture, and the build stands."""
    walker = walk()
    apps.live = {f"m-{KEY}--bot"}
    walker.add(ID, prompt="a clock")
    walker.tick()
    assert walker.read(ID)["status"] == "built"
    assert "screenshotUrl" not in walker.read(ID)


def test_an_app_that_is_never_live_has_failed(walk: Make, apps: Apps) -> None:
    """After four minutes of looking, in one attempt; a redirect to a place that answers for all apps is no answer."""
    walker = walk()
    apps.arm(refuse(302, "moved", Location="/elsewhere"), times=2)
    walker.add(ID, prompt="a clock")
    walker.tick()
    document = walker.read(ID)
    assert (document["status"], document["attempts"], document["appSlug"]) == ("build-failed", 1, f"m-{KEY}")
    assert document["lastError"] == "the app was published, but its own host did not answer within 240 seconds"
    assert sum(walker.pauses) <= 240
    assert len(apps.asked) == 49


def test_a_slug_that_another_document_holds(walk: Make, apps: Apps) -> None:
    """The second document with the same record key gets the form of its hash."""
    walker = walk()
    other = f"at://did:plc:xyz/app.bsky.feed.post/{KEY}"
    hashed = f"m-{hashlib.sha256(other.encode()).hexdigest()[:16]}"
    apps.live = {f"m-{KEY}--bot", f"{hashed}--bot"}
    walker.add(ID, prompt="a clock")
    walker.tick()
    walker.add(other, prompt="another clock")
    walker.tick()
    assert [walker.read(name)["appSlug"] for name in (ID, other)] == [f"m-{KEY}", hashed]


@pytest.mark.parametrize(
    ("prompt", "reason"), [("", "empty"), (" \n", "empty"), (7, "empty"), ("x" * 100_001, "100000 bytes")]
)
def test_a_prompt_that_cannot_be_used_spends_nothing(walk: Make, prompt: object, reason: str) -> None:
    """It fails with the reason, unclaimed, and the client is never started."""
    walker = walk()
    walker.add(ID, prompt=prompt)
    walker.tick()
    document = walker.read(ID)
    assert (document["status"], document["attempts"], calls(walker)) == ("build-failed", 0, [])
    assert reason in str(document["lastError"])


def test_a_prompt_is_never_an_option(walk: Make, apps: Apps) -> None:
    """One that begins with a dash is handed over as text."""
    walker = walk()
    apps.live = {f"m-{KEY}--bot"}
    walker.add(ID, prompt="--api-url=https://elsewhere.example")
    walker.tick()
    assert calls(walker)[0].startswith('["generate", " --api-url=https://elsewhere.example", ')


FAILURES = {
    "not-through": (
        "sys.exit('Error: WebSocket error: Received network error or non-101 status code.')",
        What.AGAIN,
        "WebSocket error",
    ),
    "not-let-in": ("sys.exit(\"Error: Not logged in. Run 'vibes-diy login' first.\")", What.AGAIN, "Not logged in"),
    "killed": ("os.kill(os.getpid(), 9)", What.AGAIN, "ended by signal 9"),
    "says-nothing": ("pass", What.AGAIN, "its answer cannot be read"),
    "half-a-line": ("print('{\"type\":')", What.AGAIN, "its answer cannot be read"),
    "no-address": ("answer['url'] = 'javascript:x'; print(json.dumps(answer))", What.AGAIN, "not at which address"),
    "another-app": ("answer['appSlug'] = 'other'; print(json.dumps(answer))", What.FAILED, "another app"),
    "refused": ("sys.exit('Error: the prompt is not allowed')", What.FAILED, "the prompt is not allowed"),
}


@pytest.mark.parametrize("failure", FAILURES)
def test_a_generation_that_fails(walk: Make, failure: str) -> None:
    """What proves that nothing was begun, or leaves it open, is tried again within two attempts; a refusal is final."""
    body, what, reason = FAILURES[failure]
    walker = walk(body)
    walker.add(ID, prompt="a clock")
    assert [event.what for event in walker.tick().events] == [what]
    document = walker.read(ID)
    assert reason in str(document["lastError"])
    assert document["status"] == ("building" if what is What.AGAIN else "build-failed")
    for _ in range(2):
        walker.clock.pass_ms(1000)
        walker.tick()
    assert walker.read(ID)["status"] == "build-failed"
    assert len(calls(walker)) == (2 if what is What.AGAIN else 1)


def test_a_generation_that_hangs_is_stopped_before_the_lease_ends(walk: Make) -> None:
    """What the lease leaves, less the wait for the app, is its deadline; then its process group is killed."""
    walker = walk("print('thinking...', flush=True); time.sleep(600)")
    walker.add(ID, prompt="a clock")
    lane = walker.lane()
    work = walker.work(ID)
    walker.clock.ms = work.until_ms - 240_000 - 60_000 - 1500
    result = lane._steps["build"].run(work)
    assert result.outcome.value == "unknown"
    assert result.reason.startswith("the generation did not end within 2 seconds")
    walker.clock.pass_ms(1000)
    assert lane._steps["build"].run(work).reason == "the lease left no time to build"


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"app": "https://{slug}.apps.example/"}, "with.handle is missing"),
        ({"handle": "a/b", "app": "https://{slug}.apps.example/"}, "with.handle is no handle"),
        ({"handle": "bot"}, "with.app is missing"),
        ({"handle": "bot", "app": "https://apps.example/"}, "which names no app"),
        ({"handle": "bot", "app": "https://{slug}.{base}/"}, "which names no app"),
        ({"handle": "bot", "app": "http://{slug}.apps.example/"}, "with.app is no address of the form https"),
        ({"handle": "bot", "app": "https://{slug}.apps.example/"}, "builds with a vibe's client, and none is set"),
    ],
)
def test_settings_that_cannot_work_are_found_when_the_lane_starts(
    tmp_path: Path, settings: dict[str, object], words: str
) -> None:
    """Before any document is touched, naming the setting."""
    with pytest.raises(MachineInvalid, match=words.replace(".", r"\.")):
        Walk(with_settings(MENTION, **settings), tmp_path, {}).lane()


def test_a_lease_that_is_too_short_to_build_in(walk: Make) -> None:
    """A deadline that is not shorter than the lease would let two workers build at once."""
    with pytest.raises(MachineInvalid, match="its lease is too short to build"):
        walk(lease_ms=240_000).lane()
