"""Who is handed which variables."""

from __future__ import annotations

from vibey_actions.actions.environments import command_environment, migrator_environment, state_environment

OWNER = "postgresql://vibey_owner:owners-password@127.0.0.1/vibey"
JOB = {
    "PATH": "/bin", "HOME": "/home/runner", "LANG": "C.UTF-8", "CI": "true", "MY_SETTING": "mine",
    "GITHUB_ACTIONS": "true", "GITHUB_SHA": "c" * 40, "GITHUB_REPOSITORY": "example/app", "RUNNER_TEMP": "/t",
    "GITHUB_ENV": "/env", "GITHUB_PATH": "/path", "GITHUB_OUTPUT": "/out", "GITHUB_STATE": "/s",
    "GITHUB_STEP_SUMMARY": "/sum", "ACTIONS_RUNTIME_TOKEN": "runtime", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "id",
    "BASH_ENV": "/b", "ENV": "/e", "GITHUB_TOKEN": "job-token", "GH_TOKEN": "gh-token",
    "VIBEY_INPUT_KEY": "the-key-text", "VIBEY_INPUT_PG_URL": OWNER, "VIBEY_STATE_KEY": "old-key",
    "VIBEY_STATE_KEY_FILE": "/k", "VIBEY_STATE_CONFIG": "/c",
    "VIBEY_STATE_PG_URL": OWNER, "VIBEY_PG_URL": "postgresql://app", "DATABASE_URL": "postgresql://other",
    "VIBEY_STATE_BRANCH": "mine", "COPIED": "see the-key-text here", "COPIED_PASSWORD": "x owners-password x",
    "PYTHONPATH": "/evil", "HTTPS_PROXY": "http://proxy.example.com",
}  # fmt: skip
SECRETS = ["the-key-text", "given-token", OWNER, "owners-password"]


def test_a_state_command_has_what_it_needs_and_nothing_else() -> None:
    """Basics, VIBEY_STATE_*, the key, the repository and the token that were given, never the runner's environment."""
    found = state_environment(JOB, key="K", token="T", repository="example/app", dsn="D", cache="/cache")
    assert found == {
        "PATH": "/bin", "HOME": "/home/runner", "LANG": "C.UTF-8", "HTTPS_PROXY": "http://proxy.example.com",
        "GITHUB_ACTIONS": "true", "GITHUB_SHA": "c" * 40, "GITHUB_REPOSITORY": "example/app", "RUNNER_TEMP": "/t",
        "VIBEY_STATE_BRANCH": "mine", "VIBEY_STATE_REPOSITORY": "example/app", "VIBEY_STATE_KEY": "K", "GH_TOKEN": "T",
        "VIBEY_STATE_PG_URL": "D", "XDG_CACHE_HOME": "/cache",
    }  # fmt: skip


def test_a_state_elsewhere_keeps_its_place() -> None:
    """A repository or remote that the job names is where the state is."""
    for name, value in {"VIBEY_STATE_REPOSITORY": "example/state", "VIBEY_STATE_REMOTE": "/state.git"}.items():
        found = state_environment({name: value}, key="K", token="", repository="example/app", dsn="D", cache="/c")
        assert found == {name: value, "VIBEY_STATE_KEY": "K", "VIBEY_STATE_PG_URL": "D", "XDG_CACHE_HOME": "/c"}


def test_a_migrator_cannot_name_a_secret() -> None:
    """Whatever its configuration names, key, tokens, inputs and the runner's files are not there to be had."""
    found = migrator_environment(JOB, SECRETS)
    assert found["MY_SETTING"] == "mine"
    assert {"COPIED", "COPIED_PASSWORD", "GH_TOKEN", "GITHUB_TOKEN", "GITHUB_ENV", "VIBEY_STATE_KEY"}.isdisjoint(found)
    assert not any(name.startswith(("VIBEY_INPUT_", "VIBEY_STATE_", "ACTIONS_")) for name in found)


def test_a_command_has_the_job_without_the_three() -> None:
    """A job's command keeps the job's variables and gets the application's database: no key, owner's DSN or token."""
    found = command_environment(JOB, dsn="postgresql://vibey_app", secrets=SECRETS)
    assert found["MY_SETTING"] == "mine"
    assert found["VIBEY_PG_URL"] == "postgresql://vibey_app"
    assert set(JOB) - set(found) == {
        "GITHUB_ENV", "GITHUB_PATH", "GITHUB_OUTPUT", "GITHUB_STATE", "GITHUB_STEP_SUMMARY", "ACTIONS_RUNTIME_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "BASH_ENV", "ENV", "GITHUB_TOKEN", "GH_TOKEN", "VIBEY_INPUT_KEY",
        "VIBEY_INPUT_PG_URL", "VIBEY_STATE_KEY", "VIBEY_STATE_KEY_FILE", "VIBEY_STATE_CONFIG", "VIBEY_STATE_PG_URL",
        "DATABASE_URL", "VIBEY_STATE_BRANCH", "COPIED", "COPIED_PASSWORD",
    }  # fmt: skip
    assert not any(secret in value for value in found.values() for secret in SECRETS)
    assert "VIBEY_PG_URL" not in command_environment(JOB, dsn="", secrets=SECRETS)
