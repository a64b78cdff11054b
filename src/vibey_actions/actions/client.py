"""The client of vibes for a job that has none: installed by the action's own lock file, under RUNNER_TEMP, once a job.

npm gets how this machine reaches its registry and nothing else: no key, token, credential or input. No package's own
script is run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from vibey_actions.actions.environments import NETWORK
from vibey_actions.actions.runner import Runner
from vibey_actions.documents.client import find_client
from vibey_actions.errors import FileFailed, SettingError, StoreFailed
from vibey_actions.lanes.setup import Setup
from vibey_actions.text import shown

_FILES: Final = ("package.json", "package-lock.json")
_RUN: Final = Path("node_modules", "vibes-diy", "cli", "run.js")
_NPM: Final = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
_SECONDS: Final = 600
_PASSED: Final = (
    *("PATH", "HOME", "LANG", "TMPDIR", "NODE_EXTRA_CA_CERTS", "NODE_USE_ENV_PROXY", *NETWORK),
    *(f"npm_config_{name}" for name in ("registry", "cafile", "cache", "proxy", "https_proxy", "noproxy")),
    *(f"NPM_CONFIG_{name}" for name in ("REGISTRY", "CAFILE", "CACHE", "PROXY", "HTTPS_PROXY", "NOPROXY")),
)


def with_client(setup: Setup, runner: Runner) -> Setup:
    """``setup`` with a client that is there: declared, or on PATH, else installed here.

    Raises SettingError where a declared one is missing or there is no npm, StoreFailed where npm fails.
    """
    try:
        find_client(setup.client, runner.env)
    except SettingError:
        root = runner.env.get("VIBEY_ACTION_ROOT", "")
        if setup.client is not None or not root:
            raise
        return replace(setup, client=str(_installed(Path(root) / "action" / "vibes-client", runner) / _RUN))
    return setup


def _installed(source: Path, runner: Runner) -> Path:
    """The folder with the client; made aside and renamed, so that one that was cut off is never taken for whole."""
    try:
        content = [(source / name).read_bytes() for name in _FILES]
        digest = hashlib.sha256(b"\0".join(content)).hexdigest()[:16]
        target = runner.temp / "vibey-actions" / f"vibes-client-{digest}"
        if target.is_dir():
            return target
        target.parent.mkdir(mode=0o700, exist_ok=True)
        aside = Path(tempfile.mkdtemp(prefix=".client-", dir=target.parent))
        try:
            for name, text in zip(_FILES, content, strict=True):
                (aside / name).write_bytes(text)
            _npm(aside, runner)
            aside.rename(target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
    except OSError as error:
        raise FileFailed(
            f"the client of vibes cannot be installed: {error.strerror or 'unknown error'}",
            "make room on the runner's disk",
        ) from None
    return target


def _npm(folder: Path, runner: Runner) -> None:
    program = shutil.which("npm", path=runner.env.get("PATH"))
    if program is None:
        raise SettingError(
            "the client of vibes is not on PATH, and there is no npm to install it with",
            "use a runner with Node.js 22 or newer, or put vibes-diy on PATH in a step before",
        )
    runner.say("installing the client of vibes ...")
    started = time.monotonic()
    try:
        done = subprocess.run(
            [program, *_NPM],
            cwd=folder,
            env=_environment(runner.env),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StoreFailed(
            f"npm did not install the client of vibes within {_SECONDS} seconds", "look at the registry, and run again"
        ) from None
    if done.returncode:
        said = shown(done.stderr.decode("utf-8", "replace")) or f"it ended with {done.returncode}"
        raise StoreFailed(
            f"npm could not install the client of vibes: {said}",
            "the runner has to reach a registry of npm packages; npm_config_registry and HTTPS_PROXY are passed on",
        )
    runner.say(f"installed it in {time.monotonic() - started:.1f} s")


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    return {"PATH": os.defpath} | {name: env[name] for name in _PASSED if name in env}
