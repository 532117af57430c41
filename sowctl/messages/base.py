"""What a message type is: payload bytes in, rows, key texts, selections and JSON views out (``sowctl-expressions(7)``).

The engine and the other rooms call message types only through these protocols and get one from
:func:`sowctl.messages.types.get_type`. A type never raises for a bad payload of a batch: it hands back a
:class:`~sowctl.values.fields.Refusal` and goes on, so that one bad message never costs its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from sowctl.values.fields import Refusal, Row, Slot
from sowctl.values.paths import Path

MAX_MESSAGE = 64 << 20
"""Bytes that one message may have unless the caller says otherwise (``--max-message``)."""

MAX_DEPTH = 256
"""Containers that may stand inside one another in one message."""

NOT_UTF8 = "SOW-MSG-001"
MALFORMED = "SOW-MSG-002"
TOO_DEEP = "SOW-MSG-003"
TOO_LARGE = "SOW-MSG-004"
NO_FIELDS = "SOW-MSG-005"
UNKNOWN_TYPE = "SOW-MSG-006"

KeyTexts: TypeAlias = tuple[bytes | None, ...]
"""The texts of one message's key fields in order; ``None`` where a field is NULL."""

SelectList: TypeAlias = Sequence[tuple[bool, tuple[str, ...]]]
"""Directives of a select list: include or not, and the member names of the path; no names at all stands for ``/``."""


class Extractor(Protocol):
    """Reads the wanted fields of many payloads at once."""

    def __call__(self, payloads: Sequence[bytes], /) -> tuple[list[Row], list[Refusal]]:
        """One row per payload, in order, and the refusals by ascending index; a refused payload has a row of None."""
        ...


class KeyExtractor(Protocol):
    """Reads the texts of the first values of some fields of many payloads at once."""

    def __call__(self, payloads: Sequence[bytes], /) -> tuple[list[KeyTexts], list[Refusal]]:
        """One tuple per payload, in order, and the refusals; ``None`` stands for NULL, empty, absent, or an object."""
        ...


class MessageType(Protocol):
    """One payload format. ``filterable``: its messages have fields, so filters and ``Key`` make sense."""

    @property
    def name(self) -> str:
        """The name as configurations write it, such as ``json``."""
        ...

    @property
    def filterable(self) -> bool:
        """Whether messages of this type have fields."""
        ...

    def extractor(self, slots: Sequence[Slot]) -> Extractor:
        """A reader of ``slots``; make one per query or batch run, it is not cheap to make."""
        ...

    def key_texts(self, paths: Sequence[Path]) -> KeyExtractor:
        """A reader of key texts: a number's original text, a String's bytes, ``1`` or ``0`` for a Boolean."""
        ...

    def check(self, payloads: Sequence[bytes]) -> list[Refusal]:
        """The payloads that this type cannot read, for topics whose keys do not come from the payload."""
        ...

    def select(self, payload: bytes, select_list: SelectList) -> bytes:
        """``payload`` reduced to what a select list leaves; raises InputError with the code of a refusal."""
        ...

    def view(self, payload: bytes) -> bytes:
        """``payload`` as one line of JSON, for output; never fails."""
        ...


def refuse_large(payloads: Sequence[bytes], max_message: int) -> list[Refusal]:
    """The payloads of more than ``max_message`` bytes."""
    return [
        Refusal(index, TOO_LARGE, f"the message has {len(payload):,} bytes, more than {max_message:,}", max_message)
        for index, payload in enumerate(payloads)
        if len(payload) > max_message
    ]
