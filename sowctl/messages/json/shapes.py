"""Messages of one shape as columns: JSON texts that differ in nothing but strings, plain numbers and literal words.

What a publisher sends is mostly of a few shapes: the same members in the same order, written the same way. A shape is
read off one message (:mod:`sowctl.messages.json.template`), as the bytes that stay the same and the slots between them.
Others are compared with it, all at once. Where every byte outside of the slots is equal, every string slot holds
neither a quote nor a backslash nor a control character, every number slot a plain number and every word slot one of
``true``, ``false`` and ``null``, a message is that JSON text with other values and nothing else: it is valid, and has
no member twice, because the first one is and has not. Messages that do not match say nothing; others read them.

Messages of 220 bytes with ten members take 0.7 us of CPU each as columns of Arrow, and 1.6 us by msgspec's objects; for
one or two of the members both take about as long, since a shape is proven as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from sowctl.messages.json.digits import doubles, whole_numbers
from sowctl.messages.json.template import Unshaped

if TYPE_CHECKING:
    import numpy

    from sowctl.messages.json.template import Slot, Template

    Numbers = numpy.ndarray[Any, Any]

Column: TypeAlias = "Numbers | tuple[Numbers, Numbers]"
"""The values of a slot: numbers; codes of words (:data:`WORDS`); where strings begin and end in the text."""
WORDS = (None, True, False)
"""What the codes of a word slot stand for."""
MARGIN = 24
"""Bytes of padding before and behind a text, so that words may be read across its ends."""
_QUOTE, _BACKSLASH, _SPACE = 0x22, 0x5C, 0x20
_CODED = {b"null": 0, b"true": 1, b"fals": 2}


class Text:
    """Messages back to back: where each begins and ends, where their quotes are.

    Raises Unshaped for texts that no shape fits: not UTF-8, or with control characters.
    """

    def __init__(self, parts: Sequence[Any], lengths: Numbers) -> None:
        import numpy as np

        margin = bytes(MARGIN)
        self.raw = b"".join([margin, *parts, margin])
        # Places are told to Arrow in 32 bits.
        if len(self.raw) >= 1 << 31:
            raise Unshaped
        self.chars = np.frombuffer(self.raw, "u1")
        self.ends = np.cumsum(lengths, dtype="i8") + MARGIN
        self.starts = self.ends - lengths
        # Whole messages are valid where all of them together are: each that matches begins and ends with a bracket, so
        # no character lies across two.
        if not self.raw.isascii():
            try:
                self.raw.decode()
            except UnicodeDecodeError:
                raise Unshaped from None
        if self.chars[MARGIN:-MARGIN].min(initial=_SPACE) < _SPACE:
            raise Unshaped
        # One word for every place, on the same memory.
        self.words = np.ndarray((len(self.raw) - 7,), "<u8", self.raw, 0, (1,))
        self.quotes = np.flatnonzero(self.chars == _QUOTE)
        self.plain = self._plain()
        self._bounds: tuple[Numbers, Numbers] | None = None

    def __len__(self) -> int:
        return len(self.ends)

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

    def quoted(self, rows: Numbers | None, count: int, some: Sequence[int]) -> tuple[Numbers | None, Sequence[Numbers]]:
        """Of ``rows`` (None: all) those without a backslash that have ``count`` quotes, and where ``some`` of these
        are."""
        import numpy as np

        total = len(self.ends)
        if rows is None and self.plain is None and count and len(self.quotes) == count * total:
            table = self.quotes.reshape(total, count)
            # As many quotes as there should be, and the first and the last ones of each message lie in it.
            if (table[:, 0] >= self.starts).all() and (table[:, -1] < self.ends).all():
                return None, [table[:, one] for one in some]
        if self._bounds is None:
            self._bounds = np.searchsorted(self.quotes, self.starts), np.searchsorted(self.quotes, self.ends)
        first, last = self._bounds
        fits = last - first == count
        if self.plain is not None:
            fits &= self.plain
        rows = np.flatnonzero(fits) if rows is None else rows[fits[rows]]
        begin = first[rows]
        return rows, [self.quotes[begin + one] for one in some]


class Shape:
    """A template, and the slots whose values are ``wanted``: by slot, whether as doubles where it holds numbers."""

    def __init__(self, template: Template, wanted: dict[int, bool]) -> None:
        self.template = template
        self.wanted = wanted
        self.hits = 0
        self._some = sorted({slot.quotes for slot in template.slots if slot.kind != "word" and not slot.last})
        self._pieces = _Pieces(template.fixed)

    def match(self, text: Text, rows: Numbers | None) -> tuple[Numbers | None, int, dict[int, Column]]:
        """Which of ``rows`` have this shape (None: all that were asked for, and all of the text), how many these are,
        and the columns of the wanted slots."""
        import numpy as np

        found, columns = text.quoted(rows, self.template.quotes, self._some)
        quotes = dict(zip(self._some, columns, strict=True))
        at = text.starts if found is None else text.starts[found]
        ends = text.ends if found is None else text.ends[found]
        good = np.ones(len(at), bool)
        values: dict[int, Column] = {}
        places = []
        for place, (slot, fixed) in enumerate(zip(self.template.slots, self.template.fixed, strict=False)):
            places.append(at)
            at = at + len(fixed)
            end = self._slot(text, place, slot, at, quotes, ends, good, values)
            # What turns out to be wrong may have its next quote before this place: places only go on.
            at = np.maximum(at, end)
        places.append(at)
        # Whatever ran over the end of its message on the way does not end here.
        good &= at + len(self.template.fixed[-1]) == ends
        self._pieces.compare(text, places, good)
        count = int(np.count_nonzero(good))
        self.hits += count
        if count == len(good):
            return found, count, values
        chosen = np.flatnonzero(good)
        rows = chosen if found is None else found[chosen]
        return rows, count, {place: _chosen(value, chosen) for place, value in values.items()}

    def _slot(
        self,
        text: Text,
        place: int,
        slot: Slot,
        at: Numbers,
        quotes: dict[int, Numbers],
        ends: Numbers,
        good: Numbers,
        values: dict[int, Column],
    ) -> Numbers:
        """Where the values of a slot end; clears ``good`` where there is none, and adds them to ``values``."""
        import numpy as np

        if slot.kind == "word":
            size, codes = _words(text, at, good)
            if place in self.wanted:
                values[place] = codes
            return at + size
        if slot.kind == "string":
            # A string ends at the next quote, since there is no backslash.
            if place in self.wanted:
                values[place] = at, quotes[slot.quotes]
            return quotes[slot.quotes]
        # A number ends so many bytes before the next quote, or before the end of the message.
        end: Numbers = np.maximum((ends if slot.last else quotes[slot.quotes]) - slot.behind, 0)
        begin = np.minimum(at, len(text.raw) - MARGIN)
        floating = self.wanted.get(place, not slot.whole)
        number, fits = (doubles if floating else whole_numbers)(text.chars, text.words, begin, np.maximum(end, begin))
        good &= fits
        if place in self.wanted:
            values[place] = number
        return end


class _Pieces:
    """The bytes that stay the same, as pairs of words that are compared under masks."""

    def __init__(self, fixed: Sequence[bytes]) -> None:
        self._offsets = [(number, at) for number, piece in enumerate(fixed) for at in range(0, len(piece), 16)]
        parts = [fixed[number][at : at + 16] for number, at in self._offsets]
        self._bytes = b"".join([part.ljust(16, b"\0") for part in parts])
        self._masks = b"".join([(b"\xff" * len(part)).ljust(16, b"\0") for part in parts])

    def compare(self, text: Text, places: Sequence[Numbers], good: Numbers) -> None:
        """Clear ``good`` where one piece does not stand at its place; ``places`` has one array for each."""
        import numpy as np

        # What is known to be wrong may lie behind the end by now: it is read where there are as many bytes.
        most = len(text.raw) - 16
        index = np.empty((len(good), len(self._offsets)), "i8")
        for column, (number, offset) in enumerate(self._offsets):
            np.minimum(places[number] + offset, most, out=index[:, column])
        # Message by message, so that memory is gone through once, and not once for each piece.
        found = np.ndarray((most + 1,), "V16", text.raw, 0, (1,))[index].view("<u8")
        found &= np.frombuffer(self._masks, "<u8")
        same = found == np.frombuffer(self._bytes, "<u8")
        if not same.all():
            good &= same.all(axis=1)


def _words(text: Text, at: Numbers, good: Numbers) -> tuple[Numbers, Numbers]:
    """How long the literal words at ``at`` are, and their codes; clears ``good`` where there is none."""
    import numpy as np

    begin = np.minimum(at, len(text.raw) - MARGIN)
    heads = text.words[begin] & np.uint64(0xFFFFFFFF)
    codes = np.full(len(at), 3, "u1")
    for head, code in _CODED.items():
        codes[heads == np.uint64(int.from_bytes(head, "little"))] = code
    false = codes == 2
    good &= codes < 3
    good &= ~false | (text.chars[begin + 4] == ord("e"))
    return 4 + false, codes


def _chosen(value: Column, rows: Numbers) -> Column:
    return (value[0][rows], value[1][rows]) if isinstance(value, tuple) else value[rows]
