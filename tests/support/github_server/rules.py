"""What a repository is asked before anything is needed: rules of its branches, workflows, names of secrets.

Tests arrange it in ``Repository.arranged``: ``rules`` (branch to the list that GitHub would answer), ``rulesets``
(number to the ruleset), ``protections`` (branch to its classic protection, None where the token is not told),
``workflows`` (path to state), ``secrets`` (names; None where the token may not ask).
"""

from __future__ import annotations

from tests.support.github_server.api import Call, route
from tests.support.github_server.replies import Refusal, Reply, as_json, not_found


@route("GET", r"/rules/branches/(?P<branch>.+)")
def branch_rules(call: Call) -> Reply:
    return as_json(call.repository.arranged.get("rules", {}).get(call.part("branch"), []))


@route("GET", r"/rulesets/(?P<number>\d+)")
def ruleset(call: Call) -> Reply:
    found = call.repository.arranged.get("rulesets", {}).get(int(call.part("number")))
    if found is None:
        raise not_found()
    return as_json(found)


@route("GET", r"/branches/(?P<branch>.+)/protection")
def protection(call: Call) -> Reply:
    found = call.repository.arranged.get("protections", {}).get(call.part("branch"))
    if found is None:
        raise Refusal(403, "Resource not accessible by integration")
    return as_json(found)


@route("GET", r"/branches/(?P<branch>.+)")
def one_branch(call: Call) -> Reply:
    name = call.part("branch")
    commit = call.repository.ref(name)
    if commit is None:
        raise Refusal(404, "Branch not found")
    protected = name in call.repository.arranged.get("protections", {})
    return as_json({"name": name, "commit": {"sha": commit}, "protected": protected})


@route("GET", r"/actions/workflows")
def workflows(call: Call) -> Reply:
    listed = [
        {"path": path, "state": state, "name": path}
        for path, state in call.repository.arranged.get("workflows", {}).items()
    ]
    return as_json({"total_count": len(listed), "workflows": listed})


@route("GET", r"/actions/secrets/(?P<name>[A-Z_]+)")
def secret(call: Call) -> Reply:
    names = call.repository.arranged.get("secrets", ())
    if names is None:
        raise Refusal(403, "Resource not accessible by integration")
    if call.part("name") not in names:
        raise not_found()
    return as_json({"name": call.part("name"), "created_at": "2025-01-01T00:00:00Z"})
