"""What of a workspace is never handed over, and which workspaces hold a credential."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibey_actions.actions.handover import credentials_in, kept_entries


def test_what_later_steps_rely_on_is_kept(tmp_path: Path) -> None:
    """Git's folder always, and the checkout that this action runs from where it lies in the workspace."""
    assert kept_entries(tmp_path, None) == [".git"]
    assert kept_entries(tmp_path, tmp_path.parent / "elsewhere") == [".git"]
    assert kept_entries(tmp_path, tmp_path / ".vibey-actions") == [".git", ".vibey-actions"]
    assert kept_entries(tmp_path, tmp_path / "tools" / "action") == [".git", "tools"]


@pytest.mark.parametrize(
    "line",
    [
        '[http "https://github.com/"]\n\textraheader = AUTHORIZATION: basic eA==',
        '[includeIf "gitdir:/checkout/.git"]\n\tpath = /temp/git-credentials-1.config',
        '[remote "origin"]\n\turl = https://x-access-token:secret@github.com/example/app',
        '[remote "origin"]\n\turl = https://token@github.com/example/app',
    ],
)
def test_a_credential_in_the_checkout_is_found(tmp_path: Path, line: str) -> None:
    """As actions/checkout leaves it, in either of its ways, or in a URL; in submodules as well."""
    for name in ("config", "modules/lib/config"):
        config = tmp_path / ".git" / name
        config.parent.mkdir(parents=True, exist_ok=True)
        config.write_text(f"[core]\n\tbare = false\n{line}\n")
        assert credentials_in(tmp_path) == config
        config.unlink()


def test_a_checkout_without_one_is_fine(tmp_path: Path) -> None:
    """A plain remote, an SSH one and a file are no credentials."""
    assert credentials_in(tmp_path) is None
    (tmp_path / ".git").mkdir()
    urls = (
        "https://github.com/example/app",
        "git@github.com:example/app.git",
        "ssh://git@example.com/app.git",
        "/srv/app.git",
    )
    text = "".join(f'[remote "r{number}"]\n\turl = {url}\n' for number, url in enumerate(urls))
    (tmp_path / ".git" / "config").write_text(text)
    assert credentials_in(tmp_path) is None
