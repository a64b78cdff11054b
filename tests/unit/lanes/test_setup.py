"""Where documents are and which machines are walked: the file, the variables over it, and what cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from vibey_actions.errors import MachineInvalid, SettingError
from vibey_actions.lanes.setup import Kind, Setup, read_setup


def setup(folder: Path, text: str | None = None, **env: str) -> Setup:
    """What ``text`` as the file of a checkout, and ``env``, say."""
    (folder / ".git").mkdir(exist_ok=True)
    if text is not None:
        (folder / ".github").mkdir(exist_ok=True)
        (folder / ".github" / "vibey-docs.yml").write_text(text, "utf-8")
    inside = folder / "deep" / "down"
    inside.mkdir(parents=True, exist_ok=True)
    return read_setup(env, inside)


def test_without_a_file_every_built_in_machine_is_there_and_none_is_walked(tmp_path: Path) -> None:
    """Nothing is walked by guess: machines are named, in the file or on the command line."""
    found = setup(tmp_path)
    assert (found.kind, found.configured, found.root) == (Kind.POSTGRES, False, tmp_path)
    assert found.machine("job").name == "job"
    assert [one.name for one in found.chosen(["job", "job"])] == ["job"]
    with pytest.raises(MachineInvalid, match=r"there is no .*vibey-docs\.yml"):
        found.chosen()


def test_an_empty_file_names_no_machine(tmp_path: Path) -> None:
    """That it is there makes another sentence of it."""
    with pytest.raises(MachineInvalid, match="names no machine"):
        setup(tmp_path, "").chosen()


def test_the_file_says_where_documents_are(tmp_path: Path) -> None:
    """Every key of the store reaches its field; paths start at the checkout's top."""
    text = "store: {vibe: maker/hub, settle: 1500ms, client: tools/run.js, api-url: 'http://127.0.0.1:1/api'}\n"
    found = setup(tmp_path, text + "machines: {job: {}}")
    assert (found.kind, found.vibe, found.settle) == (Kind.VIBES, "maker/hub", 1.5)
    assert (found.client, found.api_url) == (str(tmp_path / "tools" / "run.js"), "http://127.0.0.1:1/api")
    assert [machine.name for machine in found.chosen()] == ["job"]
    assert found.place == "the vibe maker/hub"


def test_variables_win_over_the_file_and_empty_ones_do_not(tmp_path: Path) -> None:
    """What an unset secret or input becomes changes nothing."""
    text = "store: {kind: sealed}\n"
    assert setup(tmp_path, text, VIBEY_DOCS_STORE=" ", VIBEY_DOCS_VIBE="\n").kind is Kind.SEALED
    assert setup(tmp_path, text, VIBEY_DOCS_STORE="postgres").kind is Kind.POSTGRES
    found = setup(tmp_path, "", VIBEY_DOCS_VIBE="a/b", VIBEY_DOCS_CLIENT="c", VIBEY_DOCS_API_URL="http://d")
    assert (found.kind, found.vibe, found.api_url) == (Kind.VIBES, "a/b", "http://d")
    assert found.client == str(tmp_path / "deep" / "down" / "c")


def test_a_vibe_may_build_for_documents_that_are_elsewhere(tmp_path: Path) -> None:
    """Naming a vibe does not move documents there where the kind is said."""
    found = setup(tmp_path, "store: {kind: sealed, vibe: maker/hub}")
    assert (found.kind, found.vibe) == (Kind.SEALED, "maker/hub")


def test_another_file_may_be_named(tmp_path: Path) -> None:
    """It has to exist then."""
    other = tmp_path / "other.yml"
    other.write_text("machines: {daily: {}}")
    assert [one.name for one in setup(tmp_path, VIBEY_DOCS_CONFIG="../../other.yml").chosen()] == ["daily"]
    with pytest.raises(MachineInvalid, match="does not exist"):
        setup(tmp_path, VIBEY_DOCS_CONFIG="gone.yml")


@pytest.mark.parametrize(
    ("text", "env", "said"),
    [
        ("store: {kind: vibes}", {}, "no vibe is named"),
        ("store: {kind: mysql}", {}, "store.kind is mysql"),
        ("store: {place: here}", {}, "store.place is no key here"),
        ("store: {settle: soon}", {}, "store.settle is no length of time"),
        ("store: []", {}, "store is a list"),
        ("", {"VIBEY_DOCS_STORE": "mysql"}, "VIBEY_DOCS_STORE is mysql"),
        ("", {"VIBEY_DOCS_VIBE": "a\x1b[31mb"}, "VIBEY_DOCS_VIBE holds a control character"),
        ("", {"VIBEY_DOCS_STORE": "vibes"}, "no vibe is named"),
    ],
    ids=["no vibe", "kind", "key", "settle", "list", "variable", "control", "variable without a vibe"],
)
def test_what_cannot_be_used_is_said_by_name(tmp_path: Path, text: str, env: dict[str, str], said: str) -> None:
    """The key or the variable, as a setting: exit code 2."""
    with pytest.raises(SettingError) as caught:
        setup(tmp_path, text, **env)
    assert said in caught.value.message
    assert caught.value.hint
    assert "\x1b" not in caught.value.message
