"""Names, keys and values that try to be commands, markup or secrets: they change no log, output, mask or summary."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.support.act import Act, Outcome
from tests.support.act.example import Halt, Shop, work
from tests.support.act.render import ROOT, load

TABLE = "odd\n::set-output name=stolen::1\n<script>|"
COLUMN = "::add-mask::column\n|`"
NAME, FIELD = f'"{TABLE}"', f'"{COLUMN}"'
SCHEMA = f"CREATE TABLE {NAME} (id text PRIMARY KEY, {FIELD} text);"
KEYS = ("x\n::add-mask::yyyyyyyyyy", "%0A::error::boo", "|</code><img src=x onerror=alert(1)> [a](javascript:b)\r\n")
VALUE = "<script>|\n::stop-commands::forever\n::set-env name=LD_PRELOAD::x\n"
INSERT = f"INSERT INTO {NAME} VALUES " + ", ".join(f"('{key}', '{VALUE}')" for key in KEYS) + ";"
OWN = {"set-output", "set-env", "summary", "add-mask", "notice", "warning", "error", "group", "endgroup"}
OUTPUTS = set(load((ROOT / "action.yml").read_text("utf-8"))["outputs"])


def effects(outcome: Outcome) -> None:
    """Nothing in this run was a command or markup but what our own steps meant."""
    known = OUTPUTS | {"export-again", "export-folder", "artifact-id", "artifact-digest", "mark-folder"}
    written = {one["name"] for one in outcome.records if one.get("command") == "set-output"}
    assert {name for name in written if not name.startswith("mark-")} <= known
    assert set(outcome.variables()) <= {"VIBEY_PG_URL", "VIBEY_STATE_PG_URL"}
    assert not any(mask.startswith(("yyyy", "column")) for mask in outcome.masks())
    assert not {one.text for one in outcome.annotations()} & {"boo", "1", "x"}
    commands = {one["command"] for one in outcome.records if "command" in one}
    assert commands <= OWN
    for markup in ("<script", "<img", "</code><", "](javascript", "\n::"):
        assert markup not in outcome.summary().lower()
    assert "\n::" not in "\n" + outcome.log().replace("\r", "\n")


def test_hostile_names_keys_and_values_have_no_effect(act: Act, database: Callable[[], str], tmp_path: Path) -> None:
    """Opened, filled, exported, in conflict and written back: such rows arrive as they are and nothing else happens."""
    shop = Shop.make(act, "example/hostile", "state.yml", schema=SCHEMA, files=work(INSERT))
    outcome = shop.run()
    assert outcome.jobs == {"work": ["success"], "write": ["success"]}, outcome.explain()
    effects(outcome)
    laptop = shop.laptop(database())
    laptop.sync()
    assert laptop.value(f"SELECT count(*) FROM {NAME} WHERE {FIELD} = '{VALUE}'") == len(KEYS)

    halt = Halt(tmp_path / "halt")
    shop.app.write(work(f"UPDATE {NAME} SET {FIELD} = {FIELD} || 'of the job';", then=halt.script))
    run = shop.start()
    halt.reached()
    laptop.run(f"UPDATE {NAME} SET {FIELD} = {FIELD} || 'of the laptop'")
    laptop.sync()
    halt.release()
    outcome = run.wait()
    assert outcome.result("write") == "failure"
    effects(outcome)
    assert "odd" in outcome.summary("write")
    assert "of the job" not in outcome.summary() + outcome.log() + str(outcome.annotations())
