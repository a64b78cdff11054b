"""What a query selects, and the order of values: null < booleans < numbers < strings < arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from vibey_actions.documents.model import Document, number, too_deep
from vibey_actions.errors import DocumentInvalid

MAX_PAGE: Final = 2000


class Unset(Enum):
    """An argument that was left out, where None has a meaning of its own."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
Ordered: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Selection:
    """A field, and at most one of ``key``, ``keys``, ``range`` and ``prefix``. No field: every document."""

    field: str | None = None
    key: object = UNSET
    keys: Sequence[object] | None = None
    range: tuple[object, object] | None = None
    prefix: object = UNSET

    def __post_init__(self) -> None:
        selectors = [self.key is not UNSET, self.keys is not None, self.range is not None, self.prefix is not UNSET]
        if sum(selectors) > 1:
            raise DocumentInvalid("a query has more than one of key, keys, range and prefix", "keep one of them")
        if any(selectors) and self.field is None:
            raise DocumentInvalid("a query selects by a value but names no field", "name the field")
        if self.prefix is not UNSET and not isinstance(self.prefix, str | list):
            raise DocumentInvalid("a query's prefix is neither a text nor a list", "give the raw text or list")
        if any(map(too_deep, (*self._values(), *(self.range or ()), self.prefix))):
            raise DocumentInvalid("a query's value is nested more deeply than any document", "query by another value")
        for value in (*self._values(), *(self.range or ())):
            if order_of(value) is None:
                raise DocumentInvalid("a query's value is an object or holds one, which has no order", "query by _id")

    def _values(self) -> Iterable[object]:
        if self.keys is not None:
            return self.keys
        return () if self.key is UNSET else (self.key,)

    def matches(self, document: Document) -> bool:
        """Whether ``document``, read with its ``_id``, is selected."""
        if self.field is None:
            return True
        return self.field in document and self._selects(document[self.field])

    def _selects(self, value: object) -> bool:
        if self.prefix is not UNSET:
            return _starts(value, self.prefix)
        if self.key is UNSET and self.keys is None and self.range is None:
            return True
        order = order_of(value)
        if order is None:
            return False
        if self.range is not None:
            return _between(self.range, order)
        return any(order == order_of(wanted) for wanted in self._values())


def order_of(value: object) -> Ordered | None:
    """A tuple that sorts as the value does; None for an object, which has no place in the order."""
    exact = number(value)
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (1, value)
    if exact is not None:
        return (2, exact)
    if isinstance(value, str):
        return (3, value)
    if not isinstance(value, list):
        return None
    parts = [order_of(each) for each in value]
    return None if None in parts else (4, tuple(parts))


def page_size(limit: int | None) -> int:
    """How many rows a page reads: ``limit``, at most 2,000. Raises DocumentInvalid for less than one."""
    if limit is not None and limit < 1:
        raise DocumentInvalid("a query's limit is less than 1", "ask for 1 to 2000 documents")
    return MAX_PAGE if limit is None else min(limit, MAX_PAGE)


def _starts(value: object, prefix: object) -> bool:
    if isinstance(prefix, str):
        return isinstance(value, str) and value.startswith(prefix)
    if not isinstance(prefix, list) or not isinstance(value, list):
        return False
    return order_of(value) is not None and order_of(value[: len(prefix)]) == order_of(prefix)


def _between(bounds: tuple[object, object], order: Ordered) -> bool:
    low, high = order_of(bounds[0]), order_of(bounds[1])
    return low is not None and high is not None and low <= order <= high
