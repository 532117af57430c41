"""Sort keys of stored values: by fields, or by the order of updates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sowctl.store.codec import payloads, stamps
from sowctl.values.fields import Slot

if TYPE_CHECKING:
    from sowctl.expressions.syntax.actions import OrderKey
    from sowctl.messages.base import MessageType


def holds_number(kind: MessageType, key: OrderKey, values: Iterable[bytes]) -> bool:
    """Whether the field of an order holds a number in one of these records; then texts are read as numbers, too."""
    from sowctl.values.order import holds_numbers

    rows, _ = kind.extractor((Slot(key.path, text=key.text),))(payloads(values))
    return holds_numbers([row[0] for row in rows])


class FieldRanks:
    """Sort keys by fields. A key's reading starts as texts and becomes numeric with the first number met."""

    def __init__(self, order: Sequence[OrderKey], mixed: list[bool]) -> None:
        from sowctl.values import order as ordering

        self._order, self._mixed, self._seen = order, mixed, False
        self._ordering = ordering
        self._slots = tuple(Slot(key.path, text=key.text) for key in order)

    def begin(self, kind: MessageType) -> None:
        """The values to come are of this type."""
        self._extract = kind.extractor(self._slots)

    def of(self, values: Sequence[bytes]) -> list[Any] | None:
        """Sort keys; None if earlier ones were made with a reading that has turned out wrong."""
        if not values:
            return []
        ordering = self._ordering
        columns = list(zip(*self._extract(payloads(values))[0], strict=True))
        numeric = [known or ordering.holds_numbers(one) for known, one in zip(self._mixed, columns, strict=True)]
        if numeric != self._mixed:
            self._mixed[:] = numeric
            if self._seen:
                return None
        self._seen = True
        parts = []
        for column, key, mixed in zip(columns, self._order, self._mixed, strict=True):
            part = ordering.components(column, mixed, key.text)
            parts.append(ordering.reversed_components(part) if key.descending else part)
        return list(zip(*parts, strict=True))


class TimeRanks:
    """Sort keys by time and txid: the order in which records can be published again."""

    def begin(self, kind: MessageType) -> None:
        """Any type will do."""

    def of(self, values: Sequence[bytes]) -> list[Any] | None:
        """Sort keys."""
        return [stamps(value)[::-1] for value in values]
