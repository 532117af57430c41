"""Columns of messages of few templates, which some message types return besides rows.

Only types whose messages are texts of few templates have them (:mod:`sowctl.messages.json.columns`). The values are
those of the type's extractor; which messages are not answered is said, and the extractor reads these. Needs numpy where
it is used, not where it is imported.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy

    from sowctl.messages.base import MessageType
    from sowctl.values.fields import Number, Slot

    Numbers = numpy.ndarray[Any, Any]

Lines: TypeAlias = "tuple[bytes, Numbers]"
"""Messages as lines of text, each perhaps behind spaces, and on which line each of them stands."""
WORD_VALUES = (None, True, False)
"""What the codes of ``words`` stand for."""


class SlotColumn(NamedTuple):
    """The values of one slot of ``size`` messages. ``kind`` says what ``data`` holds; where all are NULL, it is None.

    ``integers``: of 64 bits; ``doubles``; ``words``: codes of :data:`WORD_VALUES`; ``texts``: codes of ``texts``,
    which are distinct and in no order; one of them may be empty. ``spelled``: doubles as they were written, where
    the slot asks.
    """

    size: int
    kind: Literal["nothing", "integers", "doubles", "words", "texts"]
    data: Numbers | None = None
    texts: Sequence[bytes] = ()
    spelled: Sequence[Number] | None = None

    def list_values(self) -> list[Any]:
        """The values as an extractor gives them, texts as bytes."""
        if self.data is None:
            return [None] * self.size
        if self.kind in ("words", "texts"):
            known: Sequence[Any] = WORD_VALUES if self.kind == "words" else self.texts
            return list(map(known.__getitem__, self.data.tolist()))
        found: list[Any] = self.data.tolist() if self.spelled is None else list(self.spelled)
        return found


class TemplateColumns(NamedTuple):
    """Messages of one template: which they are, in order (None: all), and a column for each slot."""

    rows: Numbers | None
    columns: Sequence[SlotColumn]


class TemplateReader(Protocol):
    """Reads some slots of many messages."""

    def prefers_rows(self, messages: int) -> bool:
        """Return True if the next ``messages`` are read better as rows; to be asked once for each reading."""
        ...

    def read_columns(
        self, messages: Sequence[bytes], lines: Lines | None = None
    ) -> tuple[Sequence[TemplateColumns], Numbers] | None:
        """Pieces, and which messages are left, in order; None where that is too many."""
        ...


def find_template_reader(kind: MessageType, slots: Sequence[Slot]) -> TemplateReader | None:
    """The type's reader of ``slots`` by templates; None where it has none, or none for these slots.

    Optional, and asked for in this one place, as other ways of single types are (:mod:`sowctl.messages.base`).
    """
    own = getattr(kind, "build_template_reader", None)
    found: TemplateReader | None = None if own is None else own(slots)
    return found
