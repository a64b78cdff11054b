"""The step ``build``: an app from a prompt, made by the vibe's client, and proved to be live on its own host.

``generate`` says that it deployed, not that the app answers; the shared address answers for apps that are not there. So
only the app's own host counts.
"""

from __future__ import annotations

import hashlib
import json
import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from vibey_actions.documents.addresses import checked_address
from vibey_actions.documents.client import VibesClient, kept_out, words
from vibey_actions.documents.declare import Part
from vibey_actions.documents.machine import Machine
from vibey_actions.documents.masking import Masker
from vibey_actions.documents.model import ID, STATUS, Document, attempts_of, iso, text_of
from vibey_actions.documents.program import Ended
from vibey_actions.documents.steps.base import (
    Decision,
    Invalid,
    Ready,
    StepResult,
    Work,
    again,
    done,
    failed,
    unknown,
)
from vibey_actions.documents.steps.command import margin_ms
from vibey_actions.documents.steps.surroundings import Surroundings, settings_of
from vibey_actions.documents.stores.base import Store
from vibey_actions.errors import MachineInvalid, StoreFailed
from vibey_actions.text import shown

WAIT_MS: Final = 240_000
"""How long a new app may take until its own host answers."""
PAUSE: Final = 5.0
LOOK_SECONDS: Final = 10.0
SHORTEST_MS: Final = 60_000
"""What the lease has to leave for the generation itself."""
MOST_PROMPT: Final = 100_000
"""Bytes: an argument of a program is limited to 128 KiB."""
SLUG: Final = "appSlug"

_SETTINGS: Final = ("handle", "app", "screenshot", "wait")
_HANDLE: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?", re.ASCII)
_LAST_PART: Final = re.compile(r"(?:^|[^A-Za-z0-9])([a-z2-7]{13})\Z")
_RESULT_TYPE: Final = "vibes-diy.cli.res-generate"
_MOST_URL: Final = 2048


@dataclass(frozen=True, slots=True)
class Target:
    """Where apps are published: addresses hold ``{slug}`` and may hold ``{handle}``."""

    handle: str
    app: str
    screenshot: str | None
    wait_ms: int

    @classmethod
    def read(cls, part: Part) -> Target:
        """From the settings ``handle``, ``app``, ``screenshot``, ``wait``. Raises MachineInvalid."""
        part.known(_SETTINGS)
        handle = part.text("handle")
        if not _HANDLE.fullmatch(handle):
            raise part.wrong("handle", "is no handle", "name the account that apps are published under")
        screenshot = _template(part, "screenshot", handle) if "screenshot" in part.values else None
        wait = part.duration("wait") if "wait" in part.values else WAIT_MS
        return cls(handle, _template(part, "app", handle), screenshot, wait)

    def at(self, template: str, slug: str) -> str:
        """A template's address for an app."""
        return template.replace("{slug}", slug).replace("{handle}", self.handle)


