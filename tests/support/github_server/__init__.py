"""A local GitHub for tests: real bare git repositories behind the parts of the REST API that we use.

It answers as GitHub does, counts what it was asked, and fails on demand:

    with GitHubServer(folder) as github:
        repository = github.add_repository("example/app")
        github.arm(faults.reset(after=True), "PATCH")
        ... GITHUB_API_URL=github.url, GH_TOKEN=github.token ...
        assert github.count("PATCH", "git/refs") == 1
"""

from tests.support.github_server import faults, rules
from tests.support.github_server.repository import Repository
from tests.support.github_server.server import GitHubServer, Seen

__all__ = ["GitHubServer", "Repository", "Seen", "faults", "rules"]
