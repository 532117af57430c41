"""Columns of messages of few templates, which some message types return in addition to rows.

Only types whose messages are texts of few templates support them (:mod:`sowctl.messages.json.columns`). The values are
those of the type's extractor; messages without a template are returned, and the extractor reads these. Importing this
module does not import numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

if TYPE_CHECKING:
    from sowctl.messages.base import MessageType
    from sowctl.values.batch import ColumnBatch
    from sowctl.values.column import Array
    from sowctl.values.fields import Slot

Lines: TypeAlias = "tuple[bytes, Array]"
"""Messages as lines of text, each possibly preceded by spaces, and the line of each."""


PlacedBatch: TypeAlias = "tuple[Array | None, ColumnBatch]"
"""The places of some messages among those that were read, in order (None: all), and their columns."""


class TemplateReader(Protocol):
    """Reads some slots of many messages."""

    def prefers_rows(self, messages: int) -> bool:
        """Return True if the next ``messages`` should be read as rows; call it once for each reading."""
        ...

    def read_columns(
        self, messages: Sequence[bytes], lines: Lines | None = None
    ) -> tuple[Sequence[PlacedBatch], Array] | None:
        """The messages of each template, and the remaining ones, in order; None if there are too many of these."""
        ...


def find_template_reader(kind: MessageType, slots: Sequence[Slot]) -> TemplateReader | None:
    """The type's reader of ``slots`` by templates; None if it has none, or none for these slots.

    Optional, and checked only here, like other methods of single types (:mod:`sowctl.messages.base`).
    """
    own = getattr(kind, "build_template_reader", None)
    found: TemplateReader | None = None if own is None else own(slots)
    return found
