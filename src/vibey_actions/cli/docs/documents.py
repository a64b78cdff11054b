"""``docs put``, ``get``, ``query``, ``del`` and ``retry``: single documents."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from vibey_actions.cli import console
from vibey_actions.cli.docs import session
from vibey_actions.cli.docs.session import Db, Machine
from vibey_actions.cli.options import Json
from vibey_actions.errors import DocumentInvalid, FileFailed, SettingError
from vibey_actions.text import shown

if TYPE_CHECKING:
    from vibey_actions.documents.model import Document
    from vibey_actions.lanes.service import Selection, Service

_MOST = 64 << 20
_PAGE = 2000

Id = Annotated[str, typer.Argument(metavar="ID", help="The document's id.")]


def put(
    document: Annotated[str, typer.Argument(metavar="DOCUMENT", help="A JSON object, or - to read it from stdin.")],
    *,
    machine: Annotated[
        str | None,
        typer.Option("--machine", metavar="MACHINE", help="Take it in as new work of this machine, once."),
    ] = None,
    db: Annotated[str | None, typer.Option("--db", metavar="DB", help="Write it into this database as it is.")] = None,
    identifier: Annotated[
        str | None, typer.Option("--id", metavar="ID", help="Its id, where the document has no _id.")
    ] = None,
    if_rev: Annotated[
        str | None, typer.Option(metavar="REV", help="With --db: only over this revision; empty: only where none is.")
    ] = None,
    writer: Annotated[
        str | None, typer.Option("--as", metavar="WRITER", help="With --db: who writes, as its machine names it.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Write a document. With --machine a unit of work that is there already stays as it is: taking it in is a no-op."""
    from vibey_actions.documents.model import parse
    from vibey_actions.documents.stores.selection import UNSET

    if (machine is None) == (db is None):
        raise SettingError(
            "say either --machine or --db", "--machine for new work of a machine, --db to write a document as it is"
        )
    if machine is not None and (if_rev is not None or writer is not None):
        raise SettingError("--if-rev and --as go with --db", "new work is written by whom its machine says, once")
    found = parse(_given(document), "the document")
    with session.working() as service:
        if machine is not None:
            _take_in(service, machine, found, identifier, as_json=as_json)
            return
        revision = service.put(
            str(db), found, identifier, if_rev=UNSET if if_rev is None else if_rev or None, writer=writer
        )
    if as_json:
        console.json_line({"rev": revision})
    else:
        console.out(f"written{f', revision {revision}' if revision else ''}")


def _take_in(service: Service, machine: str, document: Document, identifier: str | None, *, as_json: bool) -> None:
    taken = service.take_in(service.setup.machine(machine), document, identifier)
    name, status = str(taken.document["_id"]), str(taken.document.get("status"))
    if as_json:
        console.json_line({"id": name, "new": taken.new, "status": status, "rev": taken.document.get("_rev")})
    else:
        console.out(
            f"{name} is {status}" if taken.new else f"{name} was there already, as {status}; nothing was written"
        )


def get(identifier: Id, *, machine: Machine = None, db: Db = None) -> None:
    """Print one document as canonical JSON, one line, with its _id and _rev."""
    with session.working() as service:
        _, document = service.find(identifier, machine, db)
    _print(document)


def query(
    field: Annotated[
        str | None, typer.Argument(metavar="FIELD", help="Only documents with this field; _id is a field too.")
    ] = None,
    *,
    machine: Machine = None,
    db: Db = None,
    key: Annotated[str | None, typer.Option(metavar="JSON", help="Where FIELD is this value.")] = None,
    keys: Annotated[str | None, typer.Option(metavar="JSON", help="Where FIELD is one of this list.")] = None,
    between: Annotated[
        str | None,
        typer.Option("--range", metavar="JSON", help="Where FIELD is from the first to the second of it."),
    ] = None,
    prefix: Annotated[str | None, typer.Option(metavar="JSON", help="Where FIELD begins with this.")] = None,
    limit: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, max=_PAGE, help="Look at N documents, and say where to go on."),
    ] = None,
    after: Annotated[str | None, typer.Option(metavar="ID", help="Begin behind this id.")] = None,
    as_json: Json = False,
) -> None:
    """Print the documents of a database by id, one canonical JSON a line; with --limit a page of them."""
    with session.working() as service:
        places = service.databases(machine, db)
        if len(places) != 1:
            raise SettingError(
                f"the machines have more than one database: {', '.join(places)}", "say which with --machine or --db"
            )
        selection = _selection(field, key, keys, between, prefix)
        if as_json:
            _page(service, places[0], selection, limit, after)
            return
        for document in _documents(service, places[0], selection, limit, after):
            _print(document)


