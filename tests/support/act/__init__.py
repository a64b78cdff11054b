"""Workflows and the action run for real, by act, on this machine: no Docker, no network, GitHub is the local server.

    act = Act(folder, github)
    app = act.adopter("example/app", {".github/workflows/state.yml": text})
    outcome = app.run("push", secrets={"VIBEY_STATE_KEY": key})
    assert outcome.result("work") == "success"

The adopter's repository holds its own files only; ``OWNER/vibey-actions`` is this working tree. What is bridged,
because act differs from GitHub, stands in ``render``: nothing else is changed.
"""

from tests.support.act.adopter import Act, Adopter, Run
from tests.support.act.outcome import Annotation, Outcome

__all__ = ["Act", "Adopter", "Annotation", "Outcome", "Run"]
