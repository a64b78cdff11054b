"""The survey of a table of documents, machine by machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from vibey_actions.documents.machine import Machine
from vibey_actions.documents.model import ID, REV, Document
from vibey_actions.errors import DocumentInvalid


class TableSurvey:
    """Counts and reads the table ``schema.document`` of the database of ``dsn``. ``doubts``: rows that are not seen."""

    def __init__(self, dsn: str, schema: str) -> None:
        from vibey_actions.postgres.survey import Survey

        self._table = Survey(dsn, schema)
        self.doubts: list[str] = []

    def counts(self, machine: Machine) -> Mapping[str | None, int]:
        """The machine's documents by status."""
        return self._table.counts(machine.db, machine.kind_field, machine.kind)

    def but(self, machine: Machine, quiet: Sequence[str]) -> Iterator[Document]:
        """Those that are in none of the ``quiet`` statuses; of one that no document can be, a doubt is kept."""
        from vibey_actions.documents.stores.postgres import stored_content

        for row in self._table.but(machine.db, machine.kind_field, machine.kind, quiet):
            try:
                document = stored_content(row.identifier, row.text)
            except DocumentInvalid as error:
                self.doubts.append(error.message)
                continue
            yield {**document, ID: row.identifier, REV: row.revision}