def delete(identifier: Id, *, machine: Machine = None, db: Db = None, as_json: Json = False) -> None:
    """Delete one document, as long as it is what it is now."""
    with session.working() as service:
        place = service.delete(identifier, machine, db)
    if as_json:
        console.json_line({"id": identifier, "db": place})
    else:
        console.out(f"deleted {identifier} from {place}")


def retry(
    identifier: Id,
    *,
    machine: Machine = None,
    again: Annotated[
        bool, typer.Option("--again", help="Even though nobody knows whether it took effect the last time.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Send a failed document back to its machine's first status, with all its attempts."""
    with session.working() as service:
        document = service.retry(identifier, machine, again=again)
    if as_json:
        console.json_line({"id": identifier, "status": document.get("status"), "rev": document.get("_rev")})
    else:
        console.out(f"{identifier} is {document.get('status')} again; the next tick takes it")


def _given(argument: str) -> bytes:
    if argument != "-":
        return argument.encode("utf-8", "surrogateescape")
    try:
        text = sys.stdin.buffer.read(_MOST + 1)
    except OSError as error:
        raise FileFailed(f"stdin cannot be read: {error.strerror}", "give the document on stdin") from None
    if len(text) > _MOST:
        raise DocumentInvalid(f"the document is larger than {_MOST >> 20} MiB", "keep large things elsewhere")
    return text


def _selection(
    field: str | None, key: str | None, keys: str | None, between: str | None, prefix: str | None
) -> Selection:
    from vibey_actions.documents.stores.selection import UNSET
    from vibey_actions.lanes.service import Selection

    listed = _json(keys, "--keys")
    pair = _json(between, "--range")
    if listed is not UNSET and not isinstance(listed, list):
        raise SettingError("--keys is no list", 'write it as ["one", "another"]')
    if pair is not UNSET and (not isinstance(pair, list) or len(pair) != 2):  # noqa: PLR2004
        raise SettingError("--range is no list of two", 'write it as ["from", "to"]')
    return Selection(
        field,
        _json(key, "--key"),
        listed if isinstance(listed, list) else None,
        (pair[0], pair[1]) if isinstance(pair, list) else None,
        _json(prefix, "--prefix"),
    )


def _json(text: str | None, option: str) -> object:
    from vibey_actions.documents.stores.selection import UNSET
    from vibey_actions.rows.canonical import NotJson, decode

    if text is None:
        return UNSET
    try:
        return decode(text.encode("utf-8", "surrogateescape"))
    except NotJson as error:
        raise SettingError(
            f"{option} is no JSON value: {shown(str(error), 160)}", f"quote a text for JSON too: {option} '\"done\"'"
        ) from None


def _documents(
    service: Service, db: str, selection: Selection, limit: int | None, after: str | None
) -> Iterator[Document]:
    while True:
        page = service.query(db, selection, limit, after)
        yield from page.documents
        after = page.next
        if after is None:
            return
        if limit is not None:
            console.note(f"there may be more: --after {after}")
            return


def _page(service: Service, db: str, selection: Selection, limit: int | None, after: str | None) -> None:
    from vibey_actions.documents.model import dump

    page = service.query(db, selection, limit, after)
    documents = b", ".join(dump(document) for document in page.documents)
    console.raw(b'{"documents": [' + documents + b'], "next": ' + dump(page.next) + b"}\n")


def _print(document: Document) -> None:
    from vibey_actions.documents.model import dump
    from vibey_actions.lanes.service import public

    console.raw(dump(public(document)) + b"\n")
