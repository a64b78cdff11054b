"""The scenes, in the order in which a newcomer needs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from demo.machine import HERE, Machine
from demo.stage import check, say, title

ZOE = "00000000-0000-4000-8000-000000000001"
LUKASZ = "00000000-0000-4000-8000-000000000002"
ORDER = "00000000-0000-4000-8000-00000000000b"


class Branch:
    """The branch vibey-state of the bare repository that both machines sync with."""

    def __init__(self, repository: Path) -> None:
        self._repository = repository

    def git(self, *arguments: str) -> bytes:
        """What a git command prints about the repository."""
        command = ["git", "--git-dir", str(self._repository), *arguments]
        return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout

    def head(self) -> str:
        """The commit the branch is at."""
        return self.git("rev-parse", "refs/heads/vibey-state").decode().strip()

    def sealed(self) -> bytes:
        """The one file of the branch."""
        return self.git("cat-file", "blob", "vibey-state:state.vibey")

    def commits(self) -> int:
        """How many commits the branch has."""
        return int(self.git("rev-list", "--count", "vibey-state"))


def make_a_key(laptop: Machine, server: Machine) -> None:
    """One key, made once, carried to the second machine."""
    title(1, "A key")
    say("The state is sealed under one 32-byte key. It is made once and never replaced.")
    if sys.platform == "darwin":
        _borrow_a_key(laptop)
    else:
        laptop.run("state", "key", "--new")
        check("the key's file can be read by its owner alone", laptop.key_file.stat().st_mode & 0o077 == 0)
    key = laptop.run("state", "key", "--show", show_output=False).strip()
    say(
        "That was the key. Another machine is handed it in its environment or its key file; a repository gets it as "
        "the secret VIBEY_STATE_KEY. We give it to our second machine, called server."
    )
    server.setting("VIBEY_STATE_KEY", key)


def _borrow_a_key(laptop: Machine) -> None:
    # On macOS `state key --new` would put a key into the user's own keychain; a demonstration leaves that alone.
    from base64 import urlsafe_b64encode
    from secrets import token_bytes

    say("(On macOS the key lives in the keychain, which we leave alone here: this key is in the environment.)")
    laptop.setting("VIBEY_STATE_KEY", urlsafe_b64encode(token_bytes(32)).decode().rstrip("="))


def push_first(laptop: Machine, branch: Branch) -> None:
    """A database with rows goes onto a branch that does not exist yet."""
    title(2, "The first push")
    say(
        "The laptop has an empty PostgreSQL database. `migrate` runs the repository's SQL files in db/migrations. "
        "Then the bakery opens: customers, an order, 200 entries in the till's ledger."
    )
    laptop.run("migrate")
    laptop.sql((HERE / "seed.sql").read_text("utf-8"), show=False)
    say("What would a sync do? `state status` only looks.")
    laptop.run("state", "status")
    say("Now the sync: there is no branch yet, so it is made.")
    laptop.run("state", "sync")
    sealed = branch.sealed()
    check("the branch vibey-state has one commit with one file, state.vibey", branch.commits() == 1)
    check(
        f"its {len(sealed):,} bytes are sealed: no name of a customer or a table is in them",
        sealed.startswith(b"VBYSTAT1") and b"customer" not in sealed and "Zoë".encode() not in sealed,
    )


def fill_second(laptop: Machine, server: Machine) -> None:
    """A second machine with the key and an empty database."""
    title(3, "A second machine")
    say("The server has the key and an empty database of its own. Migrate, sync, and it is level with the laptop.")
    server.run("migrate")
    server.run("state", "sync")
    check("every row of every table is the same on both machines", server.contents() == laptop.contents())
    check("decimals kept every digit", ("4.20",) in server.rows("SELECT price::text FROM product WHERE code = 'rye'"))
    label = [("抹茶ケーキ 🍵",)]
    check("text kept every character", server.rows("SELECT label FROM product WHERE code = 'matcha'") == label)


def merge_both(laptop: Machine, server: Machine) -> None:
    """Different rows changed at both ends; then one row with a rule."""
    title(4, "Changes at both ends")
    say("Both machines go on by themselves. The laptop changes a customer and sells on; the server takes an order.")
    laptop.sql(f"UPDATE customer SET city = 'Bonn' WHERE id = '{ZOE}'")
    laptop.sql("INSERT INTO ledger VALUES ('laptop', 201, now(), 8.40, '{\"kind\": \"sale\"}')")
    server.sql(f"INSERT INTO \"order\" VALUES ('{ORDER}', '{LUKASZ}', 'open', now())")
    server.sql(f"INSERT INTO order_line VALUES ('{ORDER}', 1, 'matcha', 2)")
    say(
        "And both change the price of the rye bread. The configuration says of product: conflict = newest, by "
        "updated_at. The server's change is the later one."
    )
    laptop.sql("UPDATE product SET price = 4.40, updated_at = '2026-03-01 09:00+00' WHERE code = 'rye'")
    server.sql("UPDATE product SET price = 4.60, updated_at = '2026-03-01 10:00+00' WHERE code = 'rye'")
    say("Each machine syncs; the laptop, which went first, syncs once more to get what the server added.")
    laptop.run("state", "sync")
    server.run("state", "sync")
    laptop.run("state", "sync")
    check("both machines hold the same rows again", server.contents() == laptop.contents())
    check("the laptop has the server's order", laptop.rows(f"SELECT 1 FROM \"order\" WHERE id = '{ORDER}'") == [(1,)])
    check("the server has the laptop's 201 sales", server.rows("SELECT count(*) FROM ledger") == [(201,)])
    price = [("4.60",)]
    check("the later price stands", laptop.rows("SELECT price::text FROM product WHERE code = 'rye'") == price)


def settle_a_conflict(laptop: Machine, server: Machine, branch: Branch) -> None:
    """One row changed differently at both ends, and no rule declared."""
    title(5, "A conflict")
    say("Both machines move the same customer, each elsewhere. For customer no rule is declared.")
    laptop.sql(f"UPDATE customer SET city = 'Wien' WHERE id = '{LUKASZ}'")
    server.sql(f"UPDATE customer SET city = 'Gdańsk' WHERE id = '{LUKASZ}'")
    laptop.run("state", "sync")
    before = (server.contents(), server.watermark(), branch.head())
    say("The laptop was first. The server's sync cannot know which city is right, so it says so and stops.")
    told = server.run("state", "sync", expect=1)
    check("the conflict names the table and the row's key", "customer" in told and LUKASZ in told)
    check("it shows no value of the row", "Wien" not in told and "Gdańsk" not in told)
    check("nothing was written at either end", before == (server.contents(), server.watermark(), branch.head()))
    say("We decide for this one sync: the server's own row stands.")
    server.run("state", "sync", settings={"VIBEY_STATE_CONFLICTS": "customer=mine"})
    laptop.run("state", "sync")
    check("both machines hold the same rows again", server.contents() == laptop.contents())
    city = [("Gdańsk",)]
    check("it is Gdańsk", laptop.rows(f"SELECT city FROM customer WHERE id = '{LUKASZ}'") == city)


def guard_the_ledger(laptop: Machine, server: Machine, branch: Branch) -> None:
    """A row of an append-only table was changed."""
    title(6, "An append-only table")
    say("On the server someone rewrites an entry of the ledger, which is declared append-only.")
    amount = server.rows("SELECT amount FROM ledger WHERE (till, seq) = ('laptop', 7)")[0][0]
    server.sql("UPDATE ledger SET amount = 0 WHERE (till, seq) = ('laptop', 7)")
    head = branch.head()
    told = server.run("state", "sync", expect=1)
    check("the entry is named", "ledger" in told and '["laptop",7]' in told)
    say("No rule can be given for it either: that is a setting which cannot be used, and has exit code 2.")
    server.run("state", "sync", expect=2, settings={"VIBEY_STATE_CONFLICTS": "ledger=mine"})
    check("the branch did not move", branch.head() == head)
    say("Put back as it was, it is no change at all.")
    server.sql(f"UPDATE ledger SET amount = {amount} WHERE (till, seq) = ('laptop', 7)")
    server.run("state", "sync")
    check("both machines hold the same rows", server.contents() == laptop.contents())


def refuse_a_wrong_key(laptop: Machine, branch: Branch) -> None:
    """A key that is none of ours."""
    title(7, "A wrong key")
    say("A machine with another key cannot open the state. It is told so; it never sees an empty state instead.")
    before = (laptop.contents(), laptop.watermark(), branch.head())
    told = laptop.run("state", "show", "--at", before[2], expect=1, settings={"VIBEY_STATE_KEY": "A" * 43})
    check("the key is what the error is about", "key" in told)
    laptop.sql(f"UPDATE customer SET name = 'Zoé' WHERE id = '{ZOE}'")
    changed = (laptop.contents(), laptop.watermark(), branch.head())
    laptop.run("state", "sync", expect=1, settings={"VIBEY_STATE_KEY": "A" * 43})
    check("nothing was written at either end", changed == (laptop.contents(), laptop.watermark(), branch.head()))
    say("With the right key the same sync goes through.")
    laptop.run("state", "sync")
    check("the branch moved on", branch.head() != before[2])


def sync_again(laptop: Machine, server: Machine, branch: Branch) -> None:
    """A sync with nothing to do."""
    title(8, "Nothing to do")
    server.run("state", "sync", show=False)
    before = (laptop.watermark(), branch.head(), branch.commits())
    say("A sync straight after a sync finds both ends equal and writes nothing.")
    laptop.run("state", "sync")
    server.run("state", "sync")
    check(
        f"the branch is still at {before[1][:12]}, commit number {before[2]}, and the watermark is untouched",
        before == (laptop.watermark(), branch.head(), branch.commits()),
    )
    check("both machines hold the same rows", server.contents() == laptop.contents())


def tell(laptop: Machine, server: Machine, branch: Branch) -> None:
    """Every scene. Raises Untrue at the first thing that is not as told."""
    make_a_key(laptop, server)
    push_first(laptop, branch)
    fill_second(laptop, server)
    merge_both(laptop, server)
    settle_a_conflict(laptop, server, branch)
    guard_the_ledger(laptop, server, branch)
    refuse_a_wrong_key(laptop, branch)
    sync_again(laptop, server, branch)
