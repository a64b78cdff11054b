"""Who sees what: the three environments that a step's own is filtered into (docs/action.md).

State commands get the key and the token and little else; a migrator gets what it names, without either; a job's command
gets the job's variables without key, owner's DSN, token and everything that speaks to the runner.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from vibey_actions.actions.inputs import PREFIX
from vibey_actions.postgres.migrator import BASICS

NETWORK: Final = (
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "GIT_SSL_CAPATH"),
    *(name for lower in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (lower, lower.upper())),
)
"""How this machine reaches others: certificates and proxies."""
RUN: Final = (
    *("GITHUB_ACTIONS", "GITHUB_API_URL", "GITHUB_SERVER_URL", "GITHUB_REPOSITORY", "GITHUB_SHA", "GITHUB_REF"),
    *("GITHUB_RUN_ID", "GITHUB_RUN_ATTEMPT", "GITHUB_JOB", "GITHUB_EVENT_NAME", "RUNNER_TEMP", "GITHUB_WORKSPACE"),
)
"""Which run this is, and where; nothing of it is a secret."""
TOKENS: Final = ("GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN")
RUNNER_FILES: Final = ("GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY")
_LOADERS: Final = ("BASH_ENV", "ENV", "RUNNER_TRACKING_ID")
_DSN_NAMES: Final = ("VIBEY_PG_URL", "VIBEY_PG_MIGRATE_URL", "DATABASE_URL")
# A place for keys or settings that the job's own steps could have moved.
_NOT_OURS: Final = frozenset({"VIBEY_STATE_KEY", "VIBEY_STATE_KEY_FILE", "VIBEY_STATE_CONFIG", "VIBEY_STATE_PG_URL"})
_SHORTEST_SECRET: Final = 8


def state_environment(
    env: Mapping[str, str], *, key: str, token: str, repository: str, dsn: str, cache: str
) -> dict[str, str]:
    """What a state command runs with: basics, VIBEY_STATE_*, the key, the repository and the token.

    Key, DSN and configuration come from the caller alone. ``repository`` (of the run) is the state's where the job
    names neither VIBEY_STATE_REPOSITORY nor VIBEY_STATE_REMOTE. ``cache`` is where sealed files are kept.
    """
    chosen = _named(env, (*BASICS, *NETWORK, *RUN))
    chosen |= {name: value for name, value in env.items() if name.startswith("VIBEY_STATE_") and name not in _NOT_OURS}
    if not any(chosen.get(name, "").strip() for name in ("VIBEY_STATE_REPOSITORY", "VIBEY_STATE_REMOTE")):
        chosen["VIBEY_STATE_REPOSITORY"] = repository
    given = {"VIBEY_STATE_KEY": key, "GH_TOKEN": token, "VIBEY_STATE_PG_URL": dsn, "XDG_CACHE_HOME": cache}
    return chosen | {name: value for name, value in given.items() if value}


def migrator_environment(env: Mapping[str, str], secrets: Collection[str] = ()) -> dict[str, str]:
    """What a migrator may name its variables from: the job's, without key, token, other databases and the runner."""
    return {
        name: value
        for name, value in env.items()
        if not _is_withheld(name) and not name.startswith("VIBEY_STATE_") and not _holds(value, secrets)
    }


def command_environment(env: Mapping[str, str], *, dsn: str, secrets: Collection[str]) -> dict[str, str]:
    """What a job's command or a document's step runs with: the job's variables and the application role's ``dsn``.

    No variable whose value holds one of ``secrets`` (key, token, the owner's DSN and password) is passed on, whatever
    its name.
    """
    chosen = {
        name: value
        for name, value in env.items()
        if not _is_withheld(name)
        and not name.startswith("VIBEY_STATE_")
        and name not in _DSN_NAMES
        and not _holds(value, secrets)
    }
    return chosen | ({"VIBEY_PG_URL": dsn} if dsn else {})


def _named(env: Mapping[str, str], names: Collection[str]) -> dict[str, str]:
    return {name: env[name] for name in names if name in env}


def _is_withheld(name: str) -> bool:
    return name.startswith(("ACTIONS_", PREFIX)) or name in {*TOKENS, *RUNNER_FILES, *_LOADERS}


def _holds(value: str, secrets: Collection[str]) -> bool:
    return any(secret in value for secret in secrets if len(secret) >= _SHORTEST_SECRET)
