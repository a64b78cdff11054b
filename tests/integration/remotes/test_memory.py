"""A sealed file is never held in memory, whatever its size and direction."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.integration.remotes.conftest import BRANCH, PATH, Place

SIZE = 60_000_000
CEILING = 90 << 20
"""Python with requests takes about 45 MiB; the file alone would bring it above this, its base64 far above."""

SCRIPT = textwrap.dedent("""
    import os, sys
    from pathlib import Path
    from vibey_actions.remotes.open import open_remote
    action, remote, cache, source, commit = sys.argv[1:]
    opened = open_remote(env=os.environ, remote=remote, repository="example/app", cache_folder=Path(cache),
                         api_url=os.environ.get("GITHUB_API_URL", ""))
    if action == "push":
        print(opened.push({"state.vibey": Path(source)}, None))
    else:
        print(opened.fetch(commit).stat().st_size)
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM:"))
    print(int(peak.split()[1]) * 1024)
""")


def run(place: Place, action: str, cache: str, source: Path, commit: str = "") -> str:
    """What the action printed; fails where the process needed more memory than the ceiling."""
    env = dict(os.environ)
    if place.github:
        env |= {"GITHUB_API_URL": place.github.url, "GH_TOKEN": place.github.token}
    remote = "" if place.github else str(place.repository.path)
    command = [sys.executable, "-c", SCRIPT, action, remote, str(place.folder / cache), str(source), commit]
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout.split()
    assert int(out[1]) < CEILING
    return out[0]


@pytest.mark.parametrize("where", ["on_github", "on_git"])
def test_memory_stays_flat(where: str, request: pytest.FixtureRequest) -> None:
    """Sending, fetching, and fetching as JSON take the memory of a small file."""
    place: Place = request.getfixturevalue(where)
    source = place.sealed(SIZE)
    commit = run(place, "push", "first", source)
    assert place.repository.ref(BRANCH) == commit
    assert run(place, "fetch", "second", source, commit) == str(SIZE + 8)
    if place.github:
        place.github.raw_blobs = False
        assert run(place, "fetch", "third", source, commit) == str(SIZE + 8)
    assert place.repository.text("cat-file", "-s", f"{commit}:{PATH}") == str(SIZE + 8)
