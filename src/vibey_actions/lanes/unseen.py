"""A process whose environment and memory no other program of its user can look into.

A lane holds the key, the connection string and the device's credential while it runs commands of the adopter's, which
are given none of them. On Linux they could read them from /proc all the same, as the same user; a process that is not
dumpable is closed to all but root.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Final

_SET_DUMPABLE: Final = 4


def hide() -> None:
    """Close this process to others of its user, for good; programs that it starts are not closed. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
