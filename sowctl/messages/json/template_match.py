"""Messages of one template as columns: JSON texts that differ only in strings, plain numbers and literal words.

The messages of a publisher usually have a few templates: the same members in the same order, formatted the same way. A
template is derived from one message (:mod:`sowctl.messages.json.template`), as the constant bytes and the slots between
them, and becomes one pattern, which is matched against many messages, line by line. If every byte outside of the slots
is equal, every string slot has no quote, backslash or control character, every number slot has a number, every word
slot one of ``true``, ``false`` and ``null``, and every list slot an array of such values, then a message is that JSON
text with other values and nothing else: it is valid, and has no duplicate members, because the first one is valid and
has none. Nothing is known of messages that do not match: decoders read them.

The pattern engine replaces each message by its wanted values, each followed by a control character, and numpy builds
columns from that small text. Three of the ten members of messages of 220 bytes take 0.36 us of CPU each by this method,
0.2 of it for the pattern; decoded by msgspec, with the proof of no duplicate members, 1.2 us. Ten members as Arrow
columns take as long as with quotes that numpy searches for, two of them take a tenth less.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np

from sowctl.messages.json.digits import parse_doubles, parse_whole_numbers
from sowctl.messages.json.limits import JSON_LIMITS
from sowctl.messages.json.template import SLOT_PATTERNS, NoTemplateError, escape_pattern, is_utf8
from sowctl.values.textspans import LazyNumbers, TextSpans

if TYPE_CHECKING:
    from sowctl.messages.json.template import Template, TemplateSlot

Numbers: TypeAlias = "np.ndarray[Any, Any]"
T = TypeVar("T")


SlotValues: TypeAlias = "Numbers | TextSpans | LazyNumbers"
"""The values of a slot: numbers or codes of :data:`WORD_VALUES`; texts of strings and of lists; numbers with their
texts."""
WORD_VALUES = (None, True, False)
"""The values of the codes of words."""
MAX_KNOWN_TEMPLATES = 8
"""Maximum number of cached templates."""
MAX_SKIPPED_TEXTS = 64
"""Maximum number of texts to leave to the decoder after one in which templates were of little use."""
TEXT_PADDING_BYTES = 24
"""Bytes of padding before and after a text, so that words may be read across its ends."""
LINE_END, _VALUE_END = b"\n", b"\1"
"""The end of a message, and the end of a value: no string of JSON contains either."""
_MIN_VALUE_BYTE = 0x20
"""In the text of a match, no value has a byte below this one, and the bytes that end values are below it."""
_MATCHED_MARKER_BYTE = 0x7B
"""The bracket at the beginning of a message, and in the replacement of a message that matches."""
_WORD_CODES = {ord("n"): 0, ord("t"): 1, ord("f"): 2}
NumberForm: TypeAlias = "Literal['whole', 'pointed', 'spelled', 'any']"
"""The form of a slot of numbers: 64-bit integers for those without a point; doubles for those with one, or these and
their texts; doubles for all."""
_NUMBER_PATTERNS = {
    "whole": rb"[-0-9]++",
    "pointed": rb"[-0-9]++\.[0-9]++",
    "spelled": rb"[-0-9]++\.[0-9]++",
    "any": rb"[-0-9.]++",
}
"""Patterns of wanted numbers, just strict enough to find their ends: parsing the digits detects invalid numbers."""


class MessageLines:
    """Messages line by line. Spaces before a message are not part of it.

    ``messages`` are the same messages, and ``places`` the line of each; None: in order. Raises NoTemplateError if one
    is not UTF-8.
    """

    def __init__(self, lines: bytes, messages: Sequence[bytes], places: Numbers | None = None) -> None:
        # Line breaks neither complete nor break a sequence of UTF-8: the check of all of them holds for each.
        if not is_utf8(lines):
            raise NoTemplateError
        self.lines = lines
        self.messages = messages
        self.places = places

    @classmethod
    def from_parts(cls, parts: Sequence[Any], lengths: Numbers) -> MessageLines:
        """Messages with these sizes in bytes, contiguous in ``parts``."""
        sizes = lengths.tolist()
        if list(map(len, parts)) != sizes:
            raw = b"".join(parts)
            parts = [raw[start:end] for start, end in pairwise(accumulate(sizes, initial=0))]
        return cls(LINE_END.join([*parts, b""]), parts)

    def __len__(self) -> int:
        return len(self.messages)

    def read_message(self, place: int) -> bytes:
        """The bytes of one message."""
        return bytes(self.messages[place])

    def select_lines(self, rows: Numbers | None) -> bytes:
        """Some of the messages, line by line; None for all."""
        if rows is None:
            return self.lines
        return LINE_END.join([*map(self.messages.__getitem__, rows.tolist()), b""])


class TemplateMatch(NamedTuple):
    """The matches of a template: their rows, count and wanted values."""

    rows: Numbers | None
    size: int
    values: dict[int, SlotValues]


class TemplateMatcher:
    """A template, and the slots whose values are ``wanted``, with the form of their numbers.

    Raises NoTemplateError if patterns cannot be compiled to machine code: otherwise they take longer than a
    decoder.
    """

    def __init__(self, template: Template, wanted: dict[int, NumberForm]) -> None:
        from sowctl import pcre

        self.template = template
        self.wanted = wanted
        self.hits = 0
        self._engine = pcre
        self._places = sorted(wanted)
        # \G: a match begins at the end of the previous one, so no byte is skipped. The last alternative matches any
        # other line, without setting a group: the bracket in group 1 marks the lines that match the template.
        # Conditional replacements would mark them, too, but take longer.
        parts = [rb"\G\x20*+(?:(\{)"]
        for place, (slot, fixed) in enumerate(zip(template.slots, template.fixed, strict=False)):
            parts += [escape_pattern(fixed[1:] if not place else fixed), self._slot_pattern(place, slot)]
        last = template.fixed[-1]
        parts += [escape_pattern(last if template.slots else last[1:]), rb"|[^\n]*+)\n"]
        values = _VALUE_END.join([b"$%d" % (number + 2) for number in range(len(self._places))])
        self._replacement = b"$1" + values + LINE_END
        try:
            self._code = pcre.compile_code(b"".join(parts))
            pcre.compile_machine_code(self._code)
        except pcre.LibraryError:
            raise NoTemplateError from None

    def _slot_pattern(self, place: int, slot: TemplateSlot) -> bytes:
        if place not in self.wanted:
            return SLOT_PATTERNS[slot.kind]
        return b"(%b)" % (_NUMBER_PATTERNS[self.wanted[place]] if slot.kind == "number" else SLOT_PATTERNS[slot.kind])

    def match(self, text: MessageLines, rows: Numbers | None) -> TemplateMatch:
        """Find those of ``rows`` (None: all) that match the template, and their values.

        Raises NoTemplateError if a message contains a line break, or the engine gives up.
        """
        try:
            left = self._engine.substitute_all(self._code, self._replacement, text.select_lines(rows))
        except self._engine.LibraryError:
            raise NoTemplateError from None
        margin = bytes(TEXT_PADDING_BYTES)
        raw = b"".join([margin, left, margin])
        chars = np.frombuffer(raw, "u1")
        width = max(len(self._places), 1)
        stops: Numbers = (
            np.flatnonzero(chars[TEXT_PADDING_BYTES:-TEXT_PADDING_BYTES] < _MIN_VALUE_BYTE) + TEXT_PADDING_BYTES
        )
        # Every line was replaced by one. If there are as many lines as messages, each is a message, and no match spans
        # two.
        if len(stops) != width * (len(text) if rows is None else len(rows)):
            raise NoTemplateError
        # A value begins after the end of the previous one; the first one of a message after the bracket that marks it.
        starts: Numbers = np.empty_like(stops)
        starts[:1] = TEXT_PADDING_BYTES
        starts[1:] = stops[:-1] + 1
        begins, ends = starts.reshape(-1, width), stops.reshape(-1, width)
        good = chars[begins[:, 0]] == _MATCHED_MARKER_BYTE
        begins[:, 0] += good
        words = np.ndarray((len(raw) - 7,), "<u8", raw, 0, (1,))
        values = {
            place: self._read_slot(place, chars, words, TextSpans(raw, begins[:, number], ends[:, number]), good)
            for number, place in enumerate(self._places)
        }
        size = int(np.count_nonzero(good))
        self.hits += size
        whole = size == len(good)
        # Only if lines of all messages are given may their order differ from that of the messages.
        order = text.places if rows is None else None
        if whole and order is None:
            return TemplateMatch(rows, size, values)
        if order is None:
            found = np.flatnonzero(good)
            chosen = found
        else:
            found = np.flatnonzero(good[order])
            chosen = order if whole else order[found]
        values = {place: column.take(chosen) for place, column in values.items()}
        if rows is not None:
            found = rows[found]
        return TemplateMatch(None if whole and rows is None else found, size, values)

    def _read_slot(self, place: int, chars: Numbers, words: Numbers, texts: TextSpans, good: Numbers) -> SlotValues:
        """The values of a slot; clears ``good`` for invalid ones."""
        slot = self.template.slots[place]
        if slot.kind in ("string", "list"):
            return texts
        if slot.kind == "word":
            table = np.zeros(256, "u1")
            table[list(_WORD_CODES)] = list(_WORD_CODES.values())
            return table[chars[texts.begins]]
        read = parse_whole_numbers if self.wanted[place] == "whole" else parse_doubles
        numbers, fits = read(chars, words, texts.begins, texts.ends)
        good &= fits
        return LazyNumbers(numbers, texts) if self.wanted[place] == "spelled" else numbers


class TemplateBuilder(NamedTuple, Generic[T]):
    """A template with the reader of its values."""

    shape: TemplateMatcher
    build: Callable[[TemplateMatch], T]


class TemplateResult(NamedTuple, Generic[T]):
    """The value built from the messages of one template, and their rows; None for all of a text."""

    rows: Numbers | None
    made: T


class TemplateCache(Generic[T]):
    """The cached templates of the messages being read. ``learn`` builds one from a message, or raises
    NoTemplateError."""

    def __init__(self, learn: Callable[[bytes], TemplateBuilder[T]]) -> None:
        self._learn = learn
        self._known: list[TemplateBuilder[T]] = []
        self._pause = 0
        self._resting = 0

    def skips_next(self) -> bool:
        """Return True if the next messages go directly to the decoder, without being joined to a text. Called once for
        each.
        """
        if not self._resting:
            return False
        self._resting -= 1
        return True

    def match_lines(self, text: MessageLines) -> tuple[list[TemplateResult[T]], Numbers] | None:
        """Build the results of messages that match templates, and list the rest in order; None if there are too
        many."""
        try:
            found, left = self._match_templates(text)
        except NoTemplateError:
            self.pause()
            return None
        if 2 * len(left) > len(text) or not found:
            self.pause()
            return None
        self._pause = 0
        return found, left

    def pause(self) -> None:
        """Leave the next texts to the decoder: for data without templates, attempts become less and less frequent."""
        self._pause = self._resting = min(MAX_SKIPPED_TEXTS, 2 * self._pause + 1)

    def _match_templates(self, text: MessageLines) -> tuple[list[TemplateResult[T]], Numbers]:
        some: list[TemplateResult[T]] = []
        left = np.arange(len(text))
        tries = most = JSON_LIMITS.max_template_attempts
        waiting = sorted(self._known, key=lambda one: one.shape.hits, reverse=True)
        while len(left):
            if not waiting:
                if not tries:
                    break
                tries -= 1
                # The message at two thirds of the remaining ones, then at one third, then the first one.
                fresh = self._learn_from(text.read_message(int(left[len(left) * tries // most])))
                if fresh is None:
                    continue
                waiting.append(fresh)
            known = waiting.pop(0)
            match = known.shape.match(text, left if len(left) < len(text) else None)
            if not match.size:
                continue
            some.append(TemplateResult(match.rows, known.build(match)))
            if match.rows is None:
                return some, left[:0]
            waits = np.zeros(len(text), bool)
            waits[left] = True
            waits[match.rows] = False
            left = np.flatnonzero(waits)
        return some, left

    def _learn_from(self, message: bytes) -> TemplateBuilder[T] | None:
        try:
            made = self._learn(message)
        except NoTemplateError:
            return None
        best = sorted(self._known, key=lambda one: one.shape.hits, reverse=True)
        self._known = [*best[: MAX_KNOWN_TEMPLATES - 1], made]
        return made
