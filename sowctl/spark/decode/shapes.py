"""Messages of one shape as columns: JSON texts that differ in nothing but strings and plain numbers.

Used by :mod:`sowctl.spark.decode.decoding` alone, for messages of which it would make the same structs one by one. What
a publisher sends is mostly of a few shapes: the same members in the same order, written the same way. A shape is read
off one message, as the bytes that stay the same and the slots between them. Others are compared with it, all at once:
where every byte outside the slots is equal, every string slot holds neither a quote nor a backslash nor a control
character, and every number slot a number of at most 16 plain characters, a message is that JSON text with other values,
and nothing else; its columns are cut out of the text. Messages that do not match are left to the decoder.
sowctl-spark(7), MESSAGES.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sowctl.spark.decode.digits import numbers

if TYPE_CHECKING:
    import numpy
    import pyarrow

    Numbers = numpy.ndarray[Any, Any]
    Build = Callable[[int, Mapping[int, Any]], pyarrow.Array]

MARGIN = 16
"""Bytes of padding before and behind a text, so that words may be read across its ends."""
_QUOTE = 0x22
_BACKSLASH = 0x5C
_LONG = 1 << 63


class Odd(Exception):
    """A message, or a declared type, that no shape is made for."""


class Text:
    """Messages back to back: where each begins and ends, where their quotes are.

    Raises Odd for texts that no shape fits: not UTF-8, or with control characters.
    """

    def __init__(self, parts: Sequence[Any], lengths: Numbers) -> None:
        import numpy as np

        margin = bytes(MARGIN)
        self.raw = b"".join([margin, *parts, margin])
        if len(self.raw) >= 1 << 31:
            raise Odd
        self.chars = np.frombuffer(self.raw, "u1")
        self.ends = np.cumsum(lengths, dtype="i8") + MARGIN
        self.starts = self.ends - lengths
        if self.ends[-1] + MARGIN != len(self.raw):
            raise Odd
        if not self.raw.isascii():
            try:
                self.raw.decode()
            except UnicodeDecodeError:
                raise Odd from None
        if self.chars[MARGIN:-MARGIN].min(initial=0x20) < 0x20:
            raise Odd
        # one word for every place, on the same memory
        self.words = np.ndarray((len(self.raw) - 7,), "<u8", self.raw, 0, (1,))
        self.quotes = np.flatnonzero(self.chars == _QUOTE)
        self.plain = self._plain()
        self._bounds: tuple[Numbers, Numbers] | None = None

    def _plain(self) -> Numbers | None:
        """Which messages have no backslash; None for all."""
        import numpy as np

        if b"\\" not in self.raw:
            return None
        plain = np.ones(len(self.ends), bool)
        plain[np.searchsorted(self.ends, np.flatnonzero(self.chars == _BACKSLASH), side="right")] = False
        return plain

    def message(self, place: int) -> bytes:
        """The bytes of one message."""
        return self.raw[self.starts[place] : self.ends[place]]

    def candidates(self, rows: Numbers | None, count: int, some: list[int]) -> tuple[Numbers | None, Numbers]:
        """Of ``rows`` (None: all) those with ``count`` quotes and no backslash, and where ``some`` of these are."""
        import numpy as np

        total = len(self.ends)
        if rows is None and self.plain is None and count and len(self.quotes) == count * total:
            table = self.quotes.reshape(total, count)
            if (table[:, 0] >= self.starts).all() and (table[:, -1] < self.ends).all():
                return None, table[:, some].T
        if self._bounds is None:
            self._bounds = np.searchsorted(self.quotes, self.starts), np.searchsorted(self.quotes, self.ends)
        first, last = self._bounds
        fits = last - first == count
        if self.plain is not None:
            fits &= self.plain
        rows = np.flatnonzero(fits) if rows is None else rows[fits[rows]]
        return rows, self.quotes[first[rows] + np.array(some, "i8")[:, None]]


@dataclass
class Slot:
    """What varies. ``quotes`` are before its end; the next one, or with ``last`` the message's end, is ``behind`` bytes
    behind that. ``bound``: a number is whole, of [-bound, bound); None: a double. ``wanted``: there is a column of it.
    """

    kind: Literal["string", "number"]
    quotes: int
    behind: int = 0
    last: bool = False
    bound: int | None = None
    wanted: bool = False


@dataclass
class Shape:
    """The bytes that stay the same (one piece more than slots), what is between them, how many quotes there are, and
    how structs are made of so many messages and the values of the slots."""

    fixed: list[bytes]
    slots: list[Slot]
    quotes: int
    build: Build
    hits: int = 0

    def match(self, text: Text, rows: Numbers | None) -> tuple[Numbers | None, pyarrow.Array] | None:
        """Which of ``rows`` have this shape (None: all there are), and their structs; None where there are none."""
        import numpy as np

        some = sorted({slot.quotes for slot in self.slots if not slot.last})
        found, columns = text.candidates(rows, self.quotes, some)
        table = dict(zip(some, columns, strict=True))
        at = text.starts if found is None else text.starts[found]
        ends = text.ends if found is None else text.ends[found]
        if not len(at):
            return None
        good = np.ones(len(at), bool)
        values: dict[int, Any] = {}
        for place, slot in enumerate(self.slots):
            at = _same(text, at, ends, self.fixed[place], good)
            if slot.kind == "string":
                end = table[slot.quotes]
                if slot.wanted:
                    values[place] = at, end
            else:
                end = np.maximum(at, (ends if slot.last else table[slot.quotes]) - slot.behind)
                number, fits = numbers(text.chars, text.words, at, end, whole=slot.bound is not None)
                good &= fits
                if slot.bound is not None and slot.bound < _LONG:
                    good &= (number >= -slot.bound) & (number < slot.bound)
                if slot.wanted:
                    values[place] = number
            at = end
        at = _same(text, at, ends, self.fixed[-1], good)
        good &= at == ends
        if not good.all():
            chosen = np.flatnonzero(good)
            if not len(chosen):
                return None
            found = chosen if found is None else found[chosen]
            values = {
                place: tuple(one[chosen] for one in value) if isinstance(value, tuple) else value[chosen]
                for place, value in values.items()
            }
        count = int(good.sum())
        made = {
            place: strings(text.raw, *value) if isinstance(value, tuple) else value for place, value in values.items()
        }
        return found, self.build(count, made)


def _same(text: Text, at: Numbers, ends: Numbers, fixed: bytes, good: Numbers) -> Numbers:
    """Clear ``good`` where ``fixed`` does not stand at ``at`` and before ``ends``; where it ends."""
    import numpy as np

    size = len(fixed)
    end = at + size
    inside = end <= ends
    if not inside.all():
        good &= inside
        if not inside.any():
            return ends
        # what is known to be wrong is read somewhere where there are as many bytes
        at, end = np.where(inside, at, 0), np.where(inside, end, ends)
    for step in range(0, size - 7, 8):
        good &= text.words[at + step] == np.uint64(int.from_bytes(fixed[step : step + 8], "little"))
    if rest := size % 8:
        shift = np.uint64(64 - 8 * rest)
        word = np.uint64(int.from_bytes(fixed[-rest:], "little"))
        good &= (text.words[at + (size - rest)] << shift) == (word << shift)
    return end


def strings(raw: bytes, begins: Numbers, ends: Numbers) -> pyarrow.Array:
    """STRING of stretches of a text, in ascending order."""
    import numpy as np
    import pyarrow as pa

    count = len(begins)
    offsets = np.empty(2 * count, "<i4")
    offsets[::2], offsets[1::2] = begins, ends
    # every second one is what lies between two stretches
    pieces = pa.Array.from_buffers(pa.string(), 2 * count - 1, [None, pa.py_buffer(offsets), pa.py_buffer(raw)])
    return pieces.take(pa.array(np.arange(0, 2 * count, 2, dtype="i4")))
