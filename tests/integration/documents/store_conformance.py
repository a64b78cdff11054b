"""What every store of documents has to do: one suite, the same cases for all.

A test module of a store subclasses ``StoreConformance`` as ``Test...`` and gives the fixture ``store``: empty, asking
the guard of ``tests.support.lanes.MACHINES``. The flags say what a store cannot do by its nature.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import ClassVar

import pytest

from tests.support.lanes import JOB, MENTION, PUBLISH, add, claim, read
from vibey_actions.documents import moves
from vibey_actions.documents.model import Document
from vibey_actions.documents.stores.base import Store
from vibey_actions.errors import DocumentConflict, DocumentDenied, DocumentInvalid

DB = "notes"
VALUES: list[object] = [
    None,
    False,
    True,
    -1,
    0,
    2,
    10,
    "",
    "Z",
    "a",
    "ab",
    "é",
    "😀",
    [],
    [1],
    [1, "x"],
    ["a"],
    {"in": 1},
]


class StoreConformance:
    """The cases."""

    revisions: ClassVar[bool] = True
    """Whether the store has revisions, and so compare-and-set."""
    exact_numbers: ClassVar[bool] = True
    """Whether a number comes back with every digit."""
    quick: ClassVar[bool] = True
    """Whether thousands of calls are affordable."""

    def test_an_absent_document_is_none(self, store: Store) -> None:
        """Reading what nobody wrote is no error, in a database that nobody has used either."""
        assert store.get(DB, "nothing") is None
        assert store.query(DB).documents == ()

    def test_a_document_comes_back_as_it_was_written(self, store: Store) -> None:
        """Texts, numbers, lists, objects, true, false and null survive; _id is added and _rev is the head's."""
        document: Document = {
            "t": 'é"\n😀',
            "n": 7,
            "l": [1, [2, {}]],
            "o": {"b": None, "a": True},
            "z": None,
            "f": False,
        }
        revision = store.put(DB, "one", document)
        found = read_note(store, "one")
        assert {**document, "_id": "one"} == {name: value for name, value in found.items() if name != "_rev"}
        if self.revisions:
            assert found["_rev"] == revision != ""

    def test_every_digit_of_a_number_comes_back(self, store: Store) -> None:
        """Neither a large integer nor a long fraction meets a double."""
        if not self.exact_numbers:
            pytest.skip("this store keeps numbers as doubles")
        numbers: list[object] = [2**53 + 1, -(10**30), Decimal("0.1000000000000000055"), Decimal("1.10")]
        store.put(DB, "one", {"n": numbers})
        assert read_note(store, "one")["n"] == numbers

    @pytest.mark.parametrize("identifier", ["a b", "a/b:c", "é😀", "-x", "--id=1", "a\nb", "%00", "'\"", "."])
    def test_any_text_is_an_id(self, store: Store, identifier: str) -> None:
        """Spaces, slashes, quotes, dashes, line ends and all of Unicode name a document of their own."""
        store.put(DB, identifier, {"n": 1})
        assert read_note(store, identifier)["_id"] == identifier
        assert [document["_id"] for document in store.query(DB).documents] == [identifier]

    @pytest.mark.parametrize("identifier", ["", "x" * 513, "a\x00b", "\ud800"], ids=["empty", "long", "nul", "half"])
    def test_what_cannot_be_an_id_is_refused(self, store: Store, identifier: str) -> None:
        """An empty, overlong or unstorable id is an error that says so, at reads as well."""
        with pytest.raises(DocumentInvalid):
            store.put(DB, identifier, {})
        with pytest.raises(DocumentInvalid):
            store.get(DB, identifier)

    @pytest.mark.parametrize("value", [float("nan"), {1: 2}, object(), "\ud800"], ids=["nan", "key", "object", "half"])
    def test_what_is_no_json_is_refused(self, store: Store, value: object) -> None:
        """A value that JSON does not have is refused before anything is written."""
        with pytest.raises(DocumentInvalid):
            store.put(DB, "one", {"v": value})
        assert store.get(DB, "one") is None

    def test_a_read_shares_nothing_with_the_store(self, store: Store) -> None:
        """Changing what was read, or what was written, changes nothing that is stored."""
        mine: Document = {"l": [1]}
        store.put(DB, "one", mine)
        mine["l"] = "changed"
        found = read_note(store, "one")
        assert isinstance(found["l"], list)
        found["l"].append(2)
        assert read_note(store, "one")["l"] == [1]

    def test_without_a_revision_the_last_writer_wins(self, store: Store) -> None:
        """A put without if_rev replaces the whole document."""
        store.put(DB, "one", {"a": 1})
        store.put(DB, "one", {"b": 2})
        assert bare(store, "one") == {"b": 2}

    def test_a_revision_in_the_document_is_not_stored(self, store: Store) -> None:
        """What was read can be put back as it is: _id and _rev are the store's."""
        store.put(DB, "one", {"a": 1})
        found = read_note(store, "one")
        store.put(DB, "one", {**found, "a": 2})
        store.put(DB, "two", {**found, "_rev": "forged"})
        assert (bare(store, "one"), bare(store, "two")) == ({"a": 2}, {"a": 1})
        assert read_note(store, "two").get("_rev") != "forged"

    def test_an_equal_write_is_absorbed(self, store: Store) -> None:
        """Writing what is there makes no new revision, whatever the order of the fields."""
        first = store.put(DB, "one", {"a": 1, "b": {"c": 1, "d": 2}})
        assert store.put(DB, "one", {"b": {"d": 2, "c": 1}, "a": 1}) == first
        assert read_note(store, "one").get("_rev", "") == first

    def test_none_writes_only_where_nothing_is(self, store: Store) -> None:
        """if_rev None makes a document, and conflicts with one that is there, naming its revision."""
        self.needs_revisions()
        revision = store.put(DB, "one", {"a": 1}, if_rev=None)
        with pytest.raises(DocumentConflict) as conflict:
            store.put(DB, "one", {"a": 2}, if_rev=None)
        assert conflict.value.current_rev == revision
        assert bare(store, "one") == {"a": 1}

    def test_a_stale_revision_conflicts_even_where_the_content_is_equal(self, store: Store) -> None:
        """The revision is looked at before the content: somebody else has been there."""
        self.needs_revisions()
        stale = store.put(DB, "one", {"a": 1})
        current = store.put(DB, "one", {"a": 2})
        with pytest.raises(DocumentConflict) as conflict:
            store.put(DB, "one", {"a": 2}, if_rev=stale)
        assert conflict.value.current_rev == current

    def test_the_current_revision_writes(self, store: Store) -> None:
        """if_rev with the head's revision commits, an equal write included, which keeps the revision."""
        self.needs_revisions()
        first = store.put(DB, "one", {"a": 1})
        second = store.put(DB, "one", {"a": 2}, if_rev=first)
        assert second != first
        assert store.put(DB, "one", {"a": 2}, if_rev=second) == second

    def test_a_document_written_back_has_a_new_revision(self, store: Store) -> None:
        """Content that returns to what it was is another revision: nobody's old read passes for the new one."""
        self.needs_revisions()
        first = store.put(DB, "one", {"a": 1})
        store.put(DB, "one", {"a": 2})
        assert store.put(DB, "one", {"a": 1}) != first

    def test_a_deleted_document_is_gone_and_can_come_back(self, store: Store) -> None:
        """A delete hides it from get and query, is repeatable, and counts as absent for a new one."""
        store.put(DB, "one", {"a": 1})
        store.delete(DB, "one")
        store.delete(DB, "one")
        assert store.get(DB, "one") is None
        assert store.query(DB).documents == ()
        store.put(DB, "one", {"a": 1}, **({"if_rev": None} if self.revisions else {}))
        assert bare(store, "one") == {"a": 1}

    def test_a_revision_of_a_deleted_document_conflicts(self, store: Store) -> None:
        """Whoever read it before learns that it is gone: the conflict names no revision."""
        self.needs_revisions()
        revision = store.put(DB, "one", {"a": 1})
        with pytest.raises(DocumentConflict):
            store.delete(DB, "one", if_rev="0-other")
        store.delete(DB, "one", if_rev=revision)
        with pytest.raises(DocumentConflict) as conflict:
            store.put(DB, "one", {"a": 2}, if_rev=revision)
        assert conflict.value.current_rev is None

    def test_rows_come_by_id_in_code_point_order(self, store: Store) -> None:
        """Capitals before small letters, and what is above the basic plane last, as no collation of a server has it."""
        identifiers = ["b", "B", "a", "é", "Z", "😀", "\uffee", "_", "10", "9"]
        for identifier in identifiers:
            store.put(DB, identifier, {"n": 1})
        assert [document["_id"] for document in store.query(DB).documents] == sorted(identifiers)

    def test_a_field_alone_drops_documents_without_it(self, store: Store) -> None:
        """null and an object are values; a missing field is none."""
        fill(store)
        store.put(DB, "without", {"other": 1})
        assert found(store.query(DB, "v")) == VALUES

    @pytest.mark.parametrize("value", [value for value in VALUES if not isinstance(value, dict)], ids=repr)
    def test_a_key_selects_the_equal_value(self, store: Store, value: object) -> None:
        """A key finds its own value and no look-alike: 0 is not false, a text is no list."""
        fill(store)
        assert found(store.query(DB, "v", key=value)) == [value]

    def test_keys_select_any_of_several(self, store: Store) -> None:
        """Several keys are one query; none select nothing."""
        fill(store)
        assert found(store.query(DB, "v", keys=["a", 2, None, "absent"])) == [None, 2, "a"]
        assert found(store.query(DB, "v", keys=[])) == []

    def test_a_range_includes_both_ends_and_spans_types(self, store: Store) -> None:
        """null < booleans < numbers < strings < arrays, and strings by code point."""
        fill(store)
        assert found(store.query(DB, "v", range=(0, 10))) == [0, 2, 10]
        assert found(store.query(DB, "v", range=(True, "a"))) == [True, -1, 0, 2, 10, "", "Z", "a"]
        assert found(store.query(DB, "v", range=("é", [1, "x"]))) == ["é", "😀", [], [1], [1, "x"]]
        assert found(store.query(DB, "v", range=(10, 0))) == []

    def test_a_prefix_is_of_a_text_or_of_a_list(self, store: Store) -> None:
        """A text's prefix finds texts, a list's prefix finds lists, and neither finds the other."""
        fill(store)
        assert found(store.query(DB, "v", prefix="a")) == ["a", "ab"]
        assert found(store.query(DB, "v", prefix=[1])) == [[1], [1, "x"]]
        assert found(store.query(DB, "v", prefix="")) == ["", "Z", "a", "ab", "é", "😀"]

    def test_an_id_is_a_field_too(self, store: Store) -> None:
        """_id can be selected by like any other field."""
        for identifier in ("a:1", "a:2", "b:1"):
            store.put(DB, identifier, {"n": 1})
        assert [document["_id"] for document in store.query(DB, "_id", prefix="a:").documents] == ["a:1", "a:2"]

    def test_characters_with_a_meaning_in_patterns_have_none(self, store: Store) -> None:
        """A percent sign, an underscore or a backslash in a prefix or field is only itself."""
        for identifier, value in (("1", "a%b"), ("2", "axb"), ("3", "a_b"), ("4", "a\\b")):
            store.put(DB, identifier, {'it\'s "v" -- %s': value})
        assert [d["_id"] for d in store.query(DB, 'it\'s "v" -- %s', prefix="a%").documents] == ["1"]
        assert [d["_id"] for d in store.query(DB, 'it\'s "v" -- %s', prefix="a_").documents] == ["3"]
        assert [d["_id"] for d in store.query(DB, 'it\'s "v" -- %s', prefix="a\\").documents] == ["4"]

    def test_a_query_that_contradicts_itself_is_refused(self, store: Store) -> None:
        """Two selectors, a value without a field, an object as value, a limit below one: each is an error."""
        with pytest.raises(DocumentInvalid):
            store.query(DB, "v", key=1, prefix="a")
        with pytest.raises(DocumentInvalid):
            store.query(DB, key=1)
        with pytest.raises(DocumentInvalid):
            store.query(DB, "v", key={"in": 1})
        with pytest.raises(DocumentInvalid):
            store.query(DB, "v", prefix=1)
        with pytest.raises(DocumentInvalid):
            store.query(DB, limit=0)

    def test_pages_go_on_by_next_and_not_by_emptiness(self, store: Store) -> None:
        """next comes from the page before selection and only where that was full, so an empty page may have one."""
        for number in range(5):
            store.put(DB, f"{number}", {"even": number % 2 == 0, "last": number == 4})
        first = store.query(DB, "last", key=True, limit=2)
        assert (first.documents, first.next is not None) == ((), True)
        second = store.query(DB, "last", key=True, limit=2, after=first.next)
        assert (second.documents, second.next is not None) == ((), True)
        third = store.query(DB, "last", key=True, limit=2, after=second.next)
        assert ([document["_id"] for document in third.documents], third.next) == (["4"], None)

    def test_a_page_that_is_just_full_has_an_empty_last_one(self, store: Store) -> None:
        """Nothing is claimed about what comes after a full page."""
        for number in range(2):
            store.put(DB, f"{number}", {})
        page = store.query(DB, limit=2)
        assert page.next is not None
        assert store.query(DB, limit=2, after=page.next) == type(page)(())

    def test_no_page_is_longer_than_2000(self, store: Store) -> None:
        """The cap stands whatever the limit, and paging on next reads everything once."""
        if not self.quick:
            pytest.skip("thousands of calls take too long here")
        for number in range(2001):
            store.put(DB, f"{number:05}", {})
        page = store.query(DB, limit=5000)
        assert len(page.documents) == 2000
        rest = store.query(DB, limit=5000, after=page.next)
        assert [document["_id"] for document in rest.documents] == ["02000"]

    def test_the_guard_is_asked_on_every_put(self, store: Store) -> None:
        """A write that the machine forbids is denied, by edge, by writer and by nobody in particular."""
        job = add(store, JOB, "one", input="x")
        for writer in (None, "author", "operator", "worker"):
            with pytest.raises(DocumentDenied):
                store.put(JOB.db, "one", {**job, "status": "done"}, writer=writer)
        with pytest.raises(DocumentDenied):
            store.put(JOB.db, "two", {"type": "job", "status": "running", "attempts": 0}, writer="author")
        assert read(store, JOB, "one") == job
        assert store.get(JOB.db, "two") is None

    def test_a_document_cannot_leave_its_machine(self, store: Store) -> None:
        """Another kind over a document of a machine would be a way around the guard, and is denied."""
        add(store, JOB, "one", input="x")
        with pytest.raises(DocumentDenied):
            store.put(JOB.db, "one", {"type": "note"}, writer="author")

    def test_exactly_one_claim_wins(self, store: Store) -> None:
        """Of two workers who read the same, the second has lost, without an error."""
        job = add(store, JOB, "one", input="x")
        won = claim(store, JOB, job, "c1")
        assert won is not None
        assert claim(store, JOB, job, "c2") is None
        assert read(store, JOB, "one")["claimId"] == "c1"
        assert read(store, JOB, "one") == won

    def test_racing_claims_have_one_winner(self, store: Store) -> None:
        """Eight threads with the same read: one gets the document, seven step aside."""
        if not self.quick:
            pytest.skip("a race of eight takes too long here")
        job = add(store, JOB, "one", input="x")
        with ThreadPoolExecutor(8) as pool:
            claims = list(pool.map(lambda number: claim(store, JOB, job, f"c{number}"), range(8)))
        winners = [won for won in claims if won is not None]
        assert len(winners) == 1
        assert read(store, JOB, "one")["claimId"] == winners[0]["claimId"]

    def test_a_claim_can_make_its_document(self, store: Store) -> None:
        """A claim of nothing wins where nothing is, and loses to whoever made the document."""
        document: Document = {"_id": "new", "type": "job", "status": "pending", "attempts": 0}
        assert store.claim(JOB.db, None, document, writer="author") is not None
        assert store.claim(JOB.db, None, {**document, "input": "other"}, writer="author") is None
        assert "input" not in read(store, JOB, "new")

    def test_a_move_needs_the_document_as_it_was_read(self, store: Store) -> None:
        """A sweep that read before somebody else wrote changes nothing."""
        job = add(store, JOB, "one", input="x")
        claimed = claim(store, JOB, job, "c1")
        assert claimed is not None
        done = store.finish(JOB.db, claimed, {**claimed, "status": "done", "output": 1}, writer="worker")
        assert done is not None
        assert store.move(JOB.db, claimed, {**claimed, "status": "failed"}, writer="worker") is None
        assert read(store, JOB, "one")["status"] == "done"

    def test_the_holder_finishes_whatever_else_moved(self, store: Store) -> None:
        """A renewed lease, which is another revision, is no hindrance; what the holder did not touch stays."""
        claimed = claim(store, JOB, add(store, JOB, "one", input="x"), "c1")
        assert claimed is not None
        renewed = store.finish(JOB.db, claimed, {**claimed, "leaseUntil": 9}, writer="worker")
        assert renewed is not None
        done = store.finish(JOB.db, claimed, {**claimed, "status": "done", "output": 1}, writer="worker")
        assert done is not None
        head = read(store, JOB, "one")
        assert (head["status"], head["output"], head["leaseUntil"]) == ("done", 1, 9)

    def test_a_finish_of_another_claim_is_refused(self, store: Store) -> None:
        """A worker whose document was taken back and claimed anew learns it, and writes nothing."""
        first = claim(store, JOB, add(store, JOB, "one", input="x"), "c1")
        assert first is not None
        back = moves.given_back(JOB, first, "later", store.now_ms())
        assert back is not None
        waiting = store.finish(JOB.db, first, back, writer="worker")
        assert waiting is not None
        late = {**first, "status": "done", "output": "late"}
        assert store.finish(JOB.db, first, late, writer="worker") is None
        second = claim(store, JOB, read(store, JOB, "one"), "c2")
        assert second is not None
        assert store.finish(JOB.db, first, late, writer="worker") is None
        assert read(store, JOB, "one") == second

    def test_a_finish_of_a_deleted_document_is_refused(self, store: Store) -> None:
        """What an operator deleted does not come back by a worker's finish."""
        claimed = claim(store, JOB, add(store, JOB, "one", input="x"), "c1")
        assert claimed is not None
        store.delete(JOB.db, "one")
        assert store.finish(JOB.db, claimed, {**claimed, "status": "done"}, writer="worker") is None
        assert store.get(JOB.db, "one") is None

    def test_a_finish_that_clears_its_claim_proves_it(self, store: Store) -> None:
        """Where a claim keeps the status, the finish takes it off the document and leaves whose it was."""
        claimed = claim(store, PUBLISH, add(store, PUBLISH, "one", platform="ig"), "c1", "items")
        assert claimed is not None
        edge = PUBLISH.edge("pending", "items-created")
        assert edge is not None
        finished = moves.finished(PUBLISH, edge, claimed, {"children": ["1"]}, store.now_ms())
        assert store.finish(PUBLISH.db, claimed, finished, writer="publisher") is not None
        head = read(store, PUBLISH, "one")
        assert (head["status"], head["lastClaimId"], "claimId" in head) == ("items-created", "c1", False)

    def test_active_documents_are_those_a_lane_may_act_on(self, store: Store) -> None:
        """Waiting and working ones of the machine's kind, by id; no ends, no other kinds of the same database."""
        add(store, MENTION, "m2", prompt="x")
        add(store, MENTION, "m1", prompt="x")
        add(store, MENTION, "m3", "skipped", prompt="x")
        add(store, PUBLISH, "p1", platform="ig")
        claimed = claim(store, MENTION, read(store, MENTION, "m2"), "c1")
        assert claimed is not None
        assert list(store.active(MENTION)) == [read(store, MENTION, "m1"), claimed]

    def needs_revisions(self) -> None:
        if not self.revisions:
            pytest.skip("this store has no revisions")


def read_note(store: Store, identifier: str) -> Document:
    """The note, which is there."""
    document = store.get(DB, identifier)
    assert document is not None
    return document


def bare(store: Store, identifier: str) -> Document:
    """The note without what the store adds."""
    return {name: value for name, value in read_note(store, identifier).items() if name not in ("_id", "_rev")}


def fill(store: Store) -> None:
    """A note for each value, in the order of values."""
    for place, value in enumerate(VALUES):
        store.put(DB, f"{place:02}", {"v": value})


def found(page: object) -> list[object]:
    """The values of a page, which was the only one."""
    documents: tuple[Document, ...] = page.documents  # type: ignore[attr-defined]
    return [document["v"] for document in documents]
