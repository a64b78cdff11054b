"""Put files into a folder as actions/upload-artifact puts them on GitHub, with the rules and refusals it has."""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import sys
import time
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

FORBIDDEN = re.compile(r'[":<>|*?\r\n\\/]')
LONGEST = 90


def main() -> None:
    name, days = os.environ["STAND_IN_NAME"], int(os.environ["STAND_IN_DAYS"]) or LONGEST
    if not name or FORBIDDEN.search(name):
        refuse(f"The artifact name is not valid: {name}")
    if not 1 <= days <= LONGEST:
        refuse(f"Retention days must be between 1 and {LONGEST}: {days}")
    files = found(os.environ["STAND_IN_PATH"].splitlines())
    if not files:
        text = "No files were found with the provided path. No artifacts will be uploaded."
        if os.environ["STAND_IN_MISSING"] == "error":
            refuse(text)
        say("warning", text)
        return
    store(name, days, files)


def say(level: str, text: str) -> None:
    sys.stdout.write(f"::{level}::{text}\n")


def refuse(text: str) -> None:
    say("error", text)
    sys.exit(1)


def found(patterns: list[str]) -> list[Path]:
    """The files that the patterns name; those with a leading dot in their way are left out, as GitHub does."""
    files: set[Path] = set()
    for pattern in filter(None, map(str.strip, patterns)):
        at = Path(pattern)
        matches = at.parent.glob(at.name) if "*" in pattern else [at]
        for one in matches:
            files.update([one] if one.is_file() else (inner for inner in one.rglob("*") if inner.is_file()))
    hidden = os.environ["STAND_IN_HIDDEN"] == "true"
    workspace = Path(os.path.commonpath([file.parent for file in files])) if files else Path()
    return sorted(
        file for file in files if hidden or not any(part.startswith(".") for part in file.relative_to(workspace).parts)
    )


def store(name: str, days: int, files: list[Path]) -> None:
    """Write the artifact; its folder is made first and once, so that a second upload of the name loses.

    A file FAILING beside the store says by one word an upload what goes wrong: ``lost`` loses the content of one whose
    name is taken by then, ``unheard`` the answer of one that arrived, ``well`` nothing.
    """
    fails = next_failure()
    run = Path(os.environ["STAND_IN_STORE"]) / os.environ["GITHUB_RUN_ID"]
    run.mkdir(parents=True, exist_ok=True)
    folder = run / name
    try:
        folder.mkdir()
    except FileExistsError:
        refuse(
            "Failed to CreateArtifact: Received non-retryable error: Failed request: (409) Conflict: "
            "an artifact with this name already exists on the workflow run"
        )
    if fails == "lost":
        refuse("Failed to upload: the connection was reset")
    top = Path(os.path.commonpath([file.parent for file in files]))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file, str(file.relative_to(top)))
    made = datetime.now(UTC)
    digest = hashlib.sha256(packed.getvalue()).hexdigest()
    facts = {
        "id": time.time_ns() // 1000,
        "created_at": made.isoformat(),
        "expires_at": (made + timedelta(days=days)).isoformat(),
        "attempt": int(os.environ["GITHUB_RUN_ATTEMPT"]),
        "digest": f"sha256:{digest}",
        "repository": os.environ["GITHUB_REPOSITORY"],
    }
    (folder / "artifact.zip").write_bytes(packed.getvalue())
    (folder / "meta.json").write_text(json.dumps(facts), "utf-8")
    if fails == "unheard":
        refuse("Failed to FinalizeArtifact: no answer came")
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as outputs:
        outputs.write(f"artifact-id={facts['id']}\nartifact-digest={digest}\n")


def next_failure() -> str:
    """The first word of FAILING, which is taken out of it."""
    plan = Path(os.environ["STAND_IN_STORE"]).with_name("FAILING")
    words = plan.read_text("utf-8").split() if plan.exists() else []
    if words:
        plan.write_text(" ".join(words[1:]), "utf-8")
    return words[0] if words else ""


main()
