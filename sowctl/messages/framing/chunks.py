"""The output of every framing: chunks of messages with their places, and the refused messages.

Built by :mod:`sowctl.messages.framing.cutters`, returned by :mod:`sowctl.messages.framing.frames` to readers of inputs
(``sowctl(1)``, INPUT).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from sowctl.errors import SowError

if TYPE_CHECKING:
    from sowctl.messages.framing.envelope import Envelope

TOO_LONG_CODE = "SOW-INP-001"
TRUNCATED_CODE = "SOW-INP-002"
FRAME_TOO_LONG_CODE = "SOW-INP-003"
RETURNS_ALONE_CODE = "SOW-INP-007"
INVALID_JSON_CODE = "SOW-INP-008"

Places = tuple[Sequence[int], Sequence[int]]
"""Line (or message) numbers from 1, and byte offsets in the input."""


class RefusedFrame:
    """A message that the framing refused: place, reason, and its bytes unless there were too many to keep.

    ``at`` is the offset of the fault in these bytes, if known.
    """

    __slots__ = ("at", "code", "line", "message", "offset", "payload")

    def __init__(
        self, line: int, offset: int, code: str, message: str, payload: bytes | None = None, at: int | None = None
    ) -> None:
        self.line = line
        self.offset = offset
        self.code = code
        self.message = message
        self.payload = payload
        self.at = at

    def __repr__(self) -> str:
        return f"RefusedFrame({self.line}, {self.offset}, {self.code!r}, {self.message!r})"


class Chunk:
    """Messages that arrived together: ``payloads``, and their places, computed on demand.

    ``refused`` are messages that are not in ``payloads``; ``blank`` counts skipped lines; ``end`` is the offset in the
    input after the last message (or skipped line) of the chunk; ``envelopes`` has one entry per payload with that
    framing, else it is None. ``begins``: the line and the offset at which the chunk begins, if known.
    """

    __slots__ = ("_places", "_thunk", "begins", "blank", "end", "envelopes", "payloads", "refused")

    def __init__(
        self,
        payloads: list[bytes],
        places: Callable[[], Places],
        end: int,
        refused: list[RefusedFrame] | None = None,
        blank: int = 0,
        envelopes: list[Envelope] | None = None,
        begins: tuple[int, int] | None = None,
    ) -> None:
        self.payloads = payloads
        self.begins = begins
        self.refused = refused or []
        self.blank = blank
        self.end = end
        self.envelopes = envelopes
        self._thunk = places
        self._places: Places | None = None

    @property
    def places(self) -> Places:
        """The line numbers and the offsets of all payloads. For ``nul`` and ``length`` a line is a message."""
        if self._places is None:
            self._places = self._thunk()
        return self._places

    def find_line(self, index: int) -> int:
        """The line of ``payloads[index]``, from 1."""
        return self.places[0][index]

    def find_offset(self, index: int) -> int:
        """The byte offset of ``payloads[index]`` in the input."""
        return self.places[1][index]


class Cutter(Protocol):
    """Splits arriving bytes into messages, and keeps the incomplete one. One per framing."""

    @property
    def error(self) -> SowError | None:
        """The error that ends the input."""
        ...

    @property
    def by_lines(self) -> bool:
        """True if each message is a line."""
        ...

    def feed(self, data: bytes) -> Chunk | None:
        """Process ``data``; empty means end of input. Returns the completed messages. ``error`` ends the input."""
        ...
