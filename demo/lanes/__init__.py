"""The demonstration's documents: two machines, a worker that dies in the middle, and one that is skipped."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from demo.machine import Machine
from demo.stage import check, say, title

HERE = Path(__file__).parent
LEASE_SECONDS = 5.0
KILLED = -9


def equip(worker: Machine) -> None:
    """Give a machine the declaration, the command and a place for temporary files that is cleaned up with it."""
    shutil.copy(HERE / "vibey-docs.yml", worker.checkout / ".github" / "vibey-docs.yml")
    shutil.copy(HERE / "work.sh", worker.checkout / "work.sh")
    temporary = worker.home / "tmp"
    temporary.mkdir()
    worker.setting("TMPDIR", str(temporary))


def walk_documents(worker: Machine) -> None:
    """Taken in, claimed, worked on, finished; and one that is none of the lane's business."""
    title(9, "Work documents")
    say(
        "The other half: work as documents, one for each unit of it, walked through statuses by whoever may. A third "
        "machine has a database of its own and .github/vibey-docs.yml, which names two kinds of work."
    )
    worker.run("docs", "machine", "job")
    worker.run("docs", "put", '{"input": "rye"}', "--machine", "job", "--id", "cake-1")
    worker.run("docs", "put", '{"prompt": "a page of cakes"}', "--machine", "mention-build", "--id", "mention-1")
    worker.run(
        *(
            "docs",
            "put",
            '{"prompt": "spam", "status": "skipped", "lastError": "whoever asks has asked 20 times today"}',
        ),
        *("--machine", "mention-build", "--id", "mention-2"),
    )
    say("The same event may come in twice. That changes nothing.")
    worker.run("docs", "put", '{"input": "rye"}', "--machine", "job", "--id", "cake-1")
    say("One tick: what is due is said first, then each document goes as far as it can.")
    worker.run("docs", "advance")
    check("the job is done, with what its command wrote", document(worker, "cake-1")["output"] == "baked by cake-1:1")
    check("the app is built", document(worker, "mention-1")["status"] == "built")
    skipped = document(worker, "mention-2")
    check(
        "the skipped one says why, and was not worked on",
        (skipped["lastError"][:7], skipped["attempts"]) == ("whoever", 0),
    )
    say("From here it is the turn of another writer, who replies. Nobody else may.")
    replied = json.dumps({**document(worker, "mention-1"), "status": "replied", "permalink": "https://example.com/1"})
    refused = worker.run("docs", "put", replied, "--db", "requests", "--as", "builder", expect=1, show=False)
    check("the builder may not", "is written by vibe" in refused)
    worker.run("docs", "put", replied, "--db", "requests", "--as", "vibe", show=False)
    check("the vibe replied", document(worker, "mention-1")["status"] == "replied")


def lose_a_worker(worker: Machine) -> None:
    """A worker that is killed with a document in hand."""
    title(10, "A worker that dies")
    say(
        "A worker claims a document before it works on it, and says until when. This one is killed in the middle "
        "(by its own command, so that it is no matter of luck)."
    )
    worker.run("docs", "put", '{"input": "matcha"}', "--machine", "job", "--id", "cake-2")
    worker.run("docs", "advance", "--machine", "job", expect=KILLED)
    check("its document is still claimed", document(worker, "cake-2")["status"] == "running")
    say("Nothing is lost, and nobody has to remember: the lease runs out, and the next sweep takes the document back.")
    time.sleep(LEASE_SECONDS)
    worker.run("docs", "status", "--machine", "job")
    worker.run("docs", "sweep", "--machine", "job")
    check("it waits again", document(worker, "cake-2")["status"] == "pending")
    worker.run("docs", "advance", "--machine", "job")
    done = document(worker, "cake-2")
    check("the second attempt brought it home", (done["status"], done["output"]) == ("done", "baked by cake-2:2"))
    worker.run("docs", "status", "--html", "lanes.html", show=False)
    page = (worker.checkout / "lanes.html").read_text("utf-8")
    check("`docs status --html` makes one page of all this", "<h2>job</h2>" in page and "<script" not in page)


def document(worker: Machine, identifier: str) -> dict[str, Any]:
    """A document as it is now."""
    found: dict[str, Any] = json.loads(worker.run("docs", "get", identifier, show=False))
    return found
