"""The page of `docs status --html` in a real browser: it is drawn as meant, and hostile documents do nothing there."""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import zlib
from pathlib import Path

import pytest

from tests.unit.documents.test_status import Elements, hostile_page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")


def browser() -> str:
    """A Chromium of this machine; VIBEY_TEST_CHROMIUM names another. Skips, loudly, where there is none."""
    named = os.environ.get("VIBEY_TEST_CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None and MAC.exists():
        found = str(MAC)
    if found is None:
        pytest.skip("NOT TESTED: the status page in a browser, because there is no Chromium; its structure is tested")
    return found


def shown(page: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """What the browser says of ``page``: its DOM on stdout where that is asked for, its console on stderr."""
    profile = page.parent / "profile"
    command = [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    command += [f"--user-data-dir={profile}", "--enable-logging=stderr", "--hide-scrollbars", "--window-size=900,1200"]
    home = {"HOME": str(page.parent), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    return subprocess.run(
        [*command, *options, page.as_uri()],
        env=home,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )


def pixels(png: bytes) -> list[bytes]:
    """The rows of a PNG of 8 bits a channel, without the filters' work undone: enough to tell one colour from many."""
    width, _, depth, kind = struct.unpack(">IIBB", png[16:26])
    assert (depth, kind) in {(8, 2), (8, 6)}
    data, at = b"", 8
    while at < len(png):
        (size,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + size]
        at += size + 12
    raw, row = zlib.decompress(data), 1 + width * (3 if kind == 2 else 4)
    return [raw[start : start + row] for start in range(0, len(raw), row)]


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "lanes.html"
    path.write_text(hostile_page(), "utf-8")
    return path


def test_the_browser_finds_text_where_documents_are_hostile(page: Path) -> None:
    """The DOM holds no script, image or link; the policy refused nothing, since nothing tried; the style applies."""
    seen = shown(page, "--dump-dom")
    found = Elements(seen.stdout)
    assert {"script", "img", "a", "link", "iframe"} & {tag for tag, _ in found.elements} == set()
    assert "<script>alert(1)</script>" in found.text
    assert re.findall(r"CONSOLE.*", seen.stderr) == []


def test_the_policy_holds_where_the_escaping_would_not(page: Path) -> None:
    """The same page with a script in it: the browser refuses to run it, and says that it was the policy."""
    text = page.read_text("utf-8")
    page.write_text(text.replace("</main>", "<script>document.title = 'run'</script></main>"), "utf-8")
    seen = shown(page, "--dump-dom")
    assert "<title>Document lanes</title>" in seen.stdout
    assert "Content Security Policy" in seen.stderr


def test_the_page_is_drawn(page: Path) -> None:
    """It has many rows that are not alike: something is drawn on it. (VIBEY_TEST_KEEP_PAGE keeps the picture.)"""
    picture = page.with_suffix(".png")
    shown(page, f"--screenshot={picture}")
    assert len(set(pixels(picture.read_bytes()))) > 100
    keep = os.environ.get("VIBEY_TEST_KEEP_PAGE")
    if keep:
        shutil.copy(picture, keep)
