"""``python -m tests.support.github_server --folder DIR OWNER/NAME ...`` serves until it is interrupted.

The first line it prints is what GITHUB_API_URL should be, the second the token.
"""

from __future__ import annotations

import argparse
import signal
from pathlib import Path

from tests.support.github_server.server import GitHubServer


def main() -> None:
    parser = argparse.ArgumentParser(description="A local GitHub for tests.")
    parser.add_argument("repositories", nargs="+", metavar="OWNER/NAME")
    parser.add_argument("--folder", type=Path, required=True, help="where the repositories are made")
    parser.add_argument("--port", type=int, default=0, help="the port, a free one by default")
    parser.add_argument("--empty", action="store_true", help="make repositories without a commit")
    parser.add_argument("--public", action="store_true", help="make public repositories")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    with GitHubServer(options.folder, options.port) as github:
        for name in options.repositories:
            github.add_repository(name, private=not options.public, empty=options.empty)
        print(github.url, github.token, sep="\n", flush=True)  # noqa: T201
        signal.sigwait({signal.SIGINT, signal.SIGTERM})


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    main()