@dataclass(frozen=True)
class BuildStep:
    """Builds for one handle. ``store`` is asked which slugs are taken."""

    target: Target
    client: VibesClient
    store: Store
    surroundings: Surroundings
    masker: Masker

    @classmethod
    def make(cls, machine: Machine, surroundings: Surroundings) -> BuildStep:
        """The step as the machine declares it under ``with``. Raises MachineInvalid."""
        part = settings_of(machine)
        target = Target.read(part)
        if surroundings.client is None or surroundings.store is None:
            raise MachineInvalid(
                f"{part.file} builds with a vibe's client, and none is set", "set the client up as for a vibe's store"
            )
        if machine.lease_ms < target.wait_ms + margin_ms(machine.lease_ms) + SHORTEST_MS:
            raise MachineInvalid(
                f"{part.file}: its lease is too short to build and to wait until the app is live", "write lease: 45m"
            )
        masker = Masker(surroundings.environment)
        return cls(target, surroundings.client, surroundings.store, surroundings, masker)

    def decide(self, document: Document, now_ms: int) -> Decision:  # noqa: ARG002
        prompt = document.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            return Invalid("its prompt is empty, so there is nothing to build")
        if "\x00" in prompt or len(prompt.encode()) > MOST_PROMPT:
            return Invalid(f"its prompt holds a NUL, or more than {MOST_PROMPT} bytes")
        return Ready()

    def run(self, work: Work) -> StepResult:
        slug = self._slug(work)
        seconds = (work.until_ms - work.now_ms() - self.target.wait_ms - margin_ms(work.machine.lease_ms)) / 1000
        if seconds < 1:
            return again("the lease left no time to build")
        generated = self._generate(text_of(work.document, "prompt") or "", slug, seconds)
        if isinstance(generated, StepResult):
            return generated
        if not self._live(slug):
            waited = self.target.wait_ms // 1000
            return failed(
                f"the app was published, but its own host did not answer within {waited} seconds", {SLUG: slug}
            )
        built = {"vibeUrl": generated, SLUG: slug, "builtAt": iso(work.now_ms())}
        picture = self._screenshot(slug)
        return done({**built, "screenshotUrl": picture} if picture is not None else built)

    def _slug(self, work: Work) -> str:
        identifier = text_of(work.document, ID) or ""
        slug = short_slug(identifier)
        if slug is None or any(holds(other, identifier, slug) for other in self._others(work.machine)):
            return hashed_slug(identifier)
        return slug

    def _others(self, machine: Machine) -> Iterator[Document]:
        after: str | None = None
        while True:
            page = self.store.query(machine.db, STATUS, after=after)
            yield from (document for document in page.documents if machine.owns(document))
            after = page.next
            if after is None:
                return

    def _generate(self, prompt: str, slug: str, seconds: float) -> str | StepResult:
        """The address that ``generate`` printed, or what else came of it."""
        # A prompt that begins like an option would be taken for one.
        said = f" {prompt}" if prompt.startswith("-") else prompt
        arguments = ("generate", said, "--handle", self.target.handle, "--app-slug", slug, "--json")
        with tempfile.TemporaryDirectory(prefix="vibey-actions-", ignore_cleanup_errors=True) as folder:
            try:
                ended = self.client.run(*arguments, folder=Path(folder), deadline=seconds)
            except StoreFailed as error:
                return again(error.message)
        if ended.ok:
            return _printed(ended.out, slug, self.target.handle)
        return self._trouble(ended, seconds, slug)

    def _trouble(self, ended: Ended, seconds: float, slug: str) -> StepResult:
        said = words(ended.err, self.masker.hide) or self.masker.tail(ended.out)
        if ended.code is None:
            return unknown(f"the generation did not end within {seconds:.0f} seconds{f': {said}' if said else ''}")
        if ended.code < 0:
            return unknown(f"the generation was ended by signal {-ended.code}{f': {said}' if said else ''}")
        if kept_out(said):
            return again(said)
        return failed(f"the generation failed: {said or 'the client gave no reason'}", {SLUG: slug})

    def _live(self, slug: str) -> bool:
        """Wait until the app's own host answers 200."""
        address = self.target.at(self.target.app, slug)
        monotonic = self.surroundings.monotonic
        end = monotonic() + self.target.wait_ms / 1000
        while not _answers(address, ""):
            if monotonic() + PAUSE > end:
                return False
            self.surroundings.sleep(PAUSE)
        return True

    def _screenshot(self, slug: str) -> str | None:
        """The address of a picture of the app, where there is one by now."""
        if self.target.screenshot is None:
            return None
        address = self.target.at(self.target.screenshot, slug)
        for look in range(3):
            if look:
                self.surroundings.sleep(PAUSE)
            if _answers(address, "image/"):
                return address
        return None


def short_slug(identifier: str) -> str | None:
    """``m-`` and the id's last part, where that is a record's key of 13 characters."""
    match = _LAST_PART.search(identifier)
    return f"m-{match[1]}" if match is not None else None


def hashed_slug(identifier: str) -> str:
    """``m-`` and 16 hex digits of the id's SHA-256."""
    return f"m-{hashlib.sha256(identifier.encode()).hexdigest()[:16]}"


def holds(other: Document, identifier: str, slug: str) -> bool:
    """Whether another document has the app ``slug``, or may have one by that name that it does not say yet.

    A document notes its slug when its build ends, so one that was claimed and says nothing may hold its short form.
    """
    if text_of(other, ID) in (None, identifier):
        return False
    noted = text_of(other, SLUG)
    if noted is not None:
        return noted == slug
    return attempts_of(other) != 0 and short_slug(text_of(other, ID) or "") == slug


def _printed(out: bytes, slug: str, handle: str) -> str | StepResult:
    """The ``url`` in the last line that ``generate`` printed."""
    lines = [line for line in out.decode("utf-8", "replace").splitlines() if line.strip()]
    try:
        answer = json.loads(lines[-1]) if lines else None
    except (ValueError, RecursionError):
        answer = None
    if not isinstance(answer, dict) or answer.get("type") != _RESULT_TYPE:
        return unknown("the client said that it succeeded, but its answer cannot be read")
    if answer.get("appSlug") != slug or answer.get("ownerHandle") != handle:
        return failed("the client published another app than it was asked for", {SLUG: slug})
    url = answer.get("url")
    if not isinstance(url, str) or not re.fullmatch(r"https?://[\x21-\x7e]+", url) or len(url) > _MOST_URL:
        return unknown("the client said that it published an app, but not at which address")
    return url


def _answers(address: str, kind: str) -> bool:
    """Whether ``address`` itself answers 200 now, with a content type that begins with ``kind``."""
    import requests

    from vibey_actions.documents.publishers.bounded import session
    from vibey_actions.documents.publishers.calls import unsigned

    try:
        with (
            session(LOOK_SECONDS) as (connection, _),
            connection.get(address, timeout=LOOK_SECONDS, allow_redirects=False, stream=True, auth=unsigned) as answer,
        ):
            return answer.status_code == 200 and answer.headers.get("Content-Type", "").startswith(kind)  # noqa: PLR2004
    except requests.RequestException:
        return False


def _template(part: Part, key: str, handle: str) -> str:
    template = part.text(key)
    filled = template.replace("{slug}", "m-slug").replace("{handle}", handle)
    if "{slug}" not in template or "{" in filled or "}" in filled:
        raise part.wrong(
            key, f"is {shown(template, 120)}, which names no app", "write it as https://{slug}--{handle}.HOST/"
        )
    checked_address(part, key, filled)
    return template
