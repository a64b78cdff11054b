"""An export: a document with the commit its database last agreed with and the branch it belongs to.

``{"base":COMMIT or null,"format":"vibey-state-export/1","remote":"OWNER/NAME:BRANCH","state":DOCUMENT}``
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from vibey_actions.errors import Unreadable
from vibey_actions.names import is_commit
from vibey_actions.rows.canonical import encode
from vibey_actions.state.document import DocumentReader, DocumentWriter, Serialized, canonical_value
from vibey_actions.state.identity import NO_FOLDS, Folds
from vibey_actions.state.scanner import Scanner

EXPORT_FORMAT = "vibey-state-export/1"


class ExportReader:
    """Reads an export's text in chunks: ``base``, ``remote``, then its ``document``. Raises Unreadable."""

    def __init__(
        self, chunks: Iterable[bytes], *, key_of: Callable[[str], tuple[str, ...] | None] | None = None
    ) -> None:
        self._scanner = Scanner(iter(chunks))
        self._scanner.expect(b'{"base":')
        self.base = None if self._scanner.take(b"null") else self._string("base")
        if self.base is not None and not is_commit(self.base):
            raise Unreadable("the export's base is no commit")
        self._scanner.expect(b',"format":')
        if self._scanner.value() != encode(EXPORT_FORMAT):
            raise Unreadable(f"the file is no export of the format {EXPORT_FORMAT}")
        self._scanner.expect(b',"remote":')
        self.remote = self._string("remote")
        self._scanner.expect(b',"state":')
        self.document = DocumentReader(self._scanner, key_of=key_of)

    def finish(self) -> None:
        """Check, once the document has been read, that the export ends with it."""
        self._scanner.expect(b"}")
        if not self._scanner.at_end():
            raise Unreadable("the export goes on behind its end")

    def _string(self, member: str) -> str:
        value = canonical_value(self._scanner.value())
        if not isinstance(value, str):
            raise Unreadable(f"the export's {member} is not a string in canonical text")
        return value


def export_writer(
    write: Callable[[bytes], None],
    *,
    base: str | None,
    remote: str,
    schema: list[str],
    end: Callable[[], None],
    serialized: Serialized,
    folds: Folds = NO_FOLDS,
) -> DocumentWriter:
    """A writer of the document inside an export; closing it ends the export and then calls ``end``."""
    write(b'{"base":' + encode(base) + b',"format":' + encode(EXPORT_FORMAT) + b',"remote":' + encode(remote))
    write(b',"state":')

    def end_export() -> None:
        write(b"}")
        end()

    return DocumentWriter(write, schema, end_export, serialized, folds)
