"""``docs doctor``: everything a tick needs, checked before it is needed."""

from __future__ import annotations

import os

from vibey_actions.cli import session
from vibey_actions.cli.doctor import say_findings
from vibey_actions.cli.options import Json


def doctor(*, as_json: Json = False) -> None:
    """Check all that a tick needs, and say what cures each finding. Writes nothing.

    It ends with 1 where a finding stops a tick, with 2 where that is a setting.
    """
    from vibey_actions.checks.lanes import examine

    say_findings(examine(os.environ, session.working_folder()), "a tick", as_json=as_json)
